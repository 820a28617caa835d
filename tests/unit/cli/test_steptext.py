"""Each kind of step in words, and each thing that it may carry."""

from __future__ import annotations

import typing
from ipaddress import ip_address, ip_interface, ip_network

import pytest

from berth.cli.steptext import words
from berth.host.netlink.address import IFA_F_NODAD, IFA_F_NOPREFIXROUTE, Address
from berth.host.netlink.kinds import Macvlan, Vlan
from berth.host.netlink.link import IFF_ALLMULTI, IFF_PROMISC, IFF_UP, Offload
from berth.host.netlink.linkrequest import LinkChange
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.route import RTNH_F_ONLINK, Hop, Route, mtu_metric
from berth.host.netlink.rule import Rule
from berth.host.netlink.vf import VfChange, VfRate, VfVlan
from berth.nic.steps import (
    Altnames,
    Change,
    DropAddress,
    DropRule,
    DropVrf,
    JoinVrf,
    MakeChild,
    MakeVrf,
    MoveAway,
    PutAddress,
    PutNeighbor,
    PutRoute,
    PutRule,
    PutSettings,
    PutSwitches,
    RemoveLink,
    SetLink,
    SetVf,
    Step,
)
from berth.nic.vf import VfSeat

SEAT = VfSeat(pf="0000:41:00.0", index=3, number=2)
ADDRESS = Address(index=0, ip=ip_interface("192.0.2.7/24"))
RULE = Rule(family=2, priority=100, table=7)
CASES: list[tuple[Change, str]] = [
    (SetLink(change=LinkChange(flags_off=IFF_UP)), "RTM_NEWLINK down"),
    (
        SetLink(
            change=LinkChange(
                name="a",
                mtu=9000,
                txqlen=10,
                group=1,
                mac="02::1",
                offload=Offload(gso_max_size=65536),
                flags_on=IFF_UP | IFF_PROMISC,
                flags_off=IFF_ALLMULTI,
                ipv4_conf={"rp_filter": 2, "arp_notify": 1},
                addr_gen_mode=1,
            )
        ),
        (
            "RTM_NEWLINK name a, mtu 9000, txqlen 10, group 1, address 02::1, "
            "gso_max_size 65536, up, promiscuous, not all-multicast, "
            "ipv4/arp_notify=1 ipv4/rp_filter=2, addr_gen_mode 1"
        ),
    ),
    (
        Altnames(add=("a",), remove=("b",)),
        "RTM_NEWLINKPROP name a added, RTM_DELLINKPROP name b off",
    ),
    (MoveAway(change=LinkChange(name="net1")), "RTM_NEWLINK into the pod as net1"),
    (
        MoveAway(change=LinkChange(name="net1", mtu=1400)),
        "RTM_NEWLINK into the pod as net1, mtu 1400",
    ),
    (
        MakeChild(name="net1", kind=Macvlan(mode="vepa"), change=LinkChange(mac="02::1")),
        "RTM_NEWLINK macvlan (vepa) net1 made in the pod, address 02::1",
    ),
    (
        MakeChild(name="net1", kind=Vlan(id=7), change=LinkChange()),
        "RTM_NEWLINK vlan (802.1q 7) net1 made in the pod",
    ),
    (RemoveLink(), "RTM_DELLINK"),
    (MakeVrf(name="blue", table=1001), "RTM_NEWLINK vrf (table 1001) blue made, up"),
    (JoinVrf(name="blue"), "RTM_NEWLINK into blue"),
    (DropVrf(name="blue"), "RTM_DELLINK blue"),
    *(
        (SetVf(seat=SEAT, change=change), f"RTM_NEWLINK of PF 0000:41:00.0, VF 2: {told}")
        for change, told in [
            (VfChange(mac="02::1"), "address 02::1"),
            (VfChange(vlan=VfVlan(id=7, qos=3)), "vlan 7 qos 3 proto 0x8100"),
            (VfChange(rate=VfRate(max_mbps=100)), "min_tx_rate 0 max_tx_rate 100"),
            (VfChange(link_state=1), "state enable"),
            (VfChange(trust=True), "trust on"),
            (VfChange(spoof_check=False), "spoofchk off"),
        ]
    ),
    (PutAddress(address=ADDRESS), "RTM_NEWADDR 192.0.2.7/24"),
    (
        PutAddress(
            address=Address(
                index=0,
                ip=ip_interface("fd00::7/64"),
                peer=ip_address("fd00::8"),
                flags=IFA_F_NODAD | IFA_F_NOPREFIXROUTE,
            )
        ),
        (
            "RTM_NEWADDR fd00::7/64, peer fd00::8, without duplicate detection, "
            "without a route to its network"
        ),
    ),
    (DropAddress(address=ADDRESS), "RTM_DELADDR 192.0.2.7/24"),
    (PutRoute(route=Route(destination=ip_network("192.0.2.0/24"))), "RTM_NEWROUTE 192.0.2.0/24"),
    (
        PutRoute(
            route=Route(
                destination=ip_network("0.0.0.0/0"),
                hops=(Hop(gateway=ip_address("192.0.2.1"), flags=RTNH_F_ONLINK),),
                preferred_source=ip_address("192.0.2.7"),
                scope=253,
                table=100,
                priority=5,
                metrics=mtu_metric(1400),
            )
        ),
        (
            "RTM_NEWROUTE default via 192.0.2.1 onlink src 192.0.2.7 scope link table 100 metric 5 "
            "mtu 1400"
        ),
    ),
    (PutRule(rule=RULE), "RTM_NEWRULE priority 100 table 7"),
    (
        PutRule(
            rule=Rule(
                family=2,
                priority=1,
                table=7,
                source=ip_network("192.0.2.7/32"),
                destination=ip_network("198.51.100.0/24"),
                input_link="lo",
                mark=16,
                mark_mask=0xFFFFFFFF,
            )
        ),
        "RTM_NEWRULE priority 1 from 192.0.2.7/32 to 198.51.100.0/24 iif lo fwmark 0x10 table 7",
    ),
    (DropRule(rule=RULE), "RTM_DELRULE priority 100 table 7"),
    (
        PutNeighbor(neighbor=Neighbor(index=0, ip=ip_address("192.0.2.1"), mac="02::9")),
        "RTM_NEWNEIGH 192.0.2.1 at 02::9, permanent",
    ),
    (
        PutSettings(values={"ipv6/b": 1, "ipv6/a": 0}),
        "/proc/sys/net ipv6/a=0 ipv6/b=1",
    ),
    (PutSwitches(values={"feature/x": True}), "ETHTOOL_MSG_FEATURES_SET feature/x=1"),
]


@pytest.mark.parametrize(("change", "text"), CASES, ids=lambda case: type(case).__name__)
def test_words_of_each_change(change: Change, text: str) -> None:
    """The message and everything that it changes are told."""

    assert words(change) == text


def test_every_kind_of_change_is_told() -> None:
    """A kind of step that is new to the plan is new here as well."""

    kinds = typing.get_type_hints(Step)["change"]

    assert {type(change) for change, _ in CASES} == {*typing.get_args(kinds)}
