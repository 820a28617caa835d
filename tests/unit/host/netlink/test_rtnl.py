"""The tables over a scripted socket: answers that no test kernel gives on demand."""

from __future__ import annotations

import errno
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import pytest

from berth.errors import HostError, RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink import generic, rdma
from berth.host.netlink.families import Ethtool, Rdma
from berth.host.netlink.message import Message, Request
from berth.host.netlink.nsid import RTM_NEWNSID
from berth.host.netlink.rtnl import Rtnl
from berth.host.netlink.socket import Netlink
from tests.unit.host.netlink.capture import load

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLES = load()


class ScriptedNetlink(Netlink):
    """Answers each exchange with the next line of a script, and notes what was asked."""

    def __init__(self, *script: Iterable[Message] | HostError) -> None:
        self.where = "host"
        self.asked: list[Request] = []
        self._script = list(script)

    def request(self, request: Request) -> tuple[Message, ...]:
        """Give the next line."""
        self.asked.append(request)
        line = self._script.pop(0)
        if isinstance(line, HostError):
            raise line
        return tuple(line)

    dump = request

    def close(self) -> None:
        """Hold that the script was played to its end."""
        assert self._script == []


def _refused(number: int) -> HostError:
    return HostError("host: X", "refused", errno=number)


def _nsid(number: int) -> tuple[Message, ...]:
    return (Message(type=RTM_NEWNSID, body=bytes(4) + nla.s32(1, number)),)


def test_namespace_that_has_an_id_gets_no_other() -> None:
    """The kernel is asked first: a veth's other end may have made the id."""

    netlink = ScriptedNetlink(_nsid(4))
    with Rtnl(netlink) as tables:
        assert tables.ensure_nsid(9) == 4

    assert [request.label for request in netlink.asked] == ["RTM_GETNSID"]


def test_id_that_somebody_made_meanwhile_is_taken() -> None:
    """EEXIST is no error: the id is there."""

    with Rtnl(ScriptedNetlink(_nsid(-1), _refused(errno.EEXIST), _nsid(5))) as tables:
        assert tables.ensure_nsid(9) == 5


def test_id_that_cannot_be_made_is_told() -> None:
    """Any other refusal goes on, and so does an id that is still missing."""

    with pytest.raises(HostError, match="refused"):
        Rtnl(ScriptedNetlink(_nsid(-1), _refused(errno.EPERM))).ensure_nsid(9)
    with pytest.raises(RemoteProtocolError, match="without id after it got one"):
        Rtnl(ScriptedNetlink(_nsid(-1), (), _nsid(-1))).ensure_nsid(9)


def test_link_that_is_not_there_is_none_and_other_refusals_are_told() -> None:
    """ENODEV answers the question; EPERM does not."""

    with Rtnl(ScriptedNetlink(_refused(errno.ENODEV))) as tables:
        assert tables.link(index=9) is None
    with pytest.raises(HostError):
        Rtnl(ScriptedNetlink(_refused(errno.EPERM))).link(index=9)


def test_way_that_the_kernel_does_not_know_is_none_and_other_refusals_are_told() -> None:
    """The same for a route."""

    for number in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EINVAL):
        with Rtnl(ScriptedNetlink(_refused(number))) as tables:
            assert tables.route_to(IPv4Address("192.0.2.1")) is None
    with pytest.raises(HostError):
        Rtnl(ScriptedNetlink(_refused(errno.EPERM))).route_to(IPv4Address("192.0.2.1"))


def test_acknowledgement_without_answer_is_the_kernels_fault() -> None:
    """A question that is acknowledged and not answered cannot be read as "none"."""

    with pytest.raises(RemoteProtocolError, match="host: RTM_GETLINK 9: acknowledged without"):
        Rtnl(ScriptedNetlink(())).link(index=9)
    with pytest.raises(RemoteProtocolError, match="CTRL_CMD_GETFAMILY ethtool: acknowledged"):
        Ethtool(ScriptedNetlink(()))


def test_missing_table_and_missing_feature_are_empty() -> None:
    """ENOENT for a table nobody wrote to, EOPNOTSUPP for nexthop objects; else it is told."""

    with Rtnl(ScriptedNetlink(_refused(errno.ENOENT), TABLES["route"])) as tables:
        assert len(tables.routes(table=77)) == len(TABLES["route"])
    with Rtnl(ScriptedNetlink(_refused(errno.EOPNOTSUPP))) as tables:
        assert tables.next_hops() == ()
    with pytest.raises(HostError):
        Rtnl(ScriptedNetlink(_refused(errno.ENOENT))).routes()
    with pytest.raises(HostError):
        Rtnl(ScriptedNetlink(_refused(errno.EPERM))).next_hops()


def test_ethtool_speaks_to_the_family_that_the_kernel_numbered() -> None:
    """The number is asked once and used for every message."""

    answer = Message(type=21, body=b"\x0d\x01\0\0")
    netlink = ScriptedNetlink(TABLES["family"], (answer,), (), TABLES["features"])
    with Ethtool(netlink) as ethtool:
        assert ethtool.private_flags(3) == {}
        ethtool.set_private_flags(3, {"legacy-rx": True})
        assert ethtool.features(3) == generic.parse_features(TABLES["features"][0])

    family = generic.parse_family(TABLES["family"][0])
    assert [request.type for request in netlink.asked] == [16, family, family, family]


def test_rdma_tables_are_values() -> None:
    """Devices, a port, the mode, a node, a move: one exchange each."""

    device = Message(type=0x1401, body=nla.u32(1, 2) + nla.text(2, "mlx5_0") + nla.u32(3, 1))
    port = Message(type=0x1405, body=nla.u32(1, 2) + nla.u32(3, 1) + nla.u8(12, 4))
    mode = Message(type=0x1406, body=nla.u8(66, 0))
    node = Message(type=0x140F, body=nla.text(70, "uverbs0"))
    netlink = ScriptedNetlink((device,), (port,), (mode,), (node,), ())
    with Rdma(netlink) as tables:
        assert tables.devices() == (rdma.RdmaDevice(index=2, name="mlx5_0", ports=1),)
        assert tables.port(2, 1) == rdma.RdmaPort(device=2, port=1, state=4)
        assert not tables.shared()
        assert tables.character_device(2, "uverbs").name == "uverbs0"
        tables.move(2, 9)

    assert netlink.asked[-1] == rdma.move_device(2, 9)
