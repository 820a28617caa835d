"""Conditions that select GPUs, parts of them and VFIO functions for a group.

All conditions given in one ``match`` must hold; the items of one are alternatives. Only ``product``
and ``pci`` take wildcards.

Contract: GH §5.1.
"""

from __future__ import annotations

import re
from enum import Enum
from fnmatch import fnmatchcase
from typing import Final

import attrs

from berth.config.decode import Written, key
from berth.config.finding import Cursor
from berth.config.forms import Choice, Several, Text, Whole
from berth.config.match import PCI, PciPattern

VALUE_LIMIT: Final = 64
"""Longest text that a GPU's attribute has, in bytes: a longer pattern selects nothing."""

_UUID: Final = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]{1,56}")


class GpuType(Enum):
    """Forms in which a GPU is offered."""

    GPU = "gpu"
    MIG = "mig"
    VFIO = "vfio"


@attrs.frozen
class Glob:
    """Texts: one, or all that fit a pattern.

    Attributes:
        text: May hold ``*``, ``?`` and ``[…]``.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def fits(self, text: str) -> bool:
        """Whether it selects ``text``."""
        return fnmatchcase(text, self.text)


def _glob(text: str) -> Glob | None:
    good = text and text.isprintable() and len(text.encode()) <= VALUE_LIMIT
    return Glob(text) if good else None


def _uuid(text: str) -> str | None:
    return text if _UUID.fullmatch(text) else None


def _profile(text: str) -> str | None:
    return text if re.fullmatch(r"[a-z0-9.+-]{1,64}", text) else None


def _profile_hint(text: str) -> str:
    plain = text.lower().removeprefix("mig ").strip()
    return f'write "{plain}"' if plain != text and _profile(plain) else ""


@attrs.frozen(kw_only=True)
class GpuMatch:
    """match: which devices belong to a group."""

    product: tuple[Glob, ...] = key(
        Several(item=Text(what="a product name, or a pattern of them", parse=_glob), least=1),
        (),
        'Product name, `*`, `?` and `[…]` allowed: `"NVIDIA A100*"`.',
        known_as=("productName", "model"),
    )
    uuid: tuple[str, ...] = key(
        Several(
            item=Text(what='a UUID as `nvidia-smi -L` shows it, "GPU-…" or "MIG-…"', parse=_uuid),
            least=1,
        ),
        (),
        "UUID of a GPU, which selects its MIG devices too, or of one MIG device.",
        known_as=("uuids", "UUID"),
    )
    pci: tuple[PciPattern, ...] = key(
        Several(item=PCI, least=1),
        (),
        'PCI address, `*`, `?` and `[…]` allowed: `"0000:3b:*"`.',
        known_as=("pciBusID", "address"),
    )
    numa: tuple[int, ...] = key(
        Several(item=Whole(least=0, most=1023), least=1), (), "NUMA node.", known_as=("numaNode",)
    )
    profile: tuple[str, ...] = key(
        Several(
            item=Text(
                what='"full", "vfio" or a MIG profile such as "1g.10gb"',
                parse=_profile,
                hint=_profile_hint,
            ),
            least=1,
        ),
        (),
        'MIG profile, such as `"1g.10gb"`; `"full"` for whole GPUs, `"vfio"` for VFIO.',
        known_as=("migProfile",),
    )
    type: tuple[GpuType, ...] = key(
        Several(item=Choice(kind=GpuType), least=1), (), "Form in which the GPU is offered."
    )

    @property
    def types(self) -> tuple[GpuType, ...]:
        """The forms among which it selects."""
        return self.type or tuple(GpuType)

    def check(self, cursor: Cursor, written: Written) -> None:
        """A group without any condition is what the table itself says."""
        if not written.given and not written.at_fault:
            cursor.say(
                "has no condition",
                rule="it would select every GPU",
                mend="give at least one, or write the keys in [gpu]",
            )
