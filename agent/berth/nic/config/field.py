"""One field of a claim's configuration, as the table of fields tells it."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import attrs

from berth.config.forms import Form


class Guard(Enum):
    """Whose word a field needs: a claim's author is a tenant, a class's an administrator.

    A guarded field is taken from the node's settings and from DeviceClasses; from claims only if
    the group's ``claims_may`` names it.
    """

    NONE = "no"
    ALWAYS = "yes"
    FOREIGN_LINK = "on VFs and on children of shared parents"


@attrs.frozen(kw_only=True)
class Field:
    """One field.

    Attributes:
        path: From the top, with dots; ``[]`` stands behind the name of a list that it is in.
        form: How its value is read.
        meaning: For the reference page, one or more sentences.
        default: What holds without it, for the reference page.
        guarded_values: Single values that need a right of their own, and its name.
        required: The list item that lacks it is at fault.
        known_as: Names that other programs use, for the hint at an unknown field.
    """

    path: str
    form: Form[Any]
    meaning: str
    default: str = ""
    guard: Guard = Guard.NONE
    guarded_values: tuple[tuple[object, str], ...] = ()
    required: bool = False
    known_as: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(".")[2]


def attribute(name: str) -> str:
    """The Python attribute for a field's name: ``noDAD`` is ``no_dad``."""
    if name == "from":
        return "from_"
    return re.sub(
        r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("IPv", "Ipv").replace("QoS", "Qos")
    ).lower()
