"""Write docs/reference/kubernetes-features.md from the table of features, or see it is current.

Usage: python -m tools.features_reference [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from berth.features.feature import VERSIONS, Feature, Part
from berth.features.registry import FEATURES
from tools.page import FOLDER, make

PAGE: Final = FOLDER / "kubernetes-features.md"

INTRODUCTION: Final = """\
# Features of Kubernetes

<!-- Made by tools/features_reference.py (make docs) from agent/berth/features/registry.py. -->

What the scheduler can do with devices depends on the version of the cluster and on its feature \
gates.
`berthd` finds out what there is: by the server's version, by a slice that it shows the server and \
that is not stored (`dryRun`), by what was dropped of its writes, and by what the Node declares.
It asks at the start, and again when a watch of the server broke or kubelet came again.
What is not there is not written: a device that would be given wrongly without it is left out, \
and `berth devices` says why.

`berth check` tells of each feature `on`, `off` or `unknown`, and what that rests on; `berth \
status --json` has what the daemon knows, and `berth_feature_state` is the \
[figure](metrics.md) for it.
`unknown` is a gate that is off by default and of which nothing can be seen from a node.
While servers of two versions take turns, as in a rolling upgrade, what both have counts.

## Versions and defaults

The state of the gate when nobody turns it, in the API server, the scheduler and kubelet alike.
Seen on kube-apiserver 1.37.2 by its own figures.

"""

USE: Final = """
## Use and cost

What berth needs no setting for it uses where the cluster has it.
The last column names the test that shows it on a real control plane and kubelet.

"""


def page() -> str:
    """The whole page."""
    return "".join((INTRODUCTION, *_versions(), USE, *_uses()))


def _versions() -> Iterator[str]:
    yield from _table("feature", "gate", "decided by", *VERSIONS)
    for one in FEATURES:
        parts = ", ".join(_part(part) for part in one.parts)
        stages = (one.stages[version].value for version in VERSIONS)
        yield _row(f"`{one.key}`", f"`{one.gate}`", parts, *stages)


def _uses() -> Iterator[str]:
    yield from _table("feature", "what it is for", "setting", "what it costs", "test")
    for one in FEATURES:
        yield _row(f"`{one.key}`", one.title, _code(one.config), one.cost, _test(one))


def _table(*heads: str) -> Iterator[str]:
    yield _row(*heads)
    yield _row(*("---" for _ in heads))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _part(part: Part) -> str:
    return {Part.SERVER: "control plane", Part.KUBELET: "kubelet"}[part]


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _test(feature: Feature) -> str:
    file, _, name = feature.test.partition("::")
    return f"[`{name}`](../../tests/cluster/{file})" if name else ""


if __name__ == "__main__":
    sys.exit(make(PAGE, page, sys.argv[1:]))
