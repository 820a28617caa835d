"""From a configuration to steps, and from what is there to what is missing."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.errors import ClaimError
from berth.host.netlink.address import IFA_F_DADFAILED, IFA_F_PERMANENT
from berth.host.netlink.kinds import Ipvlan, KindData, Vlan
from berth.host.netlink.link import IFF_ALLMULTI, IFF_MULTICAST, IFF_PROMISC, IFF_UP
from berth.host.netlink.vf import Vf
from berth.model.device import NicKind
from berth.nic.plan import (
    enter,
    lacking,
    make,
    network_data,
    require_free_names,
    settings_of,
    settle,
)
from berth.nic.staging import require_switches, stage
from berth.nic.steps import (
    MakeChild,
    PutAddress,
    PutNeighbor,
    PutRoute,
    PutRule,
    PutSettings,
    SetVf,
)
from berth.nic.vf import NO_MAC, VfSeat
from berth.nic.view import View
from tests.unit.nic.config.claims import NIC, SHARED
from tests.unit.nic.links import (
    MAC,
    OTHERS,
    address_of,
    child_config_of,
    config_of,
    golden,
    link_of,
    neighbor_of,
    told,
)

WHOLE: dict[str, Any] = {
    "interface": {"mtu": 1400, "hardwareAddr": "02:00:00:00:00:07", "txQueueLen": 77},
    "addresses": [
        {"address": "192.0.2.5/24"},
        {"address": "2001:db8::5/64"},
        {"address": "2001:db8::6/64", "noDAD": False, "noPrefixRoute": True},
    ],
    "routes": [
        {"to": "default", "via": "203.0.113.9", "metric": 7},
        {"to": "203.0.113.0/24", "scope": "link"},
        {"to": "198.18.0.0/16", "via": "192.0.2.1", "source": "192.0.2.5", "mtu": 1300},
        {"to": "2001:db8:1::/48", "via": "2001:db8::1"},
        {"to": "100.64.0.0/10", "via": "10.9.9.9", "onLink": True, "table": 99},
    ],
    "rules": [{"priority": 100, "table": 99, "fwmark": 5}],
    "neighbors": [{"address": "192.0.2.9", "hardwareAddr": "02:00:00:00:00:99"}],
    "sysctls": {"ipv4": {"arp_ignore": 1}, "ipv6": {"accept_ra": 2, "addr_gen_mode": 1}},
}
SETTLED = golden("settle")


def done(config: Any, **link: Any) -> View:
    """A link in the pod after every step of `settle` was done."""
    view = View(
        link=link_of("net1", ipv4_conf=dict(config.sysctls.ipv4), **link),
        sysctls=settings_of(config),
    )
    for step in settle(config, None):
        change = step.change
        if isinstance(change, PutAddress):
            flags = change.address.flags | IFA_F_PERMANENT
            put = attrs.evolve(change.address, index=3, flags=flags)
            view = attrs.evolve(view, addresses=(*view.addresses, put))
        elif isinstance(change, PutRoute):
            hops = tuple(attrs.evolve(hop, index=3) for hop in change.route.hops)
            put_route = attrs.evolve(change.route, hops=hops)
            view = attrs.evolve(view, routes=(*view.routes, put_route))
        elif isinstance(change, PutNeighbor):
            view = attrs.evolve(view, neighbors=(*view.neighbors, change.neighbor))
    return view


def rules_in(config: Any) -> list[Any]:
    """The rules that the plan makes."""
    steps = settle(config, None)
    return [step.change.rule for step in steps if isinstance(step.change, PutRule)]


def test_stage_of_a_link_that_is_up() -> None:
    """Down first, then each value that differs, then the altname that would stop the move."""

    link = link_of(altnames=("net1", "enp1s0"))

    assert told(stage(config_of(**WHOLE), View(link=link))) == golden("stage")


def test_stage_when_everything_is_so() -> None:
    """A link that is down and has the values needs nothing."""

    link = link_of(flags=0, mtu=1400, mac="02:00:00:00:00:07", txqlen=77)

    assert stage(config_of(**WHOLE), View(link=link)) == ()


def test_stage_of_packet_sizes() -> None:
    """Only the sizes that differ are set, in one message."""

    config = config_of(interface={"gsoMaxSize": 65536, "groMaxSize": 30000})

    (line,) = told(stage(config, View(link=link_of(flags=0))))

    assert line.endswith("SetLink(change=LinkChange(offload=Offload(gro_max_size=30000)))")


VF = attrs.evolve(NIC, kind=NicKind.VF, pf_mtu=9000)
SEAT = VfSeat(pf="0000:41:00.0", index=9, number=2)
NOW = Vf(number=2, mac=NO_MAC, spoof_check=True, trust=False, link_state=0)


def of_vf(now: Vf = NOW, **wish: Any) -> list[str]:
    """The steps at home for a VF that is down."""
    interface = {"hardwareAddr": "02:00:00:00:00:07"} if wish.get("adminMAC") else {}
    config = config_of(facts=VF, vf=wish, interface=interface)
    mac = interface.get("hardwareAddr", MAC)
    return told(stage(config, View(link=link_of(flags=0, mac=mac), vf=now), SEAT))


def test_stage_of_a_vf_goes_through_its_pf() -> None:
    """Down first, then each of its values in a message of its own, then the link's own values."""

    config = config_of(
        facts=VF,
        interface={"mtu": 1400, "hardwareAddr": "02:00:00:00:00:07"},
        vf={
            "vlan": 7,
            "vlanQoS": 3,
            "vlanProtocol": "802.1ad",
            "spoofCheck": False,
            "trust": True,
            "linkState": "enable",
            "maxTxMbps": 100,
            "adminMAC": True,
        },
        ethtool={"features": {"rx-gro": False}},
    )
    view = View(link=link_of(), vf=NOW, switches={"feature/rx-gro": True})

    assert told(stage(config, view, SEAT)) == golden("stage-vf")


@pytest.mark.parametrize(
    ("now", "wish"),
    [
        (NOW, {}),
        (NOW, {"vlan": 0, "spoofCheck": True, "trust": False, "linkState": "auto", "minTxMbps": 0}),
        (attrs.evolve(NOW, vlan=7, vlan_protocol=0x8100), {"vlan": 7}),
        (attrs.evolve(NOW, mac="02:00:00:00:00:07"), {"adminMAC": True}),
    ],
)
def test_stage_of_a_vf_that_has_all_of_it(now: Vf, wish: dict[str, Any]) -> None:
    """What stands already is not set again."""

    assert [line for line in of_vf(now, **wish) if "vf." in line] == []


@pytest.mark.parametrize(
    ("shown", "mac", "wanted"),
    [
        (NO_MAC, MAC, ["interface.hardwareAddr", "vf.adminMAC 02:00:00:00:00:07"]),
        (NO_MAC, "02:00:00:00:00:07", ["vf.adminMAC 02:00:00:00:00:07"]),
        ("02:00:00:00:00:09", "02:00:00:00:00:07", ["vf.adminMAC 02:00:00:00:00:07"]),
        (
            "02:00:00:00:00:09",
            MAC,
            [
                f"vf.adminMAC {NO_MAC}",
                "interface.hardwareAddr",
                "vf.adminMAC 02:00:00:00:00:07",
            ],
        ),
    ],
)
def test_stage_of_an_address_that_the_pf_holds(shown: str, mac: str, wanted: list[str]) -> None:
    """The PF lets go, the link takes it, the PF holds it: a VF that is held takes none (igbvf)."""

    config = config_of(
        facts=VF, vf={"adminMAC": True}, interface={"hardwareAddr": "02:00:00:00:00:07"}
    )
    view = View(link=link_of(flags=0, mac=mac), vf=attrs.evolve(NOW, mac=shown))
    found = [
        f"{step.field} {step.change.change.mac}" if isinstance(step.change, SetVf) else step.field
        for step in stage(config, view, SEAT)
    ]

    assert found == wanted


def test_stage_of_a_vf_whose_address_was_held_before() -> None:
    """An address that is given takes the place of the held one; the PF holds on."""

    config = config_of(facts=VF, interface={"hardwareAddr": "02:00:00:00:00:07"})
    view = View(link=link_of(flags=0), vf=attrs.evolve(NOW, mac=MAC))
    fields = [step.field for step in stage(config, view, SEAT, held=True)]

    assert fields == ["vf.adminMAC", "interface.hardwareAddr", "vf.adminMAC"]
    assert [step.field for step in stage(config, view, SEAT)] == ["interface.hardwareAddr"]
    assert stage(config_of(facts=VF), view, SEAT, held=True) == ()


def test_stage_of_a_vlan_brings_its_own_tag() -> None:
    """Priority and protocol of the VLAN before are not kept with the new number."""

    before = attrs.evolve(NOW, vlan=9, vlan_qos=5, vlan_protocol=0x88A8)

    (line,) = of_vf(before, vlan=7)
    assert line.endswith("change=VfChange(vlan=VfVlan(id=7)))")
    (line,) = of_vf(before, vlan=0)
    assert line.endswith("change=VfChange(vlan=VfVlan()))")


def test_stage_of_rates_sets_both() -> None:
    """The driver takes both rates at once, so the one that nobody speaks of stays what it is."""

    (line,) = of_vf(attrs.evolve(NOW, min_rate_mbps=10), maxTxMbps=100)

    assert line.endswith("VfChange(rate=VfRate(min_mbps=10, max_mbps=100)))")


def test_switches_that_the_link_has_not_are_refused_by_name() -> None:
    """The kernel would take a feature that is fixed without a word."""

    config = config_of(
        ethtool={"features": {"rx-gro": True, "rx-gor": True}, "privateFlags": {"x": True}}
    )

    with pytest.raises(ClaimError, match=r"the device has no feature rx-gor and no flag x that"):
        require_switches(config, {"feature/rx-gro": False})
    require_switches(config, {"feature/rx-gro": False, "feature/rx-gor": False, "flag/x": True})


def test_enter_goes_in_one_message() -> None:
    """A staged link gets name and settings in the message that moves it, after clashes are gone."""

    link = link_of(flags=0, mtu=1400, mac="02:00:00:00:00:07", txqlen=77, altnames=("p0", "enp1s0"))

    assert told(enter(config_of(**WHOLE), link, taken={"p0", "lo"})) == golden("enter")


def test_enter_sets_again_what_drifted() -> None:
    """Whatever somebody did to the staged link is undone before it moves."""

    steps = told(enter(config_of(interface={"mtu": 1400}), link_of(), taken=set()))

    assert [line.partition(":")[0] for line in steps] == [
        "home interface",
        "home interface.mtu",
        "home interface.name",
    ]


def test_make_gives_a_child_what_it_can_have_at_once() -> None:
    """Everything but settings, which the kernel takes in no message that makes a link."""

    config = child_config_of(
        interface={"mtu": 1400, "hardwareAddr": "02:00:00:00:00:07", "gsoMaxSize": 30000},
        macvlan={"mode": "private"},
    )

    assert told(make(config)) == golden("make")


@pytest.mark.parametrize(
    ("wish", "kind"),
    [
        ({"mode": "ipvlan"}, Ipvlan(mode="l2", isolation="bridge")),
        ({"mode": "vlan", "vlan": {"id": 7}}, Vlan(id=7)),
        (
            {"mode": "vlan", "vlan": {"id": 7, "protocol": "802.1ad"}},
            Vlan(id=7, protocol="802.1ad"),
        ),
    ],
)
def test_make_gives_each_kind_of_child_what_it_is(wish: dict[str, Any], kind: KindData) -> None:
    """One message makes it in the pod; without an address of its own it has its parent's."""

    (step,) = make(config_of(facts=SHARED, policy=OTHERS, **wish))
    change = step.change

    assert isinstance(change, MakeChild)
    assert (change.kind, change.change.mac, step.field) == (kind, None, wish["mode"])


def test_settle_puts_routes_into_the_table_of_the_vrf() -> None:
    """A route of the configuration is of the table ``main`` unless the interface has a VRF."""

    config = config_of(vrf={"name": "blue", "table": 1001}, routes=[{"to": "198.18.0.0/16"}])
    (route,) = [s.change.route for s in settle(config, None) if isinstance(s.change, PutRoute)]

    assert route.table == 1001
    view = View(link=link_of("net1"), routes=(attrs.evolve(route, table=254),))
    assert "routes[0]" in [step.field for step in settle(config, view)]


def test_settle_of_a_fresh_link() -> None:
    """Settings, addresses, up, routes with link scope first, rules, neighbors."""

    assert told(settle(config_of(**WHOLE), None)) == SETTLED


def test_settle_of_a_fresh_child() -> None:
    """What a move brings in its message is set on a child by one of its own."""

    first = told(settle(child_config_of(**WHOLE), None))[0]

    assert first == (
        "pod sysctls: SetLink(change=LinkChange("
        "ipv4_conf={'arp_ignore': 1, 'arp_notify': 1}, addr_gen_mode=1))"
    )


@pytest.mark.parametrize("make_config", [config_of, child_config_of])
def test_settle_when_all_is_there(make_config: Any) -> None:
    """Done again it does nothing, and nothing is missing."""

    config = make_config(**WHOLE)
    view = done(config, addr_gen_mode=1, mtu=1400, mac="02:00:00:00:00:07", txqlen=77)

    assert settle(config, view, rules_in(config)) == ()
    assert lacking(config, view, rules_in(config)) == ()


def test_settle_mends_each_thing_alone() -> None:
    """What went is put back, what stands is left: a setting, an address, a route, "up"."""

    config = config_of(**WHOLE)
    view = done(config, addr_gen_mode=0, flags=IFF_MULTICAST)
    view = attrs.evolve(
        view,
        link=attrs.evolve(view.link, ipv4_conf={"arp_ignore": 0, "arp_notify": 1}),
        sysctls={**view.sysctls, "ipv6/accept_ra": 0},
        addresses=view.addresses[1:],
        routes=view.routes[:-1],
        neighbors=(),
    )
    steps = told(settle(config, view, rules_in(config)))

    assert steps == [
        "pod sysctls: SetLink(change=LinkChange(ipv4_conf={'arp_ignore': 1}, addr_gen_mode=1))",
        "pod sysctls.ipv6.accept_ra: PutSettings(values={'ipv6/accept_ra': 2})",
        SETTLED[1],
        SETTLED[4],
        SETTLED[9],
        SETTLED[11],
    ]


def test_settle_leaves_settings_that_the_link_does_not_have() -> None:
    """Without IPv6 on the link there is nothing to set, and nothing to wait for."""

    config = config_of()
    view = attrs.evolve(done(config), sysctls={})

    assert settle(config, view) == ()


def test_settle_of_flags() -> None:
    """Flags that were asked for come with "up"; others are nobody's wish."""

    config = config_of(interface={"promiscuous": True, "allmulticast": True})
    view = done(config, flags=IFF_UP)

    assert told(settle(config, view)) == [
        f"pod interface.up: SetLink(change=LinkChange(flags_on={IFF_PROMISC | IFF_ALLMULTI}))"
    ]


def test_settle_of_a_link_that_stays_down() -> None:
    """A link that shall stay down gets its addresses, and is not set up."""

    config = config_of(interface={"up": False}, addresses=[{"address": "192.0.2.5/24"}])
    changes = [type(step.change) for step in settle(config, None)]

    assert changes == [PutSettings, PutAddress]


def test_ipv6_is_switched_on_with_an_address_only() -> None:
    """A pod's default may have it off; whoever asks for it off gets it off."""

    address = [{"address": "2001:db8::5/64"}]

    assert "ipv6/disable_ipv6" not in settings_of(config_of())
    assert settings_of(config_of(addresses=address))["ipv6/disable_ipv6"] == 0
    asked = config_of(sysctls={"ipv6": {"disable_ipv6": 1}})
    assert settings_of(asked)["ipv6/disable_ipv6"] == 1


def test_lacking_tells_duplicates_and_names() -> None:
    """An address of another station's, another name or MTU, unless the link was there before."""

    config = config_of(interface={"mtu": 1400}, addresses=[{"address": "2001:db8::5/64"}])
    view = done(config)
    bad = address_of("2001:db8::5/64", flags=IFA_F_PERMANENT | IFA_F_DADFAILED)
    view = attrs.evolve(view, addresses=(bad,), link=attrs.evolve(view.link, name="other"))

    duplicate = "addresses (2001:db8::5/64 is a duplicate)"
    assert lacking(config, view, ()) == (duplicate, "interface.name", "interface.mtu")
    assert lacking(config, view, (), known=True) == ()


def test_lacking_takes_a_learnt_neighbor_for_none() -> None:
    """An entry that the kernel learnt goes by itself, so it is not the one that was asked for."""

    config = config_of(
        addresses=[{"address": "192.0.2.5/24"}],
        neighbors=[{"address": "192.0.2.9", "hardwareAddr": "02:00:00:00:00:99"}],
    )
    learnt = neighbor_of("192.0.2.9", "02:00:00:00:00:99", state=4)
    view = attrs.evolve(done(config), neighbors=(learnt,))

    assert lacking(config, view, ()) == ("neighbors[0]",)


def test_network_data_is_in_the_order_of_the_configuration() -> None:
    """Own addresses as they were written, then others; no link-local ones; 16 at most."""

    config = config_of(addresses=[{"address": "192.0.2.9/24"}, {"address": "192.0.2.5/24"}])
    others = [address_of(f"10.0.0.{n}/8") for n in range(1, 20)]
    view = attrs.evolve(
        done(config),
        addresses=(
            address_of("fe80::1/64", scope=253),
            *others,
            address_of("192.0.2.5/24"),
            address_of("192.0.2.9/24"),
        ),
    )
    data = network_data(config, view)

    assert data.ips[:3] == ("192.0.2.9/24", "192.0.2.5/24", "10.0.0.1/8")
    assert len(data.ips) == 16
    assert (data.interface_name, data.hardware_address) == ("net1", view.link.mac)


def test_require_free_names() -> None:
    """A name of another link is refused with both names; the NIC's own is not."""

    config = config_of()
    with pytest.raises(ClaimError) as caught:
        require_free_names(config, pod="team/pod", taken={"net1": "eth9"})

    assert str(caught.value) == (
        "pod team/pod: has a link 'eth9' that the name 'net1' finds: the NIC stays at home; "
        "give interface.name another value"
    )
    require_free_names(config, pod="team/pod", taken={"net1": "net1"}, own={"net1"})
    require_free_names(config, pod="team/pod", taken={"net2": "net2"})
