"""How this kernel moves, renames and makes links: the facts that attach and return are built on."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from berth.errors import HostError
from berth.host.netlink.kinds import Macvlan, Veth
from berth.host.netlink.linkrequest import (
    DOWN,
    UP,
    LinkChange,
    add_altnames,
    delete_altnames,
    delete_link,
    new_link,
    set_link,
)
from tests.netns import need_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.host.netlink.link import Link
    from berth.host.netlink.message import Request
    from berth.host.netlink.rtnl import Rtnl
    from tests.netns import ScratchNetns

pytestmark = pytest.mark.root


def _named(tables: Rtnl, name: str) -> Link:
    link = tables.link(name=name)
    assert link is not None
    return link


def _refusal(tables: Rtnl, request: Request) -> HostError:
    with pytest.raises(HostError) as caught:
        tables.apply(request)
    return caught.value


def test_move_renames_and_sets_up_in_one_message(
    host_tables: Rtnl, pod_tables: Rtnl, pod: ScratchNetns
) -> None:
    """The link is in the pod under its new name, with its IP settings, and never under another."""

    link = _named(host_tables, "v0")
    change = LinkChange(
        netns_fd=pod.fd,
        name="net1",
        mtu=1400,
        mac="02:00:00:00:00:07",
        ipv4_conf={"arp_ignore": 1, "rp_filter": 2},
        addr_gen_mode=1,
    )
    host_tables.apply(set_link(link.index, change, label="v0"))
    moved = _named(pod_tables, "net1")

    assert host_tables.link(name="v0") is None
    assert host_tables.link(index=link.index) is None
    assert (moved.mtu, moved.mac, moved.addr_gen_mode) == (1400, "02:00:00:00:00:07", 1)
    assert (moved.ipv4_conf["arp_ignore"], moved.ipv4_conf["rp_filter"]) == (1, 2)
    assert moved.ipv4_conf["arp_notify"] == 0
    assert pod.ip_json("link", "show", "net1")[0]["mtu"] == 1400


# NW §4.3, "Step 4 is not atomic": what is found out only when the link is already in the pod.
TOO_LATE: Mapping[str, tuple[LinkChange, int]] = {
    "refused MTU": (LinkChange(mtu=10**6), errno.EINVAL),
    "refused MAC": (LinkChange(mac="01:00:00:00:00:01"), errno.EADDRNOTAVAIL),
    "own altname": (LinkChange(name="own"), errno.EEXIST),
    "taken name": (LinkChange(name="taken"), errno.EEXIST),
    "taken altname": (LinkChange(name="other"), errno.EEXIST),
    "slash": (LinkChange(name="a/b"), errno.EINVAL),
    "loopback": (LinkChange(name="lo"), errno.EEXIST),
}


@pytest.fixture(name="named_pod")
def _named_pod(pod: ScratchNetns) -> ScratchNetns:
    """A pod whose link holds a name and an altname."""
    pod.ip("link", "add", "taken", "type", "veth", "peer", "name", "taken-peer")
    pod.ip("link", "property", "add", "dev", "taken", "altname", "other")
    return pod


@pytest.mark.parametrize("what", TOO_LATE)
def test_refused_change_leaves_the_link_in_the_pod_under_its_host_name(
    what: str, host_tables: Rtnl, pod_tables: Rtnl, named_pod: ScratchNetns
) -> None:
    """The move comes first and is not undone, so an error says nothing about the place."""

    change, number = TOO_LATE[what]
    link = _named(host_tables, "v0")
    host_tables.apply(add_altnames(link.index, ["own"]))
    request = set_link(link.index, attrs.evolve(change, netns_fd=named_pod.fd), label="v0")

    assert _refusal(host_tables, request).errno == number
    assert host_tables.link(name="v0") is None
    assert _named(pod_tables, "v0").names == ("v0", "own")


IN_TIME: Mapping[str, tuple[tuple[str, ...], LinkChange, int, str]] = {
    "host name taken": (
        ("link add v0 type veth peer name p0",),
        LinkChange(),
        errno.EEXIST,
        "An interface with the same name exists in the target netns",
    ),
    "host name and wanted name taken": (
        (
            "link add v0 type veth peer name p0",
            "link add net1 type veth peer name p1",
        ),
        LinkChange(name="net1"),
        errno.EEXIST,
        "Unable to use 'net1' for the new interface name in the target netns",
    ),
    "altname taken as a name": (
        ("link add own type veth peer name p0",),
        LinkChange(name="net1"),
        errno.EEXIST,
        "An interface with the altname own exists in the target netns",
    ),
    "altname taken as an altname": (
        (
            "link add p0 type veth peer name p1",
            "link property add dev p0 altname own",
        ),
        LinkChange(name="net1"),
        errno.EEXIST,
        "An interface with the altname own exists in the target netns",
    ),
    "16 bytes": ((), LinkChange(name="x" * 16), errno.ERANGE, "(attribute 3)"),
    "index taken": ((), LinkChange(new_index=1), errno.EBUSY, "ifindex 1 is not available"),
}


@pytest.mark.parametrize("what", IN_TIME)
def test_clash_that_is_seen_first_leaves_the_link_at_home(
    what: str, host_tables: Rtnl, pod_tables: Rtnl, pod: ScratchNetns
) -> None:
    """These are checked before the move, and the kernel says what is in the way."""

    scene, change, number, words = IN_TIME[what]
    for line in scene:
        pod.ip(*line.split())
    link = _named(host_tables, "v0")
    host_tables.apply(add_altnames(link.index, ["own"]))
    request = set_link(link.index, attrs.evolve(change, netns_fd=pod.fd), label="v0")
    refusal = _refusal(host_tables, request)

    assert refusal.errno == number
    assert words in str(refusal)
    assert str(refusal).startswith("host: RTM_NEWLINK v0: ")
    assert host_tables.link(index=link.index) is not None
    assert link.mac not in {found.mac for found in pod_tables.links()}


def test_host_name_that_is_taken_does_not_matter_when_another_is_wanted(
    host_tables: Rtnl, pod_tables: Rtnl, pod: ScratchNetns
) -> None:
    """The name of arrival alone must be free."""

    pod.ip("link", "add", "v0", "type", "veth", "peer", "name", "p0")
    link = _named(host_tables, "v0")
    host_tables.apply(set_link(link.index, LinkChange(netns_fd=pod.fd, name="net1")))

    assert _named(pod_tables, "net1").mac == link.mac


@pytest.mark.parametrize(("wanted", "given"), [("net%d", "net0"), ("nété", "nété")])
def test_names_that_the_kernel_takes_all_the_same(
    wanted: str, given: str, host_tables: Rtnl, pod_tables: Rtnl, pod: ScratchNetns
) -> None:
    """A pattern is filled in, and UTF-8 is a name: a check of our own must come before."""

    link = _named(host_tables, "v0")
    host_tables.apply(set_link(link.index, LinkChange(netns_fd=pod.fd, name=wanted)))

    assert _named(pod_tables, given).mac == link.mac


def test_descriptor_that_is_no_namespace_is_refused(host_tables: Rtnl) -> None:
    """A closed descriptor and one of a file are told apart, and the link stays."""

    link = _named(host_tables, "v0")
    with Path(os.devnull).open("rb") as other:
        request = set_link(link.index, LinkChange(netns_fd=other.fileno()))
        assert _refusal(host_tables, request).errno == errno.EINVAL
    assert _refusal(host_tables, request).errno == errno.EBADF
    assert host_tables.link(index=link.index) == link


def test_loopback_is_immovable_in_the_kernels_words(host_tables: Rtnl, pod: ScratchNetns) -> None:
    """The link says so before anybody tries."""

    lo = _named(host_tables, "lo")
    if lo.immovable is None:
        pytest.skip("SKIPPED FOR WANT OF A KERNEL FEATURE: IFLA_NETNS_IMMUTABLE")

    assert lo.immovable
    refusal = _refusal(host_tables, set_link(lo.index, LinkChange(netns_fd=pod.fd), label="lo"))
    assert str(refusal) == (
        "host: RTM_NEWLINK lo: Invalid argument: The interface netns is immutable"
    )


def test_values_set_at_home_survive_the_move_and_sysctls_do_not(
    host_tables: Rtnl, pod_tables: Rtnl, pod: ScratchNetns
) -> None:
    """NW §0: what is staged on a link that is down comes along; IP settings start anew."""

    link = _named(host_tables, "v0")
    offload = type(link.offload)(
        gso_max_size=30000, gro_max_size=40000, gso_ipv4_max_size=20000, gro_ipv4_max_size=25000
    )
    staged = LinkChange(
        mtu=1300, mac="02:00:00:00:00:09", alias="a", txqlen=77, group=5, offload=offload
    )
    host_tables.apply(set_link(link.index, staged))
    host_tables.apply(add_altnames(link.index, ["alt"]))
    host_tables.apply(set_link(link.index, LinkChange(ipv4_conf={"arp_ignore": 1})))
    before = _named(host_tables, "v0")
    host_tables.apply(set_link(link.index, LinkChange(netns_fd=pod.fd, name="net1")))
    after = _named(pod_tables, "net1")

    assert (before.mtu, before.mac, before.alias) == (1300, "02:00:00:00:00:09", "a")
    assert (after.mtu, after.mac, after.alias) == (before.mtu, before.mac, before.alias)
    assert (after.txqlen, after.group, after.altnames) == (77, 5, ("alt",))
    assert after.offload == before.offload == offload
    assert (before.ipv4_conf["arp_ignore"], after.ipv4_conf["arp_ignore"]) == (1, 0)


def test_return_renames_in_the_pod_and_moves_without_a_name(
    host_tables: Rtnl, pod_tables: Rtnl, home: ScratchNetns, pod: ScratchNetns
) -> None:
    """NW §4.5: the host sees the link arrive under its own name."""

    link = _named(host_tables, "v0")
    host_tables.apply(set_link(link.index, LinkChange(netns_fd=pod.fd, name="net1")))
    away = _named(pod_tables, "net1")
    pod_tables.apply(set_link(away.index, LinkChange(name="v0")))
    pod_tables.apply(set_link(away.index, LinkChange(netns_fd=home.fd)))

    assert _named(host_tables, "v0").mac == link.mac
    assert [found.name for found in pod_tables.links()] == ["lo"]


def test_child_is_made_directly_in_the_pod(
    host_tables: Rtnl, pod_tables: Rtnl, pod: ScratchNetns
) -> None:
    """One message makes it there with kind, parent, address and size."""

    need_kind("macvlan")
    parent = _named(host_tables, "v0")
    change = LinkChange(netns_fd=pod.fd, mac="02:00:00:00:00:05", mtu=1400)
    host_tables.apply(new_link("net0", Macvlan(mode="bridge"), parent=parent.index, change=change))
    child = _named(pod_tables, "net0")

    assert (child.kind, child.kind_data) == ("macvlan", Macvlan(mode="bridge"))
    assert (child.parent, child.mac, child.mtu) == (parent.index, "02:00:00:00:00:05", 1400)
    assert child.parent_netnsid is not None
    assert [found.name for found in host_tables.links()] == ["lo", "v1", "v0"]
    pod_tables.apply(delete_link(child.index, label="net0"))
    assert pod_tables.link(name="net0") is None


@pytest.mark.parametrize(
    ("change", "number"),
    [
        (LinkChange(name="taken"), errno.EEXIST),
        (LinkChange(name="net1", mtu=9000), errno.EINVAL),
        (LinkChange(name="net1", ipv4_conf={"arp_ignore": 1}), errno.EAFNOSUPPORT),
        (LinkChange(name="net1", addr_gen_mode=1), errno.EAFNOSUPPORT),
    ],
)
def test_refused_child_does_not_exist_anywhere(
    change: LinkChange,
    number: int,
    host_tables: Rtnl,
    pod_tables: Rtnl,
    named_pod: ScratchNetns,
) -> None:
    """To make a child is atomic, unlike a move; IP settings are refused at that moment."""

    need_kind("macvlan")
    parent = _named(host_tables, "v0")
    before = pod_tables.links()
    wanted = attrs.evolve(change, name=None, netns_fd=named_pod.fd)
    request = new_link(change.name or "", Macvlan(), parent=parent.index, change=wanted)

    assert _refusal(host_tables, request).errno == number
    assert pod_tables.links() == before


def test_two_children_with_one_address_clash_only_when_set_up(
    host_tables: Rtnl, pod_tables: Rtnl, pod: ScratchNetns
) -> None:
    """A duplicate hardware address is no error at creation."""

    need_kind("macvlan")
    parent = _named(host_tables, "v0")
    change = LinkChange(netns_fd=pod.fd, mac="02:00:00:00:00:05")
    for name in ("net0", "net1"):
        host_tables.apply(new_link(name, Macvlan(), parent=parent.index, change=change))
    pod_tables.apply(set_link(_named(pod_tables, "net0").index, UP))

    refusal = _refusal(pod_tables, set_link(_named(pod_tables, "net1").index, UP))
    assert refusal.errno == errno.EADDRINUSE


def test_ends_of_a_cable_are_made_in_two_namespaces(
    host_tables: Rtnl, pod_tables: Rtnl, pod: ScratchNetns
) -> None:
    """The peer's namespace is named inside the kind's data."""

    host_tables.apply(new_link("c0", Veth(peer_name="c1", peer_netns_fd=pod.fd)))
    here, there = _named(host_tables, "c0"), _named(pod_tables, "c1")

    assert (here.parent, there.parent) == (there.index, here.index)
    assert here.parent_netnsid == host_tables.nsid_of(pod.path)


def test_altnames_come_and_go_and_clash(host_tables: Rtnl) -> None:
    """An altname finds its link, may be used once, and is refused where any name has it."""

    link = _named(host_tables, "v0")
    host_tables.apply(add_altnames(link.index, ["one", "two"]))

    assert _named(host_tables, "two").index == link.index
    assert _refusal(host_tables, add_altnames(link.index, ["v1"])).errno == errno.EEXIST
    assert _refusal(host_tables, add_altnames(link.index, ["one"])).errno == errno.EEXIST
    host_tables.apply(delete_altnames(link.index, ["one"]))
    assert _named(host_tables, "v0").altnames == ("two",)
    assert _refusal(host_tables, delete_altnames(link.index, ["one"])).errno == errno.ENOENT


def test_link_goes_up_and_down_and_counts_its_carrier(host_tables: Rtnl) -> None:
    """Flags are switched one by one, and the cable's state follows."""

    v0, v1 = _named(host_tables, "v0"), _named(host_tables, "v1")
    host_tables.apply(set_link(v0.index, UP))
    host_tables.apply(set_link(v1.index, UP))
    up = _named(host_tables, "v0")
    host_tables.apply(set_link(v1.index, DOWN))
    down = _named(host_tables, "v0")

    assert (up.up, up.carrier, up.operstate) == (True, True, "up")
    assert (down.up, down.carrier, down.operstate) == (True, False, "lowerlayerdown")
    assert down.carrier_down_count == up.carrier_down_count + 1


def test_port_knows_its_master_and_a_dump_finds_it(host_tables: Rtnl) -> None:
    """A dump narrowed to a master gives its ports alone, and 0 takes a port out."""

    need_kind("bridge")
    host_tables.apply(new_link("br0", "bridge"))
    bridge, link = _named(host_tables, "br0"), _named(host_tables, "v0")
    host_tables.apply(set_link(link.index, LinkChange(master=bridge.index)))

    (port,) = host_tables.links(master=bridge.index)
    assert (port.name, port.master, port.port_kind) == ("v0", bridge.index, "bridge")
    host_tables.apply(set_link(link.index, LinkChange(master=0)))
    assert host_tables.links(master=bridge.index) == ()
