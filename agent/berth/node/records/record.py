"""The record of one claim: all that survives a restart, a reboot and the claim's own end.

Kubelet sends only namespace, name and UID at unprepare, and the claim may be gone by then, so the
record holds everything that undoing needs. It is written before the step that it announces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from berth.model.claim import ClaimRef, Consumer, DeviceResult, NetworkData
from berth.model.device import Attribute, by_kind
from berth.model.edits import DeviceNode, Edits, joined
from berth.model.peripheral import Peripheral
from berth.nic.record import NicRecord, Stage
from berth.vfio.binding import Binding

SCHEMA: Final = 2
"""Number in every file; a file with a higher one is of a newer program and is not touched.

It is raised when a value gets a field or an enumeration a member: a program that does not know it
would take the file for damaged, and give away what the file's holder has. Lower ones are read.
"""


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
        binding: How its function is bound to vfio-pci; ``None`` for what its own driver keeps.
        link: Of a NIC that is bound so, how its link is at home; it is put back as it was when its
            driver has it again.
        nodes: Of a NIC: the nodes of its RDMA devices, which its containers get.
        told: How the metadata says that the NIC looks in its pod; ``None`` before it was there.
    """

    result: DeviceResult
    identity: str
    type: str
    attributes: Mapping[str, Attribute] = attrs.field(eq=by_kind)
    slots: int = 1
    slot_limit: int = 1
    nic: NicRecord | None = None
    peripheral: Peripheral | None = None
    binding: Binding | None = None
    link: NicRecord | None = None
    nodes: tuple[DeviceNode, ...] = ()
    told: NetworkData | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """What it takes in the ledger: nothing if it is only looked at."""
        if self.nic is not None:
            return (self.identity,)
        if self.link is not None and self.binding is not None:
            return (self.identity, *self.binding.keys)
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
    def fault(self) -> str:
        """Why the last step failed, of its NIC or of its binding; empty when none did."""
        moved = (self.nic, self.link, self.binding)
        return next((one.fault for one in moved if one is not None and one.fault), "")

    @property
    def edits(self) -> Edits:
        """What its containers get of it alone."""
        own = self.peripheral.edits if self.peripheral is not None else Edits()
        bound = self.binding.nodes if self.binding is not None else ()
        nodes = (*bound, *self.nodes)
        return joined((own, Edits(nodes=nodes))) if nodes else own

    @property
    def is_told(self) -> bool:
        """Its NIC is in a pod, and containers can read how it looks there."""
        nic = self.nic
        return nic is not None and nic.stage is Stage.ATTACHED and self.told == nic.network


@attrs.frozen(kw_only=True)
class ClaimRecord:
    """One claim that was prepared, or is being.

    Attributes:
        consumers: ``status.reservedFor`` when it was prepared; of a claim with NICs, those that
            came later only once all of these had ended.
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
        return self._with(index, nic=nic, identity=nic.identity)

    def with_originals(self, index: int, nic: NicRecord) -> ClaimRecord:
        """The record with how a link was at home: one that moves, or that goes with its driver."""
        if self.devices[index].link is not None:
            return self._with(index, link=nic)
        return self.with_nic(index, nic)

    def with_binding(self, index: int, binding: Binding) -> ClaimRecord:
        """The record with another state of the binding at ``index`` of `devices`."""
        return self._with(index, binding=binding)

    def with_peripherals(self, seen: Mapping[str, Peripheral]) -> ClaimRecord:
        """The record with what containers get now of devices that are not moved.

        Of a function that is bound for its claim, its binding tells.

        Args:
            seen: By slice name; numbers and nodes change when a device is plugged in again.
        """
        devices = tuple(
            attrs.evolve(device, peripheral=_renewed(device.peripheral, seen))
            if device.peripheral is not None and device.binding is None
            else device
            for device in self.devices
        )
        return attrs.evolve(self, devices=devices)

    def after_reboot(self) -> ClaimRecord:
        """The record with what still means the same in another boot."""
        return attrs.evolve(self, devices=tuple(map(_after_reboot, self.devices)))

    @property
    def uid(self) -> str:
        """The claim's."""
        return self.claim.uid

    @property
    def nics(self) -> tuple[NicRecord | None, ...]:
        """What is done to the NIC of each device; ``None`` for one without."""
        return tuple(device.nic for device in self.devices)

    @property
    def links(self) -> tuple[NicRecord | None, ...]:
        """Of each device the link that is, or was, at home; ``None`` for one without."""
        return tuple(device.nic or device.link for device in self.devices)

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
    def bindings(self) -> tuple[tuple[int, Binding], ...]:
        """Its functions that vfio-pci has, or is to have, by device index."""
        return tuple(
            (index, device.binding)
            for index, device in enumerate(self.devices)
            if device.binding is not None
        )

    @property
    def is_home(self) -> bool:
        """Nothing that was done to any of its NICs and functions is left to be undone."""
        return not any(
            state is not None and state.is_touched
            for device in self.devices
            for state in (device.nic, device.binding)
        )

    @property
    def groups(self) -> tuple[Consumer, ...]:
        """What it is reserved for besides pods by name, such as a PodGroup."""
        return tuple(consumer for consumer in self.consumers if not consumer.is_pod)

    def serves_pod(self, pod_uid: str) -> bool:
        """Whether the pod is one of the claim's consumers."""
        return any(c.is_pod and c.uid == pod_uid for c in self.consumers)

    def _with(self, index: int, **changes: Any) -> ClaimRecord:
        devices = list(self.devices)
        devices[index] = attrs.evolve(devices[index], **changes)
        return attrs.evolve(self, devices=tuple(devices))


def _after_reboot(device: HeldDevice) -> HeldDevice:
    peripheral, binding = device.peripheral, device.binding
    return attrs.evolve(
        device,
        peripheral=peripheral.after_reboot() if peripheral is not None else None,
        binding=binding.after_reboot() if binding is not None else None,
    )


def _renewed(known: Peripheral, seen: Mapping[str, Peripheral]) -> Peripheral:
    """What was given, by the nodes of now; its keys stay, since the ledger has them.

    What nobody could be given now has no nodes, or not all of them: those of then are told again.
    """
    now = seen.get(known.name)
    if now is None or now.identity != known.identity or now.obstacle:
        return known
    return attrs.evolve(known, edits=now.edits, admin=now.admin, common=now.common)
