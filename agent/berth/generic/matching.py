"""Whether a node fits a group, and if not, the first condition that fails.

Source: GH §4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import attrs

from berth.config.finding import toml_text
from berth.config.generic import GenericGroup
from berth.config.genericmatch import GenericMatch, PciMatch, UsbMatch
from berth.host.hardware import PciFunction
from berth.host.nodefacts import DEV, DevNode, Wanted
from berth.model.device import Exclusion
from berth.model.edits import NodeType
from berth.model.pathglob import WILDCARDS_LIMIT, PathGlob


class _Fits(Protocol):
    """A pattern of texts."""

    def fits(self, value: str, /) -> bool:
        """Whether it selects a value."""
        ...


def wanted(groups: Sequence[GenericGroup]) -> Wanted:
    """The nodes that some group can mean, those that go with others included."""
    matches = [group.match for group in groups]
    pathless = [match for match in matches if not match.path]
    loose = [match for match in pathless if not match.subsystem]
    # A node that fits all conditions fits each, so the one that tells most is enough to find it.
    usb = [match for match in loose if _asks(match.usb)]
    pci = [match for match in loose if match not in usb and _asks(match.pci)]
    return Wanted(
        globs=tuple(
            dict.fromkeys(
                [
                    *(path for match in matches for path in match.path),
                    *(glob for group in groups for glob in _globs_beside(group)),
                ]
            )
        ),
        subsystems=frozenset(name for match in pathless for name in match.subsystem),
        usb=bool(usb),
        pci=bool(pci),
        everything=len(usb) + len(pci) < len(loose),
        attributes=tuple(sorted({name for match in matches for name in match.attributes})),
    )


def _globs_beside(group: GenericGroup) -> Iterable[PathGlob]:
    """Where the nodes lie that go with a group's devices."""
    anything = {str(number): "*" for number in range(1, WILDCARDS_LIMIT + 1)}
    for template in (*group.nodes, *(beside.path for beside in group.beside)):
        if template.text and "node" not in template.places:
            text = template.filled(anything)
            while "**" in text:
                text = text.replace("**", "*")
            yield PathGlob(text)


@attrs.frozen(kw_only=True)
class Fit:
    """How a node fits a group.

    Attributes:
        failed: The first condition that does not hold, in words; empty when all do.
        name: The name of the node that ``match.path`` fits; its own path without that condition.
        taken: What the wildcards of ``match.path`` took; empty without.
    """

    failed: str = ""
    name: str = ""
    taken: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether all conditions hold."""
        return not self.failed


def fit(node: DevNode, match: GenericMatch) -> Fit:
    """How a node fits the conditions of a group; they are tried in the order of the reference."""
    fitting = _by_path(node, match.path) if match.path else Fit(name=node.path)
    if fitting is None:
        return Fit(failed=_unlike("path", match.path, listed_names(node)))
    for condition in (_subsystem, _usb, _pci, _properties, _attributes):
        failed = condition(node, match)
        if failed:
            return Fit(failed=failed)
    return fitting


def listed_names(node: DevNode) -> str:
    """All names of a node, for a sentence; of very many only the first ones."""
    names = node.names
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{', '.join(names[:4])}{more}"


def refusal(node: DevNode, group: GenericGroup) -> Exclusion | None:
    """Why a node that fits is not handed out all the same; ``None`` when it may be."""
    if node.type is NodeType.BLOCK and not group.allow_block:
        detail = f"{node.path} is a block device; allow_block = true offers it"
        return Exclusion(reason="block-device", detail=detail)
    if node.is_outside and not group.allow_outside_dev:
        detail = f"{node.path} lies outside {DEV.rstrip('/')}; allow_outside_dev = true offers it"
        return Exclusion(reason="outside-dev", detail=detail)
    return None


def _by_path(node: DevNode, globs: Iterable[PathGlob]) -> Fit | None:
    for glob in globs:
        for name in node.names:
            taken = glob.fits(name)
            if taken is not None:
                return Fit(name=name, taken=taken)
    return None


def _subsystem(node: DevNode, match: GenericMatch) -> str:
    if match.subsystem and node.subsystem not in match.subsystem:
        return _unlike("subsystem", match.subsystem, node.subsystem)
    return ""


def _usb(node: DevNode, match: GenericMatch) -> str:
    if not _asks(match.usb):
        return ""
    if node.usb is None:
        return "match.usb: it belongs to no USB device"
    for name in ("vendor", "product", "serial"):
        patterns, value = getattr(match.usb, name), getattr(node.usb, name)
        if patterns and not (value and _any_fits(patterns, value)):
            return _unlike(f"usb.{name}", patterns, value)
    return ""


def _pci(node: DevNode, match: GenericMatch) -> str:
    if not _asks(match.pci):
        return ""
    function = node.pci
    if function is None:
        return "match.pci: it hangs from no PCI function"
    for name, patterns, value, fits in _pci_conditions(match.pci, function):
        if patterns and not fits:
            return _unlike(f"pci.{name}", patterns, value)
    return ""


def _pci_conditions(
    match: PciMatch, function: PciFunction
) -> Iterable[tuple[str, Sequence[object], str, bool]]:
    code = f"{function.class_code:06x}"
    yield "vendor", match.vendor, function.vendor, _any_fits(match.vendor, function.vendor)
    yield "device", match.device, function.device, _any_fits(match.device, function.device)
    yield "class", match.class_, code, code.startswith(match.class_)
    yield "address", match.address, function.address, _any_fits(match.address, function.address)


def _properties(node: DevNode, match: GenericMatch) -> str:
    for name, patterns in match.properties.items():
        value = node.properties.get(name)
        if value is None:
            return f"match.properties.{name}: udev gives it no such property"
        if not _any_fits(patterns, value):
            return _unlike(f"properties.{name}", patterns, value)
    return ""


def _attributes(node: DevNode, match: GenericMatch) -> str:
    for name, patterns in match.attributes.items():
        values = node.attributes.get(name, ())
        if not values:
            return f"match.attributes.{name}: no folder of it in sysfs has such a file"
        if not any(_any_fits(patterns, value) for value in values):
            return _unlike(f"attributes.{name}", patterns, " and ".join(map(repr, values)))
    return ""


def _any_fits(patterns: Iterable[_Fits], value: str) -> bool:
    return any(pattern.fits(value) for pattern in patterns)


def _asks(conditions: UsbMatch | PciMatch) -> bool:
    """Whether a table of conditions has any."""
    return any(attrs.astuple(conditions, recurse=False))


def _unlike(name: str, allowed: Sequence[object], found: str) -> str:
    words = " or ".join(toml_text(str(each)) for each in allowed)
    if not found:
        return f"match.{name}: it has none, {words} is asked for"
    return f"match.{name}: it has {found}, {words} is asked for"
