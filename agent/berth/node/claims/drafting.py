"""From an admitted claim to its record: what will be done with each of its devices, all checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from berth.config.nicgroup import Scrub
from berth.gpu.vfioconfig import ways_in
from berth.model.claim import Claim, DeviceResult
from berth.model.device import Attribute, NicKind
from berth.model.edits import DeviceNode
from berth.model.peripheral import VFIO_GPU, Peripheral
from berth.nic.config.devicefacts import HostFacts, Target
from berth.nic.config.group import GroupPolicy
from berth.nic.config.pod import assign_names
from berth.nic.config.resolve import resolve, wished_names
from berth.nic.config.values import AttachMode, NicConfig, RdmaUse, ResolvedNic
from berth.nic.facts import Home
from berth.nic.record import NicRecord
from berth.node.claims.admission import Admitted
from berth.node.holders.nicholders import children_of
from berth.node.inventory.snapshot import Snapshot
from berth.node.records.record import ClaimRecord, HeldDevice
from berth.vfio.binding import Binding
from berth.vfio.wayin import WayIn

_NOWHERE: Final = Home(index=0, parent_device="", driver="")
# Of a function that vfio-pci has already.


@attrs.frozen(kw_only=True)
class Settings:
    """What claims are judged by besides the machine.

    Attributes:
        policies: What each group says of claims, by group name.
    """

    driver: str
    boot_id: str
    policies: Mapping[str, GroupPolicy]


def draft(
    claim: Claim,
    snapshot: Snapshot,
    admitted: Admitted,
    *,
    settings: Settings,
    records: Sequence[ClaimRecord],
    siblings: Sequence[Claim] = (),
) -> ClaimRecord:
    """The claim's record before anything is done.

    Args:
        records: Every claim of the node that is prepared, or has a draft already.
        siblings: The claims of its pod that are prepared together, itself among them, in the
            pod's order; then those that its pod has of claims which were prepared before.

    Raises:
        Faults: The claim's configuration cannot be done; every fault is named.
    """
    others = [record for record in records if record.claim.uid != claim.ref.uid]
    beside = _same_pod(claim, others, siblings)
    skipped = _names_of_groups(claim, others)
    resolved = {
        (nic.request, nic.device, nic.share_id): nic
        for nic in resolve(
            claim,
            targets=admitted.targets,
            policies=settings.policies,
            driver=settings.driver,
            host=HostFacts(
                hardware_addrs=_hardware_addrs(snapshot, others), children=children_of(others)
            ),
            others=beside,
            skip_names=skipped
            | _names_of_siblings(
                claim,
                _undrafted(siblings, others),
                snapshot,
                settings=settings,
                taken=skipped | {nic.name for nic in beside},
            ),
        )
    }
    ways = ways_in(claim, _functions(claim, snapshot), driver=settings.driver)
    slots = {(hold.device, hold.share): (hold.slots, hold.limit) for hold in admitted.holds}
    devices = tuple(
        _held(
            result,
            resolved.get((result.request, result.device, result.share_id)),
            snapshot,
            slots.get((result.device, result.share_id), (0, 0)),
            settings,
            way=ways.get((result.request, result.device)),
        )
        for result in claim.results
    )
    return ClaimRecord(
        claim=claim.ref,
        pod_claim_name=claim.pod_claim_name,
        consumers=claim.consumers,
        driver=settings.driver,
        boot_id=settings.boot_id,
        devices=devices,
    )


def _held(
    result: DeviceResult,
    wish: ResolvedNic | None,
    snapshot: Snapshot,
    slots: tuple[int, int],
    settings: Settings,
    *,
    way: WayIn | None,
) -> HeldDevice:
    device = snapshot.inventory.device_by_name.get(result.device)
    attributes: Mapping[str, Attribute] = device.attributes if device is not None else {}
    peripheral = snapshot.inventory.peripheral_by_name.get(result.device)
    if peripheral is not None:
        bound = way is not None and not result.admin_access
        return HeldDevice(
            result=result,
            identity=peripheral.identity,
            type=peripheral.type,
            attributes=peripheral.attributes,
            slots=slots[0],
            slot_limit=slots[1],
            peripheral=_without_nodes(peripheral) if bound else _free(peripheral),
            binding=Binding(address=peripheral.path, way=way or WayIn()) if bound else None,
        )
    held = HeldDevice(
        result=result,
        identity=snapshot.inventory.nic_by_name[result.device].identity,
        type=str(attributes.get("type", "")),
        attributes=attributes,
        slots=slots[0],
        slot_limit=slots[1],
    )
    if wish is None:
        return held
    nic = _nic(wish, snapshot, settings)
    if wish.mode is not AttachMode.VFIO:
        return attrs.evolve(held, nic=nic, nodes=_rdma_nodes(wish, snapshot))
    return attrs.evolve(held, link=nic, binding=_binding(wish, snapshot, settings))


def _rdma_nodes(wish: ResolvedNic, snapshot: Snapshot) -> tuple[DeviceNode, ...]:
    wanted = wish.config.rdma is not RdmaUse.NONE and snapshot.facts[wish.device].shares_rdma
    return snapshot.rdma.get(wish.device, ()) if wanted else ()


def _binding(wish: ResolvedNic, snapshot: Snapshot, settings: Settings) -> Binding:
    nic = snapshot.inventory.nic_by_name[wish.device]
    return Binding(
        address=nic.pci,
        way=wish.config.vfio,
        allow_noiommu=settings.policies[nic.group].allow_noiommu,
        keys=snapshot.facts[wish.device].companions,
    )


def _free(peripheral: Peripheral) -> Peripheral:
    return attrs.evolve(peripheral, held_by=())


def _without_nodes(peripheral: Peripheral) -> Peripheral:
    """A function before it is bound: its nodes are those of its binding."""
    return attrs.evolve(_free(peripheral), edits=attrs.evolve(peripheral.edits, nodes=()))


def _functions(claim: Claim, snapshot: Snapshot) -> list[DeviceResult]:
    """The claim's GPUs for virtual machines."""
    known = snapshot.inventory.peripheral_by_name
    return [
        result
        for result in claim.results
        if (one := known.get(result.device)) is not None and one.type == VFIO_GPU
    ]


def _nic(wish: ResolvedNic, snapshot: Snapshot, settings: Settings) -> NicRecord:
    nic = snapshot.inventory.nic_by_name[wish.device]
    home = snapshot.homes.get(wish.device) or _NOWHERE
    return NicRecord(
        identity=nic.identity,
        device=nic.name,
        group=nic.group,
        config=wish.config,
        boot_id=settings.boot_id,
        parent_device=home.parent_device,
        parent_index=home.index if wish.mode.is_child else 0,
        seat=home.seat,
        scrub=is_scrubbed(wish.config, nic.kind, settings.policies[nic.group].scrub),
    )


def is_scrubbed(config: NicConfig, kind: NicKind, scrub: Scrub) -> bool:
    """Whether a NIC's driver is bound anew when it comes home: a PF's would end its VFs."""
    moved = config.mode is AttachMode.MOVE and kind is NicKind.VF
    return moved and scrub is Scrub.REBIND


def _names_of_siblings(
    claim: Claim,
    siblings: Sequence[Claim],
    snapshot: Snapshot,
    *,
    settings: Settings,
    taken: Collection[str],
) -> frozenset[str]:
    """Names of NICs whose claims have no draft yet: all are named as if one after the other."""
    wishes = [
        (each.ref.uid, name)
        for each in siblings
        for name in wished_names(
            each,
            targets=_targets(each, snapshot),
            policies=settings.policies,
            driver=settings.driver,
        )
    ]
    names = assign_names([name for _, name in wishes], taken)
    return frozenset(
        name for (uid, _), name in zip(wishes, names, strict=True) if uid != claim.ref.uid
    )


def _undrafted(siblings: Sequence[Claim], others: Sequence[ClaimRecord]) -> list[Claim]:
    drafted = {record.claim.uid for record in others}
    return [each for each in siblings if each.ref.uid not in drafted]


def _names_of_groups(claim: Claim, others: Sequence[ClaimRecord]) -> frozenset[str]:
    """Names of NICs that a pod of the claim may have too, by claims that do not tell of it.

    A group's claim is prepared with the first of its pods, and names none. A number costs nothing;
    so it is left to such a claim, whether or not the pod has it.
    """
    return frozenset(
        name
        for record in others
        if record.claim.namespace == claim.ref.namespace and not record.revoked
        if _may_meet(claim, record)
        for nic in record.nics
        if nic is not None
        for _, name in nic.config.names
    )


def _may_meet(claim: Claim, record: ClaimRecord) -> bool:
    """Whether one pod may have both, as a pod of a group."""
    mine = {consumer.uid for consumer in claim.consumers if not consumer.is_pod}
    if not mine:
        return bool(record.groups)
    if not record.groups:
        return record.pod_claim_name is None
    return not mine.isdisjoint(group.uid for group in record.groups)


def _targets(claim: Claim, snapshot: Snapshot) -> list[Target]:
    return [
        Target(result=result, facts=snapshot.facts[result.device])
        for result in claim.results
        if result.device in snapshot.facts
    ]


def _same_pod(
    claim: Claim, others: Sequence[ClaimRecord], siblings: Sequence[Claim]
) -> tuple[ResolvedNic, ...]:
    """NICs that other claims bring into the same pod; those of a group do not name it."""
    pods = [consumer.uid for consumer in claim.consumers if consumer.is_pod]
    beside = {each.ref.uid for each in siblings}
    return tuple(
        ResolvedNic(
            claim=record.claim,
            request=device.result.request,
            pool=device.result.pool,
            device=device.result.device,
            share_id=device.result.share_id,
            config=device.nic.config,
        )
        for record in others
        if record.claim.uid in beside or any(record.serves_pod(pod) for pod in pods)
        if not record.revoked
        for device in record.devices
        if device.nic is not None
    )


def _hardware_addrs(snapshot: Snapshot, others: Sequence[ClaimRecord]) -> dict[str, str]:
    """Addresses in use on the host and in the children that other claims have."""
    used = dict(snapshot.hardware_addrs)
    for record in others:
        for device in record.devices:
            address = device.nic.config.interface.hardware_addr if device.nic else None
            if address is not None:
                used.setdefault(address, f"claim {record.claim}")
    return used
