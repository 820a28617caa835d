"""What a pod that runs in a virtual machine is refused, and what it gets."""

from __future__ import annotations

import attrs
import pytest

from berth.errors import ClaimError
from berth.model.claim import DeviceResult
from berth.model.edits import Edits, NodeType, joined
from berth.model.peripheral import Peripheral
from berth.model.pod import Sandbox
from berth.nic.record import Stage
from berth.node.holders.nicholders import NicHolder
from berth.node.records.record import ClaimRecord, HeldDevice
from berth.nri.isolation import Isolation
from tests.unit.node.peripherals import given, kvm, modem
from tests.unit.node.views.scenes import claim_record, nic_record

VM = Sandbox(id="s1", name="web", namespace="default", uid="u", runtime_handler="kata")
ISOLATION = Isolation(lambda: ("kata", "vm"))


def at(path: str, kind: NodeType = NodeType.CHAR) -> Peripheral:
    """A device with one node, at that path."""
    (node,) = modem().edits.nodes
    return attrs.evolve(
        modem(), edits=Edits(nodes=(attrs.evolve(node, host_path=path, path=path, type=kind),))
    )


def with_node(one: Peripheral, other: Peripheral) -> Peripheral:
    """A device with the other's node too."""
    return attrs.evolve(one, edits=joined((one.edits, other.edits)))


def claimed(*peripherals: Peripheral) -> ClaimRecord:
    """A claim that has these devices."""
    devices = tuple(
        HeldDevice(
            result=DeviceResult(request="r", pool="p", device=one.name),
            identity=one.identity,
            type=one.type,
            attributes={},
            peripheral=one,
        )
        for one in peripherals
    )
    return claim_record(None, devices=devices)


LENT = given(modem()).with_nic(0, nic_record(Stage.LENT))


@pytest.mark.parametrize(
    ("holder", "names"),
    [
        (claim_record(nic_record(Stage.STAGED)), "nic-0000-41-00-0"),
        (claimed(kvm(), modem(1), at("/dev/vfio/7")), "kvm-dev-kvm, modem-1"),
        (given(modem()), "modem-0"),
        (given(modem()).with_nic(0, nic_record(Stage.STAGED)), "modem-0"),
    ],
)
def test_what_would_stay_outside_is_refused_by_name(holder: NicHolder, names: str) -> None:
    """Links and device nodes; the handler and a way out are told too."""

    with pytest.raises(ClaimError) as caught:
        ISOLATION.require_reach(VM, [holder])

    assert str(caught.value) == (
        "pod default/web: runs in a virtual machine (runtime handler kata), into which "
        f"{names} cannot be brought: it takes functions that vfio-pci has, and block devices; "
        "ask for a device of that form, or use a runtime class without a machine"
    )
    ISOLATION.require_reach(attrs.evolve(VM, runtime_handler=""), [holder])


@pytest.mark.parametrize(
    "holder",
    [
        claimed(at("/dev/vfio/7"), at("/dev/vfio/devices/vfio0"), at("/dev/iommu")),
        claimed(with_node(at("/dev/vfio/7"), at("/dev/vhost-net"))),
        claimed(at("/dev/infiniband/uverbs0"), at("/dev/sdb", NodeType.BLOCK)),
        claimed(attrs.evolve(modem(), edits=Edits(env=("A=b",)))),
        given(at("/dev/vfio/7")),
        claim_record(None),
        LENT,
    ],
)
def test_what_a_machine_takes_is_let_through(holder: NicHolder) -> None:
    """What has no node at all is nothing that could stay outside; a CNI plugin's NIC is its."""

    ISOLATION.require_reach(VM, [holder])


def test_handlers_are_those_of_now() -> None:
    """A reload names others."""

    handlers: list[str] = []
    isolation = Isolation(lambda: handlers)
    isolation.require_reach(VM, [given(modem())])
    handlers.append("kata")

    with pytest.raises(ClaimError):
        isolation.require_reach(VM, [given(modem())])
