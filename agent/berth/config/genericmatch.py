"""Conditions that select device nodes for a ``[[generic]]`` group.

All conditions given in one ``match`` must hold; the items of one condition are alternatives, as in
``[nic]``. Contract: GH §4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Final

import attrs
from typing_extensions import override

from berth.config.decode import Written, key, keys_of, table
from berth.config.finding import Cursor, toml_text
from berth.config.forms import Form, Several, Text
from berth.config.match import PCI, WILDCARDS, PciPattern
from berth.model.pathglob import WILDCARDS_LIMIT, PathGlob, is_path_glob

PATTERN_LIMIT: Final = 256
"""Longest pattern of a text, in bytes; USB strings have at most 252."""

STARS_LIMIT: Final = 8
"""Most stars of such a pattern, since each one multiplies what has to be tried."""


@attrs.frozen
class Pattern:
    """Texts that fit a pattern with ``*``, ``?`` and ``[…]``.

    Attributes:
        text: As it is compared.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def fits(self, value: str) -> bool:
        """Whether it selects a value."""
        return fnmatchcase(value, self.text)


@attrs.frozen(kw_only=True)
class Conditions(Form["Mapping[str, tuple[Pattern, ...]]"]):
    """A table of names and patterns of their values.

    Attributes:
        what: The table in words.
        good: Whether a name may stand there.
        named: What a name must be.
    """

    what: str
    good: Callable[[str], bool]
    named: str

    @property
    @override
    def label(self) -> str:
        return self.what

    @override
    def read(self, value: object, cursor: Cursor) -> Mapping[str, tuple[Pattern, ...]] | None:
        if not isinstance(value, Mapping):
            cursor.refuse(value, rule=f"it must be a {self.what}")
            return None
        if not value:
            cursor.say("is empty", rule="it must name at least one", mend="or drop the line")
        read: dict[str, tuple[Pattern, ...]] = {}
        for name, raw in value.items():
            here = cursor.at(name)
            if not self.good(name):
                here.say("is no such name", rule=f"it must be {self.named}")
            patterns = Several(item=TEXT_PATTERN, least=1).read(raw, here)
            if patterns is not None:
                read[name] = patterns
        return read


def _hex(text: str) -> Pattern | None:
    lower = text.lower()
    whole = re.fullmatch(r"[0-9a-f]{4}", lower)
    wild = "*" in lower and re.fullmatch(r"[0-9a-f?*]{1,5}", lower)
    return Pattern(lower) if whole or wild else None


def _hex_hint(text: str) -> str:
    digits = text.lower().removeprefix("0x")
    return f'write "{digits.zfill(4)}"' if re.fullmatch(r"[0-9a-f]{1,4}", digits) else ""


def _class(text: str) -> str | None:
    lower = text.lower()
    return lower if re.fullmatch(r"[0-9a-f]{2}([0-9a-f]{2}){0,2}", lower) else None


def _class_hint(text: str) -> str:
    digits = text.lower().removeprefix("0x")
    whole = digits.zfill(len(digits) + len(digits) % 2)
    return f'write "{whole}"' if _class(whole) else ""


def _pattern(text: str) -> Pattern | None:
    good = 0 < len(text.encode()) <= PATTERN_LIMIT and text.count("*") <= STARS_LIMIT
    return Pattern(text) if good else None


def _path(text: str) -> PathGlob | None:
    if not is_path_glob(text) or PathGlob(text).wildcards > WILDCARDS_LIMIT:
        return None
    return PathGlob(text)


def _path_hint(text: str) -> str:
    return f'write "/dev/{text}"' if is_path_glob(f"/dev/{text}") else ""


def _word(text: str) -> str | None:
    return text if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text) else None


def _word_hint(text: str) -> str:
    return "" if WILDCARDS.isdisjoint(text) else "wildcards are not taken here; name each one"


def is_property(name: str) -> bool:
    """Whether udev may have a property of that name."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name) is not None


def is_sysfs_name(name: str) -> bool:
    """Whether a device's folder in sysfs may have an attribute of that name."""
    parts = name.split("/")
    return len(parts) <= 4 and all(
        re.fullmatch(r"[A-Za-z0-9_.:-]{1,128}", part) and part not in {".", ".."} for part in parts
    )


HEX_PATTERN: Final = Text(
    what='4 hex digits in quotes, such as "0403", or a pattern of them with *',
    parse=_hex,
    hint=_hex_hint,
    number_hint=_hex_hint,
)
CLASS: Final = Text(
    what='2, 4 or 6 hex digits in quotes, such as "0300"',
    parse=_class,
    hint=_class_hint,
    number_hint=_class_hint,
)
TEXT_PATTERN: Final = Text(
    what=f"text of 1 to {PATTERN_LIMIT} bytes, in which *, ? and […] are wildcards; "
    f"at most {STARS_LIMIT} stars",
    parse=_pattern,
)
PATH_GLOB: Final = Text(
    what="an absolute path, in which *, ? and […] are wildcards that take no slash; "
    f"at most {WILDCARDS_LIMIT} of them, no ** and no ..",
    parse=_path,
    hint=_path_hint,
)
SUBSYSTEM: Final = Text(
    what='the name of a kernel subsystem such as "tty"', parse=_word, hint=_word_hint
)


@attrs.frozen(kw_only=True)
class UsbMatch:
    """match.usb: the USB device that a node belongs to."""

    vendor: tuple[Pattern, ...] = key(
        Several(item=HEX_PATTERN, least=1),
        (),
        "USB vendor id, `*` allowed.",
        known_as=("idVendor", "vendorID", "vid"),
    )
    product: tuple[Pattern, ...] = key(
        Several(item=HEX_PATTERN, least=1),
        (),
        "USB product id, `*` allowed.",
        known_as=("idProduct", "productID", "pid"),
    )
    serial: tuple[Pattern, ...] = key(
        Several(item=TEXT_PATTERN, least=1),
        (),
        "Serial number; wildcards allowed. A device without one fits no pattern.",
        known_as=("serialNumber",),
    )


@attrs.frozen(kw_only=True)
class PciMatch:
    """match.pci: the nearest PCI function above a node."""

    vendor: tuple[Pattern, ...] = key(
        Several(item=HEX_PATTERN, least=1), (), "PCI vendor, `*` allowed.", known_as=("vendorID",)
    )
    device: tuple[Pattern, ...] = key(
        Several(item=HEX_PATTERN, least=1),
        (),
        "PCI device id, `*` allowed.",
        known_as=("deviceID", "product"),
    )
    class_: tuple[str, ...] = key(
        Several(item=CLASS, least=1),
        (),
        "PCI class: base class, also with subclass, also with interface.",
        name="class",
    )
    address: tuple[PciPattern, ...] = key(
        Several(item=PCI, least=1),
        (),
        "PCI address, `*`, `?` and `[…]` allowed.",
        known_as=("pciAddress", "busID"),
    )


@attrs.frozen(kw_only=True)
class GenericMatch:
    """match: which device nodes belong to a group."""

    path: tuple[PathGlob, ...] = key(
        Several(item=PATH_GLOB, least=1),
        (),
        "Path of the node, or of a link to it. `*`, `?` and `[…]` take no slash; "
        "`{1}` and so on stand elsewhere for what they took.",
        known_as=("paths", "devicePath", "glob"),
    )
    subsystem: tuple[str, ...] = key(
        Several(item=SUBSYSTEM, least=1), (), "Kernel subsystem.", known_as=("subsystems",)
    )
    usb: UsbMatch = table(UsbMatch, "The USB device that the node belongs to.")
    pci: PciMatch = table(PciMatch, "The nearest PCI function above the node.")
    properties: Mapping[str, tuple[Pattern, ...]] = key(
        Conditions(
            what='table of udev properties such as { ID_MODEL = "Camera*" }',
            good=is_property,
            named="the name of a udev property such as ID_MODEL",
        ),
        {},
        "Properties that udev gives the node, exactly or with wildcards. "
        "There are none where no udev runs.",
        known_as=("property", "env"),
    )
    attributes: Mapping[str, tuple[Pattern, ...]] = key(
        Conditions(
            what='table of sysfs attributes such as { manufacturer = "ACME*" }',
            good=is_sysfs_name,
            named="a sysfs attribute such as manufacturer, without leading slash and ..",
        ),
        {},
        "Files in the node's own folder in sysfs or in one above it, "
        "exactly or with wildcards; any of them may fit.",
        known_as=("attribute", "attr", "attrs"),
    )

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return attrs.asdict(self) == attrs.asdict(GenericMatch())

    def __str__(self) -> str:
        """The conditions as they may be written in TOML."""
        return toml_text(_given(self))

    def check(self, cursor: Cursor, written: Written) -> None:
        """A group without any condition would take every node of the machine."""
        if self.is_empty and not written.at_fault:
            cursor.say(
                "has no condition",
                rule="it would select every device node",
                mend="give at least one of path, subsystem, usb, pci, properties and attributes",
            )


def _given(table_: object) -> dict[str, object]:
    """The keys of a table that differ from their defaults."""
    given: dict[str, object] = {}
    for each in keys_of(type(table_)):
        value = getattr(table_, each.attribute)
        plain = _given(value) if attrs.has(type(value)) else value
        if plain:
            given[each.name] = plain
    return given
