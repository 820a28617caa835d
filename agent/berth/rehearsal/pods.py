"""What kubelet does with one pod, step by step: prepare, sandbox, containers; and back.

The steps are separate, so that a test may let things happen between them; `Pods.start` and
`Pods.stop` take them in order. Nothing is tried again here.

Source: KC §3.2, §3.5; NC §5.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from berth.errors import ClaimError
from berth.model.claim import ClaimRef, PreparedDevice
from berth.model.pod import Sandbox
from berth.rehearsal.allotted import cdi_ids_for, demands_of, edits_for
from berth.rehearsal.apiserver.resources import PODS
from berth.rehearsal.cluster import Cluster
from berth.rehearsal.kubelet import Allotment, Kubelet, KubeletDevices
from berth.rehearsal.runtime import Runtime
from berth.rehearsal.sandbox import ContainerBox, PodName
from berth.runtime.threads import run_in_thread


@attrs.define(kw_only=True)
class Pod:
    """One pod on the node.

    Attributes:
        claims: Its claims with devices of ours, by the pod's own names for them.
        skips: What the allocation says that kubelet leaves out, by claim UID, of each device.
        prepared: What the driver answered, by claim UID.
        allotments: What it has of extended resources.
    """

    name: PodName
    spec: Mapping[str, Any]
    claims: Mapping[str, ClaimRef]
    skips: Mapping[str, Sequence[Sequence[str]]] = attrs.field(factory=dict)
    prepared: Mapping[str, Sequence[PreparedDevice]] = attrs.field(factory=dict)
    allotments: Sequence[Allotment] = ()
    sandbox: Sandbox | None = None
    containers: list[ContainerBox] = attrs.field(factory=list)

    def __str__(self) -> str:
        return str(self.name)

    @property
    def running(self) -> Sandbox:
        """Its sandbox.

        Raises:
            ClaimError: It has none.
        """
        if self.sandbox is None:
            raise ClaimError(f"pod {self.name}", "has no sandbox")
        return self.sandbox

    def cdi_ids(self, container: Mapping[str, Any]) -> tuple[str, ...]:
        """CDI names that a container asks the runtime for, in the order of its claims."""
        allotted = cdi_ids_for(container.get("name", ""), self.allotments)
        return tuple(dict.fromkeys([*allotted, *self._cdi_ids(container)]))

    def _cdi_ids(self, container: Mapping[str, Any]) -> Iterator[str]:
        for reference in (container.get("resources") or {}).get("claims") or ():
            claim = self.claims.get(reference["name"])
            wanted = reference.get("request")
            for device in self.prepared.get(claim.uid, ()) if claim is not None else ():
                if not wanted or not device.requests or wanted in device.requests:
                    yield from device.cdi_ids


class Pods:
    """Starts and stops pods of one node.

    Args:
        cluster: Where pods and claims are.
        runtime: Who makes sandboxes.
    """

    def __init__(self, cluster: Cluster, runtime: Runtime) -> None:
        self._cluster = cluster
        self._runtime = runtime

    def found(self, name: PodName) -> Pod:
        """A scheduled pod, as kubelet hears of it: with its claims checked.

        Raises:
            ClaimError: The pod or a claim is gone, it is not bound to the node, or a claim is not
                reserved for it.
        """
        stored = self._cluster.api.get(PODS, name.name, name.namespace)
        if stored is None:
            raise ClaimError(f"pod {name}", "is not there")
        if not stored["spec"].get("nodeName"):
            raise ClaimError(f"pod {name}", "is not bound to a node yet")
        claims = self._cluster.claims_of(name)
        for ref in claims.values():
            reserved = self._cluster.claim(ref)["status"].get("reservedFor") or ()
            if name.uid not in {entry["uid"] for entry in reserved}:
                raise ClaimError(f"claim {ref}", f"is not reserved for pod {name}")
        ours = {key: ref for key, ref in claims.items() if self._cluster.results(ref)}
        skips = {
            ref.uid: tuple(
                tuple(result.get("skipNodeOperations") or ())
                for result in self._cluster.results(ref)
            )
            for ref in ours.values()
        }
        return Pod(name=name, spec=stored["spec"], claims=ours, skips=skips)

    async def start(self, name: PodName, kubelet: Kubelet) -> Pod:
        """Start a scheduled pod; gives it with all its containers running.

        Raises:
            BerthError: A step failed; what was done before it stays, for kubelet to try again.
        """
        pod = self.found(name)
        await self.prepare(pod, kubelet)
        await self.run_sandbox(pod)
        await self.run_containers(pod)
        return pod

    async def admit(self, pod: Pod, devices: KubeletDevices) -> None:
        """Let the device manager allocate what the pod's containers ask for by their limits.

        Raises:
            BerthError: The pod is not admitted, in the words of kubelet's event.
        """
        name = pod.name
        demands = demands_of(pod.spec)
        pod.allotments = await devices.admit(name.namespace, name.name, demands)

    async def prepare(self, pod: Pod, kubelet: Kubelet) -> None:
        """Let the driver prepare the pod's claims.

        Raises:
            BerthError: It failed, in the words of kubelet's event.
        """
        if claims := self._asked(pod, "NodePrepareResources"):
            pod.prepared = await kubelet.prepare(self._cluster.driver, claims)

    def _asked(self, pod: Pod, operation: str) -> tuple[ClaimRef, ...]:
        """The claims for which the driver is called: not every device of it says to leave it out.

        Kubelet keeps that from before the pod's start; a claim that is gone is one to be undone.
        """
        return tuple(
            ref
            for ref in pod.claims.values()
            if not all({operation, "*"} & {*skips} for skips in pod.skips.get(ref.uid, ((),)))
        )

    async def run_sandbox(self, pod: Pod) -> None:
        """Make the pod's sandbox.

        Raises:
            RpcError: A plugin of the runtime refused it.
        """
        host_network = bool(pod.spec.get("hostNetwork"))
        pod.sandbox = await self._runtime.run_sandbox(pod.name, host_network=host_network)

    async def run_containers(self, pod: Pod) -> None:
        """Make and start each container.

        Raises:
            RpcError: A CDI device was not found, or a plugin of the runtime refused.
            RemoteProtocolError: A node that was allotted is not on the host.
        """
        for container in pod.spec["containers"]:
            name = container["name"]
            given = await run_in_thread("files", edits_for, name, pod.allotments)
            made = await self._runtime.create_container(
                pod.running, name, cdi_devices=pod.cdi_ids(container), given=given
            )
            pod.containers.append(await self._runtime.start_container(pod.running, made.id))

    async def stop_sandbox(self, pod: Pod) -> None:
        """End the pod's containers and its sandbox."""
        if pod.sandbox is not None:
            await self._runtime.stop_sandbox(pod.sandbox)

    async def unprepare(self, pod: Pod, kubelet: Kubelet) -> None:
        """Let the driver undo the pod's claims.

        Raises:
            BerthError: It failed, in the words of kubelet's log.
        """
        if claims := self._asked(pod, "NodeUnprepareResources"):
            await kubelet.unprepare(self._cluster.driver, claims)

    async def remove(self, pod: Pod) -> None:
        """Remove what is left of the pod, on the node and on the server."""
        if pod.sandbox is not None:
            await self._runtime.remove_sandbox(pod.sandbox)
            pod.sandbox = None
        pod.containers.clear()
        if self._cluster.api.get(PODS, pod.name.name, pod.name.namespace) is not None:
            self._cluster.delete(pod.name)

    async def stop(self, pod: Pod, kubelet: Kubelet) -> None:
        """Delete a pod in kubelet's order.

        Raises:
            BerthError: A step failed.
        """
        await self.stop_sandbox(pod)
        await self.unprepare(pod, kubelet)
        await self.remove(pod)
