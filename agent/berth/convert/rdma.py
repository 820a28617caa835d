"""The shared RDMA device plugin: its ``configList`` as groups of shared NICs.

Source: Mellanox/k8s-rdma-shared-dev-plugin of April 2026: README.md (keys, defaults),
``pkg/types`` (the form), ``pkg/resources`` (what is selected, and what a container gets).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from berth.config.forms import Text
from berth.config.match import DRIVER, HEX4, INTERFACE
from berth.config.nicgroup import SLOTS_LIMIT
from berth.convert import resource
from berth.convert.draft import DOOR, EXCEPT, Draft, Line, named
from berth.convert.findings import Place
from berth.convert.firstmatch import in_order
from berth.convert.forms import LINK_TYPE
from berth.model.device import NicMode

KEY: Final = "configList"

PREFIX: Final = "rdma"
"""Domain of resources that name none."""

INTERVAL: Final = "periodicUpdateInterval"

_RESOURCE: Final = (*resource.KEYS, "rdmaHcaMax", "devices", "selectors")

_SELECTOR: Final[Mapping[str, tuple[str, Text[Any]]]] = {
    "vendors": ("match.vendor", HEX4),
    "deviceIDs": ("match.device", HEX4),
    "drivers": ("match.driver", DRIVER),
    "ifNames": ("match.name", INTERFACE),
    "linkTypes": ("match.link_type", LINK_TYPE),
}
"""Lists of a selector: our key, and the form of an item."""


def groups(top: Place, *, prefix: str) -> tuple[Draft, ...]:
    """A group for every resource of the list, in its order.

    Args:
        prefix: Domain of resources that name none.
    """
    made = named(resource.counted(_groups(top, prefix), top))
    ordered = in_order(made, why=f"{KEY}: a NIC belongs to one group, the first that fits")
    return tuple(_told(draft, top) if EXCEPT in draft.lines else draft for draft in ordered)


def _groups(top: Place, prefix: str) -> Iterator[Draft]:
    names = resource.Names(prefix)
    for place in top.items():
        given = place.members(_RESOURCE)
        name, ours = names.read(place, given)
        yield _group(place, given, name, ours)


def _told(draft: Draft, top: Place) -> Draft:
    """The draft with a word on NICs that the plugin offered under several names at once."""
    told = attrs.evolve(top, path=draft.origin).remark(
        "may select NICs that others before it select too: the plugin offered those under each "
        "name, and here only the first has them"
    )
    return attrs.evolve(draft, remarks=(*draft.remarks, told))


def check_interval(place: Place) -> None:
    """How often the plugin looks again, which has no counterpart because nothing waits for it."""
    if place.whole(least=0, most=2**31 - 1) is not None:
        place.remark("is not needed: berth hears of changes from the kernel")


def _group(place: Place, given: Mapping[str, Place], name: str, ours: Line) -> Draft:
    lines = _conditions(place, given)
    lines["match.rdma"] = Line(value=True, origin=f"{place.path}: only NICs with RDMA were offered")
    lines["mode"] = Line(value=NicMode.SHARED.value, origin=place.path)
    lines |= {"door": DOOR, "resource": ours}
    remarks: tuple[str, ...] = ()
    if "rdmaHcaMax" not in given:
        place.say("lacks rdmaHcaMax", rule="without it the plugin offers nothing")
    else:
        most = given["rdmaHcaMax"]
        slots = most.whole(least=1, most=SLOTS_LIMIT)
        lines["shared.slots"] = Line(value=slots or 1, origin=most.path)
        told = "was counted over all NICs together, and a container got all of them; "
        told += "here each NIC has so many slots, and a container gets the NIC that it was given"
        remarks = (most.remark(told),) if _several(lines) else ()
    return Draft(name=name, origin=place.path, lines=lines, remarks=remarks)


def _several(lines: Mapping[str, Line]) -> bool:
    """Whether more than one NIC may meet the conditions."""
    names = lines.get("match.name")
    return names is None or not isinstance(names.value, tuple) or len(names.value) != 1


def _conditions(place: Place, given: Mapping[str, Place]) -> dict[str, Line]:
    """What the selectors say, or the older list of devices, of which exactly one may be given."""
    chosen = given["selectors"].members(_SELECTOR) if "selectors" in given else {}
    lists = [(chosen[name], *_SELECTOR[name]) for name in _SELECTOR if name in chosen]
    if "devices" in given:
        lists.append((given["devices"], *_SELECTOR["ifNames"]))
        if given["devices"].value and any(each.value for each in chosen.values()):
            given["devices"].say("is given beside selectors", rule="the plugin takes one of both")
    if not any(each.value for each, _, _ in lists):
        place.say("selects nothing", rule="selectors or devices must name something")
    read = [(key, each.path, each.texts(form)) for each, key, form in lists]
    return {key: Line(value=values, origin=path) for key, path, values in read if values}
