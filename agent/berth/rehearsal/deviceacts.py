"""The acts of devices that stay where they are: for each group one by a claim, one by a resource.

Nodes of the host are handed out, and what the container would get is looked at; none is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from berth.errors import BerthError, ClaimError, HostError
from berth.model.edits import DeviceNode
from berth.rehearsal import checks, devicechecks
from berth.rehearsal.devicechecks import Offer, node_text
from berth.rehearsal.manifests import pod_using
from berth.rehearsal.pods import Pod
from berth.rehearsal.report import Report
from berth.rehearsal.stage import Stage

Named = Callable[[str], AbstractContextManager[None]]
"""Says, while it is open, which stage is being played."""


class DeviceActs:
    """Plays the groups of one script on one stage.

    Args:
        groups: Names of the groups; empty for GPUs that are in none.
        nodes: Nodes of GPUs, by PCI address.
        named: Told of each stage.
    """

    def __init__(
        self,
        stage: Stage,
        groups: Sequence[str],
        report: Report,
        *,
        nodes: Mapping[str, str],
        named: Named,
    ) -> None:
        self._stage = stage
        self._groups = tuple(groups)
        self._report = report
        self._nodes = nodes
        self._named = named
        self._offers: tuple[Offer, ...] = ()

    async def discovered(self, told: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Take what the daemon says of its devices; gives it in words.

        Raises:
            HostError: A device has no node on the host, or a GPU is not offered.
        """
        peripherals = [entry for entry in told if not entry["ifname"]]
        self._offers = await devicechecks.offers(peripherals, self._groups, self._nodes)
        missing = [group for group in self._groups if not self._of(group)]
        if len(self._offers) < len(self._nodes) or "" in missing:
            raise HostError("berthd", f"does not offer the GPUs {', '.join(self._nodes)}")
        return (
            *map(str, self._offers),
            *(f"NOTE group {name!r} is NOT rehearsed: no node here fits it" for name in missing),
        )

    async def published(self) -> tuple[str, ...]:
        """Wait until everybody sees the devices; gives it in words.

        Raises:
            HostError: Somebody does not.
        """
        return await devicechecks.published(self._stage, self._offers)

    async def play(self) -> None:
        """Play all groups that have devices.

        Raises:
            BerthError: A stage was not reached, or not as it must be.
        """
        for group in self._groups:
            by_claims = [one for one in self._of(group) if one.opens_dra]
            if by_claims:
                await self._by_claim(by_claims)
        given: list[tuple[Pod, Offer]] = []
        for resource in devicechecks.units_of(self._offers):
            by_resource = [one for one in self._offers if one.resource == resource]
            given.append(await self._by_resource(by_resource, len(given) + 1))
        if given:
            await self._end(given)

    def got(self, pod: Pod) -> tuple[str, ...]:
        """See that a pod's container has what its claims gave it; gives it in words.

        Raises:
            HostError: A node is missing.
        """
        claimed = {
            result["device"]
            for ref in pod.claims.values()
            for result in self._stage.cluster.results(ref)
        }
        found = [devicechecks.given(pod, [one]) for one in self._offers if one.name in claimed]
        return tuple(_given_text(offer, node) for offer, node in found)

    def _of(self, group: str) -> tuple[Offer, ...]:
        return tuple(one for one in self._offers if one.group == group)

    async def _by_claim(self, offers: Sequence[Offer]) -> None:
        stage, cluster = self._stage, self._stage.cluster
        name = _name(offers[0], "by-claim")
        with self._named("scheduled"):
            cluster.add_claim(_claim(name, offers[0], cluster.driver))
            pod = await self._scheduled(pod_using(name, {"resourceClaimName": name}))
            (ref,) = pod.claims.values()
            (result,) = cluster.results(ref)
            chosen = [one for one in offers if one.name == result["device"]]
            told = f"{ref.name} has {result['device']} for request {result['request']}"
            self._report.stage("scheduled", told)
        with self._named("prepared"):
            try:
                await stage.pods.prepare(pod, stage.kubelet)
            except BerthError as error:
                raise _event(pod, "FailedPrepareDynamicResources", error) from error
            count = await checks.prepared(stage, pod)
            health = await checks.told(stage, pod)
            left = await self._left(chosen[0], held=1)
            self._report.stage("prepared", f"{count} CDI names for its containers", *health, *left)
        await self._run(pod, chosen)
        self._report.say(f"\npod {pod} is deleted")
        self._report.mark()
        with self._named("unprepared"):
            await stage.pods.stop(pod, stage.kubelet)
            await checks.undone(stage, pod)
            left = await self._left(chosen[0], held=0)
            self._report.stage("unprepared", "no file of the claim is left", *left)

    async def _left(self, offer: Offer, *, held: int) -> tuple[str, ...]:
        """Wait until kubelet counts what claims hold; gives in words what it may give."""
        if not offer.opens_plugin:
            return ()
        left = devicechecks.units_of(self._offers)[offer.resource] - held
        await devicechecks.allocatable(self._stage, offer.resource, left)
        return (f"kubelet may give {left} {offer.resource}",)

    async def _by_resource(self, offers: Sequence[Offer], records: int) -> tuple[Pod, Offer]:
        stage, resource = self._stage, offers[0].resource
        with self._named("allocated"):
            pod = await self._scheduled(_asking(_name(offers[0], "by-resource"), resource))
            try:
                await stage.pods.admit(pod, stage.devices)
            except BerthError as error:
                raise _event(pod, "UnexpectedAdmissionError", error) from error
            ids = ", ".join(name for one in pod.allotments for name in one.ids)
            await devicechecks.recorded(stage, records, checks.LIMIT_S)
            self._report.stage("allocated", f"{ids} of {resource}; berthd has a record of it")
        offer = await self._run(pod, offers)
        with self._named("held"):
            told = [await devicechecks.held(stage, pod, offer)]
            if offer.slots == 1 and offer.opens_dra:
                await devicechecks.kept_from_claims(stage, offer, kept=True)
                told.append("in its slice it has a taint: no claim gets it")
            self._report.stage("held", *told)
        return pod, offer

    async def _end(self, given: Sequence[tuple[Pod, Offer]]) -> None:
        self._report.say()
        for pod, _ in given:
            self._report.say(f"pod {pod} is deleted")
        self._report.say("(nobody tells that: berthd believes two of kubelet's lists, 10 s apart)")
        self._report.mark()
        with self._named("freed"):
            for pod, _ in given:
                await self._stage.pods.stop_sandbox(pod)
                self._stage.devices.end_pod(pod.name.namespace, pod.name.name)
                await self._stage.pods.remove(pod)
            await devicechecks.recorded(self._stage, 0)
            for _, offer in given:
                if offer.opens_dra:
                    await devicechecks.kept_from_claims(self._stage, offer, kept=False)
                await self._left(offer, held=0)
            devices = ", ".join(offer.name for _, offer in given)
            self._report.stage("freed", f"{devices}: no record is left, others can have it")

    async def _scheduled(self, manifest: Mapping[str, Any]) -> Pod:
        name, _ = self._stage.cluster.schedule(manifest)
        await checks.bound(self._stage, name)
        self._report.say(f"\npod {name}")
        self._report.mark()
        return self._stage.pods.found(name)

    async def _run(self, pod: Pod, offers: Sequence[Offer]) -> Offer:
        """Start the pod, and look at what its container gets."""
        with self._named("given"):
            try:
                await self._stage.pods.run_sandbox(pod)
                await self._stage.pods.run_containers(pod)
            except BerthError as error:
                raise _event(pod, "Failed", error) from error
            offer, node = devicechecks.given(pod, offers)
            self._report.stage("given", _given_text(offer, node))
        self._report.quote(_shown(pod), title="what the container gets:")
        self._report.mark()
        return offer


def _given_text(offer: Offer, node: DeviceNode) -> str:
    return f"{node_text(node)} is the host's {offer.path}"


def _shown(pod: Pod) -> str:
    """Everything that the devices add to the pod's containers."""
    lines = []
    for box in pod.containers:
        edits = box.edits
        lines += [f"node   {node_text(node)}" for node in edits.nodes]
        lines += [f"mount  {mount.container_path}" for mount in edits.mounts]
        lines += [f"hook   {hook.name}: {' '.join(hook.args) or hook.path}" for hook in edits.hooks]
        lines += [f"group  {gid}" for gid in edits.gids]
        lines += [f"env    {entry}" for entry in edits.env]
    return "\n".join(lines)


def _claim(name: str, offer: Offer, driver: str) -> Mapping[str, Any]:
    expression = f'device.attributes["{driver}"].group == "{offer.group}"'
    exactly = {
        "deviceClassName": f"{offer.type}.{driver}",
        "selectors": [{"cel": {"expression": expression}}],
    }
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "device", "exactly": exactly}]}},
    }


def _asking(name: str, resource: str) -> Mapping[str, Any]:
    limits = {"limits": {resource: "1"}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "resources": limits}]},
    }


def _name(offer: Offer, how: str) -> str:
    """Name of a pod, or of its claim."""
    return f"{(offer.group or offer.type)[: 62 - len(how)]}-{how}"


def _event(pod: Pod, reason: str, error: BerthError) -> ClaimError:
    return ClaimError(f"pod {pod}, event {reason}", str(error))
