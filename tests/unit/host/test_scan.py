"""How a look is put together: from a kernel's own messages, replayed, and a sysfs tree."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import cast

import pytest
from typing_extensions import Self

from berth.errors import HostError
from berth.host import scan as module
from berth.host.hardware import Bearer, Port
from berth.host.netlink import attributes as nla
from berth.host.netlink.link import (
    IFLA_PARENT_DEV_BUS_NAME,
    IFLA_PARENT_DEV_NAME,
    RTM_NEWLINK,
    parse_link,
)
from berth.host.netlink.linkrequest import get_link
from berth.host.netlink.message import Message, Request
from berth.host.netlink.rdma import get_system
from berth.host.netlink.route import RTN_UNICAST, parse_route
from berth.host.netlink.rtnl import Rtnl
from berth.host.netlink.socket import NETLINK_RDMA, Netlink
from berth.host.scan import STEADY_TRIES, Scanner, plain_address, read_boot_id
from tests.sysfs_tree import SysfsTree
from tests.unit.host.netlink.capture import load

PF = "0000:41:00.0"


class Replay:
    """A netlink socket that answers with messages kept from a kernel.

    Attributes:
        asked: What was asked, in order.
        links: What the next dumps of links give; the last one stays.
        vfs: What is answered when links are asked for one by one.
    """

    where = "replay"

    def __init__(self) -> None:
        self._tables = load()
        self.asked: list[Request] = []
        self.links: list[tuple[Message, ...]] = [self._tables["link"]]
        self.vfs: tuple[Message, ...] | None = None

    def dump(self, request: Request) -> tuple[Message, ...]:
        """Answer with a whole table."""
        self.asked.append(request)
        if request.label == "RTM_GETLINK":
            return self.links.pop(0) if len(self.links) > 1 else self.links[0]
        table = {
            "RTM_GETADDR": "address",
            "RTM_GETROUTE": "route",
            "RTM_GETNEIGH": "neighbor",
            "RTM_GETNEXTHOP": "nexthop",
        }[request.label]
        return self._tables[table]

    def request(self, request: Request) -> tuple[Message, ...]:
        """Answer for one link."""
        self.asked.append(request)
        if self.vfs is None:
            raise HostError("replay", "No such device", errno=19)
        return self.vfs

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path / "sys")


@pytest.fixture(name="replay")
def _replay() -> Replay:
    return Replay()


@pytest.fixture(name="scanner")
def _scanner(tree: SysfsTree, replay: Replay) -> Scanner:
    return Scanner(tree.sysfs, home=lambda: Rtnl(cast("Netlink", replay)))


def _hardware(name: str, index: int, *, bus: str = "pci", device: str = PF) -> Message:
    """What a kernel tells of a link that a device carries."""
    body = bytearray(16)
    body[2:4] = (1).to_bytes(2, "little")
    body[4:8] = index.to_bytes(4, "little")
    parts = (
        nla.text(3, name),
        nla.u8(33, 1),
        nla.text(IFLA_PARENT_DEV_NAME, device),
        nla.text(IFLA_PARENT_DEV_BUS_NAME, bus),
    )
    return Message(type=RTM_NEWLINK, body=bytes(body) + b"".join(parts))


def _counting(parse: Callable[[Message], object], counted: list[Message]) -> object:
    def parse_and_count(message: Message) -> object:
        counted.append(message)
        return parse(message)

    return parse_and_count


def test_tables_of_a_kernel_become_one_look(scanner: Scanner) -> None:
    """Links, addresses, routes and nexthop objects; of neighbors those that somebody set."""

    look = scanner.scan()

    assert {"v0", "v1", "br0", "mv0", "vx0"} <= {link.name for link in look.links}
    assert "192.0.2.1/24" in {str(address.ip) for address in look.addresses}
    assert "203.0.113.0/24" in {str(route.destination) for route in look.routes}
    assert {5, 6, 7, 8} <= {hop.id for hop in look.next_hops}
    assert {str(neighbor.ip) for neighbor in look.neighbors} == {"192.0.2.254", "2001:db8::fe"}


def test_kernel_is_asked_for_unicast_routes_alone(scanner: Scanner, replay: Replay) -> None:
    """A node with pods has more local and multicast routes than those that lead anywhere."""

    scanner.scan()
    asked = [request for request in replay.asked if request.label == "RTM_GETROUTE"]

    assert [(request.body[0], request.body[7]) for request in asked] == [
        (2, RTN_UNICAST),
        (10, RTN_UNICAST),
    ]


def test_what_did_not_change_is_not_decoded_again(
    scanner: Scanner, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand links one changes: one is decoded, and the others are the same values."""

    decoded: list[Message] = []
    monkeypatch.setattr(scanner._links, "_parse", _counting(parse_link, decoded))
    first = scanner.scan()
    before = len(decoded)
    replay.links = [(*replay.links[0], _hardware("ens1f0", 99))]
    second = scanner.scan()

    assert before == len(first.links)
    assert len(decoded) == before + 1
    assert second.links[: len(first.links)] == first.links
    assert second.links[0] is first.links[0]


def test_device_of_a_link_is_joined_by_what_netlink_tells(
    scanner: Scanner, tree: SysfsTree, replay: Replay
) -> None:
    """Function, port and speed; a virtual link has no device."""

    folder = tree.function(PF)
    tree.link("ens1f0", 99, on=folder, dev_port=1, speed=25000)
    tree.link("v0", 2, speed=10000)
    replay.links = [(*replay.links[0], _hardware("ens1f0", 99))]
    look = scanner.scan()
    (device,) = look.devices

    assert device.index == 99
    assert device.bearer == Bearer(function=PF, below=PF)
    assert device.port == Port(dev_port=1)
    assert device.speed_mbps == 25000
    assert [function.address for function in look.functions] == [PF]


def test_function_of_another_class_with_a_link_is_among_the_functions(
    scanner: Scanner, tree: SysfsTree, replay: Replay
) -> None:
    """A link says more than a class code."""

    folder = tree.function(PF, class_code=0x120000)
    tree.link("ens1f0", 99, on=folder)
    replay.links = [(_hardware("ens1f0", 99),)]

    assert [function.address for function in scanner.scan().functions] == [PF]


def test_link_renamed_while_sysfs_was_read_is_read_again(
    scanner: Scanner, tree: SysfsTree, replay: Replay
) -> None:
    """The dump still says eth0, the folder is that of ens1f0 already: one of them is old."""

    folder = tree.function(PF)
    tree.link("ens1f0", 99, on=folder, dev_port=1)
    replay.links = [(_hardware("eth0", 99),), (_hardware("ens1f0", 99),)]
    look = scanner.scan()

    assert [link.name for link in look.links] == ["ens1f0"]
    assert look.devices[0].port == Port(dev_port=1)


def test_link_that_sysfs_never_shows_keeps_its_function(
    scanner: Scanner, tree: SysfsTree, replay: Replay
) -> None:
    """Case 22: sysfs may be of another namespace; then neither port nor speed are made up."""

    tree.function(PF)
    tree.link("eth0", 2, speed=10000)
    replay.links = [(_hardware("eth0", 99),)]
    look = scanner.scan()
    dumps = [request for request in replay.asked if request.label == "RTM_GETLINK"]

    assert look.devices[0].bearer.function == PF
    assert (look.devices[0].port, look.devices[0].speed_mbps) == (Port(), None)
    assert len(dumps) == STEADY_TRIES


def test_port_is_read_once_for_each_link(scanner: Scanner, tree: SysfsTree, replay: Replay) -> None:
    """It does not change while the link lives; another link under the number is another one."""

    folder = tree.function(PF)
    other = tree.function("0000:42:00.0")
    entry = tree.link("ens1f0", 99, on=folder, dev_port=1)
    replay.links = [(_hardware("ens1f0", 99),)]
    scanner.scan()
    (entry / "dev_port").write_text("5\n")
    again = scanner.scan()
    replay.links = [(_hardware("ens2f0", 99, device="0000:42:00.0"),)]
    tree.link("ens2f0", 99, on=other, dev_port=2)
    another = scanner.scan()

    assert again.devices[0].port == Port(dev_port=1)
    assert another.devices[0].port == Port(dev_port=2)


def test_pf_tells_its_virtual_functions(scanner: Scanner, tree: SysfsTree, replay: Replay) -> None:
    """They are asked for by a question of its own for each PF, never by a dump (NW §6.1)."""

    folder = tree.function(PF, total_vfs=2)
    tree.vf("0000:41:10.0", pf=PF, number=0)
    tree.link("ens1f0", 99, on=folder)
    mac = nla.attribute(1, (0).to_bytes(4, "little") + bytes.fromhex("025e10000001") + bytes(26))
    plain = _hardware("ens1f0", 99)
    vfs = nla.nest(22, nla.nest(1, mac)) + nla.attribute(1, bytes(6))
    replay.links = [(plain,)]
    replay.vfs = (Message(type=RTM_NEWLINK, body=plain.body + vfs),)
    (link,) = scanner.scan().links

    assert [(vf.number, vf.mac) for vf in link.vfs] == [(0, "02:5e:10:00:00:01")]
    assert replay.asked.count(get_link(index=99, vfs=True)) == 1


def test_pf_that_tells_nothing_of_its_vfs_stays_as_it_was_seen(
    scanner: Scanner, tree: SysfsTree, replay: Replay
) -> None:
    """Its driver refuses, or it went away meanwhile: no reason to be blind for all others."""

    folder = tree.function(PF, total_vfs=2)
    tree.vf("0000:41:10.0", pf=PF, number=0)
    tree.link("ens1f0", 99, on=folder)
    replay.links = [(_hardware("ens1f0", 99),)]

    assert [link.name for link in scanner.scan().links] == ["ens1f0"]


def test_product_is_asked_for_once_for_each_model(tree: SysfsTree, replay: Replay) -> None:
    """Until it is known; a name that udev has not worked out yet is asked for again."""

    asked: list[str] = []
    names = {"0000:41:00.0": "ConnectX-5"}

    def product(address: str) -> str:
        asked.append(address)
        return names.get(address, "")

    scanner = Scanner(tree.sysfs, product=product, home=lambda: Rtnl(cast("Netlink", replay)))
    tree.function("0000:41:00.0")
    tree.function("0000:41:00.1")
    tree.function("0000:51:00.0", device="1572")
    first = scanner.scan()
    names["0000:51:00.0"] = "X710"
    second = scanner.scan()

    assert first.products == {"15b3:1019:15b3:0069": "ConnectX-5"}
    assert second.products["15b3:1572:15b3:0069"] == "X710"
    assert asked == ["0000:41:00.0", "0000:51:00.0", "0000:51:00.0"]


def _bond(index: int, *, carrier: bool) -> Message:
    """What a kernel tells of a bond."""
    body = bytearray(16)
    body[4:8] = index.to_bytes(4, "little")
    info = nla.nest(18, nla.text(1, "bond"))
    return Message(
        type=RTM_NEWLINK, body=bytes(body) + nla.text(3, "bond0") + nla.u8(33, carrier) + info
    )


@pytest.mark.parametrize("carrier", [True, False])
def test_bond_tells_the_speed_of_its_ports(
    scanner: Scanner, tree: SysfsTree, replay: Replay, carrier: bool
) -> None:
    """It may be a parent; other links without hardware have no speed of their own."""

    tree.link("bond0", 30, speed=50000)
    replay.links = [(_bond(30, carrier=carrier),)]
    devices = scanner.scan().devices

    assert [(device.index, device.speed_mbps) for device in devices] == (
        [(30, 50000)] if carrier else []
    )


def test_bond_of_another_namespace_tells_no_speed(
    scanner: Scanner, tree: SysfsTree, replay: Replay
) -> None:
    """Sysfs shows one of the same name."""

    tree.link("bond0", 7, speed=50000)
    replay.links = [(_bond(30, carrier=True),)]

    assert scanner.scan().devices == ()


def test_way_is_asked_for_each_address_once(scanner: Scanner, replay: Replay) -> None:
    """As the kernel would send packets there; what is no address has no way."""

    route = load()["route"][0]
    replay.vfs = (route,)
    look = scanner.scan(toward=("203.0.113.9", "203.0.113.9", "api.example"))
    asked = [request.label for request in replay.asked if "203.0.113.9" in request.label]

    assert [destination for destination, _ in look.ways] == ["203.0.113.9"]
    assert look.ways[0][1] == parse_route(route)
    assert len(asked) == 1


class RdmaSocket:
    """Answers whether namespaces share RDMA devices.

    Args:
        mode: The kernel's number; None for a kernel without RDMA.
    """

    def __init__(self, mode: int | None) -> None:
        self._mode = mode

    def __call__(self, protocol: int) -> Self:
        """Open it."""
        assert protocol == NETLINK_RDMA
        if self._mode is None:
            raise HostError("host: socket", "Protocol not supported", errno=93)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def request(self, request: Request) -> tuple[Message, ...]:
        """Answer."""
        assert request == get_system()
        return (Message(type=request.type, body=nla.u8(66, self._mode or 0)),)


@pytest.mark.parametrize(("mode", "told"), [(1, "shared"), (0, "exclusive"), (None, "")])
def test_mode_of_rdma_is_asked_where_there_is_rdma(
    scanner: Scanner,
    tree: SysfsTree,
    monkeypatch: pytest.MonkeyPatch,
    mode: int | None,
    told: str,
) -> None:
    """A machine without RDMA devices is not asked, and tells nothing."""

    monkeypatch.setattr(module, "Netlink", RdmaSocket(mode))
    without = scanner.scan().rdma_netns
    tree.function(PF, rdma=("mlx5_0",))

    assert (without, scanner.scan().rdma_netns) == ("", told)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", IPv4Address("192.0.2.1")),
        ("2001:DB8:0::1", IPv6Address("2001:db8::1")),
        ("::ffff:192.0.2.1", IPv4Address("192.0.2.1")),
        ("fe80::1%eth0", IPv6Address("fe80::1")),
        ("api.example", None),
        ("", None),
    ],
)
def test_address_is_compared_as_the_kernel_has_it(
    text: str, address: IPv4Address | IPv6Address | None
) -> None:
    """A socket tells mapped and zoned addresses, a Node object whatever somebody wrote."""

    assert plain_address(text) == address


def test_boot_id_is_empty_where_there_is_none(tmp_path: Path) -> None:
    """No boot is then known to be this one."""

    assert read_boot_id(tmp_path / "none") == ""
