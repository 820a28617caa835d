"""Values as JSON and back: each kind of annotation, and everything that does not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, ip_network
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.host.netlink.kinds import (
    Bond,
    Bridge,
    Ipvlan,
    KindData,
    Macvlan,
    Veth,
    Vlan,
    Vrf,
    Vxlan,
)
from berth.host.netlink.link import Link
from berth.host.scan import HostScan
from berth.model.device import Version
from berth.model.structure import Misfit, from_json, to_json


class Colour(Enum):
    """An enumeration."""

    RED = "red"


@attrs.frozen(kw_only=True)
class Inner:
    """A class within a class."""

    number: int


@attrs.frozen(kw_only=True)
class Whole:
    """One field of each kind."""

    text: str
    flag: bool
    colour: Colour
    inner: Inner
    items: tuple[Inner, ...]
    pair: tuple[str, int]
    table: Mapping[str, int]
    address: IPv4Address | IPv6Address | None
    network: IPv4Network
    interface: IPv4Interface
    version: int | str | Version
    optional: int | None = None


WHOLE = Whole(
    text="→",
    flag=True,
    colour=Colour.RED,
    inner=Inner(number=1),
    items=(Inner(number=2), Inner(number=3)),
    pair=("a", 4),
    table={"b": 5},
    address=IPv6Address("fd00::1"),
    network=IPv4Network("192.0.2.0/24"),
    interface=IPv4Interface("192.0.2.7/24"),
    version=Version("1.2.3"),
)


def through(value: object) -> Any:
    """The value's document, as a file would bring it back."""
    return json.loads(json.dumps(to_json(value)))


def test_value_of_every_kind_comes_back() -> None:
    """What is written is read as an equal value."""

    assert from_json(Whole, through(WHOLE), where="x") == WHOLE


@pytest.mark.parametrize(
    "data",
    [
        Macvlan(),
        Ipvlan(),
        Vlan(id=7),
        Vrf(table=10),
        Bond(mode="802.3ad"),
        Bridge(),
        Vxlan(id=3, remote=IPv4Address("192.0.2.1")),
        Veth(),
        None,
    ],
)
def test_each_kind_of_link_comes_back(data: KindData | None) -> None:
    """The kinds of links are told apart by their fields."""

    scan = HostScan(boot_id="b", links=(Link(index=1, name="a", kind_data=data),))

    assert from_json(HostScan, through(scan), where="x") == scan


def test_field_with_a_default_may_be_missing() -> None:
    """A document of an older program lacks what was added since."""

    document = through(WHOLE)
    del document["optional"]

    assert from_json(Whole, document, where="x") == WHOLE


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ((), [], "x: is no object"),
        (("more",), 1, "x.more: is not known"),
        (("text",), None, "x.text: is NoneType where str belongs"),
        (("flag",), 1, "x.flag: is int where bool belongs"),
        (("inner", "number"), True, "x.inner.number: is bool where int belongs"),
        (("inner",), 7, "x.inner: is no object"),
        (("colour",), "blue", "x.colour: 'blue' is not a valid Colour"),
        (("items",), {}, "x.items: is dict where list belongs"),
        (("items", 1), {"number": "2"}, "x.items[1].number: is str where int belongs"),
        (("pair",), ["a"], "x.pair: has 1 items where 2 belong"),
        (("table", "b"), "5", "x.table.b: is str where int belongs"),
        (("network",), "192.0.2.1/24", "x.network: 192.0.2.1/24 has host bits set"),
        (("optional",), "1", "x.optional: "),
    ],
)
def test_document_that_does_not_fit(path: tuple[Any, ...], value: Any, told: str) -> None:
    """Each misfit is told with its place."""

    document = through(WHOLE)
    here: Any = document
    for step in path[:-1]:
        here = here[step]
    if path:
        here[path[-1]] = value
    with pytest.raises(Misfit) as caught:
        from_json(Whole, document if path else value, where="x")

    assert str(caught.value).startswith(told)


def test_document_that_lacks_a_field() -> None:
    """A field without default must be there."""

    with pytest.raises(Misfit, match=r"x\.(text|flag|colour): is missing"):
        from_json(Whole, {}, where="x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["boot_id", "links", "name", "index"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON)
def test_garbage_is_a_misfit_or_a_value(document: Any) -> None:
    """Whatever a file holds, it is read or refused, and nothing else happens."""

    try:
        scan = from_json(HostScan, document, where="x")
    except Misfit:
        return
    assert through(scan)["boot_id"] == document["boot_id"]


def test_networks_keep_their_family() -> None:
    """Addresses of both families come back as what they were."""

    assert to_json(ip_network("fd00::/8")) == "fd00::/8"
