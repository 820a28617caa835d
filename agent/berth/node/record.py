"""The record of one claim: all that survives a restart, a reboot and the claim's own end.

Kubelet sends only namespace, name and UID at unprepare, and the claim may be gone by then, so the
record holds everything that undoing needs. It is written before the step that it announces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from berth.model.claim import ClaimRef, Consumer, DeviceResult, NetworkData
from berth.model.device import Attribute
from berth.model.peripheral import Peripheral
from berth.nic.record import NicRecord, Stage

SCHEMA: Final = 1
"""Number in every file; a file with a higher one is of a newer program and is not touched."""


@attrs.frozen(kw_only=True)
class HeldDevice:
    """One device of a prepared claim.

    Attributes:
        result: The allocation's own words.
        identity: What the device physically is; the ledger's key.
        attributes: As published when the claim was prepared, for its metadata.
        slots: How many slots of a shared device it takes, of ``slot_limit``.
        nic: What is done to the NIC; ``None`` for admin access, which touches nothing, and for
            what is no NIC.
        peripheral: What containers get of a device that is not moved, as it was when the claim was
            prepared last; ``None`` for a NIC.
        told: How the metadata says that the NIC looks in its pod; ``None`` before it was there.
    """

    result: DeviceResult
    identity: str
    type: str
    attributes: Mapping[str, Attribute]
    slots: int = 1
    slot_limit: int = 1
    nic: NicRecord | None = None
    peripheral: Peripheral | None = None
    told: NetworkData | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """What it takes in the ledger: nothing if it is only looked at."""
        if self.nic is not None:
            return (self.identity,)
        if self.peripheral is not None and not self.result.admin_access:
            return self.peripheral.keys
        return ()

    @property
    def share(self) -> str | None:
        """Its share's UUID if it has others beside it, ``None`` if it has the device alone."""
        if self.nic is not None:
            return self.result.share_id if self.nic.is_child else None
        return self.result.share_id

    @property
    def is_told(self) -> bool:
        """Its NIC is in a pod, and containers can read how it looks there."""
        nic = self.nic
        return nic is not None and nic.stage is Stage.ATTACHED and self.told == nic.network


@attrs.frozen(kw_only=True)
class ClaimRecord:
    """One claim that was prepared, or is being.

    Attributes:
        consumers: ``status.reservedFor`` when it was prepared.
        driver: Our driver's name then; a change of it is refused while records are open.
        boot_id: The boot in which it was prepared last.
        generation: Of the claim's metadata files; 0 before the first.
        prepared: Everything was done and kubelet was, or may have been, told so.
        revoked: Unprepare was asked for; what is left is to bring devices home.
    """

    claim: ClaimRef
    pod_claim_name: str | None
    consumers: tuple[Consumer, ...]
    driver: str
    boot_id: str
    devices: tuple[HeldDevice, ...]
    generation: int = 0
    prepared: bool = False
    revoked: bool = False

    def with_nic(self, index: int, nic: NicRecord) -> ClaimRecord:
        """The record with another state of the NIC at ``index`` of `devices`.

        A virtual link that has another index now is another key in the ledger too.
        """
        devices = list(self.devices)
        devices[index] = attrs.evolve(devices[index], nic=nic, identity=nic.identity)
        return attrs.evolve(self, devices=tuple(devices))

    def with_peripherals(self, seen: Mapping[str, Peripheral]) -> ClaimRecord:
        """The record with what containers get now of devices that are not moved.

        Args:
            seen: By slice name; numbers and nodes change when a device is plugged in again.
        """
        devices = tuple(
            attrs.evolve(device, peripheral=_renewed(device.peripheral, seen))
            if device.peripheral is not None
            else device
            for device in self.devices
        )
        return attrs.evolve(self, devices=devices)

    def after_reboot(self) -> ClaimRecord:
        """The record with what still means the same in another boot."""
        devices = tuple(
            attrs.evolve(device, peripheral=device.peripheral.after_reboot())
            if device.peripheral is not None
            else device
            for device in self.devices
        )
        return attrs.evolve(self, devices=devices)

    @property
    def uid(self) -> str:
        """The claim's."""
        return self.claim.uid

    @property
    def nics(self) -> tuple[NicRecord | None, ...]:
        """What is done to the NIC of each device; ``None`` for one without."""
        return tuple(device.nic for device in self.devices)

    @property
    def told_as(self) -> Mapping[str, object]:
        """Who it is, for the log."""
        return {"claim": self.claim}

    @property
    def has_peripherals(self) -> bool:
        """Whether any of its devices stays where it is."""
        return any(device.peripheral is not None for device in self.devices)

    @property
    def has_nics(self) -> bool:
        """Whether any of its devices is brought into a pod."""
        return any(device.nic is not None for device in self.devices)

    @property
    def is_home(self) -> bool:
        """Nothing that was done to any of its NICs is left to be undone."""
        return not any(d.nic is not None and d.nic.is_touched for d in self.devices)

    def serves_pod(self, pod_uid: str) -> bool:
        """Whether the pod is one of the claim's consumers."""
        return any(c.is_pod and c.uid == pod_uid for c in self.consumers)


def _renewed(known: Peripheral, seen: Mapping[str, Peripheral]) -> Peripheral:
    """What was given, by the nodes of now; its keys stay, since the ledger has them.

    What nobody could be given now has no nodes, or not all of them: those of then are told again.
    """
    now = seen.get(known.name)
    if now is None or now.identity != known.identity or now.obstacle:
        return known
    return attrs.evolve(known, edits=now.edits, admin=now.admin, common=now.common)
