"""What is around every JSON file of the daemon's own: a number that says for which programs it is.

What is a file of no program is damaged. One of a newer program is not, and what becomes of it is
for its reader to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from berth.errors import StateError
from berth.model import jsontext


class Damaged(StateError):
    """A file is one of no program, of today or before."""


def opened(content: bytes, *, schema: int, where: str, mend: str = "") -> Mapping[str, Any]:
    """The JSON object of a file, of this program or an older one.

    Args:
        schema: The number of today; the first was 1.
        where: The file's name, for errors.
        mend: What an operator may do about a file of a newer program.

    Raises:
        Damaged: It is no JSON, or no program wrote it.
        StateError: It is of a newer program.
    """
    try:
        # Not by `jsontext.loads`: `berth.model.structure` reads plain objects only, and bytes that
        # are no UTF-8 are none of ours, so nothing is made of them.
        document = json.loads(jsontext.whole(content.decode()), parse_constant=jsontext.refuse)
    except (ValueError, RecursionError) as error:
        raise Damaged(where, f"is no JSON ({type(error).__name__}: {error})") from error
    if not isinstance(document, dict):
        raise Damaged(where, "is no JSON object")
    found = document.get("schema")
    if type(found) is not int or found < 1:
        raise Damaged(where, "has no schema number that was ever used")
    if found > schema:
        rule = f"this program reads up to {schema}"
        raise StateError(where, f"has schema {found}", rule=rule, mend=mend)
    return document
