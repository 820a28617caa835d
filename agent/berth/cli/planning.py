"""What would be done for claims on a machine that was looked at: the daemon's own judgement. Pure.

A claim without an allocation gets one from the devices of the groups, as a scheduler would give it.
From there on everything is decided by what decides it in the daemon: admission, configuration,
plan. Claims are judged in the order of the pods, and each one knows those before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from berth.cli.claimfile import claims_of, classes_of, stable_uid
from berth.cli.outlook import Gear, outlook
from berth.cli.wording import tallied
from berth.config.schema import Config
from berth.dra.origin import Origin
from berth.errors import BerthError, ConfigError, Faults
from berth.host.netlink.link import Link
from berth.host.netlink.vf import Vf
from berth.host.scan import HostScan
from berth.kube.claims import claim_from_json
from berth.kube.quantity import parse_quantity
from berth.kube.slices import Owner, device_json
from berth.model.claim import Claim
from berth.model.edits import joined
from berth.model.peripheral import Peripheral
from berth.nic import plan, staging
from berth.nic.config.group import policies_of
from berth.nic.record import NicRecord
from berth.nic.steps import Step
from berth.nic.view import View
from berth.nic.vrf import FIRST_TABLE, join
from berth.node.claims.admission import Admitted, admit
from berth.node.claims.drafting import Settings, draft
from berth.node.inventory.sighting import Memory
from berth.node.inventory.snapshot import Snapshot, judge
from berth.node.ledger import Ledger
from berth.node.records.record import ClaimRecord, HeldDevice
from berth.node.views.devices import nics_summary
from berth.rehearsal.manifests import Manifests
from berth.rehearsal.scheduler import allocate
from berth.vfio.binding import VFIO, Binding
from berth.vfio.wayin import node_paths

NODE: Final = "this-node"
"""Stands for the node where the configuration names none."""


@attrs.frozen(kw_only=True)
class DevicePlan:
    """What would be done for one device.

    Attributes:
        mode: ``move``, ``macvlan`` …; ``give`` for a device that stays where it is; ``look`` for
            admin access.
        interface: Its name in the pod; empty for a device that is only looked at, or no NIC.
        gifts: What a container gets of a device that is not moved, and of a NIC beside its link.
    """

    device: str
    request: str
    mode: str
    interface: str
    gifts: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()


@attrs.frozen(kw_only=True)
class ClaimPlan:
    """What would be done for one claim, or why it would be refused.

    Attributes:
        name: ``namespace/name``; that of a claim made from a template is made up.
        allocated: The manifest had an allocation; else one was made up.
        faults: As kubelet would show them in the pod's event.
        notes: What had to be taken for granted.
    """

    name: str
    pods: tuple[str, ...]
    allocated: bool
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    devices: tuple[DevicePlan, ...] = ()


@attrs.frozen(kw_only=True)
class _Begun:
    """A claim on its way to a plan; ``None`` when it has no allocation."""

    plan: ClaimPlan
    claim: Claim | None = None


def plan_claims(
    manifests: Manifests, scan: HostScan, config: Config, *, gear: Gear | None = None
) -> tuple[ClaimPlan, ...]:
    """Plan every claim that the pods of the manifests use, in their order.

    Args:
        gear: What lies beside NICs; ``None`` where nothing is known of it.
    """
    planner = _Planner(manifests, scan, config, gear or Gear())
    begun = [planner.begin(value) for value in claims_of(manifests)]
    claims = [each.claim for each in begun if each.claim is not None]
    return tuple(planner.finish(each, claims) for each in begun)


class _Planner:
    """Plans one claim after the other; each takes its devices from those after it."""

    def __init__(self, manifests: Manifests, scan: HostScan, config: Config, gear: Gear) -> None:
        self._driver = config.dra.driver
        self._node = config.node.name or NODE
        self._classes = classes_of(manifests, self._driver)
        self._links = {link.index: link for link in scan.links}
        self._snapshot = judge(scan, outlook(config, gear), Memory())
        self._settings = Settings(
            driver=self._driver, boot_id=scan.boot_id, policies=policies_of(config.nic.groups)
        )
        self._ledger = Ledger()
        self._records: list[ClaimRecord] = []
        self._allocated: list[Mapping[str, Any]] = []

    def begin(self, value: Mapping[str, Any]) -> _Begun:
        """Give the claim devices, unless it has some."""
        metadata, status = value["metadata"], value["status"]
        begun = ClaimPlan(
            name=f"{metadata['namespace']}/{metadata['name']}",
            pods=tuple(pod["name"] for pod in status["reservedFor"]),
            allocated=bool(status.get("allocation")),
        )
        try:
            if not begun.allocated:
                value, notes = self._allocate(value)
                begun = attrs.evolve(begun, notes=notes)
            claim = claim_from_json(value, driver=self._driver)
            _require_quantities(claim)
        except BerthError as error:
            lacking = () if begun.allocated else _supply_note(self._snapshot)
            return _Begun(plan=attrs.evolve(begun, notes=lacking, faults=(str(error),)))
        self._allocated.append(_as_used(claim, self._driver))
        return _Begun(plan=begun, claim=claim)

    def finish(self, begun: _Begun, claims: Sequence[Claim]) -> ClaimPlan:
        """Plan the claim as the daemon would that is asked to prepare it.

        Args:
            claims: Those of all pods.
        """
        if begun.claim is None:
            return begun.plan
        try:
            return self._plan(begun.plan, begun.claim, claims)
        except Faults as error:
            faults = tuple(str(fault) for fault in error.faults)
        except BerthError as error:
            faults = (str(error),)
        return attrs.evolve(begun.plan, faults=faults)

    def _plan(self, begun: ClaimPlan, claim: Claim, claims: Sequence[Claim]) -> ClaimPlan:
        admission = admit(claim, self._snapshot, self._ledger)
        if not isinstance(admission, Admitted):
            return attrs.evolve(begun, faults=(f"claim {claim.ref}: {admission.reason}",))
        record = draft(
            claim,
            self._snapshot,
            admission,
            settings=self._settings,
            records=self._records,
            siblings=[other for other in claims if {*other.consumers} & {*claim.consumers}],
        )
        self._ledger.take(admission.holds)
        self._records.append(record)
        return attrs.evolve(
            begun,
            notes=(*begun.notes, *_derived_note(record, claim)),
            devices=tuple(self._devices(record)),
        )

    def _allocate(self, value: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The claim with an allocation like the scheduler's, out of everything that is offered."""
        found = allocate(
            value,
            classes=self._classes,
            slices=self._slices(),
            claims=self._allocated,
            node=self._node,
        )
        allocation = _with_stable_shares(found.allocation, value["metadata"]["uid"])
        return {**value, "status": {**value["status"], "allocation": allocation}}, found.notes

    def _slices(self) -> list[Mapping[str, Any]]:
        """Everything that is offered, as one slice of each pool."""
        origin = Origin(driver=self._driver, owner=Owner(name=self._node, uid=""))
        pools: dict[str, list[Mapping[str, Any]]] = {}
        for device in self._snapshot.inventory.devices:
            pools.setdefault(origin.pool_of(device.type), []).append(device_json(device))
        return [
            {
                "metadata": {"name": self._node},
                "spec": {
                    "driver": self._driver,
                    "nodeName": self._node,
                    "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                    "devices": devices,
                },
            }
            for pool, devices in pools.items()
        ]

    def _devices(self, record: ClaimRecord) -> Iterator[DevicePlan]:
        for device in record.devices:
            nic, name, request = device.nic, device.result.device, device.result.request
            if device.binding is not None:
                yield _bound(device, device.binding)
                continue
            if device.peripheral is not None:
                yield _given(device, device.peripheral)
                continue
            if nic is None:
                yield DevicePlan(device=name, request=request, mode="look", interface="")
                continue
            yield DevicePlan(
                device=name,
                request=request,
                mode=nic.config.mode.value,
                interface=nic.config.interface.name,
                gifts=tuple(f"node {node.path} ({node.permissions})" for node in device.nodes),
                steps=steps_of(nic, self._links[self._snapshot.homes[name].index], self._vf(nic)),
            )

    def _vf(self, nic: NicRecord) -> Vf | None:
        """What the PF shows of a NIC that is a VF."""
        seat = nic.seat
        pf = self._links.get(seat.index) if seat is not None else None
        if seat is None or pf is None:
            return None
        return next((vf for vf in pf.vfs if vf.number == seat.number), None)


def _bound(device: HeldDevice, binding: Binding) -> DevicePlan:
    """A function for a machine; its own number is known when it is bound."""
    paths = node_paths(binding.way, group=_group(device), name="")
    return DevicePlan(
        device=device.result.device,
        request=device.result.request,
        mode="give",
        interface="",
        gifts=(f"{binding.address} bound to {VFIO}", *(f"node {path}" for path in paths)),
    )


def _group(device: HeldDevice) -> int | None:
    number = device.attributes.get("iommuGroup")
    return number if isinstance(number, int) and number >= 0 else None


def _given(device: HeldDevice, one: Peripheral) -> DevicePlan:
    looks = device.result.admin_access
    edits = one.admin if looks else joined((one.common, one.edits))
    gifts = [
        f"node {node.path} ({node.permissions})"
        + (f", which is {node.host_path} here" if node.host_path != node.path else "")
        for node in edits.nodes
    ]
    gifts += [f"mount {mount.container_path} of {mount.host_path}" for mount in edits.mounts]
    gifts += [f"variable {entry}" for entry in edits.env]
    return DevicePlan(
        device=device.result.device,
        request=device.result.request,
        mode="look" if looks else "give",
        interface="",
        gifts=tuple(gifts),
    )


def steps_of(nic: NicRecord, home: Link, vf: Vf | None = None) -> tuple[Step, ...]:
    """Every step for one NIC, from its link at home to its last route in the pod.

    Args:
        home: The link that is moved, or the parent over which a child is made.
        vf: What the PF shows of a VF.
    """
    config = nic.config
    vrf = config.vrf
    if vrf.name and vrf.table is None:
        # Nothing is known of the pod, so the first table counts as free.
        config = attrs.evolve(config, vrf=attrs.evolve(vrf, table=FIRST_TABLE))
    settled = (*join(config, None), *plan.settle(config, None))
    if nic.is_child:
        return (*plan.make(config), *settled)
    staged = staging.stage(config, View(link=home, vf=vf), nic.seat)
    # Entering sets again what drifted since it was staged: of a link that is as it was, all of it.
    entered = plan.enter(config, home, taken=frozenset())[-1:]
    return (*staged, *entered, *settled)


def _supply_note(snapshot: Snapshot) -> tuple[str, ...]:
    """How many NICs a claim without a device had to choose from, and what became of the rest."""
    nics = nics_summary(snapshot.inventory)
    if not nics["excluded"]:
        return ()
    offered = f"NICs offered on the node: {nics['offered']} of {nics['seen']}"
    rest = f"not offered: {tallied(nics['excluded'])}"
    return (f"{offered}; {rest}; `berth devices` tells the reason of each",)


def _as_used(claim: Claim, driver: str) -> Mapping[str, Any]:
    """The claim's devices as the scheduler finds them in use."""
    results = [
        {
            "driver": driver,
            "pool": result.pool,
            "device": result.device,
            "adminAccess": result.admin_access,
            "consumedCapacity": dict(result.consumed),
        }
        for result in claim.results
    ]
    return {"status": {"allocation": {"devices": {"results": results}}}}


def _require_quantities(claim: Claim) -> None:
    """Refuse consumed capacities of a manifest that are none; a server would not hold them."""
    for result in claim.results:
        for name, text in result.consumed.items():
            try:
                parse_quantity(text)
            except ValueError as error:
                where = f"claim {claim.ref}: consumedCapacity of {result.device}"
                raise ConfigError(
                    where, f"{name} is {text!r}", rule="it must be a quantity"
                ) from error


def _with_stable_shares(allocation: Mapping[str, Any], uid: str) -> Mapping[str, Any]:
    results = [
        {**result, "shareID": stable_uid(f"share/{uid}/{number}")}
        if "shareID" in result
        else result
        for number, result in enumerate(allocation["devices"]["results"])
    ]
    return {**allocation, "devices": {**allocation["devices"], "results": results}}


def _derived_note(record: ClaimRecord, claim: Claim) -> Iterator[str]:
    """Children have a hardware address made from the claim's UID, which is made up here."""
    if any(device.nic is not None and device.nic.is_child for device in record.devices):
        yield (
            f"hardware addresses of children follow from the claim's UID, here {claim.ref.uid}; "
            "the real ones are others"
        )
