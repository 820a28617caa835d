"""One selector of the SR-IOV network device plugin, as the conditions and the mode of a group.

Source: as of `berth.convert.sriov`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from berth.config.forms import Text, listed
from berth.config.match import DRIVER, HEX4, PfPattern
from berth.convert.draft import LEAVE_OUT, Line
from berth.convert.findings import Place
from berth.convert.forms import ACPI_INDEX, ADDRESS, LINK_TYPE, PF_NAME, ROOT_DEVICE
from berth.model.device import NicKind, NicMode

NO_AUXILIARY: Final = "berth hands out no auxiliary devices such as sub-functions"

_LISTS: Final[Mapping[str, tuple[str, Text[Any]]]] = {
    "vendors": ("match.vendor", HEX4),
    "devices": ("match.device", HEX4),
    "drivers": ("match.driver", DRIVER),
    "pciAddresses": ("match.pci", ADDRESS),
    "acpiIndexes": ("match.acpi_index", ACPI_INDEX),
    "pfNames": ("match.pf", PF_NAME),
    "rootDevices": ("match.pf", ROOT_DEVICE),
    "linkTypes": ("match.link_type", LINK_TYPE),
}
"""Lists of a selector: our key, and the form of an item."""

_WITHOUT: Final = {
    "ddpProfiles": "berth does not read which package a NIC's pipeline has loaded",
    "pKeys": "berth does not select by InfiniBand partitions",
    "vdpaType": "berth hands out no vDPA devices",
    "auxTypes": NO_AUXILIARY,
}
"""Keys of a selector that nothing here stands for, and why."""

_SELECTOR: Final = (*_LISTS, *_WITHOUT, "isRdma", "needVhostNet")

_OF_PCI: Final = {
    *("match.vendor", "match.device", "match.pci", "match.pf", "match.acpi_index", "match.rdma")
}
# Each of these holds for PCI devices alone, and the plugin looks at no others.

_PCI_KINDS: Final = (NicKind.PF.value, NicKind.VF.value, NicKind.PCI.value)

_UIO: Final = re.compile(r"uio.*|igb_uio")
_LINKLESS: Final = re.compile(rf".*vfio.*|{_UIO.pattern}")
# Drivers that leave a NIC without a link, for a program that drives it by itself.


@attrs.frozen(kw_only=True)
class Selector:
    """What a selector says.

    Attributes:
        lines: Conditions of the group, by key.
        mode: How NICs are handed out that are bound to such drivers.
        vhost: Of ``needVhostNet``; ``None`` when it is not asked for.
        remarks: What will be another way than it was, one sentence each.
    """

    lines: Mapping[str, Line]
    mode: Line
    vhost: Line | None
    remarks: tuple[str, ...]


def read(place: Place) -> Selector:
    """Read one selector; what nothing here stands for is a fault."""
    given = place.members(_SELECTOR)
    for name, why in _WITHOUT.items():
        if name in given and given[name].value not in ([], ""):
            given[name].say("has no counterpart", rule=why, mend=LEAVE_OUT)
    lines = _conditions(given)
    mode, remarks = _mode(place, lines)
    vhost = given.get("needVhostNet")
    return Selector(
        lines=lines,
        mode=mode,
        vhost=Line(value=True, origin=vhost.path) if vhost is not None and vhost.flag() else None,
        remarks=remarks,
    )


def _conditions(given: Mapping[str, Place]) -> dict[str, Line]:
    lines: dict[str, Line] = {}
    for name, (key, form) in _LISTS.items():
        exact = form is not ROOT_DEVICE
        values = given[name].texts(form, exact=exact) if name in given else ()
        if key in lines and values:
            given[name].say(
                f"is given beside {lines[key].origin}",
                rule="the plugin wants both to hold, and berth takes either",
                mend="keep one",
            )
        elif values:
            lines[key] = Line(value=values, origin=given[name].path)
        if key == "match.pf" and name in given:
            _refuse_twice(given[name], values)
    if "isRdma" in given and given["isRdma"].flag():
        lines["match.rdma"] = Line(value=True, origin=given["isRdma"].path)
    if _OF_PCI.isdisjoint(lines):
        lines["match.kind"] = Line(value=_PCI_KINDS, origin="the plugin looks at PCI devices only")
    return lines


def _refuse_twice(place: Place, patterns: tuple[PfPattern, ...]) -> None:
    """Of two entries for one PF the plugin reads the first only, so it is not known what is meant.

    Source: ``pkg/resources/deviceSelectors.go``, `getItem`.
    """
    seen: set[str] = set()
    for pattern in patterns:
        if pattern.pf in seen:
            place.say(
                f"names {pattern.pf} twice",
                rule="the plugin reads the first of the two only",
                mend="write all numbers behind one #, or drop the second",
            )
        seen.add(pattern.pf)


def _mode(place: Place, lines: Mapping[str, Line]) -> tuple[Line, tuple[str, ...]]:
    """The mode of a group, by its drivers, and what is another way by it."""
    line = lines.get("match.driver")
    drivers = line.value if line is not None and isinstance(line.value, tuple) else ()
    linkless = [str(each) for each in drivers if _LINKLESS.fullmatch(str(each))]
    if linkless and len(linkless) < len(drivers):
        place.say(
            f"has {listed(linkless)} among other drivers",
            rule="NICs of one resource have one mode here",
            mend="make two resources of it",
        )
    mode = NicMode.VFIO if linkless else NicMode.EXCLUSIVE
    origin = line.origin if line is not None else f"{place.path} names no driver"
    told = _what_drivers_change(linkless, any_driver=not drivers and "match.rdma" not in lines)
    return Line(value=mode.value, origin=origin), tuple(place.remark(each) for each in told)


def _what_drivers_change(linkless: Sequence[str], *, any_driver: bool) -> Iterator[str]:
    uio = listed([each for each in linkless if _UIO.fullmatch(each)])
    if uio:
        yield (
            f"names {uio}: a NIC that is bound to it is not offered here; bind it to vfio-pci and "
            "name that"
        )
    # What is bound to vfio-pci has no RDMA device, so a selector that wants one never took it.
    if any_driver:
        yield (
            "names no driver: the plugin offered NICs that are bound to vfio-pci too, this group "
            f'does not; one of mode "{NicMode.VFIO.value}" can'
        )
