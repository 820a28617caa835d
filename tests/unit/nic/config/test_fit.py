"""Whether a configuration fits its device, its group and the node (rows 3, 30, 32)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.model.device import NicKind
from berth.nic.config import AttachMode, DeviceFacts, GroupPolicy, HostFacts
from berth.nic.config.fit import derived_hardware_addr
from tests.unit.nic.config.claims import (
    FAST,
    NIC,
    PARENT,
    ROOT,
    SHARED,
    class_faults,
    entry,
    faults,
    resolved,
)

MAC = "02:00:00:00:00:01"
VF = attrs.evolve(NIC, kind=NicKind.VF, pf_mtu=4000)
IPOIB = attrs.evolve(NIC, link_type="infiniband", mtu=2044)
SINGLE = attrs.evolve(PARENT, slots=1)


@pytest.mark.parametrize(
    ("facts", "mtu", "fault"),
    [
        (NIC, 9216, ""),
        (NIC, 9217, "9217 is too large for the device: at most 9216"),
        (attrs.evolve(NIC, max_mtu=0), 65535, ""),
        (attrs.evolve(NIC, min_mtu=600), 600, ""),
        (attrs.evolve(NIC, min_mtu=600), 599, "599 is too small for the device: at least 600"),
        (VF, 4000, ""),
        (VF, 4001, "4001 is above the PF's MTU: that is 4000"),
        (attrs.evolve(VF, pf_mtu=0), 9000, ""),
        (SHARED, 1500, ""),
        (SHARED, 1501, "1501 is above the parent's MTU: that is 1500"),
        (attrs.evolve(SHARED, mtu=0), 9000, ""),
    ],
)
def test_mtu_when_beside_the_device(facts: DeviceFacts, mtu: int, fault: str) -> None:
    """The kernel's bounds for the device, the PF's MTU and the parent's MTU hold."""

    wanted = [f"interface.mtu: {fault}"] if fault else []

    assert class_faults({"interface": {"mtu": mtu}}, facts=facts) == wanted


@pytest.mark.parametrize(
    ("parameters", "facts", "faults"),
    [
        (
            {"interface": {"mtu": 1279}, "addresses": [{"address": "fd00::5/64"}]},
            NIC,
            [
                (
                    "interface.mtu: the MTU is 1279, and there are IPv6 addresses: "
                    "IPv6 needs at least 1280"
                ),
            ],
        ),
        (
            {"addresses": [{"address": "fd00::5/64"}]},
            attrs.evolve(NIC, mtu=1000),
            [
                (
                    'nic-0000-41-00-0 (request "nic"): the MTU is 1000, '
                    "and there are IPv6 addresses: IPv6 needs at least 1280"
                ),
            ],
        ),
        ({"interface": {"mtu": 1280}, "addresses": [{"address": "fd00::5/64"}]}, NIC, []),
        ({"interface": {"mtu": 1279}, "addresses": [{"address": "10.0.0.5/24"}]}, NIC, []),
        ({"addresses": [{"address": "fd00::5/64"}]}, attrs.evolve(NIC, mtu=0), []),
        (
            {"routes": [{"to": "10.1.0.0/16", "mtu": 1501}, {"to": "10.2.0.0/16", "mtu": 1500}]},
            NIC,
            ["routes[0].mtu: 1501 is above the interface's MTU: that is 1500"],
        ),
        (
            {"interface": {"mtu": 1400}, "routes": [{"to": "10.1.0.0/16", "mtu": 1401}]},
            NIC,
            ["routes[0].mtu: 1401 is above the interface's MTU: that is 1400"],
        ),
    ],
)
def test_mtu_when_beside_addresses_and_routes(
    parameters: dict[str, Any], facts: DeviceFacts, faults: list[str]
) -> None:
    """IPv6 needs 1280 bytes, given or found; no route has a larger MTU than its interface."""

    assert class_faults(parameters, facts=facts) == faults


@pytest.mark.parametrize(
    ("facts", "used", "free"),
    [
        (NIC, {}, True),
        (NIC, {MAC: "pci:0000:41:00.0"}, True),
        (NIC, {MAC: "pci:0000:55:00.0"}, False),
        (NIC, {"02:00:00:00:00:02": "pci:0000:55:00.0"}, True),
        (SHARED, {MAC: "pci:0000:42:00.0"}, False),
    ],
)
def test_hardware_address_when_used_on_the_node(
    facts: DeviceFacts, used: dict[str, str], *, free: bool
) -> None:
    """No other link has it; a child's is not its parent's either."""

    found = class_faults(
        {"interface": {"hardwareAddr": MAC}}, facts=facts, host=HostFacts(hardware_addrs=used)
    )

    holder = next(iter(used.values()), "")
    wanted = f"interface.hardwareAddr: {MAC} is in use: {holder} has it; choose another"
    assert found == ([] if free else [wanted])


def test_hardware_address_when_of_infiniband() -> None:
    """Addresses of InfiniBand links are not set, in the NIC nor in its neighbors."""

    neighbors = [{"address": "10.0.0.9", "hardwareAddr": MAC}]
    parameters = {"interface": {"hardwareAddr": MAC}, "neighbors": neighbors}

    assert class_faults(parameters, facts=IPOIB) == [
        "interface.hardwareAddr: the address of a link of type infiniband cannot be set; drop it",
        "neighbors[0].hardwareAddr: 6 octets on a link of type infiniband; drop the entry",
    ]
    assert class_faults({"neighbors": neighbors}) == []


def test_macvlan_when_over_infiniband() -> None:
    """There is no macvlan over anything but Ethernet."""

    facts = attrs.evolve(SHARED, link_type="infiniband")

    assert class_faults({}, facts=facts) == [
        (
            'nic-0000-41-00-0 (request "nic"): '
            "a macvlan child over a link of type infiniband cannot be made"
        )
    ]


@pytest.mark.parametrize(
    ("facts", "policy", "faults"),
    [
        (SHARED, SINGLE, []),
        (
            SHARED,
            PARENT,
            [
                (
                    'macvlan.mode: "passthru" with 4 slots in group "parent": '
                    "it takes the whole parent; shared.slots = 1 in that group allows it"
                ),
            ],
        ),
        (
            attrs.evolve(SHARED, uplink="default route (table main) → ens1f0"),
            SINGLE,
            [
                (
                    'macvlan.mode: "passthru" over an uplink of the node: '
                    "default route (table main) → ens1f0"
                ),
            ],
        ),
    ],
)
def test_passthru_when_the_parent_is_needed_by_others(
    facts: DeviceFacts, policy: GroupPolicy, faults: list[str]
) -> None:
    """It takes the whole parent, so there is one slot, and the node does not need it."""

    found = class_faults({"macvlan": {"mode": "passthru"}}, facts=facts, policy=policy)

    assert found == faults


def test_passthru_when_a_hardware_address_is_given() -> None:
    """The kernel gives the parent's at creation, and a later change changes the parent."""

    parameters = {"interface": {"hardwareAddr": MAC}, "macvlan": {"mode": "passthru"}}

    assert class_faults(parameters, facts=SHARED, policy=SINGLE) == [
        (
            f'interface.hardwareAddr: {MAC} with macvlan.mode "passthru": '
            "the child has the parent's own, and a change of it would change the parent; drop it"
        )
    ]


def test_mode_when_not_of_the_group() -> None:
    """The group says how its devices reach pods; the claim chooses among its ways only."""

    assert class_faults({"mode": "macvlan"}) == [
        'mode: "macvlan" does not fit nic-0000-41-00-0: the mode of group "fast" is move'
    ]
    assert class_faults({"mode": "move"}, facts=SHARED) == [
        'mode: "move" does not fit nic-0000-41-00-0: the mode of group "parent" is macvlan'
    ]
    assert class_faults({"mode": "macvlan"}, facts=SHARED) == []


@pytest.mark.parametrize("kind", ["rdma", "nic-later"])
def test_type_when_of_a_later_version(kind: str) -> None:
    """Devices that this version cannot prepare are refused by their type."""

    found = class_faults({}, facts=attrs.evolve(NIC, type=kind))

    assert found == [
        (
            f'nic-0000-41-00-0 (request "nic"): devices of type {kind} '
            "are not available in this version"
        )
    ]


def test_group_when_it_has_no_way_of_this_version() -> None:
    """A group whose devices cannot be handed out yet refuses every claim on it."""

    policy = attrs.evolve(FAST, modes=())

    assert class_faults({}, policy=policy) == [
        (
            'nic-0000-41-00-0 (request "nic"): "move" does not fit nic-0000-41-00-0: '
            'the mode of group "fast" is none of this version'
        )
    ]


def test_child_when_no_hardware_address_is_given() -> None:
    """It gets one that is local, the same each time, and another one for another share."""

    first = derived_hardware_addr("uid", "parent-0000-41-00-0", "share-1")

    assert first == derived_hardware_addr("uid", "parent-0000-41-00-0", "share-1")
    assert first.startswith("02:")
    assert len(first) == 17
    others = {
        derived_hardware_addr("uid", "parent-0000-41-00-0", "share-2"),
        derived_hardware_addr("uid", "parent-0000-41-00-1", "share-1"),
        derived_hardware_addr("uid2", "parent-0000-41-00-0", "share-1"),
        derived_hardware_addr("uid", "parent-0000-41-00-0", None),
    }
    assert len(others | {first}) == 5


def test_child_when_its_derived_address_is_taken() -> None:
    """A taken address is passed over, the same way each time."""

    first = derived_hardware_addr("uid", "d", None)
    second = derived_hardware_addr("uid", "d", None, {first})

    assert second != first
    assert second == derived_hardware_addr("uid", "d", None, {first})


@pytest.mark.parametrize(
    ("parameters", "facts", "policy", "has_one"),
    [
        ({}, NIC, FAST, False),
        ({}, SHARED, PARENT, True),
        ({"macvlan": {"mode": "passthru"}}, SHARED, SINGLE, False),
    ],
)
def test_hardware_address_when_resolved(
    parameters: dict[str, Any], facts: DeviceFacts, policy: GroupPolicy, *, has_one: bool
) -> None:
    """A child has one in the end; a moved NIC keeps its own, passthru the parent's."""

    allowed = attrs.evolve(policy, claims_may=("macvlan.mode",))
    nic = resolved(entry(parameters), facts=facts, policy=allowed)[0]

    assert (nic.config.interface.hardware_addr is not None) == has_one
    assert nic.mode is (AttachMode.MACVLAN if facts is SHARED else AttachMode.MOVE)


def test_vf_values_when_the_device_is_no_vf() -> None:
    """They are refused one by one, and not ignored."""

    assert class_faults({"vf": {"vlan": 7, "trust": True}}) == [
        f"vf.{name}: without effect on a device of kind pci: it is set of a VF, through its PF; "
        "drop it"
        for name in ("vlan", "trust")
    ]


def test_vf_values_when_the_pf_is_not_seen() -> None:
    """Whoever has the PF in another namespace learns why its VFs cannot be set."""

    (fault,) = class_faults({"vf": {"vlan": 7}}, facts=attrs.evolve(VF, pf_mtu=0))

    assert fault.startswith("vf.vlan: cannot be set: the link of the VF's PF is not seen on the")


def test_vf_values_when_the_author_is_a_tenant() -> None:
    """A VLAN reaches other tenants: a claim may set it only where its group says so."""

    wish = entry({"vf": {"vlan": 7}})
    may = attrs.evolve(FAST, claims_may=("vf.vlan",))

    rule = 'a DeviceClass or the defaults of group "fast" may'
    mend = 'claims_may = ["vf.vlan"] in that group allows it'
    fault = f"{ROOT}.vf.vlan: a claim may not set vf.vlan here: {rule}; {mend}"
    assert faults(wish, facts=VF) == [fault]
    assert resolved(wish, facts=VF, policy=may)[0].config.vf.vlan == 7


@pytest.mark.parametrize("field", ["vf", "ethtool"])
def test_values_of_a_moved_link_when_a_child_is_made(field: str) -> None:
    """A child has neither a PF nor switches that would be put back."""

    given = {"vf": {"trust": True}, "ethtool": {"features": {"rx-gro": True}}}[field]
    found = class_faults({field: given}, facts=SHARED)

    assert any("without effect in mode macvlan: it belongs to mode move" in f for f in found)


HCA = attrs.evolve(NIC, rdma=("mlx5_0",), rdma_netns="shared")
UVERBS = "/dev/infiniband/uverbs0"


@pytest.mark.parametrize(
    ("use", "facts", "fault"),
    [
        ("auto", NIC, ""),
        ("auto", HCA, ""),
        ("required", HCA, ""),
        ("none", attrs.evolve(HCA, rdma_lacking=(UVERBS,)), ""),
        ("required", NIC, '"required" of a NIC without an RDMA device: it has to have one'),
        (
            "auto",
            attrs.evolve(HCA, rdma_lacking=(UVERBS,)),
            (
                f"{UVERBS} of mlx5_0 is not there: a pod gets all nodes of an RDMA device; "
                'load ib_uverbs, ib_umad and rdma_ucm, or say rdma = "none"'
            ),
        ),
        ("auto", attrs.evolve(HCA, rdma_netns="exclusive", rdma_lacking=(UVERBS,)), ""),
        (
            "required",
            attrs.evolve(HCA, rdma_netns="exclusive"),
            (
                "mlx5_0 would have to move into the pod: that is not available in this version; "
                "`rdma system set netns shared` before any other namespace is made"
            ),
        ),
    ],
)
def test_rdma_when_the_device_has_it_or_not(use: str, facts: DeviceFacts, fault: str) -> None:
    """What is asked for is given whole or refused; what nobody asked for is given whole too."""

    assert class_faults({"rdma": use}, facts=facts) == ([f"rdma: {fault}"] if fault else [])


def test_rdma_when_nobody_speaks_of_it() -> None:
    """The pod would start without its node, which is told at the device."""

    (fault,) = class_faults({}, facts=attrs.evolve(HCA, rdma_lacking=(UVERBS,)))

    assert fault.startswith(f'nic-0000-41-00-0 (request "nic"): {UVERBS} of mlx5_0 is not there: ')
