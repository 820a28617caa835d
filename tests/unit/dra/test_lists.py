"""Standard attributes as lists: what they say, and what becomes of them where lists are refused."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.dra.edition import Edition
from berth.dra.lists import NUMA_NODE, PCIE_ROOT, listed, refuses_lists
from berth.errors import KubeError
from berth.kube.api import Node, ServerVersion
from berth.kube.slices import Slice, device_json
from berth.model.device import Device
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.dra.shelf import ORIGIN, nic, nics
from tests.unit.dra.test_publisher import NODE, Open, Scene, scene, warnings

__all__ = ["scene"]

NEAR = {0: (0, 1), 1: (1, 0), 2: (2,)}
BUS_ID = "resource.kubernetes.io/pciBusID"


def placed(number: int, node: int = 0) -> Device:
    """A NIC that hangs from a node and a root."""
    facts: dict[str, int | str] = {
        NUMA_NODE: node,
        PCIE_ROOT: "pci0000:15",
        BUS_ID: f"0000:1b:00.{number}",
    }
    return nic(number, **facts)


def refuse_lists(_: str, item: Slice) -> None:
    """What a server says whose gate is off: it has emptied the list before."""
    for index, device in enumerate(item.devices):
        for name, value in device.get("attributes", {}).items():
            if {"ints", "strings"} & value.keys():
                path = f"spec.devices[{index}].attributes[{name}]"
                found = f'ResourceSlice "x" is invalid: {path}: Invalid value: must specify one of'
                raise KubeError("POST", found, status=422, fields=[path])


def told(it: Scene) -> list[dict[str, Any]]:
    """The standard attributes of each device on the server."""
    return [
        {name: device["attributes"].get(name) for name in (NUMA_NODE, PCIE_ROOT)}
        for item in it.api.owned()
        for device in item.devices
    ]


AS_LISTS = {NUMA_NODE: {"ints": [0, 1]}, PCIE_ROOT: {"strings": ["pci0000:15"]}}
AS_VALUES = {NUMA_NODE: {"int": 0}, PCIE_ROOT: {"string": "pci0000:15"}}


@pytest.mark.parametrize(("node", "nodes"), [(1, [1, 0]), (2, [2]), (7, [7])])
def test_list_begins_with_the_devices_own_node(node: int, nodes: list[int]) -> None:
    """Those that are as good follow; of a node that nobody knows there is one."""

    attributes = device_json(listed(placed(0, node), NEAR))["attributes"]

    assert attributes[NUMA_NODE] == {"ints": nodes}
    assert attributes[PCIE_ROOT] == {"strings": ["pci0000:15"]}
    assert attributes[BUS_ID] == {"string": "0000:1b:00.0"}


def test_device_without_a_place_has_no_list() -> None:
    """An empty list would be refused, and two unknowns match each other."""

    assert listed(nic(0), NEAR) == nic(0)


@pytest.mark.parametrize(
    ("fields", "found", "refused"),
    [
        ([f"spec.devices[0].attributes[{PCIE_ROOT}]"], "", True),
        ([], f"spec.devices[3].attributes[{NUMA_NODE}]: Invalid value", True),
        ([f"spec.devices[0].attributes[{BUS_ID}]"], f"{NUMA_NODE} is fine", False),
        ([], "spec.devices[0].name: Invalid value", False),
    ],
)
def test_refusal_of_a_list_is_told_from_others(
    fields: list[str], found: str, refused: bool
) -> None:
    """By the path of the attribute, wherever the server names it."""

    error = KubeError("POST", found, status=422, fields=fields)
    lists, values = (sent(device) for device in (listed(placed(0), NEAR), placed(0)))

    assert refuses_lists(error, lists) is refused
    assert not refuses_lists(error, values)


def sent(device: Device) -> Slice:
    """A slice with that device."""
    edition = Edition(pool="p", generation=1, slots=((device_json(device),),))
    return edition.slices(ORIGIN)[0]


async def test_lists_are_published_only_where_they_are_wanted(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Written once, and found again as they are by the next daemon."""

    async with scene(placed(0)) as it:
        assert told(it) == [AS_VALUES]
    async with scene(placed(0), api=it.api, near=NEAR) as it:
        assert told(it) == [AS_LISTS]
        assert it.verbs() == ["create", "update"]
    async with scene(placed(0), api=it.api, near=NEAR) as it:
        await trio.sleep(3600)
        assert it.verbs() == ["create", "update"]
        assert it.publisher.statistics().remarks == ()


@pytest.mark.parametrize(("hooked", "verbs"), [(False, ["create"]), (True, ["create", "create"])])
async def test_refused_lists_cost_no_slice(
    autojump_clock: MockClock,
    scene: Open,
    caplog: pytest.LogCaptureFixture,
    hooked: bool,
    verbs: list[str],
) -> None:
    """Single values are published instead, with one warning, and a remark that stays.

    The refusal is learned from what is tried for show, or else from the first write.
    """

    api = FakeApi(Node(name=NODE, uid="node-uid"))
    api.refuse, api.hooked = refuse_lists, hooked
    async with scene(placed(0), *nics(3)[1:], api=api, near=NEAR) as it:
        assert it.verbs() == verbs
        it.show(placed(0), placed(1), nic(2))
        await trio.sleep(60)

        assert told(it)[:2] == [AS_VALUES, AS_VALUES]
        assert it.verbs() == [*verbs, "update"]
        assert it.state == "published"
        (remark,) = it.publisher.statistics().remarks
        assert remark.endswith("list-attributes is off: refused by the server")
        assert [text for text in warnings(caplog) if "lists" in text] == [
            f"lists are not published {remark}"
        ]


async def test_lists_are_tried_again_with_another_server(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Its gate was turned on; the watch breaks with the server's restart."""

    api = FakeApi(Node(name=NODE, uid="node-uid"))
    api.refuse = refuse_lists
    async with scene(placed(0), api=api, near=NEAR) as it:
        assert told(it) == [AS_VALUES]

        it.api.cut_watches()
        it.api.refuse = lambda _verb, _slice: None
        it.api.mend_watches()
        await trio.sleep(3600)

        assert told(it) == [AS_LISTS]
        assert it.publisher.statistics().remarks == ()


async def test_lists_are_not_sent_to_a_server_that_knows_none(
    autojump_clock: MockClock, scene: Open
) -> None:
    """1.35 has no such field, whatever it makes of one."""

    api = FakeApi(Node(name=NODE, uid="node-uid"))
    api.version = ServerVersion(major=1, minor=35, text="v1.35.0")
    async with scene(placed(0), api=api, near=NEAR) as it:
        assert told(it) == [AS_VALUES]
        (remark,) = it.publisher.statistics().remarks
        assert remark.endswith("list-attributes is off: server 1.35")


async def test_device_that_is_refused_for_itself_is_left_out_with_lists_too(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Not every refusal is the lists' fault: they stay, and the others are published."""

    def refuse(_: str, item: Slice) -> None:
        for index, device in enumerate(item.devices):
            if device["name"] == "nic-0001":
                path = f"spec.devices[{index}].attributes[{BUS_ID}]"
                raise KubeError("POST", f"{path}: Too long", status=422, fields=[path])

    async with scene(near=NEAR) as it:
        it.api.refuse = refuse
        it.show(placed(0), attrs.evolve(placed(1), group="h"))
        await trio.sleep(10)

        assert (it.api.devices(), told(it)) == (["nic-0000"], [AS_LISTS])
