"""Sockets, threads and namespaces: what blocks, what is kept alive, what a bad moment does."""

from __future__ import annotations

import errno
import gc
import os
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from berth.errors import HostError
from berth.host.netlink.families import Ethtool, Rdma
from berth.host.netlink.link import RTM_GETLINK
from berth.host.netlink.linkrequest import LinkChange, dump_links, new_link, set_link
from berth.host.netlink.message import NLMSG_ERROR, Message, encode_message, parse_messages
from berth.host.netlink.namespace import HOME, netns_descriptor, run_in_netns
from berth.host.netlink.rtnl import Rtnl
from berth.host.netlink.socket import (
    DUMP_RETRIES,
    NETLINK_GENERIC,
    NETLINK_ROUTE,
    Netlink,
    open_in,
    send_now,
)
from tests.descriptors import left_open, open_descriptors

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.netns import ScratchNetns

pytestmark = pytest.mark.root


class ChurningSender:
    """Changes the link table each time a dump of it was begun, some times over."""

    def __init__(self, churn: Callable[[int], None], times: int) -> None:
        self.dumps = 0
        self._churn = churn
        self._times = times

    def __call__(self, sock: socket.socket, data: bytes, /) -> None:
        """Send, then change the table that the kernel has begun to tell."""
        send_now(sock, data)
        if parse_messages(data)[0].type == RTM_GETLINK:
            self.dumps += 1
            if self.dumps <= self._times:
                self._churn(self.dumps)


def _crowded(home: ScratchNetns, host_tables: Rtnl, times: int) -> ChurningSender:
    """Fill the table so that a dump has several parts, and disturb its first dumps."""
    for number in range(20):
        host_tables.apply(new_link(f"crowd{number}", "veth"))
    return ChurningSender(
        lambda number: host_tables.apply(new_link(f"churn{number}", "veth")), times
    )


def test_interrupted_dump_is_taken_again(home: ScratchNetns, host_tables: Rtnl) -> None:
    """Two dumps under churn are void; the third one is whole and has the newest link."""

    sender = _crowded(home, host_tables, times=2)
    with Rtnl.of(home.path, send=sender) as tables:
        names = {link.name for link in tables.links()}

    assert sender.dumps == 3
    assert {"crowd0", "crowd19", "churn1", "churn2"} <= names
    assert names == {link.name for link in host_tables.links()}


def test_dump_that_is_always_interrupted_says_so(home: ScratchNetns, host_tables: Rtnl) -> None:
    """After five more tries the caller is told, and the socket still serves."""

    sender = _crowded(home, host_tables, times=1 + DUMP_RETRIES)
    with Rtnl.of(home.path, where="host", send=sender) as tables:
        with pytest.raises(HostError) as caught:
            tables.links()
        names = {link.name for link in tables.links()}

    assert caught.value.errno == errno.EINTR
    assert str(caught.value) == (
        "host: RTM_GETLINK: the dump was interrupted 6 times by changes of its table"
    )
    assert "churn6" in names


def test_answer_that_the_kernel_did_not_send_is_ignored(home: ScratchNetns) -> None:
    """A process that sends a forged refusal to our port is not listened to."""

    with open_in(home.path) as netlink, open_in(home.path) as stranger:
        body = (-errno.EEXIST).to_bytes(4, "little", signed=True) + bytes(16)
        forged = Message(type=NLMSG_ERROR, sequence=1, port=netlink._port, body=body)
        stranger._sock.sendto(encode_message(forged), (netlink._port, 0))

        assert netlink.dump(dump_links())


def test_socket_serves_on_after_a_refusal(host_tables: Rtnl) -> None:
    """A refusal ends its exchange and nothing else."""

    with pytest.raises(HostError):
        host_tables.apply(set_link(999, LinkChange(mtu=1400)))

    assert host_tables.link(name="v0") is not None
    assert host_tables.link(name="no-such-link") is None
    assert host_tables.link(index=999) is None


def test_kernel_that_does_not_answer_is_told(home: ScratchNetns) -> None:
    """A lost answer is a fault with a number, not a thread that hangs for good."""

    def swallow(_: socket.socket, data: bytes, /) -> None:
        assert data

    with open_in(home.path, where="host", send=swallow) as netlink:
        limit = struct.pack("@ll", 0, 1000)
        netlink._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        with pytest.raises(HostError, match="RTM_GETLINK: no answer within 30 s") as caught:
            netlink.dump(dump_links())

    assert caught.value.errno == errno.ETIMEDOUT


def test_closed_socket_is_told_by_the_request_that_needed_it(home: ScratchNetns) -> None:
    """An error of the socket itself names what was to be done."""

    netlink = open_in(home.path)
    netlink.close()
    netlink.close()

    with pytest.raises(HostError, match="pod: RTM_GETLINK: Bad file descriptor") as caught:
        netlink.dump(dump_links())
    assert caught.value.errno == errno.EBADF


def test_thread_that_entered_a_namespace_serves_nobody_else(pod: ScratchNetns) -> None:
    """The work runs in a thread of its own, and the caller's namespace is what it was."""

    before = _own_inode()
    inside, thread = run_in_netns(pod.path, lambda: (_own_inode(), threading.get_ident()))

    assert inside == pod.inode != before
    assert thread != threading.get_ident()
    assert _own_inode() == before
    assert Path(HOME).stat().st_ino == before


def _own_inode() -> int:
    """Give the namespace of the calling thread."""
    return Path("/proc/thread-self/ns/net").stat().st_ino


def test_sysctls_are_those_of_the_namespace(pod: ScratchNetns) -> None:
    """/proc/sys/net follows the thread that opens it."""

    setting = Path("/proc/sys/net/ipv6/conf/lo/accept_ra")
    before = setting.read_text()
    run_in_netns(pod.fd, lambda: setting.write_text("2"))

    assert run_in_netns(pod.path, setting.read_text) == "2\n"
    assert setting.read_text() == before


def test_fault_of_the_work_reaches_the_caller(pod: ScratchNetns) -> None:
    """What the work raises is raised here, as it is."""

    with pytest.raises(ZeroDivisionError):
        run_in_netns(pod.path, lambda: 1 // 0)


def test_missing_thread_is_told(pod: ScratchNetns, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system at its limit of threads gives an error of ours, for the caller to undo by."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(HostError, match="netns: can't start new thread") as caught:
        run_in_netns(pod.path, lambda: None)

    assert caught.value.errno == errno.EAGAIN


def test_path_that_is_no_namespace_is_told(tmp_path: Path) -> None:
    """A missing path, a plain file and a closed descriptor are each named."""

    missing, plain = tmp_path / "missing", tmp_path / "plain"
    plain.touch()

    with pytest.raises(HostError, match=r"/missing: cannot be opened: No such file") as caught:
        open_in(missing)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(HostError, match=r"/plain: cannot be entered: Invalid argument") as caught:
        open_in(plain)
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(HostError, match=r"descriptor 999: cannot be entered: Bad file"):
        run_in_netns(999, lambda: None)


def test_nothing_of_a_pod_stays_open(pod: ScratchNetns) -> None:
    """After the work no descriptor, socket or thread keeps the pod's namespace."""

    gc.collect()
    descriptors = open_descriptors()
    threads = set(threading.enumerate())
    with Rtnl.of(pod.path) as tables:
        assert tables.links()
    run_in_netns(pod.path, lambda: None)
    with netns_descriptor(pod.path) as descriptor:
        assert os.fstat(descriptor).st_ino == pod.inode
    with pytest.raises(HostError):
        open_in(pod.path, protocol=31)

    assert not left_open(descriptors)
    assert not set(threading.enumerate()) - threads


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_path_that_can_be_none_is_a_namespace_that_is_gone(path: str) -> None:
    """A record or a runtime may name it: that is their fault and no defect of ours."""

    with pytest.raises(HostError, match="is no path that can be opened") as caught:
        run_in_netns(path, lambda: None)

    assert caught.value.errno == errno.ENOENT
    assert str(caught.value).isprintable()


def test_namespace_ends_while_its_id_is_watched(host_tables: Rtnl, pod: ScratchNetns) -> None:
    """An id names the namespace and reads its links, and does not keep it alive."""

    assert host_tables.nsid_of(pod.path) is None
    nsid = host_tables.ensure_nsid(pod.path)

    assert host_tables.nsid_of(pod.fd) == host_tables.ensure_nsid(pod.fd) == nsid
    assert [link.name for link in host_tables.links(nsid=nsid)] == ["lo"]
    there = host_tables.link(name="lo", nsid=nsid)
    assert there is not None
    assert there.loopback


def test_missing_protocol_is_told_with_its_number(home: ScratchNetns) -> None:
    """A kernel without RDMA says so at once."""

    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20).close()
    except OSError:
        with pytest.raises(HostError, match="host: socket: Protocol not supported") as caught:
            Rdma.home()
        assert caught.value.errno == errno.EPROTONOSUPPORT
    else:
        with Rdma.home() as rdma:
            assert isinstance(rdma.devices(), tuple)
            assert isinstance(rdma.shared(), bool)


def test_ethtool_switches_features_and_names_what_stayed(
    home: ScratchNetns, host_tables: Rtnl
) -> None:
    """A feature is switched off and on; one that the device cannot switch is listed."""

    link = host_tables.link(name="v0")
    assert link is not None
    with Ethtool(open_in(home.path, NETLINK_GENERIC, where="host")) as ethtool:
        before = ethtool.features(link.index)
        assert ethtool.set_features(link.index, {"tx-checksum-ip-generic": False}) == frozenset()
        assert "tx-checksum-ip-generic" not in ethtool.features(link.index).active
        assert ethtool.set_features(link.index, {"tx-checksum-ip-generic": True}) == frozenset()
        assert ethtool.features(link.index) == before
        assert ethtool.link_modes(link.index).duplex == "full"
        with pytest.raises(HostError, match="bit name not found"):
            ethtool.set_features(link.index, {"no-such-feature": True})
        with pytest.raises(HostError) as caught:
            ethtool.private_flags(link.index)
        assert caught.value.errno == errno.EOPNOTSUPP


CRASH = textwrap.dedent(
    """
    import os, sys
    from berth.host.netlink.linkrequest import LinkChange, UP, set_link
    from berth.host.netlink.namespace import netns_descriptor
    from berth.host.netlink.rtnl import Rtnl
    from berth.host.netlink.socket import send_now

    home, pod, moment, last = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    sent = 0

    def send(sock, data):
        global sent
        sent += 1
        if (moment, sent) == ("before", last):
            os._exit(86)
        send_now(sock, data)
        if (moment, sent) == ("after", last):
            os._exit(87)

    with Rtnl.of(home, send=send) as tables, netns_descriptor(pod) as descriptor:
        link = tables.link(name="v0")
        tables.apply(set_link(link.index, LinkChange(netns_fd=descriptor, name="net1")))
    with Rtnl.of(pod, send=send) as tables:
        tables.apply(set_link(tables.link(name="net1").index, UP))
    """
)


@pytest.mark.parametrize(
    ("moment", "last", "expected"),
    [
        ("before", 2, (86, "v0", None)),
        ("after", 2, (87, None, False)),
        ("before", 4, (86, None, False)),
        ("after", 4, (87, None, True)),
        ("never", 0, (0, None, True)),
    ],
)
def test_process_can_be_ended_around_any_message(
    moment: str,
    last: int,
    expected: tuple[int, str | None, bool | None],
    home: ScratchNetns,
    pod: ScratchNetns,
) -> None:
    """The sender is the seam of the crash tests: what the kernel took before is done."""

    command = [sys.executable, "-c", CRASH, str(home.path), str(pod.path), moment, str(last)]
    done = subprocess.run(command, check=False, timeout=30)
    at_home, in_pod = _links(home), _links(pod)

    name = "v0" if "v0" in at_home else None
    assert (done.returncode, name, in_pod.get("net1")) == expected


def _links(namespace: ScratchNetns) -> dict[str, bool]:
    with Rtnl.of(namespace.path) as tables:
        return {link.name: link.up for link in tables.links()}


def test_own_namespace_is_the_default() -> None:
    """Without a path the tables are those of the calling thread."""

    with Rtnl.home() as tables, Netlink(NETLINK_ROUTE) as netlink, Ethtool.home() as ethtool:
        assert tables.link(name="lo") is not None
        assert netlink.where == ethtool.netlink.where == "host"
