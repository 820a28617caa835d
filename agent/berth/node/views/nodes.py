"""The answer to ``why`` of a path: what each group says of what lies there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from berth.generic.explain import Explanation


def nodes_view(explanations: Iterable[Explanation]) -> list[dict[str, Any]]:
    """One entry for each node; `verdict` is a sentence, `groups` what each group says."""
    return [
        {
            "kind": "node",
            "name": each.path,
            "verdict": _verdict(each),
            "mend": "",
            "groups": [
                {"group": opinion.group, "takes": opinion.takes, "says": opinion.says}
                for opinion in each.opinions
            ],
        }
        for each in explanations
    ]


def _verdict(each: Explanation) -> str:
    if each.says:
        return f"no group can have it: {each.says}"
    if not each.opinions:
        return "no group looks at it: there is no [[generic]] group"
    taking = [opinion.group for opinion in each.opinions if opinion.takes]
    if not taking:
        return "no group takes it"
    return f"it is a device of {' and '.join(taking)}"
