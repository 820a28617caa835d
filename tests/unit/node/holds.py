"""Records of claims that hold NICs, as far as the inventory looks at them."""

from __future__ import annotations

from typing import Any

from berth.model.claim import ClaimRef, DeviceResult
from berth.nic.config.values import NicConfig
from berth.nic.record import NicRecord, Originals, Stage
from berth.node.records.record import ClaimRecord, HeldDevice
from tests.unit.nic.machine import BOOT

ORIGINALS = Originals(
    name="ens1f0",
    index=3,
    kind="",
    mtu=1500,
    mac="02:00:5e:10:00:99",
    perm_mac="02:00:5e:10:00:01",
    flags=0,
    txqlen=1000,
    group=0,
    alias="",
)


def held(
    identity: str,
    name: str,
    *,
    group: str = "fast",
    originals: Originals | None = ORIGINALS,
    stage: Stage = Stage.ATTACHED,
    fault: str = "",
    **attributes: Any,
) -> HeldDevice:
    """A NIC that a claim holds alone."""
    told = {"type": "nic", "group": group, "kind": "pci", "ifName": "ens1f0", **attributes}
    nic = NicRecord(
        identity=identity,
        device=name,
        group=group,
        config=NicConfig(),
        boot_id=BOOT,
        originals=originals,
        stage=stage,
        fault=fault,
    )
    return HeldDevice(result=_result(name), identity=identity, type="nic", attributes=told, nic=nic)


def child(identity: str, name: str, *, group: str = "lan", slots: int = 1) -> HeldDevice:
    """A link over a parent that a claim has part of."""
    nic = NicRecord(
        identity=identity,
        device=name,
        group=group,
        config=NicConfig(),
        boot_id=BOOT,
        parent_index=3,
        stage=Stage.ATTACHED,
    )
    told = {"type": "nic-shared", "group": group, "kind": "pci"}
    return HeldDevice(
        result=_result(name),
        identity=identity,
        type="nic-shared",
        attributes=told,
        slots=slots,
        slot_limit=32,
        nic=nic,
    )


def seen_only(identity: str, name: str) -> HeldDevice:
    """A device of a claim with admin access."""
    return HeldDevice(result=_result(name), identity=identity, type="nic", attributes={})


def record(claim: str, *devices: HeldDevice, revoked: bool = False) -> ClaimRecord:
    """A claim of namespace ``team``."""
    return ClaimRecord(
        claim=ClaimRef(namespace="team", name=claim, uid=f"uid-{claim}"),
        pod_claim_name=None,
        consumers=(),
        driver="berth.dev",
        boot_id=BOOT,
        devices=devices,
        prepared=True,
        revoked=revoked,
    )


def _result(name: str) -> DeviceResult:
    return DeviceResult(request="nic", pool="node/nic", device=name)
