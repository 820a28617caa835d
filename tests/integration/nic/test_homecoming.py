"""NICs come home from wherever they are, and are as they were: by ``ip``'s eyes, not by our own."""

from __future__ import annotations

import os
import resource

import attrs
import pytest

from berth.host.netlink.events import GROUP_LINK, EventSocket
from berth.host.netlink.link import IFF_UP, Link
from berth.host.netlink.socket import send_now
from berth.nic.homecoming import bring_home, find_ended, is_alive, take_name
from berth.nic.record import NicRecord, Stage
from berth.nic.switches import read_switches, write_switches
from tests.integration.nic.beds import (
    Bed,
    Pod,
    attached,
    child_config_of,
    child_of,
    config_of,
    put_setting,
    staged,
)
from tests.integration.nic.senders import (
    RTM_NEWNEIGH,
    Before,
    Died,
    DyingAfter,
    Refusing,
    Watching,
)
from tests.integration.nic.xdp import attach_xdp, has_bpf
from tests.netns import need_kind

pytestmark = pytest.mark.root


def home(record: NicRecord) -> NicRecord:
    """Bring a NIC home, which must succeed."""
    back = bring_home(record).record
    assert back.stage is Stage.HOME, back.fault
    return back


def in_pod(pod: Pod, *commands: str) -> None:
    """What an application with the right to do so does in its pod."""
    for command in commands:
        pod.netns.ip(*command.split())


def furnish(bed: Bed) -> None:
    """Give the host's v0 everything that a link can have."""
    for command in (
        "link set v0 mtu 1450 txqueuelen 321 group 5 alias uplink-of-rack-7",
        "link set v0 address 02:00:00:00:00:aa",
        "link set v0 allmulticast on",
        "link set v0 gso_max_size 40000 gro_max_size 30000",
        "link property add dev v0 altname enp1s0 altname a-very-long-name-of-a-link",
        "addr add 192.0.2.1/24 broadcast 192.0.2.255 dev v0",
        "addr add 192.0.2.2/24 dev v0 label v0:2",
        "addr add 198.51.100.1 peer 198.51.100.2/32 dev v0",
        "addr add 2001:db8::1/64 dev v0 nodad",
        "route add 203.0.113.0/24 dev v0 scope link",
        "route add 198.18.0.0/16 via 192.0.2.9 metric 50 mtu 1400",
        "route add 198.19.0.0/16 via 203.0.113.7 table 77",
        "-6 route add 2001:db8:5::/48 via 2001:db8::9",
        "neigh add 192.0.2.9 lladdr 02:00:00:00:00:99 dev v0",
        "neigh add 2001:db8::9 lladdr 02:00:00:00:00:98 dev v0",
    ):
        bed.home.ip(*command.split())
    put_setting(bed.home, "ipv4/conf/v0/rp_filter", 2)
    put_setting(bed.home, "ipv4/conf/v0/arp_ignore", 1)
    put_setting(bed.home, "ipv6/conf/v0/accept_ra", 0)
    put_setting(bed.home, "ipv6/conf/v0/dad_transmits", 3)


CHILD = child_config_of("net2", interface={"hardwareAddr": "02:00:00:00:01:02"})
WILD = (
    "link set net1 down",
    "link set net1 name wild0",
    "link set wild0 address 02:00:00:00:00:66",
    "link set wild0 mtu 777 txqueuelen 9 group 8 alias taken-over",
    "link set wild0 gso_max_size 20000",
    "link set wild0 promisc on allmulticast off arp off multicast off",
    "link property add dev wild0 altname wild-alt altname v0",
    "link set wild0 up",
    "addr add 10.66.0.1/16 dev wild0",
    "neigh add 10.66.0.9 lladdr 02:00:00:00:00:01 dev wild0",
)


@pytest.mark.parametrize("furnished", [False, True])
def test_return_when_the_pod_changed_everything(bed: Bed, *, furnished: bool) -> None:
    """Name, address, MTU, alias, altnames, flags, sizes, routes, settings: all as they were."""

    bed.veth("v0")
    if furnished:
        furnish(bed)
    before = bed.seen("v0")
    pod = bed.pod()
    (there,) = attached(
        pod, staged(bed.link("v0"), config_of(addresses=[{"address": "10.1.1.1/8"}]))
    )
    in_pod(pod, *WILD)
    back = home(there)

    assert bed.seen("v0") == before
    assert (back.sandbox, back.pod_index, back.network, back.fault) == (None, 0, None, "")
    assert pod.names() == set()


def test_return_shows_the_host_one_arrival(bed: Bed) -> None:
    """The host sees the link under its own name and address from the first moment."""

    link = bed.veth("v0")
    pod = bed.pod()
    (there,) = attached(pod, staged(link))
    in_pod(pod, *WILD)
    with EventSocket([GROUP_LINK]) as events:
        home(there)
        seen = [getattr(event, "value", None) for event in events.receive_nowait()]
    came = [link for link in seen if isinstance(link, Link) and link.name != "v0p"]

    assert {(one.name, one.mac) for one in came} == {("v0", link.mac)}


def test_return_of_a_link_that_was_down(bed: Bed) -> None:
    """A link that nobody had set up is down again, with the neighbors and addresses it had."""

    bed.veth("v0")
    for command in ("link set v0 down", "addr add 192.0.2.1/24 dev v0"):
        bed.home.ip(*command.split())
    before = bed.seen("v0")
    (there,) = attached(bed.pod(), staged(bed.link("v0")))
    home(there)

    assert bed.seen("v0") == before
    assert not bed.link("v0").flags & IFF_UP


def test_return_takes_an_xdp_program_off(bed: Bed) -> None:
    """A program that the pod attached would see the next holder's packets; it is gone."""

    if not has_bpf():
        pytest.skip("SKIPPED FOR WANT OF A KERNEL FEATURE: bpf system call")
    bed.veth("v0")
    before = bed.seen("v0")
    pod = bed.pod()
    (there,) = attached(pod, staged(bed.link("v0")))
    pod.netns.run(lambda: attach_xdp(pod.link("net1").index))
    assert pod.link("net1").xdp is not None
    home(there)

    assert bed.link("v0").xdp is None
    assert bed.seen("v0") == before


def test_return_turns_ethtools_switches_back(bed: Bed) -> None:
    """A feature that the pod switched off would slow the next holder down; it is on again."""

    link = bed.veth("v0")
    before = read_switches(link.index, send=send_now)
    assert before["feature/tx-tcp-segmentation"]
    pod = bed.pod()
    (there,) = attached(pod, staged(link))
    wild = {"feature/tx-tcp-segmentation": False, "feature/rx-gro": not before["feature/rx-gro"]}
    pod.netns.run(lambda: write_switches(there.pod_index, wild, send=send_now))
    home(there)

    assert read_switches(link.index, send=send_now) == before


def test_return_again_does_nothing(bed: Bed) -> None:
    """A NIC that is home is looked at and left alone."""

    bed.veth("v0")
    furnish(bed)
    (there,) = attached(bed.pod(), staged(bed.link("v0")))
    back = home(there)
    sender = Watching()

    assert bring_home(back, send=sender).record == back
    assert sender.changes == []


def test_return_of_what_was_only_staged(bed: Bed) -> None:
    """What a failed or ended prepare set at home is taken back, with what going down cost."""

    bed.veth("v0")
    furnish(bed)
    before = bed.seen("v0")
    config = config_of(interface={"mtu": 1300, "hardwareAddr": "02:00:00:00:00:07"})
    record = staged(bed.link("v0"), config)
    assert bed.link("v0").mtu == 1300
    home(record)

    assert bed.seen("v0") == before


def test_return_when_the_namespace_ended(bed: Bed) -> None:
    """A virtual link dies with its pod's namespace and is lost; a child is just gone."""

    need_kind("macvlan")
    parent = bed.veth("v1")
    pod = bed.pod()
    moved, child = attached(pod, staged(bed.veth("v0")), child_of(parent, CHILD))
    pod.netns.end()
    lost = bring_home(moved)

    assert (lost.record.stage, lost.seen) == (Stage.LOST, False)
    assert lost.record.fault == "its link exists no more"
    assert bring_home(child).record.stage is Stage.HOME


def test_return_when_the_pod_deleted_the_link(bed: Bed) -> None:
    """A link that somebody deleted is lost, not waited for."""

    pod = bed.pod()
    (there,) = attached(pod, staged(bed.veth("v0")))
    in_pod(pod, "link del net1")

    assert bring_home(there).record.stage is Stage.LOST


def test_return_when_the_name_is_taken(bed: Bed) -> None:
    """The NIC is home under a name of its index, put back in all else, and says so."""

    link = bed.veth("v0", mac="02:00:00:00:00:aa")
    before = bed.seen("v0")
    (there,) = attached(bed.pod(), staged(link))
    bed.home.ip("link", "add", "v0", "type", "veth", "peer", "name", "foreign")
    back = home(there)

    assert back.home_name == f"berth{link.index}"
    seen = bed.seen(back.home_name)
    assert seen.pop("link") == {**before.pop("link"), "ifname": back.home_name}
    assert seen == before
    assert bed.link("v0").mac != "02:00:00:00:00:aa"


def test_return_when_the_name_is_taken_as_an_altname(bed: Bed) -> None:
    """A name that finds a link is taken, even if it is not the link's first one."""

    link = bed.veth("v0")
    bed.veth("other")
    (there,) = attached(bed.pod(), staged(link))
    bed.home.ip("link", "property", "add", "dev", "other", "altname", "v0")

    assert home(there).home_name == f"berth{link.index}"


def test_return_when_name_spare_name_and_index_are_taken(bed: Bed) -> None:
    """It comes home under a further name and a new index, which is its identity from then on."""

    link = bed.veth("v0")
    pod = bed.pod()
    (there,) = attached(pod, staged(link))
    bed.home.ip("link", "add", "v0", "index", str(link.index), "type", "veth", "peer", "name", "x")
    for n in range(link.index, link.index + 40):
        if n != link.index:
            bed.home.ip("link", "add", f"berth{n}", "type", "bridge")
    foreign = bed.link("v0")
    back = home(there)
    now = bed.link(back.home_name)

    assert now.mac == link.mac
    assert now.index != link.index
    assert back.originals is not None
    assert back.originals.index == now.index
    assert back.identity == f"link:{back.boot_id}:{now.index}"
    assert bed.link("v0") == foreign


def test_return_when_names_are_taken_in_pod_and_at_home(bed: Bed) -> None:
    """The host name is taken in the pod, the in-pod name at home: one message brings it home."""

    link = bed.veth("v0")
    bed.veth("net1", peer="n1p")
    before = bed.seen("v0")
    pod = bed.pod()
    (there,) = attached(pod, staged(link))
    in_pod(pod, "link add v0 type veth peer name x")
    home(there)

    assert bed.seen("v0") == before
    assert bed.link("v0").mac == link.mac
    assert pod.names() == {"v0", "x"}


def test_return_when_the_host_name_is_taken_in_the_pod_alone(bed: Bed) -> None:
    """It arrives under its in-pod name then, and gets its own at home."""

    link = bed.veth("v0")
    before = bed.seen("v0")
    pod = bed.pod()
    (there,) = attached(pod, staged(link))
    in_pod(pod, "link add v0 type veth peer name x")
    home(there)

    assert bed.seen("v0") == before
    assert pod.names() == {"v0", "x"}


def test_return_takes_the_rules_along(bed: Bed) -> None:
    """A rule does not go with its link; a pod that lives on is left without it."""

    pod = bed.pod()
    rules = pod.netns.ip("rule")
    config = config_of(
        addresses=[{"address": "192.0.2.5/24"}],
        routes=[{"to": "198.51.100.0/24", "via": "192.0.2.1", "table": 99}],
        rules=[{"priority": 100, "from": "192.0.2.0/24", "table": 99}],
    )
    (there,) = attached(pod, staged(bed.veth("v0"), config))
    assert pod.netns.ip("rule") != rules
    home(there)

    assert pod.netns.ip("rule") == rules


def test_return_leaves_a_foreign_link_of_the_same_index_alone(bed: Bed) -> None:
    """After the NIC died in its pod its index at home may be another link's: no identity."""

    link = bed.veth("v0")
    pod = bed.pod()
    (there,) = attached(pod, staged(link))
    assert there.pod_index == link.index
    pod.netns.end()
    bed.home.ip(
        "link", "add", "new0", "index", str(link.index), "type", "veth", "peer", "name", "x"
    )
    before = bed.link("new0")

    assert bring_home(there).record.stage is Stage.LOST
    assert bed.link("new0") == before


def test_return_after_a_death_between_move_and_restore(bed: Bed) -> None:
    """At home with the pod's values when the process died: found by what it was, and put back."""

    bed.veth("v0")
    furnish(bed)
    before = bed.seen("v0")
    pod = bed.pod()
    # Its index is taken in the pod, so that only kind and address tell it at home.
    in_pod(pod, f"link add other index {bed.link('v0').index} type veth peer name x")
    (there,) = attached(pod, staged(bed.link("v0")))
    in_pod(pod, *WILD)
    with pytest.raises(Died):
        bring_home(there, send=DyingAfter(lambda message: message.moves))
    assert "v0" not in pod.names()
    home(there)

    assert bed.seen("v0") == before


def test_return_when_the_kernel_refuses_a_value(bed: Bed) -> None:
    """Not as it was: it stays at "returning", with the field and the words, until it is."""

    link = bed.veth("v0")
    before = bed.seen("v0")
    (there,) = attached(bed.pod(), staged(link, config_of(interface={"mtu": 1400})))
    result = bring_home(there, send=Refusing(lambda m: m.sets(4) is not None))

    assert (result.record.stage, result.seen) == (Stage.RETURNING, True)
    assert "(v0): host: RTM_NEWLINK v0: Operation not permitted" in result.record.fault
    home(result.record)
    assert bed.seen("v0") == before


def test_return_when_the_route_is_somebody_elses_now(bed: Bed) -> None:
    """A route that the host gave to another link meanwhile is not taken from it."""

    bed.veth("v0")
    bed.veth("v1")
    for command in (
        "addr add 192.0.2.1/24 dev v0",
        "route add 198.51.100.0/24 via 192.0.2.9",
    ):
        bed.home.ip(*command.split())
    (there,) = attached(bed.pod(), staged(bed.link("v0")))
    bed.home.ip("route", "add", "198.51.100.0/24", "dev", "v1")
    result = bring_home(there)

    assert result.record.stage is Stage.RETURNING
    assert "route 198.51.100.0/24: is there already, via link out of link" in result.record.fault
    bed.home.ip("route", "del", "198.51.100.0/24", "dev", "v1")
    home(result.record)
    assert "198.51.100.0/24 via 192.0.2.9 dev v0" in bed.home.ip("route")


def test_return_when_a_neighbor_was_learnt_meanwhile(bed: Bed) -> None:
    """An entry that the kernel learnt first gives way to the one that somebody had set."""

    bed.veth("v0")
    furnish(bed)
    before = bed.seen("v0")
    (there,) = attached(bed.pod(), staged(bed.link("v0")))

    def learn() -> None:
        bed.home.ip(
            *[
                "neigh",
                "replace",
                "192.0.2.9",
                "lladdr",
                "02:00:00:00:00:77",
                "dev",
                "v0",
                "nud",
                "stale",
            ]
        )

    sender = Before(lambda m: m.kind == RTM_NEWNEIGH, learn)
    back = bring_home(there, send=sender).record

    assert back.stage is Stage.HOME, back.fault
    assert bed.seen("v0") == before


def test_return_when_the_path_is_a_plain_file(bed: Bed) -> None:
    """What lies there is no namespace: whether it lives cannot be told, so nothing is lost."""

    pod = bed.pod()
    (there,) = attached(pod, staged(bed.veth("v0")))
    plain = pod.netns.path.with_name("plain")
    plain.touch()
    assert there.sandbox is not None
    sandbox = attrs.evolve(there.sandbox, netns_path=str(plain))
    result = bring_home(attrs.evolve(there, sandbox=sandbox))

    assert result.record.stage is Stage.RETURNING
    assert "is a plain file and no network namespace" in result.record.fault
    assert is_alive(sandbox)
    home(there)


def test_return_when_no_descriptor_is_left(bed: Bed) -> None:
    """A process out of descriptors does not take that for the end of a pod."""

    (there,) = attached(bed.pod(), staged(bed.veth("v0")))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        result = bring_home(there)
        assert there.sandbox is not None
        alive = is_alive(there.sandbox)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert (result.record.stage, alive) == (Stage.RETURNING, True)
    assert "Too many open files" in result.record.fault
    home(there)


def test_find_ended_tells_pods_that_are_over_from_those_that_live(bed: Bed) -> None:
    """A pod that ended, one that lives, a NIC that was sent home by hand, one that is staged."""

    pods = [bed.pod() for _ in range(3)]
    nics = [attached(pod, staged(bed.veth(f"v{n}")))[0] for n, pod in enumerate(pods)]
    pods[0].netns.end()
    in_pod(pods[2], f"link set net1 netns {os.getpid()}")

    assert find_ended([*nics, staged(bed.veth("v9"))]) == (True, False, True, False)


def test_take_name_when_it_is_free_and_when_not(bed: Bed) -> None:
    """A link at home under a spare name gets its own back, and keeps what the host did with it."""

    bed.veth("v0")
    (there,) = attached(bed.pod(), staged(bed.link("v0")))
    bed.home.ip("link", "add", "v0", "type", "veth", "peer", "name", "foreign")
    back = home(there)
    spare = back.home_name
    for command in (
        f"addr add 192.0.2.1/24 dev {spare}",
        f"addr add 2001:db8::1/64 dev {spare} nodad",
        f"link set {spare} mtu 1300",
        f"route add 198.51.100.0/24 via 192.0.2.9 dev {spare}",
        f"link property add dev {spare} altname v0-alt",
    ):
        bed.home.ip(*command.split())
    before = bed.seen(spare)

    assert take_name(back).record == back
    bed.home.ip("link", "del", "v0")
    named = take_name(back).record
    assert (named.stage, named.home_name) == (Stage.HOME, "")
    after = bed.seen("v0")
    assert after.pop("link") == {**before.pop("link"), "ifname": "v0"}
    assert after["routes"] == [route.replace(spare, "v0") for route in before.pop("routes")]
    assert [a["local"] for a in after["addresses"]] == [a["local"] for a in before["addresses"]]


def test_take_name_when_the_link_is_gone(bed: Bed) -> None:
    """Nothing is left to be renamed."""

    (there,) = attached(bed.pod(), staged(bed.veth("v0")))
    bed.home.ip("link", "add", "v0", "type", "veth", "peer", "name", "foreign")
    back = home(there)
    bed.home.ip("link", "del", back.home_name)

    assert take_name(back).record.stage is Stage.LOST


def test_return_of_a_child_that_the_pod_changed(bed: Bed) -> None:
    """A child is known by its parent and its index, whatever the pod made of its address."""

    need_kind("macvlan")
    pod = bed.pod()
    parent = bed.veth("v0")
    there = attached(pod, child_of(parent), child_of(parent, CHILD))
    in_pod(pod, "link set net1 down", "link set net1 address 02:00:00:00:00:66 name wild0")
    back = bring_home(there[0]).record

    assert back.stage is Stage.HOME
    assert pod.names() == {"net2"}
