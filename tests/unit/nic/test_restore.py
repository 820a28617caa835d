"""From how a link is at home to how it was: only what differs, as the kernel takes it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.host.netlink.address import IFA_F_DEPRECATED, IFA_F_PERMANENT
from berth.host.netlink.link import (
    IFF_ALLMULTI,
    IFF_MULTICAST,
    IFF_NOARP,
    IFF_PROMISC,
    IFF_UP,
    Offload,
    Xdp,
)
from berth.host.netlink.vf import Vf
from berth.nic.restore import differences, free_name, restore
from berth.nic.vf import NO_MAC, VfSeat
from berth.nic.view import View
from tests.unit.nic.links import (
    SIZES,
    address_of,
    golden,
    link_of,
    neighbor_of,
    originals_of,
    route_of,
    told,
)

LINK = link_of("ens1f0", altnames=("enp1s0",), alias="rack 7", group=5)
ORIGINALS = originals_of(
    LINK,
    addresses=(address_of("192.0.2.1/24", label="ens1f0"), address_of("2001:db8::1/64")),
    routes=(route_of("198.18.0.0/16", "192.0.2.9"), route_of("203.0.113.0/24", scope=253)),
    neighbors=(neighbor_of("192.0.2.9", "02:00:00:00:00:99"),),
    sysctls={"ipv4/rp_filter": 2},
    switches={"feature/rx-gro": True},
)
THERE = View(
    link=LINK,
    addresses=ORIGINALS.addresses,
    routes=ORIGINALS.routes,
    neighbors=ORIGINALS.neighbors,
    sysctls={"ipv4/rp_filter": 2, "ipv6/accept_dad": 1},
    fresh={"ipv4/rp_filter": 0, "ipv6/accept_dad": 1},
    switches={"feature/rx-gro": True, "feature/other": False},
)


def fields(view: View, taken: Any = frozenset(), originals: Any = ORIGINALS) -> list[str]:
    """The fields of the steps that are due."""
    return [step.field for step in restore(originals, view, taken)]


def with_link(**more: Any) -> View:
    """The link as it was, but for some of its values."""
    return attrs.evolve(THERE, link=attrs.evolve(LINK, **more))


def test_nothing_is_due_when_all_is_as_it_was() -> None:
    """A link that is home is left alone."""

    assert restore(ORIGINALS, THERE, set()) == ()
    assert differences(ORIGINALS, THERE, set()) == ()


def test_whole_way_back() -> None:
    """Everything that a pod can leave, and all that a move takes away, in the kernel's order."""

    wild = attrs.evolve(
        LINK,
        name="wild0",
        mtu=777,
        mac="02:00:00:00:00:66",
        broadcast="ff:ff:ff:ff:ff:00",
        txqlen=9,
        group=8,
        alias="taken over",
        altnames=("ens1f0", "wild-alt"),
        flags=IFF_PROMISC | IFF_ALLMULTI | IFF_NOARP,
        xdp=Xdp(mode=2, program_id=4),
        offload=attrs.evolve(SIZES, gso_max_size=20000),
    )
    view = View(
        link=wild,
        addresses=(address_of("10.66.0.1/16"),),
        sysctls={"ipv4/rp_filter": 0, "ipv6/accept_dad": -1},
        fresh=THERE.fresh,
        switches={"feature/rx-gro": False},
    )

    assert told(restore(ORIGINALS, view, set())) == golden("restore")


@pytest.mark.parametrize(
    ("more", "due"),
    [
        ({"mtu": 1400}, ["up", "mtu", "flags", "addresses", "routes", "routes", "neighbors"]),
        ({"mtu": 1400, "flags": IFF_MULTICAST}, ["mtu", "flags"]),
        ({"flags": IFF_UP | IFF_MULTICAST | IFF_PROMISC}, None),
        ({"alias": ""}, None),
        ({"xdp": Xdp(mode=1, program_id=9)}, None),
        ({"offload": Offload()}, None),
    ],
)
def test_link_that_goes_down_loses_what_hangs_on_it(
    more: dict[str, Any], due: list[str] | None
) -> None:
    """IPv6 addresses, routes and neighbors of a link go when it goes down, and come back."""

    found = fields(with_link(**more))

    if due is None:
        assert (found[0], found[-5:]) == (
            "up",
            ["flags", "addresses", "routes", "routes", "neighbors"],
        )
    else:
        assert found == due


def test_flags_alone_are_set_in_place() -> None:
    """A link that is up and should be down goes down; nothing else is touched."""

    originals = attrs.evolve(ORIGINALS, flags=IFF_MULTICAST, routes=())

    assert told(restore(originals, THERE, set())) == [
        (
            f"home flags: SetLink(change=LinkChange(flags_on={IFF_MULTICAST}, "
            f"flags_off={IFF_UP | IFF_PROMISC | IFF_ALLMULTI | IFF_NOARP}))"
        )
    ]


def test_routes_wait_for_a_link_that_is_up() -> None:
    """A link that was down had none; what somebody put there since is not ours to make."""

    originals = attrs.evolve(ORIGINALS, flags=IFF_MULTICAST)
    view = attrs.evolve(with_link(flags=IFF_MULTICAST), routes=())

    assert restore(originals, view, set()) == ()


SEAT = VfSeat(pf="0000:41:00.0", index=9, number=2)
WAS = Vf(number=2, mac=NO_MAC, spoof_check=True, trust=False, link_state=0)
OF_VF = attrs.evolve(ORIGINALS, vf=WAS)


def of_vf(now: Vf, was: Vf = WAS, **link: Any) -> list[str]:
    """What is set through the PF, and the link's own address, of what is due."""
    view = attrs.evolve(with_link(**link), vf=now)
    due = restore(attrs.evolve(OF_VF, vf=was), view, set(), seat=SEAT)
    return [line for line in told(due) if "vf." in line or line.startswith("home mac")]


def test_vf_is_as_it_was() -> None:
    """Values that its PF shows as before are left alone, and so is an address of its own choice."""

    for mac in (NO_MAC, "", LINK.mac):
        assert of_vf(attrs.evolve(WAS, mac=mac)) == []


def test_vf_gets_back_what_its_pf_had_set() -> None:
    """Its address is given free before it takes its own back; the other values come after that."""

    now = attrs.evolve(
        WAS,
        mac="02:00:00:00:00:66",
        vlan=7,
        vlan_qos=3,
        spoof_check=False,
        trust=True,
        link_state=1,
        max_rate_mbps=100,
    )

    assert of_vf(now, mac="02:00:00:00:00:66") == golden("restore-vf")


def test_vf_gets_back_an_address_that_was_set() -> None:
    """One that its PF had set is set again, whatever the VF has now."""

    was = attrs.evolve(WAS, mac="02:00:00:00:00:77", vlan=9, vlan_protocol=0x88A8)

    first, second = of_vf(WAS, was)
    assert first.endswith("change=VfChange(mac=02:00:00:00:00:77))")
    assert second.endswith("change=VfChange(vlan=VfVlan(id=9, protocol=34984)))")
    assert of_vf(was, was) == []


def test_vf_of_which_nothing_was_read_is_left_alone() -> None:
    """A NIC that is no VF, and one whose PF was not seen, have nothing to be put back there."""

    view = attrs.evolve(THERE, vf=attrs.evolve(WAS, trust=True))

    assert restore(ORIGINALS, view, set(), seat=SEAT) == ()
    assert restore(OF_VF, view, set()) == ()


def test_foreign_xdp_program_is_taken_off_and_the_own_one_left() -> None:
    """A program that was there before is the host's."""

    originals = attrs.evolve(ORIGINALS, xdp_program_id=9)

    assert restore(originals, with_link(xdp=Xdp(mode=1, program_id=9)), set()) == ()
    assert "xdp" in fields(with_link(xdp=Xdp(mode=1, program_id=8)), originals=originals)


def test_name_that_is_taken() -> None:
    """A spare name of the index then, with a further part where that is taken too."""

    assert free_name(ORIGINALS, 7, set()) == "ens1f0"
    assert free_name(ORIGINALS, 7, {"ens1f0"}) == "berth7"
    assert free_name(ORIGINALS, 7, {"ens1f0", "berth7"}) == "berth7x0"
    assert free_name(ORIGINALS, 7, {"ens1f0", "berth7", "berth7x0"}) == "berth7x1"
    assert restore(ORIGINALS, with_link(name="berth3"), {"ens1f0"}) == ()
    assert "name" in fields(with_link(name="net1"), taken={"ens1f0"})


def test_altnames() -> None:
    """The pod's go, the host's come back, but those that another link has by now."""

    view = with_link(altnames=("pod-name",), flags=IFF_MULTICAST)
    steps = told(restore(ORIGINALS, view, set()))

    assert steps[:2] == [
        "home altnames: Altnames(remove=[pod-name])",
        "home altnames: Altnames(add=[enp1s0])",
    ]
    assert "home altnames: Altnames(add=[enp1s0])" not in told(restore(ORIGINALS, view, {"enp1s0"}))


def test_altname_that_is_the_own_name() -> None:
    """Udev gives a link that came as net1 its own name as a further one: it goes before."""

    view = with_link(name="net1", altnames=("enp1s0", "ens1f0"), flags=IFF_MULTICAST)

    assert told(restore(ORIGINALS, view, set()))[:2] == [
        "home altnames: Altnames(remove=[ens1f0])",
        "home name: SetLink(change=LinkChange(name=ens1f0))",
    ]


def test_settings_that_followed_from_a_pods_flags() -> None:
    """One that was as on any fresh link is put back too, if it is not so now."""

    view = attrs.evolve(
        THERE,
        link=attrs.evolve(LINK, flags=IFF_MULTICAST),
        sysctls={"ipv4/rp_filter": 2, "ipv6/accept_dad": -1},
    )

    assert told(restore(ORIGINALS, view, set()))[0] == (
        "home sysctls: PutSettings(values={'ipv6/accept_dad': 1})"
    )


def test_settings_that_the_link_does_not_have() -> None:
    """Without IPv6 there is nothing to set, and nothing to report as missing."""

    originals = attrs.evolve(ORIGINALS, sysctls={"ipv6/accept_ra": 0})
    view = attrs.evolve(THERE, sysctls={})

    assert differences(originals, view, set()) == ()


def test_default_that_became_what_was_set() -> None:
    """A setting that is as it was is not missed because a fresh link has it by now."""

    view = attrs.evolve(THERE, fresh={"ipv4/rp_filter": 2})

    assert restore(ORIGINALS, view, set()) == ()


def test_addresses_of_the_pod_go_and_learnt_ones_stay() -> None:
    """What somebody set and was not there goes; what the network gave goes by itself."""

    pods = address_of("10.0.0.1/8")
    learnt = address_of("2001:db8:7::1/64", flags=0)
    local = address_of("fe80::1/64", scope=253)
    view = attrs.evolve(THERE, addresses=(*THERE.addresses, pods, learnt, local))

    assert told(restore(ORIGINALS, view, set())) == [
        (
            "home addresses: DropAddress(address=Address(index=3, ip=10.0.0.1/8, "
            f"flags={IFA_F_PERMANENT}))"
        )
    ]


def test_address_comes_back_as_it_was() -> None:
    """Own label, lifetime and flags are kept; the plain label follows the link's name of now."""

    flags = IFA_F_PERMANENT | IFA_F_DEPRECATED
    originals = attrs.evolve(
        ORIGINALS,
        addresses=(
            address_of("192.0.2.1/24", label="ens1f0"),
            address_of("192.0.2.2/24", label="ens1f0:2"),
            address_of("2001:db8::1/64", flags=flags, preferred_s=0),
        ),
        flags=IFF_MULTICAST,
    )
    view = attrs.evolve(with_link(flags=IFF_MULTICAST), addresses=())
    lines = told(restore(originals, view, set()))

    assert lines == [
        "home addresses: PutAddress(address=Address(index=3, ip=192.0.2.1/24, flags=128))",
        (
            "home addresses: PutAddress(address=Address(index=3, ip=192.0.2.2/24, "
            "label=ens1f0:2, flags=128))"
        ),
        (
            "home addresses: PutAddress(address=Address(index=3, ip=2001:db8::1/64, flags=162, "
            "preferred_s=0))"
        ),
    ]


def test_differences_are_told_by_field() -> None:
    """Each says what is still to be set, for a line in the journal."""

    view = with_link(mtu=1400, flags=IFF_MULTICAST)

    assert differences(ORIGINALS, view, set()) == (
        "mtu is not restored: mtu=1500",
        (
            f"flags is not restored: flags_on={IFF_UP | IFF_MULTICAST}, "
            f"flags_off={IFF_PROMISC | IFF_ALLMULTI | IFF_NOARP}"
        ),
    )
