"""The [nic] table: groups, what they may say, and what must hold among them."""

from __future__ import annotations

import pytest

from berth.config.health import CarrierSeverity, NicHealth
from berth.config.match import NicMatch
from berth.config.nic import AliasSet, NicTable
from berth.config.nicgroup import NicGroup, NicShared
from berth.model.device import NicMode
from tests.unit.config.reading import read_table

IDENTITY_RULE = (
    'it must be the identity of one device, such as "pci:0000:41:00.0"; '
    "`berth devices --json` shows it"
)


def _groups(*texts: str) -> list[str]:
    """What is said of groups, each given by its keys less the name."""
    whole = "".join(
        f'[[group]]\nname = "g{number}"\n{text}\n' for number, text in enumerate(texts, start=1)
    )
    return read_table(NicTable, whole)[1]


def test_group_with_every_key_is_read() -> None:
    """Each key reaches its attribute."""
    text = """
        name = "lan"
        match.name = "ens1f0"
        mode = "shared"
        door = "dra"
        order = -1
        attributes = { rail = 3 }
        take_configured = true
        claims_may = ["rules", "eth0"]
        claims_deny = "interface.mtu"
        defaults = { interface = { mtu = 9000 } }
        scrub = "restore"
        shared = { slots = 4, children = "macvlan", bandwidth = "25G" }
        health = { carrier = "fault", timeout_s = 30 }
    """
    group = NicGroup(
        name="lan",
        match=NicMatch(name=("ens1f0",)),
        mode=NicMode.SHARED,
        order=-1,
        attributes={"rail": 3},
        take_configured=True,
        claims_may=("rules", "eth0"),
        claims_deny=("interface.mtu",),
        defaults={"interface": {"mtu": 9000}},
        shared=NicShared(slots=4, bandwidth=25_000_000_000),
        health=NicHealth(carrier=CarrierSeverity.FAULT, timeout_s=30),
    )

    assert (group, []) == read_table(NicGroup, text)


@pytest.mark.parametrize(
    ("identity", "read"),
    [
        ("pci:0000:41:00.0", "pci:0000:41:00.0"),
        ("pci:0000:C1:00.1/1", "pci:0000:c1:00.1/1"),
        ("usb:pci-0000:00:14.0-usb-0:1:1.0", "usb:pci-0000:00:14.0-usb-0:1:1.0"),
        (
            "link:6f0e2c1a-1111-4222-8333-444455556666:12",
            "link:6f0e2c1a-1111-4222-8333-444455556666:12",
        ),
    ],
)
def test_uplink_is_allowed_by_identity(identity: str, read: str) -> None:
    """Every kind of identity that `berth devices` shows is taken."""

    assert (NicTable(uplink_ok=(read,)), []) == read_table(NicTable, f'uplink_ok = ["{identity}"]')


@pytest.mark.parametrize(
    ("identity", "mend"),
    [
        ("pci:0000:41:*", "; wildcards are not taken here: name each device"),
        ("usb:pci-0000:00:14.0-*", "; wildcards are not taken here: name each device"),
        ("0000:41:00.0", '; write "pci:0000:41:00.0"'),
        ("pci:0000:41:00.0/x", ""),
        ("pci:41:00.0", ""),
        ("ens1f0", ""),
        ("link:12", ""),
        ("mac:02:00:5e:10:00:01", ""),
    ],
)
def test_uplink_is_not_allowed_by_anything_else(identity: str, mend: str) -> None:
    """A pattern or a name could come to mean another device than the one that was looked at."""

    assert [f'uplink_ok is "{identity}": {IDENTITY_RULE}{mend}'] == read_table(
        NicTable, f'uplink_ok = "{identity}"'
    )[1]


def test_switches_of_the_table_are_read() -> None:
    """The keys beside the groups."""
    table = NicTable(
        enabled=False,
        publish_volatile=True,
        aliases=(AliasSet.DRA_NET, AliasSet.MULTUS),
        vm_handlers=("kata",),
    )
    text = (
        'enabled = false\npublish_volatile = true\naliases = ["dra.net", "multus"]\n'
        'vm_handlers = "kata"'
    )

    assert (table, []) == read_table(NicTable, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'match.name = "a"\nallow_noiommu = true',
            'allow_noiommu is given with mode "exclusive": it goes with mode "vfio"',
        ),
        (
            'match.name = "a"\ndoor = "window"',
            'door is "window": it must be "dra", "plugin", "auto" or "both"',
        ),
        (
            'match.name = "a"\ndoor = "plugin"\nresource = "fast"',
            (
                'resource is "fast": it must be the name of an extended resource such as '
                '"vendor.example/fast_nic", not of Kubernetes\' own domains, or ""; '
                'write "vendor.example/fast"'
            ),
        ),
        (
            'match.name = "a"\ndoor = "plugin"\nattach = "multus"',
            'attach is "multus": it must be "cni" or "nri"',
        ),
        (
            'match.name = "a"\nmode = "vfio"\ndoor = "both"',
            (
                'door is "both" with mode "vfio": a claim has its NIC bound to vfio-pci, '
                "a resource is what is bound already; "
                'write door = "dra", or "plugin" for NICs that you have bound yourself'
            ),
        ),
        (
            'match.pci = "0000:41:*"\nmode = "vfio"\ndoor = "plugin"\nattach = "nri"',
            (
                'attach is "nri" with mode "vfio": what vfio-pci has comes with no link that could '
                "be moved; drop it"
            ),
        ),
        (
            'match.name = "a"\nmode = "shared"\nscrub = "rebind"',
            'scrub is "rebind" with mode "shared": it goes with mode "exclusive"',
        ),
        (
            'match.name = "a"\nmode = "shared"\nbeside_vfs = true',
            (
                'beside_vfs is true with mode "shared": '
                "what is made over a parent stands beside its VFs anyway; drop it"
            ),
        ),
        (
            'match.name = "a"\nmode = "vfio"\nbeside_vfs = true',
            (
                'beside_vfs is true with mode "vfio": '
                "a PF that is bound to vfio-pci loses its VFs; drop it"
            ),
        ),
        (
            'match.name = "a"\ndoor = "both"\nbeside_vfs = true',
            (
                'beside_vfs is true with door "both": only the scheduler counts, and only for '
                'claims; write door = "dra", or drop it'
            ),
        ),
        (
            'match.kind = "vf"\nbeside_vfs = true',
            (
                "beside_vfs is true, and match selects no PF: it is for PFs; match.pf selects the "
                'VFs of one; write match.kind = ["pf"] and the PF\'s name or address, or drop it'
            ),
        ),
        (
            'match.name = "a"\nmode = "shared"\nshared.children = ["macvlan", "ipvlan"]',
            (
                "shared.children holds macvlan and ipvlan: a parent carries only one of the two; "
                "make two groups, with a parent each"
            ),
        ),
        (
            'match.name = "a"\nmode = "move"',
            'mode is "move": it must be "exclusive", "shared" or "vfio"',
        ),
        (
            'match.name = "a"\nshared.slots = 4',
            (
                'shared is given with mode "exclusive": '
                'it says how a parent of mode "shared" is divided; '
                'write mode = "shared", or drop it'
            ),
        ),
        (
            'match.name = "a"\nmode = "vfio"\nshared.slots = 4',
            (
                'shared is given with mode "vfio": '
                'it says how a parent of mode "shared" is divided; '
                'write mode = "shared", or drop it'
            ),
        ),
        (
            'match.name = "a"\nmode = "shared"\nshared = { slots = 100, bandwidth = "99M" }',
            (
                "shared.bandwidth is less than 1M for each of 100 slots: "
                "1M is the least that a claim takes; give fewer slots or more bandwidth"
            ),
        ),
        (
            'match.name = "a"\nmode = "shared"\nshared = { slots = 0, bandwidth = "1M" }',
            "shared.slots is 0: it must be a whole number from 1 to 1024",
        ),
        (
            'match.name = "a"\nclaims_may = ["rules", "vlan"]\nclaims_deny = ["vlan"]',
            'claims_deny holds "vlan", which claims_may holds as well; drop one of the two',
        ),
        (
            'match.name = "a"\nclaims_may = "no field"',
            'claims_may is "no field": it must be a field of NicConfig such as "rules"',
        ),
        (
            'match.name = "a"\nskip_node_operations = "unprepare"',
            (
                'skip_node_operations is "unprepare": it must be "none", since prepare makes a NIC '
                "ready, and has it moved into its pod or bound to a driver, and unprepare brings "
                'it home; drop it; [[generic]] groups may have "unprepare" or "all"'
            ),
        ),
        ("", "lacks match: it must be given: table"),
        ("match = {}", "match has no condition: it would select every NIC; give at least one"),
        (
            'match.name = "a"\nmatch.pfName = "b"',
            (
                "match.pfName is unknown: the keys here are pci, pf, vendor, device, subsystem, "
                "driver, kind, name, altname, mac, port_name, link_type, numa, pcie_root, "
                "acpi_index and rdma; nearest is pf"
            ),
        ),
    ],
)
def test_group_is_refused(text: str, words: str) -> None:
    """One fault, one message, with the group's number and name."""
    where = '[[group]] 1 "g1"' + (" " if words.startswith("lacks") else ": ")

    assert [where + words] == _groups(text)


def test_group_without_a_name_is_told_by_its_number() -> None:
    """The name is what all else refers to."""

    assert read_table(NicTable, '[[group]]\nmatch.name = "a"')[1] == [
        (
            "[[group]] 1 lacks name: it must be given: "
            "at most 63 lower-case letters, digits and inner hyphens"
        )
    ]


def test_two_groups_of_one_name_are_refused() -> None:
    """The second is at fault and the first is named."""

    assert read_table(
        NicTable, '[[group]]\nname = "a"\nmatch.name = "x"\n[[group]]\nname = "a"\nmatch.name = "y"'
    )[1] == ['[[group]] 2 "a": name is "a", as is that of group 1; choose another name']


def test_groups_that_name_one_device_are_refused_by_both_names() -> None:
    """Each pair is told, also where a group has another fault."""

    assert _groups(
        'match.pci = "0000:41:00.0"',
        'match.pci = ["0000:42:00.0", "0000:41:00.0"]\norder = "x"',
        'match.pci = "0000:41:00.0"\nmatch.kind = "pf"',
    ) == [
        '[[group]] 2 "g2": order is "x": it must be a whole number from -1000 to 1000',
        (
            '[[group]] 2 "g2": match.pci takes 0000:41:00.0, as does group 1 "g1": '
            "a NIC belongs to one group; drop it from one of the two, "
            'or write except = ["g1"] here'
        ),
        (
            '[[group]] 3 "g3": match.pci takes 0000:41:00.0, as does group 1 "g1": '
            "a NIC belongs to one group; drop it from one of the two, "
            'or write except = ["g1"] here'
        ),
        (
            '[[group]] 3 "g3": match.pci takes 0000:41:00.0, as does group 2 "g2": '
            "a NIC belongs to one group; drop it from one of the two, "
            'or write except = ["g2"] here'
        ),
    ]


def test_overlap_with_a_group_without_name_is_told_by_its_number() -> None:
    """The name is missing, which is told as well."""
    said = read_table(
        NicTable, '[[group]]\nmatch.name = "x"\n[[group]]\nname = "a"\nmatch.name = "x"'
    )[1]

    assert said[-1] == (
        '[[group]] 2 "a": match.name takes x, as does group 1: '
        "a NIC belongs to one group; drop it from one of the two"
    )


def test_group_may_leave_what_it_shares_to_one_further_up() -> None:
    """The first has the NIC; that is no overlap."""

    assert (
        _groups(
            'match.pci = "0000:41:00.0"',
            'match.pci = "0000:41:*"\nexcept = ["g1"]',
            'match.pf = "ens1f0"',
            'match.pf = "ens1f0#0-3"\nexcept = ["g2", "g3"]',
        )
        == []
    )


def test_group_leaves_nics_to_groups_further_up_alone() -> None:
    """So no two leave a NIC to each other, and the first of all that fit has it."""

    assert _groups(
        'match.pci = "0000:41:00.0"\nexcept = ["g2", "g1"]',
        'match.pci = "0000:42:00.0"\nexcept = ["g1", "gg"]',
        'match.pci = "0000:43:00.0"\nexcept = "g4"',
    ) == [
        '[[group]] 1 "g1": except holds "g2": it must name a group further up: there is none',
        '[[group]] 1 "g1": except holds "g1": it must name a group further up: there is none',
        '[[group]] 2 "g2": except holds "gg": it must name a group further up: "g1"',
        '[[group]] 3 "g3": except holds "g4": it must name a group further up: "g1" or "g2"',
    ]


def _own(first: int, last: int) -> str:
    inside = ", ".join(f"own{number} = 1" for number in range(first, last + 1))
    return f"attributes = {{ {inside} }}"


def test_attributes_of_all_groups_of_a_mode_must_fit_a_device() -> None:
    """The group that goes over the limit is at fault; names that groups share count once."""

    assert _groups(
        f'match.name = "a"\n{_own(1, 6)}',
        f'match.name = "b"\n{_own(1, 9)}',
        f'match.name = "c"\n{_own(8, 10)}',
        f'match.name = "d"\n{_own(1, 2)}',
        f'match.name = "e"\nmode = "shared"\n{_own(11, 17)}',
    ) == [
        (
            '[[group]] 3 "g3": attributes makes 10 own attributes over the groups of mode '
            '"exclusive": own1, own2, own3, own4, own5, own6, own7, own8, own9 and own10: '
            "there is room for 9, since all devices of a mode carry the same"
        )
    ]


def test_attributes_of_shared_parents_leave_room_for_their_capacities() -> None:
    """Slots and bandwidth take two of the places."""
    (said,) = _groups(f'match.name = "e"\nmode = "shared"\n{_own(1, 8)}')

    assert said.endswith("there is room for 7, since all devices of a mode carry the same")
