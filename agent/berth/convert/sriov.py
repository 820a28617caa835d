"""The SR-IOV network device plugin: its ``resourceList`` as groups.

Source: k8snetworkplumbingwg/sriov-network-device-plugin of June 2026: README.md (keys, defaults),
``pkg/types`` (the form), ``pkg/resources`` (what each selector compares), ``cmd/sriovdp`` (the
first selector that a NIC meets has it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from berth.config.finding import toml_text
from berth.config.forms import listed
from berth.convert import resource, sriovselector
from berth.convert.draft import ATTACH, DOOR, LEAVE_OUT, Draft, Line, named
from berth.convert.findings import Place
from berth.convert.firstmatch import in_order
from berth.model.device import NicMode

KEY: Final = "resourceList"

PREFIX: Final = "intel.com"
"""Domain of resources where neither the file nor the plugin's command line names one."""

_MEMORY: Final = ("SelectorObj", "SelectorObjs")
# Fields of the plugin's own memory, which programs that make its file write down as null.

_RESOURCE: Final = (
    *resource.KEYS,
    "deviceType",
    "excludeTopology",
    "selectors",
    "additionalInfo",
    *_MEMORY,
)

_TYPES: Final = {
    "accelerator": "only NICs are turned; [[generic]] groups offer other devices, by their nodes",
    "auxNetDevice": sriovselector.NO_AUXILIARY,
}
"""Types of device beside the usual one, and why they are not turned."""


def groups(top: Place, *, prefix: str) -> tuple[Draft, ...]:
    """Groups for every selector of every resource, in the order of the list.

    Args:
        prefix: Domain of resources that name none.
    """
    made = named(resource.counted(_groups(top, prefix), top))
    return in_order(made, why=f"{KEY}: the first that a NIC meets has it")


def _groups(top: Place, prefix: str) -> Iterator[Draft]:
    names = resource.Names(prefix)
    for place in top.items():
        given = place.members(_RESOURCE)
        _refuse_rest(given)
        name, ours = names.read(place, given)
        common = {"door": DOOR, "resource": ours, **_topology(given)}
        made = [
            _group(each, common, f"{name}-{number}" if number > 1 else name)
            for number, each in enumerate(_selectors(place, given), start=1)
        ]
        if len({draft.mode for draft in made}) > 1:
            place.say(
                "has selectors with drivers such as vfio-pci and selectors without",
                rule="NICs of one resource have one mode here",
                mend="make two resources of it",
            )
        yield from made


def _group(place: Place, common: Mapping[str, Line], name: str) -> Draft:
    selector = sriovselector.read(place)
    lines = {**selector.lines, "mode": selector.mode, **common}
    if selector.mode.value == NicMode.EXCLUSIVE.value:
        lines["attach"] = ATTACH
    if selector.vhost is not None:
        lines["vhost"] = selector.vhost
    return Draft(name=name, origin=place.path, lines=lines, remarks=selector.remarks)


def _selectors(place: Place, given: Mapping[str, Place]) -> tuple[Place, ...]:
    """The selectors, one object or a list of them."""
    if "selectors" not in given:
        place.say("lacks selectors", rule="the plugin makes nothing of such a resource")
        return ()
    selectors = given["selectors"]
    if not isinstance(selectors.value, list):
        return (selectors,)
    if not selectors.value:
        selectors.say("is empty", rule="the plugin makes nothing of such a resource")
    return tuple(selectors.items())


def _topology(given: Mapping[str, Place]) -> Mapping[str, Line]:
    exclude = given.get("excludeTopology")
    if exclude is None or not exclude.flag():
        return {}
    return {"exclude_topology": Line(value=True, origin=exclude.path)}


def _refuse_rest(given: Mapping[str, Place]) -> None:
    """Refuse what a resource says that its groups cannot say."""
    for name in _MEMORY:
        if name in given:
            given[name].refuse(rule="the plugin itself fills it in", mend="drop it")
    kind = given.get("deviceType")
    if kind is not None and kind.value not in ("netDevice", ""):
        why = _TYPES.get(kind.value) if isinstance(kind.value, str) else None
        types = listed([toml_text(each) for each in ("netDevice", *_TYPES)], last="or")
        kind.refuse(rule=why or f"it must be {types}", mend=LEAVE_OUT if why else "")
    extra = given.get("additionalInfo")
    if extra is not None and extra.value != {}:
        extra.say(
            "cannot be kept",
            rule="berth tells a container of a device what it sees of it, and nothing besides",
            mend="take it out",
        )
