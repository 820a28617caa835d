"""Links: kinds that the test kernel cannot make, virtual functions, and requests."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink import kinds, vf
from berth.host.netlink.devconf import ADDR_GEN_NONE, IPV4_CONF, parse_ipv4_conf
from berth.host.netlink.kinds import KindData
from berth.host.netlink.link import (
    ARPHRD_INFINIBAND,
    IFF_ALLMULTI,
    IFF_PROMISC,
    IFF_UP,
    Link,
    Offload,
    Xdp,
    link_family,
    parse_link,
)
from berth.host.netlink.linkrequest import (
    DOWN,
    UP,
    LinkChange,
    add_altnames,
    delete_altnames,
    delete_link,
    dump_links,
    get_link,
    new_link,
    set_link,
    set_vf,
)
from berth.host.netlink.mac import pack_mac, parse_mac
from berth.host.netlink.message import Message
from tests.unit.host.netlink.strategies import FUZZ, INDEX, MAC, NAME, U32, received

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAD = b"\0\0\x01\0\x03\0\0\0\x43\x10\0\0\0\0\0\0"


def _link(*attributes: bytes, head: bytes = HEAD) -> Link:
    return parse_link(Message(type=16, body=head + b"".join(attributes)))


def _kind(word: str, *data: bytes) -> bytes:
    return nla.nest(18, nla.text(1, word), nla.nest(2, *data))


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        (
            _kind("ipvlan", nla.u16(1, 2), nla.u16(2, 1)),
            kinds.Ipvlan(mode="l3s", isolation="private"),
        ),
        (_kind("ipvtap", nla.u16(1, 1)), kinds.Ipvlan(mode="l3")),
        (_kind("macvtap", nla.u32(1, 8), nla.u16(2, 1)), kinds.Macvlan(mode="passthru", flags=1)),
        (
            _kind("vlan", nla.u16(1, 100), nla.u16_big(5, 0x88A8)),
            kinds.Vlan(id=100, protocol="802.1ad"),
        ),
        (_kind("vlan", nla.u16(1, 7)), kinds.Vlan(id=7)),
        (_kind("vrf", nla.u32(1, 1001)), kinds.Vrf(table=1001)),
        (
            _kind("bond", nla.u8(1, 1), nla.u32(2, 4)),
            kinds.Bond(mode="active-backup", active_port=4),
        ),
        (_kind("bond", nla.u8(1, 77)), kinds.Bond(mode="77")),
        (_kind("bridge", nla.u8(7, 1)), kinds.Bridge(vlan_filtering=True)),
        (_kind("openvswitch"), None),
    ],
)
def test_kind_is_decoded_by_its_word(attribute: bytes, expected: KindData | None) -> None:
    """Each kind's data lie under numbers of its own."""

    assert _link(attribute).kind_data == expected


KINDS = st.one_of(
    st.builds(kinds.Macvlan, mode=st.sampled_from(sorted(kinds.MACVLAN_MODES))),
    st.builds(
        kinds.Ipvlan,
        mode=st.sampled_from(sorted(kinds.IPVLAN_MODES)),
        isolation=st.sampled_from(sorted(kinds.IPVLAN_ISOLATIONS)),
    ),
    st.builds(
        kinds.Vlan,
        id=st.integers(0, 4094),
        protocol=st.sampled_from(sorted(kinds.VLAN_PROTOCOLS)),
    ),
    st.builds(kinds.Vrf, table=U32),
    st.builds(kinds.Bridge, vlan_filtering=st.booleans()),
    st.builds(
        kinds.Vxlan,
        id=U32,
        underlay=U32,
        remote=st.sampled_from([None, IPv4Address("192.0.2.9"), IPv6Address("2001:db8::9")]),
        local=st.sampled_from([None, IPv4Address("192.0.2.1"), IPv6Address("2001:db8::1")]),
        port=st.integers(0, 65535),
    ),
)


@FUZZ
@given(NAME, KINDS, U32)
def test_new_link_arrives_as_it_was_meant(name: str, kind: KindData, parent: int) -> None:
    """Name, kind with its data and parent come back from the request."""

    request = new_link(name, kind, parent=parent % 0x7FFFFFFF)
    link = parse_link(received(request))

    assert request.flags == 0x600
    assert (link.name, link.kind, link.kind_data) == (name, kinds.kind_name(kind), kind)
    assert link.parent == parent % 0x7FFFFFFF


def test_veth_is_made_with_its_other_end() -> None:
    """The peer is a link message of its own inside the data, its namespace a descriptor."""

    request = new_link("v0", kinds.Veth(peer_name="v1", peer_netns_fd=9))
    peer = nla.nest(1, bytes(16), nla.text(3, "v1"), nla.u32(28, 9))

    assert request.body[16:] == nla.text(3, "v0") + nla.nest(
        18, nla.text(1, "veth"), nla.nest(2, peer)
    )
    bare = new_link("v0", kinds.Veth())
    assert nla.nest(2, nla.nest(1, bytes(16))) in bare.body


def test_child_is_made_in_another_namespace_at_once() -> None:
    """Kind, parent, address, size and namespace are one message."""

    change = LinkChange(mac="02:00:00:00:00:05", mtu=1400, netns_fd=9)
    request = new_link("net0", kinds.Macvlan(mode="private"), parent=3, change=change)

    assert request.label == "RTM_NEWLINK net0 (new)"
    assert request.body == bytes(16) + (
        nla.text(3, "net0")
        + nla.nest(18, nla.text(1, "macvlan"), nla.nest(2, nla.u32(1, 1)))
        + nla.u32(5, 3)
        + nla.u32(4, 1400)
        + nla.u32(28, 9)
        + nla.attribute(1, b"\x02\0\0\0\0\x05")
    )


def test_link_known_by_its_word_alone_needs_no_data() -> None:
    """Some kinds have nothing to say, and an empty nest would be refused by a few."""

    assert new_link("d0", "dummy").body[16:] == nla.text(3, "d0") + nla.nest(
        18, nla.text(1, "dummy")
    )


CHANGES = st.builds(
    LinkChange,
    name=st.none() | NAME,
    mtu=st.none() | U32,
    mac=st.none() | MAC,
    broadcast=st.none() | MAC,
    txqlen=st.none() | U32,
    group=st.none() | U32,
    alias=st.none() | NAME,
    master=st.none() | U32,
    flags_on=st.sampled_from([0, IFF_UP, IFF_PROMISC]),
    flags_off=st.sampled_from([0, IFF_ALLMULTI]),
    offload=st.builds(Offload, gso_max_size=U32, gro_ipv4_max_size=U32),
)


@FUZZ
@given(INDEX, CHANGES)
def test_change_arrives_as_it_was_meant(index: int, change: LinkChange) -> None:
    """What shall change is in the message, and what shall not is absent."""

    request = set_link(index, change)
    link = parse_link(received(request))
    untouched = Link(index=index, name="")
    wanted = {
        field: getattr(change, field)
        for field in ("name", "mtu", "mac", "broadcast", "txqlen", "group", "alias", "master")
        if getattr(change, field) is not None
    }

    assert {field: getattr(link, field) for field in wanted} == wanted
    assert {
        field
        for field in ("name", "mtu", "mac", "broadcast", "txqlen", "group", "alias", "master")
        if getattr(link, field) != getattr(untouched, field)
    } <= set(wanted)
    assert link.offload == change.offload
    assert (link.index, link.flags) == (index, change.flags_on)
    assert request.body[12:16] == (change.flags_on | change.flags_off).to_bytes(4, "little")


def test_move_carries_name_namespace_and_settings_in_one_message() -> None:
    """IPv4 settings go by number, and the address generation mode under IPv6."""

    change = LinkChange(
        name="net1",
        netns_fd=9,
        new_index=40,
        ipv4_conf={"arp_ignore": 1},
        addr_gen_mode=ADDR_GEN_NONE,
    )
    request = set_link(3, change, label="ens1")

    assert request.label == "RTM_NEWLINK ens1"
    assert request.body[16:] == (
        nla.u32(28, 9)
        + nla.u32(49, 40)
        + nla.text(3, "net1")
        + nla.nest(26, nla.nest(2, nla.nest(1, nla.u32(19, 1))), nla.nest(10, nla.u8(8, 1)))
    )


def test_up_and_down_touch_one_flag() -> None:
    """The mask says which flags count."""

    assert set_link(3, UP).body[8:16] == b"\1\0\0\0\1\0\0\0"
    assert set_link(3, DOWN).body[8:16] == b"\0\0\0\0\1\0\0\0"


@pytest.mark.parametrize(("mode", "flags"), [(1, 4), (2, 2), (3, 8), (4, 0)])
def test_xdp_is_taken_off_in_the_mode_in_which_it_sits(mode: int, flags: int) -> None:
    """Descriptor -1 with the flag of the mode detaches."""

    request = set_link(3, LinkChange(xdp_detach=mode))

    assert request.body[16:] == nla.nest(43, nla.s32(1, -1), nla.u32(3, flags))


def test_xdp_program_is_told_with_its_mode() -> None:
    """No program, and one in generic mode."""

    assert _link(nla.nest(43, nla.u8(2, 0))).xdp is None
    assert _link(nla.nest(43, nla.u8(2, 2), nla.u32(4, 77))).xdp == Xdp(mode=2, program_id=77)


def test_hardware_facts_are_told() -> None:
    """Parent device, switch, port and InfiniBand's long addresses come as they are."""

    long_mac = bytes(range(20))
    link = _link(
        nla.attribute(1, long_mac),
        nla.attribute(54, long_mac),
        nla.text(56, "0000:41:00.0"),
        nla.text(57, "pci"),
        nla.attribute(36, b"\xab\xcd"),
        nla.text(38, "pf0vf1"),
        nla.s32(37, 4),
        nla.u8(16, 99),
        head=b"\0\0\x20\0" + HEAD[4:],
    )

    assert link.hardware_type == ARPHRD_INFINIBAND
    assert (
        link.mac == link.perm_mac == "00:01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f:10:11:12:13"
    )
    assert (link.parent_device, link.parent_bus) == ("0000:41:00.0", "pci")
    assert (link.switch_id, link.port_name, link.parent_netnsid) == ("abcd", "pf0vf1", 4)
    assert link.operstate == "unknown"
    assert link.immovable is None


@pytest.mark.parametrize("change", [vf.VfChange(), vf.VfChange(trust=True, spoof_check=False)])
def test_vf_change_that_is_not_one_value(change: vf.VfChange) -> None:
    """The kernel sets several one by one and undoes none, so one request has one."""

    with pytest.raises(LocalProtocolError, match="exactly one is sent"):
        vf.vf_value(3, change)


def _vf(number: int, *more: bytes) -> bytes:
    mac = number.to_bytes(4, "little") + b"\x02\0\0\0\0" + bytes([number]) + bytes(26)
    return nla.nest(1, nla.attribute(1, mac), *more)


def _words(*words: int) -> bytes:
    return b"".join(word.to_bytes(4, "little") for word in words)


def test_virtual_functions_are_told() -> None:
    """Everything that a driver knows of a function, and None for what it does not."""

    vlan = _words(1, 100, 3) + b"\x88\xa8\0\0"
    full = _vf(
        1,
        nla.attribute(2, _words(1, 100, 3)),
        nla.nest(12, nla.attribute(1, vlan)),
        nla.attribute(4, _words(1, 1)),
        nla.attribute(5, _words(1, 2)),
        nla.attribute(6, _words(1, 100, 1000)),
        nla.attribute(9, _words(1, 0)),
        nla.attribute(10, _words(1, 0, 5, 0)),
        nla.attribute(11, _words(1, 0, 6, 0)),
    )
    bare = _vf(0, nla.attribute(4, _words(0, 0xFFFFFFFF)), nla.attribute(2, _words(0, 9, 1)))
    link = _link(nla.attribute(1, bytes(6)), nla.u32(21, 2), nla.nest(22, bare, full))

    assert link.vf_count == 2
    assert link.vfs == (
        vf.Vf(number=0, mac="02:00:00:00:00:00", vlan=9, vlan_qos=1),
        vf.Vf(
            number=1,
            mac="02:00:00:00:00:01",
            vlan=100,
            vlan_qos=3,
            vlan_protocol=0x88A8,
            spoof_check=True,
            trust=False,
            link_state=2,
            min_rate_mbps=100,
            max_rate_mbps=1000,
            node_guid=5,
            port_guid=6,
        ),
    )


def test_cut_virtual_function_is_refused() -> None:
    """A value shorter than its structure is the kernel's fault."""

    with pytest.raises(RemoteProtocolError, match="a VF's value of 4 bytes"):
        _link(nla.nest(22, nla.nest(1, nla.u32(4, 1))))


@pytest.mark.parametrize(
    ("value", "field", "expected"),
    [
        (vf.vf_mac(3, "02:00:00:00:00:09"), "mac", "02:00:00:00:00:09"),
        (vf.vf_value(3, vf.VfChange(mac="02:00:00:00:00:09")), "mac", "02:00:00:00:00:09"),
        (vf.vf_value(3, vf.VfChange(vlan=vf.VfVlan(id=5, qos=2))), "vlan_qos", 2),
        (vf.vf_value(3, vf.VfChange(spoof_check=True)), "spoof_check", True),
        (vf.vf_value(3, vf.VfChange(trust=False)), "trust", False),
        (vf.vf_value(3, vf.VfChange(link_state=1)), "link_state", 1),
        (vf.vf_value(3, vf.VfChange(rate=vf.VfRate(min_mbps=5))), "min_rate_mbps", 5),
        (vf.vf_vlan(3, 100, qos=2, protocol=0x88A8), "vlan_protocol", 0x88A8),
        (vf.vf_vlan(3, 100, qos=2), "vlan", 100),
        (vf.vf_spoof_check(3, on=False), "spoof_check", False),
        (vf.vf_trust(3, on=True), "trust", True),
        (vf.vf_link_state(3, 2), "link_state", 2),
        (vf.vf_rate(3, min_mbps=5, max_mbps=50), "max_rate_mbps", 50),
    ],
)
def test_one_value_of_a_function_is_set_at_a_time(
    value: bytes, field: str, expected: object
) -> None:
    """The kernel does not undo those before a refused one, so a message has one."""

    request = set_vf(3, value, label="ens1")
    message = received(request)
    with_mac = Message(type=16, body=message.body + nla.attribute(1, bytes(6)))
    (told,) = parse_link(with_mac).vfs

    assert request.label == "RTM_NEWLINK ens1 (VF)"
    assert getattr(told, field) == expected


def test_links_are_asked_for_without_statistics() -> None:
    """Bit 8 leaves statistics out; bit 1, the functions, is set only when asked for."""

    assert dump_links().body == bytes(16) + nla.u32(29, 8)
    assert dump_links(nsid=0, master=4).body[24:] == nla.s32(46, 0) + nla.u32(10, 4)
    assert get_link(index=3).body == bytes(4) + b"\3\0\0\0" + bytes(8) + nla.u32(29, 8)
    assert get_link(name="enp1", vfs=True).body == bytes(16) + nla.u32(29, 9) + nla.text(53, "enp1")
    assert get_link(index=3, name="enp1", nsid=2).body[16:] == nla.u32(29, 8) + nla.s32(46, 2)


def test_altnames_are_added_and_deleted_as_a_list() -> None:
    """One message carries all names."""

    listed = nla.nest(52, nla.text(53, "a"), nla.text(53, "b"))
    added, deleted = add_altnames(3, ["a", "b"]), delete_altnames(3, ["a", "b"])

    assert (added.type, added.body[16:], added.label) == (108, listed, "RTM_NEWLINKPROP a, b")
    assert (deleted.type, deleted.body[16:], deleted.flags) == (109, listed, 0)
    assert delete_link(3, label="net0").label == "RTM_DELLINK net0"


def test_family_of_a_link_message_is_told() -> None:
    """A bridge speaks of its ports in link messages too."""

    assert link_family(Message(type=16, body=HEAD)) == 0
    assert link_family(Message(type=16, body=b"\x07" + HEAD[1:])) == 7
    with pytest.raises(RemoteProtocolError, match="a link message of 15 bytes"):
        parse_link(Message(type=16, body=HEAD[:15]))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mac": "02:zz"}, "'02:zz' is no hardware address"),
        ({"ipv4_conf": {"arp_ignor": 1}}, "the IPv4 setting 'arp_ignor': one of forwarding, "),
        ({"flags_on": 1, "flags_off": 1}, "a link flag to set and to clear"),
        ({"mtu": -1}, "-1 for attribute 4"),
    ],
)
def test_impossible_change_is_our_fault(change: Mapping[str, object], told: str) -> None:
    """What cannot be written is told before anything is sent."""

    with pytest.raises(LocalProtocolError, match=told):
        set_link(3, LinkChange(**change))  # type: ignore[arg-type]  # wrong on purpose


def test_words_without_number_are_our_fault() -> None:
    """A mode that no table knows, and a kind that berth does not make."""

    with pytest.raises(LocalProtocolError, match="the word 'hairpin': one of private, vepa"):
        new_link("m0", kinds.Macvlan(mode="hairpin"))
    with pytest.raises(LocalProtocolError, match="a new link of kind bond"):
        new_link("b0", kinds.Bond(mode="802.3ad"))


def test_ipv4_settings_of_an_older_kernel_are_those_it_has() -> None:
    """A list shorter than the table tells fewer settings; a torn one is refused."""

    def spec(data: bytes) -> nla.Attributes:
        return nla.parse_attributes(nla.nest(2, nla.attribute(1, data)))

    assert parse_ipv4_conf(spec(_words(*range(28)))).keys() == IPV4_CONF.keys() - {
        "ignore_routes_with_linkdown"
    }
    assert parse_ipv4_conf(spec(_words(*range(28))))["arp_ignore"] == 18
    with pytest.raises(RemoteProtocolError, match="a list of IPv4 settings of 5 bytes"):
        parse_ipv4_conf(spec(bytes(5)))


@FUZZ
@given(MAC)
def test_hardware_address_survives_the_round_trip(mac: str) -> None:
    """Text to bytes and back; no bytes are no address."""

    assert parse_mac(pack_mac(mac)) == mac
    assert parse_mac(b"") == ""
