"""A node with one pod, its claim and its NICs, at whatever point a test wants."""

from __future__ import annotations

from typing import Any

import attrs

from berth.features.states import Evidence, FeatureStates, fold
from berth.model.claim import ClaimRef, Consumer, DeviceResult, NetworkData
from berth.model.device import Device, Exclusion, Nic, NicKind, Version
from berth.model.inventory import Inventory
from berth.nic.config.values import InterfaceConfig, NicConfig
from berth.nic.record import NicRecord, SandboxRef, Stage
from berth.node.records.record import ClaimRecord, HeldDevice

CLAIM = ClaimRef(namespace="default", name="net", uid="11111111-2222-3333-4444-555555555555")
POD = Consumer(resource="pods", name="web", uid="99999999-8888-7777-6666-555555555555")
DEVICE = "nic-0000-41-00-0"
SANDBOX = SandboxRef(
    id="sandbox-1", pod_uid=POD.uid, pod="default/web", netns_path="/run/netns/x", netns_inode=7
)


@attrs.frozen(kw_only=True)
class Nri:
    """What the NRI plugin would tell."""

    synchronized: bool = True
    runtime: object | None = "containerd 2.4.2"
    reason: str = ""


DISCONNECTED = Nri(synchronized=False, reason="cannot connect: No such file or directory")


@attrs.frozen(kw_only=True)
class Pool:
    """A pool on the server."""

    generation: int = 3
    slices: int = 1
    devices: int = 2


@attrs.frozen(kw_only=True)
class Publication:
    """What the publisher would tell."""

    state: str = "published"
    node: str = "worker-7"
    pools: dict[str, Pool] = attrs.field(factory=dict)
    refused: tuple[str, ...] = ()
    features: FeatureStates = attrs.field(
        factory=lambda: fold(Evidence(server=(1, 36), kubelet=(1, 36)))
    )


@attrs.frozen(kw_only=True)
class NodeName:
    """What the choice of a name would tell."""

    name: str = "worker-7"
    source: str = "[node] name"
    conflict: str = ""


def nic_record(stage: Stage = Stage.STAGED, **changes: Any) -> NicRecord:
    """A NIC of the claim; from its attach on it knows a sandbox."""
    away = stage in {Stage.ATTACHING, Stage.ATTACHED, Stage.RETURNING}
    seen = NetworkData(interface_name="net1", ips=("192.0.2.7/24",), hardware_address="02::1")
    record = NicRecord(
        identity="pci:0000:41:00.0",
        device=DEVICE,
        group="fast",
        config=NicConfig(interface=InterfaceConfig(name="net1")),
        boot_id="boot",
        stage=stage,
        sandbox=SANDBOX if away else None,
        network=seen if stage is Stage.ATTACHED else None,
        carrier=stage is Stage.ATTACHED,
    )
    return attrs.evolve(record, **changes)


def claim_record(nic: NicRecord | None, **changes: Any) -> ClaimRecord:
    """The claim, prepared; without a NIC record it only looks."""
    record = ClaimRecord(
        claim=CLAIM,
        pod_claim_name=None,
        consumers=(POD,),
        driver="berth.dev",
        boot_id="boot",
        devices=(
            HeldDevice(
                result=DeviceResult(request="nic", pool="worker-7/nic", device=DEVICE),
                identity="pci:0000:41:00.0",
                type="nic",
                attributes={},
                nic=nic,
            ),
        ),
        generation=1,
        prepared=True,
    )
    return attrs.evolve(record, **changes)


INVENTORY = Inventory(
    nics=(
        Nic(
            identity="pci:0000:01:00.0",
            name="nic-0000-01-00-0",
            kind=NicKind.PCI,
            ifname="eth0",
            ifindex=2,
            pci="0000:01:00.0",
            driver="igb",
            mac="52:54:00:00:00:01",
            exclusion=Exclusion(reason="uplink", detail="default route (table main) → eth0"),
        ),
        Nic(
            identity="pci:0000:41:00.0",
            name=DEVICE,
            kind=NicKind.PF,
            group="fast",
            ifname="ens1f0",
            ifindex=3,
            pci="0000:41:00.0",
            driver="mlx5_core",
            mac="52:54:00:00:00:02",
            held_by=("default/net",),
        ),
        Nic(
            identity="link:boot:9",
            name="nic-lab-veth0",
            kind=NicKind.VIRTUAL,
            group="lab",
            ifname="veth0",
            ifindex=9,
            driver="veth",
            mac="52:54:00:00:00:03",
        ),
    ),
    devices=(
        Device(
            name=DEVICE,
            identity="pci:0000:41:00.0",
            type="nic",
            group="fast",
            attributes={"type": "nic", "speedMbps": 25000, "driverVersion": Version("1.2.3")},
        ),
        Device(
            name="nic-lab-veth0",
            identity="link:boot:9",
            type="nic",
            group="lab",
            attributes={"type": "nic"},
        ),
    ),
    warnings=("group slow selects nothing",),
)
