"""What would be done for claims on a machine that was looked at: the daemon's own judgement. Pure.

A claim without an allocation gets one from the devices of the groups, as a scheduler would give it.
From there on everything is decided by what decides it in the daemon: admission, configuration,
plan. Claims are judged in the order of the pods, and each one knows those before it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from berth.config.schema import Config
from berth.errors import BerthError, Faults
from berth.host.netlink.link import Link
from berth.host.scan import HostScan
from berth.kube.claims import POD_CLAIM_NAME, claim_from_json
from berth.kube.slices import device_json
from berth.model.claim import Claim
from berth.nic import plan
from berth.nic.config.group import policies_of
from berth.nic.record import NicRecord
from berth.nic.steps import Step
from berth.node.admission import Admitted, admit
from berth.node.drafting import Settings, draft
from berth.node.ledger import Ledger
from berth.node.record import ClaimRecord
from berth.node.sighting import Memory, Outlook
from berth.node.snapshot import Snapshot, judge
from berth.rehearsal.manifests import Manifests
from berth.rehearsal.scheduler import allocate

NODE: Final = "this-node"
"""Stands for the node where the configuration names none."""

TYPES: Final = ("nic", "nic-shared", "nic-vfio", "rdma")
"""Types of device for which a class is shipped (``configs/kubernetes/deviceclasses.yaml``)."""


@attrs.frozen(kw_only=True)
class DevicePlan:
    """What would be done for one device.

    Attributes:
        interface: Its name in the pod; empty for a device that is only looked at.
        mode: ``move``, ``macvlan`` …; ``look`` for admin access.
    """

    device: str
    request: str
    mode: str
    interface: str
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


def plan_claims(manifests: Manifests, scan: HostScan, config: Config) -> tuple[ClaimPlan, ...]:
    """Plan every claim that the pods of the manifests use, in their order."""
    return tuple(_Planner(manifests, scan, config).plan())


class _Planner:
    """Plans one claim after the other; each takes its devices from those after it."""

    def __init__(self, manifests: Manifests, scan: HostScan, config: Config) -> None:
        self._manifests = manifests
        self._config = config
        self._driver = config.dra.driver
        self._node = config.node.name or NODE
        self._links = {link.index: link for link in scan.links}
        self._snapshot = judge(scan, Outlook(table=config.nic), Memory())
        self._settings = Settings(
            driver=self._driver, boot_id=scan.boot_id, policies=policies_of(config.nic.groups)
        )
        self._ledger = Ledger()
        self._records: list[ClaimRecord] = []
        self._allocated: list[Mapping[str, Any]] = []

    def plan(self) -> Iterator[ClaimPlan]:
        for value in claims_of(self._manifests):
            metadata = value["metadata"]
            begun = ClaimPlan(
                name=f"{metadata['namespace']}/{metadata['name']}",
                pods=tuple(pod["name"] for pod in value["status"]["reservedFor"]),
                allocated="allocation" in value["status"],
            )
            try:
                yield self._plan(value, begun)
            except Faults as error:
                yield attrs.evolve(begun, faults=tuple(str(fault) for fault in error.faults))
            except BerthError as error:
                yield attrs.evolve(begun, faults=(str(error),))

    def _plan(self, value: Mapping[str, Any], begun: ClaimPlan) -> ClaimPlan:
        if not begun.allocated:
            value, notes = self._allocate(value)
            begun = attrs.evolve(begun, notes=notes)
        self._allocated.append(value)
        claim = claim_from_json(value, driver=self._driver)
        admission = admit(claim, self._snapshot, self._ledger)
        if not isinstance(admission, Admitted):
            return attrs.evolve(begun, faults=(f"claim {claim.ref}: {admission.reason}",))
        record = draft(
            claim, self._snapshot, admission, settings=self._settings, records=self._records
        )
        self._ledger.take(admission.holds)
        self._records.append(record)
        derived = _derived_note(record, claim)
        return attrs.evolve(
            begun,
            notes=(*begun.notes, *derived),
            devices=tuple(self._devices(record)),
        )

    def _allocate(self, value: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The claim with an allocation like the scheduler's, out of everything that is offered."""
        found = allocate(
            value,
            classes=classes_of(self._manifests, self._driver),
            slices=[_slice_json(self._snapshot, driver=self._driver, node=self._node)],
            claims=self._allocated,
            node=self._node,
        )
        allocation = _with_stable_shares(found.allocation, value["metadata"]["uid"])
        return {**value, "status": {**value["status"], "allocation": allocation}}, found.notes

    def _devices(self, record: ClaimRecord) -> Iterator[DevicePlan]:
        for device in record.devices:
            nic, name, request = device.nic, device.result.device, device.result.request
            if nic is None:
                yield DevicePlan(device=name, request=request, mode="look", interface="")
                continue
            yield DevicePlan(
                device=name,
                request=request,
                mode=nic.config.mode.value,
                interface=nic.config.interface.name,
                steps=steps_of(nic, self._links[self._snapshot.homes[name].index]),
            )


def steps_of(nic: NicRecord, home: Link) -> tuple[Step, ...]:
    """Every step for one NIC, from its link at home to its last route in the pod.

    Args:
        home: The link that is moved, or the parent over which a child is made.
    """
    config = nic.config
    settled = plan.settle(config, None)
    if nic.is_child:
        return (*plan.make(config), *settled)
    staged = plan.stage(config, home)
    # Entering sets again what drifted since it was staged: of a link that is as it was, all of it.
    entered = plan.enter(config, home, taken=frozenset())[len(staged) :]
    return (*staged, *entered, *settled)


def claims_of(manifests: Manifests) -> Iterator[dict[str, Any]]:
    """The claims that pods use, as the API server would hold them, in the order of the pods."""
    claims: dict[tuple[str, str], dict[str, Any]] = {}
    given = {_key(value): value for value in manifests.claims}
    templates = {_key(value): value for value in manifests.templates}
    for pod in manifests.pods:
        namespace, name = _key(pod)
        for entry in pod["spec"].get("resourceClaims") or ():
            key = (namespace, entry.get("resourceClaimName") or f"{name}-{entry['name']}")
            source = given.get(key)
            template = templates.get((namespace, entry.get("resourceClaimTemplateName", "")))
            if source is None and template is not None:
                source = _from_template(template, key, entry["name"])
            if source is not None:
                _reserve(claims.setdefault(key, _complete(source, key)), namespace, name)
    yield from claims.values()


def classes_of(manifests: Manifests, driver: str) -> list[Mapping[str, Any]]:
    """The classes of the manifests, and those that are shipped where the manifests have none."""
    own = {item["metadata"]["name"] for item in manifests.classes}
    shipped = {f"{kind}.{driver}": kind for kind in TYPES}
    made = [_class(name, driver, kind) for name, kind in shipped.items() if name not in own]
    return [*manifests.classes, *made]


def _class(name: str, driver: str, kind: str) -> Mapping[str, Any]:
    expression = f'device.driver == "{driver}" && device.attributes["{driver}"].type == "{kind}"'
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _key(value: Mapping[str, Any]) -> tuple[str, str]:
    metadata = value["metadata"]
    return metadata.get("namespace") or "default", metadata["name"]


def _from_template(
    template: Mapping[str, Any], key: tuple[str, str], entry: str
) -> Mapping[str, Any]:
    namespace, name = key
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "annotations": {POD_CLAIM_NAME: entry},
        },
        "spec": template["spec"]["spec"],
    }


def _complete(source: Mapping[str, Any], key: tuple[str, str]) -> dict[str, Any]:
    """The claim with what the API server would have added: namespace, UID, status."""
    namespace, name = key
    metadata = {"uid": _stable_uid(f"claim/{namespace}/{name}"), **source["metadata"]}
    status = {**(source.get("status") or {}), "reservedFor": []}
    if not status.get("allocation"):
        status.pop("allocation", None)
    return {**source, "metadata": {**metadata, "namespace": namespace}, "status": status}


def _reserve(claim: dict[str, Any], namespace: str, pod: str) -> None:
    uid = _stable_uid(f"pod/{namespace}/{pod}")
    entry = {"resource": "pods", "name": pod, "uid": uid}
    if entry not in claim["status"]["reservedFor"]:
        claim["status"]["reservedFor"].append(entry)


def _stable_uid(text: str) -> str:
    """A made-up UID that is the same at each run, so that the same file gives the same plan."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"berth:{text}"))


def _with_stable_shares(allocation: Mapping[str, Any], uid: str) -> Mapping[str, Any]:
    results = [
        {**result, "shareID": _stable_uid(f"share/{uid}/{number}")}
        if "shareID" in result
        else result
        for number, result in enumerate(allocation["devices"]["results"])
    ]
    return {**allocation, "devices": {**allocation["devices"], "results": results}}


def _slice_json(snapshot: Snapshot, *, driver: str, node: str) -> Mapping[str, Any]:
    """Everything that is offered, as one slice of one pool."""
    return {
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": f"{node}/nic", "generation": 1, "resourceSliceCount": 1},
            "devices": [device_json(device) for device in snapshot.inventory.devices],
        },
    }


def _derived_note(record: ClaimRecord, claim: Claim) -> Iterator[str]:
    """Children have a hardware address made from the claim's UID, which is made up here."""
    if any(device.nic is not None and device.nic.is_child for device in record.devices):
        yield (
            f"hardware addresses of children follow from the claim's UID, here {claim.ref.uid}; "
            "the real ones are others"
        )
