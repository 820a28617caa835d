"""The control plane around a pod: its Node, its classes, its claims, and who gives devices to it.

What the API server stand-in does not do, since it schedules nothing: claims are made from
templates, allocated by `berth.rehearsal.scheduler`, reserved for their pod, and given up when the
pod has ended.

Source: KC §3.2 (what kubelet expects to find), §7.1; ``pkg/controller/resourceclaim`` of 1.37.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from berth.errors import ClaimError
from berth.kube.claims import POD_CLAIM_NAME
from berth.model.claim import ClaimRef
from berth.node.claims.status import now_text
from berth.rehearsal.apiserver.resources import CLAIMS, CLASSES, NODES, PODS, SLICES
from berth.rehearsal.apiserver.server import ApiServer
from berth.rehearsal.awaited import Readiness, readiness_of
from berth.rehearsal.sandbox import PodName
from berth.rehearsal.scheduler import allocate

CLASS_TYPES: Final = ("nic", "nic-shared", "gpu", "mig", "vfio", "generic")
"""Types of devices for which there is a DeviceClass from the beginning, of the type's name."""


class Cluster:
    """Plays the control plane.

    Args:
        api: The API server.
        node: Name of the only node.
        driver: Name of our driver.
        declared: Feature gates that the node tells to have open.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        node: str,
        driver: str,
        declared: frozenset[str] = frozenset(),
    ) -> None:
        self.api = api
        self.node = node
        self.driver = driver
        self._declared = declared
        self._templates: dict[tuple[str, str], Mapping[str, Any]] = {}

    def open(self) -> None:
        """Make the Node and the classes that ``configs/kubernetes/deviceclasses.yaml`` has."""
        status = {"declaredFeatures": sorted(self._declared)}
        self.api.put(NODES, {"metadata": {"name": self.node}, "status": status})
        for kind in CLASS_TYPES:
            self.api.put(CLASSES, _class(f"{kind}.{self.driver}", self.driver, kind))

    def add_template(self, template: Mapping[str, Any]) -> None:
        """Know a ResourceClaimTemplate."""
        metadata = template["metadata"]
        self._templates[metadata.get("namespace", "default"), metadata["name"]] = template

    def add_claim(self, claim: Mapping[str, Any]) -> None:
        """Create a ResourceClaim.

        Raises:
            KubeError: The server does not take it.
        """
        self.api.put(CLAIMS, _in_namespace(claim))

    def schedule(self, pod: Mapping[str, Any]) -> tuple[PodName, tuple[str, ...]]:
        """Create a pod, make and allocate its claims, and bind it to the node if that may be.

        Returns:
            The pod, and what could not be judged while devices were chosen.

        Raises:
            ClaimError: A claim cannot be allocated, or the pod names none that there is.
            KubeError: The server does not take something.
        """
        stored = self.api.put(PODS, _in_namespace(pod))
        metadata = stored["metadata"]
        name = PodName(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])
        notes: list[str] = []
        statuses = []
        for entry in stored["spec"].get("resourceClaims") or ():
            claim = self._claim_for(name, entry)
            notes += self._give(claim, name)
            made = claim["metadata"]["name"]
            statuses.append({"name": entry["name"], "resourceClaimName": made})
        status = {"status": {"resourceClaimStatuses": statuses}}
        self.api.patch(PODS, name.name, status, name.namespace)
        self.bind(name)
        return name, tuple(notes)

    def bind(self, pod: PodName) -> bool:
        """Bind a pod if all its devices are ready, as the scheduler looks again and again.

        A claim that was given up is allocated anew.

        Returns:
            Whether it is bound now.

        Raises:
            ClaimError: There is no such pod, or no device for it any more.
        """
        claims = [self.claim(ref) for ref in self.claims_of(pod).values()]
        for claim in claims:
            if readiness_of(claim) is Readiness.FAILED:
                self._release(claim, pod)
                found = self.api.get(CLAIMS, claim["metadata"]["name"], pod.namespace)
                list(self._give(found or claim, pod))
        if any(readiness_of(claim) is not Readiness.READY for claim in claims):
            return False
        self.api.patch(PODS, pod.name, {"spec": {"nodeName": self.node}}, pod.namespace)
        return True

    def claims_of(self, pod: PodName) -> Mapping[str, ClaimRef]:
        """A pod's claims, by the pod's own names for them.

        Raises:
            ClaimError: There is no such pod, or no such claim.
        """
        stored = self.api.get(PODS, pod.name, pod.namespace)
        if stored is None:
            raise ClaimError(f"pod {pod}", "is not there")
        return {
            entry["name"]: self._ref(entry["resourceClaimName"], pod.namespace)
            for entry in stored["status"].get("resourceClaimStatuses") or ()
        }

    def claim(self, ref: ClaimRef) -> Mapping[str, Any]:
        """A claim as the server has it.

        Raises:
            ClaimError: There is none of that name and UID.
        """
        found = self.api.get(CLAIMS, ref.name, ref.namespace)
        if found is None or found["metadata"]["uid"] != ref.uid:
            raise ClaimError(f"claim {ref}", "is gone")
        return found

    def results(self, ref: ClaimRef) -> Sequence[Mapping[str, Any]]:
        """Our devices of a claim's allocation.

        Raises:
            ClaimError: The claim is gone.
        """
        allocation = self.claim(ref)["status"]["allocation"]
        return [r for r in allocation["devices"]["results"] if r["driver"] == self.driver]

    def delete(self, pod: PodName) -> None:
        """Remove a pod and what was its alone; other claims of its are free for the next pod.

        Raises:
            ClaimError: There is no such pod.
        """
        for ref in self.claims_of(pod).values():
            found = self.api.get(CLAIMS, ref.name, ref.namespace)
            if found is None or found["metadata"]["uid"] != ref.uid:
                continue
            if POD_CLAIM_NAME in (found["metadata"].get("annotations") or {}):
                self.api.delete(CLAIMS, ref.name, ref.namespace)
            else:
                self._release(found, pod)
        self.api.delete(PODS, pod.name, pod.namespace)

    def slices(self) -> list[dict[str, Any]]:
        """Our slices on the server."""
        slices = self.api.objects(SLICES)
        return [item for item in slices if item["spec"]["driver"] == self.driver]

    def devices(self) -> dict[str, Mapping[str, Any]]:
        """Devices in them, by name."""
        return {
            device["name"]: device
            for item in self.slices()
            for device in item["spec"].get("devices") or ()
        }

    async def wipe(self, driver: str | None) -> None:
        """Delete slices as kubelet does: of one driver, or all that are bound to the node."""
        for item in self.api.objects(SLICES):
            spec = item["spec"]
            if spec.get("nodeName") == self.node and driver in {None, spec["driver"]}:
                self.api.delete(SLICES, item["metadata"]["name"])

    def _claim_for(self, pod: PodName, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        if "resourceClaimName" in entry:
            found = self.api.get(CLAIMS, entry["resourceClaimName"], pod.namespace)
            if found is None:
                named = f"ResourceClaim {pod.namespace}/{entry['resourceClaimName']}"
                raise ClaimError(f"pod {pod}", f"uses {named}, which is not there")
            return found
        key = pod.namespace, str(entry.get("resourceClaimTemplateName"))
        template = self._templates.get(key)
        if template is None:
            raise ClaimError(
                f"pod {pod}", f"uses ResourceClaimTemplate {'/'.join(key)}, which is not there"
            )
        return self.api.put(CLAIMS, _from_template(template, pod, entry["name"]))

    def _give(self, claim: Mapping[str, Any], pod: PodName) -> Iterator[str]:
        """Allocate a claim, unless it is, and reserve it for a pod; gives the notes."""
        status = claim.get("status") or {}
        allocation = status.get("allocation")
        if allocation is None:
            found = allocate(
                claim,
                classes=self.api.objects(CLASSES),
                slices=self.api.objects(SLICES),
                claims=self.api.objects(CLAIMS),
                node=self.node,
                declared=self._declared,
            )
            allocation = {**found.allocation, "allocationTimestamp": now_text()}
            yield from found.notes
        reserved = [
            *(status.get("reservedFor") or ()),
            {"resource": "pods", "name": pod.name, "uid": pod.uid},
        ]
        self.api.patch(
            CLAIMS,
            claim["metadata"]["name"],
            {"status": {"allocation": allocation, "reservedFor": reserved}},
            pod.namespace,
        )

    def _release(self, claim: Mapping[str, Any], pod: PodName) -> None:
        reserved = [
            entry for entry in claim["status"].get("reservedFor") or () if entry["uid"] != pod.uid
        ]
        status: dict[str, Any] = {"reservedFor": reserved or None}
        if not reserved:
            status["allocation"] = None
        metadata = claim["metadata"]
        self.api.patch(CLAIMS, metadata["name"], {"status": status}, metadata["namespace"])

    def _ref(self, name: str, namespace: str) -> ClaimRef:
        found = self.api.get(CLAIMS, name, namespace)
        if found is None:
            raise ClaimError(f"claim {namespace}/{name}", "is gone")
        return ClaimRef(namespace=namespace, name=name, uid=found["metadata"]["uid"])


def _class(name: str, driver: str, kind: str) -> dict[str, Any]:
    expression = f'device.driver == "{driver}" && device.attributes["{driver}"].type == "{kind}"'
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _from_template(template: Mapping[str, Any], pod: PodName, name: str) -> dict[str, Any]:
    spec = template["spec"]
    given = spec.get("metadata") or {}
    return {
        "metadata": {
            "namespace": pod.namespace,
            "generateName": f"{pod.name}-{name}-",
            "labels": given.get("labels") or {},
            "annotations": {**(given.get("annotations") or {}), POD_CLAIM_NAME: name},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
            ],
        },
        "spec": spec["spec"],
    }


def _in_namespace(value: Mapping[str, Any]) -> dict[str, Any]:
    return {**value, "metadata": {"namespace": "default", **value["metadata"]}}
