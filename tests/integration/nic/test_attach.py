"""NICs into pods, on the kernel's own word."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.errors import BerthError, ClaimError, HostError
from berth.host.netlink.events import GROUP_LINK, EventSocket
from berth.host.netlink.link import Link
from berth.host.netlink.socket import send_now
from berth.nic.attach import Budget, NotAttached, attach, stage, verify
from berth.nic.execute import inode_of
from berth.nic.homecoming import bring_home, is_alive
from berth.nic.record import NicRecord, Stage
from berth.nic.switches import read_switches
from berth.runtime.threads import Decision
from tests.integration.nic.beds import (
    Bed,
    Pod,
    attached,
    child_config_of,
    child_of,
    config_of,
    put_setting,
    reserved,
    setting,
    staged,
)
from tests.integration.nic.senders import RTM_NEWROUTE, Before, Refusing, Watching
from tests.netns import need_kind

pytestmark = pytest.mark.root

WHOLE: dict[str, Any] = {
    "interface": {"mtu": 1400, "hardwareAddr": "02:00:00:00:00:07", "txQueueLen": 77},
    "addresses": [
        {"address": "192.0.2.5/24"},
        {"address": "2001:db8::5/64"},
        {"address": "198.51.100.1/32", "peer": "198.51.100.2"},
    ],
    "routes": [
        {"to": "default", "via": "203.0.113.9", "metric": 7},
        {"to": "203.0.113.0/24", "scope": "link"},
        {"to": "198.18.0.0/16", "via": "192.0.2.1", "source": "192.0.2.5", "mtu": 1300},
        {"to": "2001:db8:1::/48", "via": "2001:db8::1"},
        {"to": "198.19.0.0/16", "via": "192.0.2.1", "table": 99},
        {"to": "100.64.0.0/10", "via": "10.9.9.9", "onLink": True},
    ],
    "rules": [{"priority": 100, "from": "192.0.2.0/24", "table": 99}],
    "neighbors": [{"address": "192.0.2.9", "hardwareAddr": "02:00:00:00:00:99"}],
    "sysctls": {"ipv4": {"arp_ignore": 1, "rp_filter": 2}, "ipv6": {"accept_ra": 2}},
}


def in_time(limit_s: float = 60.0) -> Budget:
    """A budget of so many seconds from now."""
    budget = Budget(ends_at=0.0)
    return attrs.evolve(budget, ends_at=budget.clock() + limit_s)


def refused(pod: Pod, *records: NicRecord, **more: Any) -> NotAttached:
    """Why NICs could not be attached."""
    more = {"budget": in_time(), "decision": Decision(), **more}
    with pytest.raises(NotAttached) as caught:
        attach(records, pod.sandbox, **more)
    return caught.value


def test_attach_gives_all_that_was_asked_for(bed: Bed) -> None:
    """Link, addresses, routes, rule, neighbor and settings are there, as ``ip`` tells them."""

    pod = bed.pod()
    (there,) = attached(pod, staged(bed.veth("v0"), config_of(**WHOLE)))
    seen = pod.link("net1")
    routes = pod.netns.ip("route", "show", "table", "all")

    assert (Stage.ATTACHED, seen.index) == (there.stage, there.pod_index)
    assert there.network is not None
    assert there.network.ips == ("192.0.2.5/24", "2001:db8::5/64", "198.51.100.1/32")
    assert there.carrier
    assert pod.ips("net1") == ["192.0.2.5/24", "198.51.100.1/32", "2001:db8::5/64"]
    assert (seen.mtu, seen.mac, seen.txqlen) == (1400, "02:00:00:00:00:07", 77)
    assert (seen.ipv4_conf["arp_ignore"], seen.ipv4_conf["rp_filter"]) == (1, 2)
    assert "198.18.0.0/16 via 192.0.2.1 dev net1 src 192.0.2.5 mtu 1300" in routes.replace(
        "proto static ", ""
    )
    assert "100.64.0.0/10 via 10.9.9.9 dev net1" in routes
    assert "default via 203.0.113.9 dev net1" in routes
    assert "198.19.0.0/16 via 192.0.2.1 dev net1 table 99" in routes
    assert "2001:db8:1::/48 via 2001:db8::1" in pod.netns.ip("-6", "route")
    assert "100:\tfrom 192.0.2.0/24 lookup 99" in pod.netns.ip("rule")
    assert "02:00:00:00:00:99 PERMANENT" in pod.netns.ip("neigh", "show", "dev", "net1")
    assert setting(pod.netns, "ipv6/conf/net1/accept_ra") == "2"


def test_attach_shows_home_no_other_name(bed: Bed) -> None:
    """The host sees its link go under the name it had, and never another one."""

    record = staged(bed.veth("v0"))
    with EventSocket([GROUP_LINK]) as events:
        attached(bed.pod(), record)
        seen = [getattr(event, "value", None) for event in events.receive_nowait()]

    assert {link.name for link in seen if isinstance(link, Link)} <= {"v0", "v0p"}


def test_attach_when_pod_has_the_host_name(bed: Bed) -> None:
    """A host's ``eth0`` goes into a pod that has an ``eth0`` of its own, which is untouched."""

    pod = bed.pod()
    pod.netns.ip("link", "add", "eth0", "type", "veth", "peer", "name", "p0")
    before = pod.link("eth0")
    (there,) = attached(pod, staged(bed.veth("eth0")))

    assert pod.names() == {"eth0", "p0", "net1"}
    assert pod.link("eth0") == before
    assert there.network is not None
    assert there.network.interface_name == "net1"


@pytest.mark.parametrize("as_altname", [False, True])
def test_attach_when_pod_has_the_wanted_name(bed: Bed, *, as_altname: bool) -> None:
    """The NIC stays at home as it was, and the error names pod, name and holder."""

    pod = bed.pod()
    name = "other" if as_altname else "net1"
    pod.netns.ip("link", "add", name, "type", "veth", "peer", "name", "p0")
    if as_altname:
        pod.netns.ip("link", "property", "add", "dev", "other", "altname", "net1")
    link = bed.veth("v0")
    before = bed.seen("v0")
    record = staged(link)
    sender = Watching()
    error = refused(pod, record, send=sender)

    assert f"pod team/pod-1: has a link '{name}' that the name 'net1' finds" in str(error)
    assert str(error).endswith("every NIC of the pod is home")
    assert not any(message.moves for message in sender.sent)
    assert [record.stage for record in error.records] == [Stage.HOME]
    assert bed.seen("v0") == before


def test_attach_when_the_sandbox_is_the_host(bed: Bed) -> None:
    """A path that leads to the host's own namespace gives the host no address, and no new name."""

    link = bed.veth("v0")
    before = bed.seen("v0")
    record = staged(link, config_of(addresses=[{"address": "192.0.2.5/24"}]))
    sender = Watching()
    inode = Path("/proc/self/ns/net").stat().st_ino
    there = attrs.evolve(bed.pod().sandbox, netns_path="/proc/self/ns/net", netns_inode=inode)
    with pytest.raises(NotAttached, match="is the host's own network namespace") as caught:
        attach([record], there, budget=in_time(), decision=Decision(), send=sender)
    with pytest.raises(HostError, match="is the host's own network namespace"):
        inode_of(there.netns_path)

    assert [record.stage for record in caught.value.records] == [Stage.HOME]
    assert not any(message.moves for message in sender.sent)
    assert bed.seen("v0") == before
    assert not is_alive(there)


def test_attach_when_the_sandbox_is_no_network(bed: Bed) -> None:
    """A namespace of another kind has an inode too; the NIC is home, and not waited for."""

    link = bed.veth("v0")
    before = bed.seen("v0")
    record = staged(link)
    inode = Path("/proc/self/ns/mnt").stat().st_ino
    there = attrs.evolve(bed.pod().sandbox, netns_path="/proc/self/ns/mnt", netns_inode=inode)
    with pytest.raises(NotAttached, match="is a namespace of another kind") as caught:
        attach([record], there, budget=in_time(), decision=Decision())
    with pytest.raises(HostError, match="is a namespace of another kind"):
        inode_of(there.netns_path)

    assert [record.stage for record in caught.value.records] == [Stage.HOME]
    assert bed.seen("v0") == before
    assert not is_alive(there)


def test_namespace_when_its_path_is_a_fifo(tmp_path: Path) -> None:
    """Nobody writes into it: a thread that waited for that would be lost for all NICs."""

    fifo = tmp_path / "netns"
    os.mkfifo(fifo)
    told: list[str] = []

    def look() -> None:
        try:
            inode_of(str(fifo))
        except HostError as error:
            told.append(error.found)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(10)
    writer = os.open(fifo, os.O_RDWR | os.O_NONBLOCK) if thread.is_alive() else -1
    thread.join()
    if writer >= 0:
        os.close(writer)

    assert writer < 0
    assert told == ["is a plain file and no network namespace"]


def test_attach_when_the_wanted_name_is_its_own_altname(bed: Bed) -> None:
    """The altname gives way while it is in the pod, and is back at home."""

    link = bed.veth("v0")
    bed.home.ip("link", "property", "add", "dev", "v0", "altname", "net1", "altname", "long0")
    before = bed.seen("v0")
    (there,) = attached(pod := bed.pod(), staged(bed.link("v0")))

    assert pod.link("net1").altnames == ("long0",)
    assert bring_home(there).record.stage is Stage.HOME
    assert bed.seen("v0") == before
    assert bed.link("v0").index == link.index


def test_attach_when_an_altname_is_taken_in_the_pod(bed: Bed) -> None:
    """An altname of ours that the pod uses is dropped for the while."""

    bed.veth("v0")
    bed.home.ip("link", "property", "add", "dev", "v0", "altname", "p0", "altname", "long0")
    before = bed.seen("v0")
    pod = bed.pod()
    pod.netns.ip("link", "add", "eth0", "type", "veth", "peer", "name", "p0")
    (there,) = attached(pod, staged(bed.link("v0")))

    assert pod.link("net1").altnames == ("long0",)
    assert bring_home(there).record.stage is Stage.HOME
    assert bed.seen("v0") == before


def test_attach_when_the_name_is_taken_in_the_last_moment(bed: Bed) -> None:
    """The kernel leaves the link in the pod under a wrong name then; it comes home all the same."""

    link = bed.veth("v0")
    before = bed.seen("v0")
    pod = bed.pod()

    def take() -> None:
        pod.netns.ip("link", "add", "net1", "type", "veth", "peer", "name", "p0")

    error = refused(pod, staged(link), send=Before(lambda m: m.moves, take))

    assert "File exists" in str(error)
    assert pod.names() == {"net1", "p0"}
    assert bed.seen("v0") == before


@pytest.mark.parametrize(
    ("drift", "field"),
    [
        (("mtu", "1300"), "interface.mtu"),
        (("address", "02:00:00:00:00:08"), "interface.hardwareAddr"),
    ],
)
def test_attach_when_the_link_is_changed_in_the_last_moment(
    bed: Bed, drift: tuple[str, str], field: str
) -> None:
    """NW §10 row 3: it is in the pod by then, is taken home, and right with the next try."""

    link = bed.veth("v0")
    before = bed.seen("v0")
    pod = bed.pod()
    config = config_of(interface={"mtu": 1400, "hardwareAddr": "02:00:00:00:00:07"})

    def change() -> None:
        bed.home.ip("link", "set", "v0", *drift)

    error = refused(pod, staged(link, config), send=Before(lambda m: m.moves, change))

    assert f"the pod does not show {field}" in str(error)
    assert pod.names() == set()
    assert bed.seen("v0") == before
    attached(pod, error.records[0])
    there = pod.link("net1")
    assert (there.mtu, there.mac) == (1400, "02:00:00:00:00:07")


def test_attach_again_when_the_pod_changed_a_link_that_no_record_tells_of(bed: Bed) -> None:
    """The daemon died after the move and before its record: the NIC stays, as the pod has it."""

    pod = bed.pod()
    (there,) = attached(pod, staged(bed.veth("v0"), config_of(interface={"mtu": 1400})))
    unknown = attrs.evolve(there, stage=Stage.ATTACHING, network=None, pod_index=0)
    pod.netns.ip("link", "set", "net1", "mtu", "1300")
    (again,) = attached(pod, unknown)

    link = pod.link("net1")
    assert (again.stage, again.pod_index, link.mtu) == (Stage.ATTACHED, link.index, 1300)


def test_attach_when_pod_has_the_route(bed: Bed) -> None:
    """The pod's own default route stays, and the error names it; the NIC is home again."""

    pod = bed.pod()
    pod.netns.ip("link", "add", "eth0", "type", "veth", "peer", "name", "p0")
    for command in (
        "link set p0 up",
        "link set eth0 up",
        "addr add 10.0.0.2/24 dev eth0",
        "route add default via 10.0.0.1",
    ):
        pod.netns.ip(*command.split())
    routes = pod.netns.ip("route")
    link = bed.veth("v0")
    before = bed.seen("v0")
    config = config_of(
        addresses=[{"address": "192.0.2.5/24"}], routes=[{"to": "default", "via": "192.0.2.1"}]
    )
    error = refused(pod, staged(link, config))

    assert "route 0.0.0.0/0: is there already, via 10.0.0.1 out of link" in str(error)
    assert "a route of the pod is never replaced" in str(error)
    assert pod.netns.ip("route") == routes
    assert bed.seen("v0") == before


def test_attach_when_pod_has_ipv6_switched_off(bed: Bed) -> None:
    """A NIC that gets an IPv6 address has IPv6, whatever the runtime's default is."""

    pod = bed.pod()
    put_setting(pod.netns, "ipv6/conf/default/disable_ipv6", 1)
    config = config_of(addresses=[{"address": "2001:db8::5/64"}])
    attached(pod, staged(bed.veth("v0"), config))

    assert pod.ips("net1") == ["2001:db8::5/64"]


def test_attach_with_a_small_mtu(bed: Bed) -> None:
    """Below 1280 there is no IPv6 on a link, and none of its settings to be set."""

    config = config_of(interface={"mtu": 900}, addresses=[{"address": "192.0.2.5/24"}])
    bed.veth("v0")
    put_setting(bed.home, "ipv6/conf/v0/accept_ra", 0)
    before = bed.seen("v0")
    (there,) = attached(pod := bed.pod(), staged(bed.link("v0"), config))

    assert pod.link("net1").mtu == 900
    assert bring_home(there).record.stage is Stage.HOME
    assert bed.seen("v0") == before


def test_attach_with_features_turned(bed: Bed) -> None:
    """They are turned at home, travel with the link, and are as before when it is home again."""

    link = bed.veth("v0")
    before = read_switches(link.index, send=send_now)
    wished = {"tx-tcp-segmentation": False, "rx-gro": not before["feature/rx-gro"]}
    record = staged(link, config_of(ethtool={"features": wished}))
    pod = bed.pod()
    (there,) = attached(pod, record)
    in_pod = pod.netns.run(lambda: read_switches(there.pod_index, send=send_now))

    assert {name: in_pod[f"feature/{name}"] for name in wished} == wished
    assert bring_home(there).record.stage is Stage.HOME
    assert read_switches(link.index, send=send_now) == before


@pytest.mark.parametrize(
    ("features", "told"),
    [
        ({"rx-gor": True}, "the device has no feature rx-gor that can be turned"),
        ({"loopback": False, "rx-gro": True}, "the device has no feature loopback that can be"),
        (
            {"tx-scatter-gather": False, "tx-tcp-segmentation": True},
            "ethtool (v0): link {index}: does not take tx-tcp-segmentation: a feature may need",
        ),
    ],
)
def test_stage_with_features_that_cannot_be(bed: Bed, features: dict[str, bool], told: str) -> None:
    """A name that is none, a feature that is fixed, one that needs another: each is named."""

    link = bed.veth("v0")
    record = reserved(link, config_of(ethtool={"features": features}))
    with pytest.raises(BerthError) as caught:
        stage(record)

    assert told.format(index=link.index) in str(caught.value)
    assert bring_home(record).record.stage is Stage.HOME


def test_attach_again_changes_nothing(bed: Bed) -> None:
    """The hook again for the same sandbox asks, finds, and answers as before."""

    pod = bed.pod()
    parent = bed.veth("v1")
    first = attached(
        pod, staged(bed.veth("v0"), config_of(**WHOLE)), child_of(parent, child_config_of("net2"))
    )
    sender = Watching()
    again = attach(first, pod.sandbox, budget=in_time(), decision=Decision(), send=sender)

    assert again == first
    assert sender.changes == []


def test_attach_again_mends_what_is_missing(bed: Bed) -> None:
    """An address, a route, a setting and "up" that went are there again, each once."""

    pod = bed.pod()
    (first,) = attached(pod, staged(bed.veth("v0"), config_of(**WHOLE)))
    pod.netns.ip("addr", "del", "192.0.2.5/24", "dev", "net1")
    pod.netns.ip("link", "set", "net1", "down")
    put_setting(pod.netns, "ipv6/conf/net1/accept_ra", 0)
    put_setting(pod.netns, "ipv4/conf/net1/arp_ignore", 0)
    (again,) = attached(pod, first)

    assert again == first
    assert sorted(pod.ips("net1")) == ["192.0.2.5/24", "198.51.100.1/32", "2001:db8::5/64"]
    assert "198.18.0.0/16 via 192.0.2.1" in pod.netns.ip("route")
    assert pod.link("net1").ipv4_conf["arp_ignore"] == 1
    assert attached(pod, again) == (again,)


def test_attach_again_when_the_pod_renamed_it(bed: Bed) -> None:
    """A name that the application gave is its own affair; what containers are told follows it."""

    pod = bed.pod()
    (first,) = attached(pod, staged(bed.veth("v0")))
    for command in ("down", "name app0", "address 02:00:00:00:00:55", "up"):
        pod.netns.ip(
            "link", "set", "net1" if "app0" not in pod.names() else "app0", *command.split()
        )
    (again,) = attached(pod, first)

    assert again.network is not None
    assert (again.network.interface_name, again.pod_index) == ("app0", first.pod_index)
    assert verify([again]) == ()


def test_attach_of_children(bed: Bed) -> None:
    """Three children of one parent in one pod, each known by its address; the parent stays up."""

    need_kind("macvlan")
    parent = bed.veth("v0")
    before = bed.seen("v0")
    pod = bed.pod()
    records = [
        child_of(
            parent,
            child_config_of(
                f"net{n}",
                interface={"hardwareAddr": f"02:00:00:00:01:0{n}", "mtu": 1400},
                addresses=[{"address": f"192.0.2.{n}/24"}, {"address": f"2001:db8::{n}/64"}],
                sysctls={"ipv4": {"arp_ignore": 1}},
            ),
        )
        for n in (1, 2, 3)
    ]
    there = attached(pod, *records)

    assert pod.names() == {"net1", "net2", "net3"}
    assert [pod.link(f"net{n}").mac for n in (1, 2, 3)] == [
        f"02:00:00:00:01:0{n}" for n in (1, 2, 3)
    ]
    assert pod.link("net2").ipv4_conf["arp_ignore"] == 1
    assert pod.ips("net3") == ["192.0.2.3/24", "2001:db8::3/64"]
    assert verify(there) == ()
    assert bring_home(there[1]).record.stage is Stage.HOME
    assert pod.names() == {"net1", "net3"}
    assert verify(there) == (there[1],)
    assert bed.seen("v0") == before


def test_attach_of_a_child_when_its_address_is_in_use(bed: Bed) -> None:
    """The kernel says so only at "up"; nothing of the child is left."""

    need_kind("macvlan")
    parent = bed.veth("v0")
    taken = child_config_of(interface={"hardwareAddr": "02:00:00:00:01:01"})
    attached(bed.pod(), child_of(parent, taken))
    pod = bed.pod()
    error = refused(pod, child_of(parent, taken))

    assert "interface.up" in str(error)
    assert pod.names() == set()
    assert [record.stage for record in error.records] == [Stage.HOME]


def test_attach_of_three_when_the_last_fails(bed: Bed) -> None:
    """All NICs of a pod or none: every one is home as it was, and the error names the step."""

    names = ("v0", "v1", "v2")
    links = [bed.veth(name) for name in names]
    before = [bed.seen(name) for name in names]
    pod = bed.pod()
    records = [
        staged(link, config_of(f"net{n}", addresses=[{"address": f"192.0.{n}.5/24"}]))
        for n, link in enumerate(links)
    ]
    bad = attrs.evolve(
        records[2],
        config=config_of(
            "net2",
            addresses=[{"address": "192.0.2.5/24"}],
            routes=[{"to": "198.51.100.0/24", "via": "192.0.2.1"}],
        ),
    )
    error = refused(pod, *records[:2], bad, send=Refusing(lambda m: m.kind == RTM_NEWROUTE))

    assert "routes[0] (net2)" in str(error)
    assert pod.names() == set()
    assert [record.stage for record in error.records] == [Stage.HOME] * 3
    assert [bed.seen(name) for name in names] == before


def test_attach_when_it_was_given_up_meanwhile(bed: Bed) -> None:
    """A thread that ends after its caller answered "late" undoes what it did."""

    link = bed.veth("v0")
    before = bed.seen("v0")
    decision = Decision()
    assert decision.claim_late()
    error = refused(bed.pod(), staged(link), decision=decision)

    assert [record.stage for record in error.records] == [Stage.HOME]
    assert bed.seen("v0") == before


def test_attach_begins_none_for_which_there_is_no_time(bed: Bed) -> None:
    """With less left than three times the longest so far, the next NIC is not begun."""

    records = [staged(bed.veth(f"v{n}"), config_of(f"net{n}")) for n in (0, 1)]
    ticks = iter([0.0, 0.0, 1.0, 2.1, 2.1])
    sender = Watching()
    budget = Budget(ends_at=5.0, clock=lambda: next(ticks))
    error = refused(bed.pod(), *records, budget=budget, send=sender)

    assert "nic-v1: 2.90 s of the hook's time are left" in str(error)
    assert sum(message.moves for message in sender.sent) == 2  # in and out again
    assert {Stage.HOME} == {record.stage for record in error.records}


def test_attach_when_the_sandbox_is_gone(bed: Bed) -> None:
    """Nothing is moved, and the NIC is put back as it was before it was staged."""

    link = bed.veth("v0")
    before = bed.seen("v0")
    record = staged(link)
    pod = bed.pod()
    sandbox = pod.sandbox
    pod.netns.end()
    with pytest.raises(NotAttached, match="No such file") as caught:
        attach([record], sandbox, budget=in_time(), decision=Decision())

    assert [record.stage for record in caught.value.records] == [Stage.HOME]
    assert bed.seen("v0") == before


def test_attach_when_the_path_has_another_namespace(bed: Bed) -> None:
    """A path used again by another sandbox is not entered."""

    sandbox = attrs.evolve(bed.pod().sandbox, netns_inode=1)
    with pytest.raises(NotAttached, match="holds another network namespace by now"):
        attach([staged(bed.veth("v0"))], sandbox, budget=in_time(), decision=Decision())

    assert bed.link("v0").up


def test_stage_when_the_parent_is_down(bed: Bed) -> None:
    """A child whose parent is down would start without carrier; the message says what to do."""

    need_kind("macvlan")
    parent = bed.veth("v0")
    bed.home.ip("link", "set", "v0", "down")

    with pytest.raises(HostError, match=r"the parent v0 is down: .*; set v0 up"):
        child_of(parent)


def test_read_originals_when_the_link_is_gone(bed: Bed) -> None:
    """A link that went between the look at the machine and the prepare is named."""

    link = bed.veth("v0")
    bed.home.ip("link", "del", "v0")

    with pytest.raises(HostError, match=rf"nic-v0: its link \(index {link.index}\) has vanished"):
        reserved(link)


def test_verify_when_sandbox_is_gone_or_none(bed: Bed) -> None:
    """What cannot be looked at is not said to be there."""

    pod = bed.pod()
    (there,) = attached(pod, staged(bed.veth("v0")))
    pod.netns.end()

    assert verify([there]) == (there,)
    assert verify([attrs.evolve(there, sandbox=None)]) != ()


def test_not_attached_is_a_fault_of_the_claim() -> None:
    """Callers that know claims only catch it."""

    assert isinstance(NotAttached("words", ()), ClaimError)
    assert str(NotAttached("words", ())) == "words"
