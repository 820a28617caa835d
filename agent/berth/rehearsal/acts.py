"""The acts of a rehearsal in their order: what is done, and what must then be so."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import trio

from berth.errors import BerthError, ClaimError, HostError
from berth.rehearsal import checks, podchecks
from berth.rehearsal.apiserver.resources import CLASSES
from berth.rehearsal.deviceacts import DeviceActs
from berth.rehearsal.devicechecks import ask
from berth.rehearsal.iproute import LinkFacts
from berth.rehearsal.podchecks import Placed
from berth.rehearsal.pods import Pod
from berth.rehearsal.report import Report, compact
from berth.rehearsal.script import Script
from berth.rehearsal.stage import Stage
from berth.runtime.threads import run_in_thread

REGISTRATION_LIMIT_S: Final = 15.0
"""How long kubelet and the runtime may take to know the daemon."""


class Acts:
    """Plays one script on one stage.

    Attributes:
        stage_name: The stage that is being played.
        done: Whether all of them were verified.
    """

    def __init__(self, stage: Stage, script: Script, report: Report) -> None:
        self.stage_name = "world"
        self.done = False
        self._stage = stage
        self._script = script
        self._report = report
        self._homes: dict[str, LinkFacts] = {}
        self._pods: list[Pod] = []
        self._devices = DeviceActs(
            stage, script.groups, report, nodes=script.nodes, named=self._named
        )

    async def play(self) -> None:
        """Play all acts.

        Raises:
            BerthError: A stage was not reached, or not as it must be.
        """
        await self._build()
        await self._begin()
        for manifest in self._script.manifests.pods:
            await self._start(manifest)
        for pod in reversed(self._pods):
            await self._end(pod)
        if self._script.with_groups:
            await self._devices.play()
        await self._close()
        self.done = True

    async def _build(self) -> None:
        for link in self._script.cast.links:
            facts = await self._stage.world.add_nic(link.name, mac=link.mac, altnames=link.altnames)
            self._homes[link.name] = facts
        names = ", ".join(self._homes)
        self._report.stage("world", f"a host with {names}, cabled to a switch")

    async def _begin(self) -> None:
        with self._named("ready"):
            await self._stage.berthd.start()
            await self._stage.berthd.wait_ready()
            self._report.stage("ready", "berthd serves: READY=1")
        with self._named("registered"):
            with trio.move_on_after(REGISTRATION_LIMIT_S) as limit:
                await self._stage.kubelet.wait_driver(self._script.driver)
                await self._stage.runtime.wait_plugins()
            if limit.cancelled_caught:
                raise HostError("berthd", "is not known to kubelet and the runtime in time")
            self._report.stage(
                "registered", "kubelet knows the driver, the runtime tells it of pods"
            )
        with self._named("discovered"):
            self._report.stage("discovered", *await self._discovered())
        with self._named("published"):
            found = await checks.published(self._stage, self._script.cast.links)
            pool = f"{self._stage.cluster.node}/nic"
            slices = self._stage.cluster.slices()
            count = sum(item["spec"]["pool"]["name"] == pool for item in slices)
            links = (link.name for link in self._script.cast.links)
            names = ", ".join(f"{found[link]['name']} ({link})" for link in links)
            devices = await self._devices.published()
            self._report.stage("published", f"{count} slice of pool {pool}: {names}", *devices)

    async def _discovered(self) -> tuple[str, ...]:
        """What the daemon itself says of the stand-ins, as ``berth devices`` would print it."""
        answer: Mapping[str, Any] = {}

        async def looked() -> bool:
            nonlocal answer
            answer = await run_in_thread("control", ask, self._stage.world.runtime, "devices")
            return not any(one["reason"] == "probing" for one in answer.get("devices", ()))

        if not await checks.holds(looked):
            raise HostError("berthd", "is still asking NVML for its GPUs")
        if not answer["ok"]:
            raise HostError("control socket", f"answers devices by {answer.get('error')}")
        told = {entry["ifname"]: entry for entry in answer.get("devices", ())}
        lines = []
        for link in self._script.cast.links:
            entry = told.get(link.name)
            if entry is None:
                raise HostError(f"link {link.name}", "is not among the daemon's devices")
            if not entry["offered"]:
                reason = f"{entry['reason']}: {entry['detail']}"
                raise HostError(f"link {link.name}", f"is not offered ({reason})")
            how = "shared" if entry["mode"] == "shared" else "for one pod at a time"
            lines.append(f"{link.name} is {entry['name']}, group {entry['group']}, {how}")
        return (*lines, *await self._devices.discovered(answer.get("devices", ())))

    async def _start(self, manifest: Mapping[str, Any]) -> None:
        pod = await self._scheduled(manifest)
        stage = self._stage
        with self._named("prepared"):
            try:
                await stage.pods.prepare(pod, stage.kubelet)
            except BerthError as error:
                raise _event(pod, "FailedPrepareDynamicResources", error) from error
            self._pods.append(pod)
            count = await checks.prepared(stage, pod)
            devices = ", ".join(d.device for answer in pod.prepared.values() for d in answer)
            health = await checks.told(stage, pod)
            names = f"{devices}; {count} CDI names for its containers"
            self._report.stage("prepared", names, *health)
        with self._named("attached"):
            try:
                await stage.pods.run_sandbox(pod)
            except BerthError as error:
                raise _event(pod, "FailedCreatePodSandBox", error) from error
            placed = await podchecks.attached(stage, pod)
            self._report.stage(
                "attached", *(map(str, placed) if placed else ("no NIC is claimed",))
            )
        if placed:
            await self._exchange(pod, placed)
        with self._named("completed"):
            try:
                await stage.pods.run_containers(pod)
            except BerthError as error:
                raise _event(pod, "Failed", error) from error
            texts = await podchecks.completed(stage, pod, placed)
            told = "containers read generation 2; the claim's status says the same"
            self._report.stage("completed", *((told,) if placed else ()), *self._devices.got(pod))
        for path, text in texts.items():
            self._show_metadata(path, text)
        self._report.mark()

    async def _exchange(self, pod: Pod, placed: Sequence[Placed]) -> None:
        """Send over the pod's NICs, and show them."""
        with self._named("traffic"):
            self._report.stage("traffic", *await podchecks.traffic(pod, placed))
        self._report.quote(await podchecks.shown(pod), title="ip address, in the pod:")
        self._report.mark()

    def _show_metadata(self, path: str, text: str) -> None:
        """Print the first document of a file; the others were found to say the same."""
        document, _ = json.JSONDecoder().raw_decode(text)
        shown = compact(json.dumps(document, indent=2, ensure_ascii=False))
        self._report.quote(shown, title=f"{path}, in the container:")
        self._report.quote("… and once more for readers of v1alpha1")

    async def _scheduled(self, manifest: Mapping[str, Any]) -> Pod:
        with self._named("scheduled"):
            self._admit_objects()
            name, notes = self._stage.cluster.schedule(manifest)
            await checks.bound(self._stage, name)
            pod = self._stage.pods.found(name)
            given = [
                f"{ref.name} has {result['device']} for request {result['request']}"
                for ref in pod.claims.values()
                for result in self._stage.cluster.results(ref)
            ]
            if not given:
                raise ClaimError(f"pod {name}", "has no claim on a device of ours")
            self._report.say(f"\npod {name}")
            self._report.stage("scheduled", *given, *(f"NOTE {note}" for note in notes))
        return pod

    def _admit_objects(self) -> None:
        """Bring claims, templates and classes to the server, before the first pod."""
        if self._pods or self.done:
            return
        manifests, cluster = self._script.manifests, self._stage.cluster
        for item in manifests.classes:
            cluster.api.put(CLASSES, item)
        for item in manifests.templates:
            cluster.add_template(item)
        for item in manifests.claims:
            cluster.add_claim(item)

    async def _end(self, pod: Pod) -> None:
        self._report.say(f"\npod {pod.name} is deleted")
        self._report.mark()
        devices = self._stage.cluster.devices()
        used = {
            link
            for ref in pod.claims.values()
            for result in self._stage.cluster.results(ref)
            if (link := checks.attribute(devices[result["device"]], "ifName")) is not None
        }
        with self._named("returned"):
            await self._stage.pods.stop_sandbox(pod)
            await checks.returned({name: self._homes[name] for name in used})
            homes = [f"{self._homes[name]}" for name in sorted(used)]
            self._report.stage("returned", *(homes or ["no NIC was claimed"]))
        with self._named("unprepared"):
            await self._stage.pods.unprepare(pod, self._stage.kubelet)
            await checks.undone(self._stage, pod)
            await self._stage.pods.remove(pod)
            self._report.stage("unprepared", "no file of the claim is left")

    async def _close(self) -> None:
        self._report.say()
        self._report.mark()
        with self._named("stopped"):
            await checks.returned(self._homes)
            code = await self._stage.stop()
            if code != 0:
                raise HostError("berthd", f"ended with {code} after SIGTERM", rule="it must be 0")
            if "Traceback" in self._stage.berthd.log_text():
                raise HostError("berthd", "met a defect of its own; its log has the traceback")
            self._report.stage("stopped", "berthd ended in order; every NIC is as it was")

    @contextlib.contextmanager
    def _named(self, stage_name: str) -> Iterator[None]:
        self.stage_name = stage_name
        yield


def _event(pod: Pod, reason: str, error: BerthError) -> ClaimError:
    """An error as the pod's event would show it."""
    texts = {
        "FailedPrepareDynamicResources": "Failed to prepare dynamic resources: "
        "prepare dynamic resources: ",
        "FailedCreatePodSandBox": "Failed to create pod sandbox: rpc error: ",
        "Failed": "Error: ",
    }
    # A text of several faults is a list, and reads better as one.
    text = str(error).replace(": config[", ":\nconfig[", 1) if "\n" in str(error) else str(error)
    return ClaimError(f"pod {pod.name}, event {reason}", f"{texts[reason]}{text}")
