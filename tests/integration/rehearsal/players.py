"""Claims and pods for the scenarios, and the steps that most of them begin with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from berth.control import ControlClient
from berth.rehearsal import checks
from berth.rehearsal.manifests import pod_using
from berth.rehearsal.pods import Pod
from berth.rehearsal.sandbox import PodName
from berth.rehearsal.stage import Stage
from berth.runtime.threads import run_in_thread

ADDRESS = "192.0.2.10/24"


async def until(
    condition: Callable[[], bool | Awaitable[bool]], limit_s: float = checks.LIMIT_S
) -> None:
    """Wait until a condition outside holds; fails the test when it does not in time."""

    async def asked() -> bool:
        await trio.lowlevel.checkpoint()
        answer = condition()
        return answer if isinstance(answer, bool) else await answer

    assert await checks.holds(asked, limit_s)


def nic_claim(name: str, **parameters: Any) -> dict[str, Any]:
    """A claim for one NIC."""
    config = {"apiVersion": "berth.dev/v1alpha1", "kind": "NicConfig", **parameters}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [{"name": "nic", "exactly": {"deviceClassName": "nic.berth.dev"}}],
                "config": [{"opaque": {"driver": "berth.dev", "parameters": config}}],
            }
        },
    }


def schedule(stage: Stage, name: str, **parameters: Any) -> PodName:
    """Make a claim and a pod of the same name, and let it be scheduled."""
    stage.cluster.add_claim(
        nic_claim(name, **(parameters or {"addresses": [{"address": ADDRESS}]}))
    )
    pod, _ = stage.cluster.schedule(pod_using(name, {"resourceClaimName": name}))
    return pod


def schedule_by_template(stage: Stage, name: str) -> PodName:
    """Make a pod whose claim is made from a template and goes with it."""
    template = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": nic_claim(name)["spec"]},
    }
    stage.cluster.add_template(template)
    pod, _ = stage.cluster.schedule(pod_using(name, {"resourceClaimTemplateName": name}))
    return pod


async def start_pod(stage: Stage, name: str, **parameters: Any) -> Pod:
    """A running pod with one NIC of its own."""
    return await stage.pods.start(schedule(stage, name, **parameters), stage.kubelet)


async def ask(stage: Stage, verb: str, **fields: Any) -> Mapping[str, Any]:
    """What the daemon answers to the operator's command."""

    def work() -> Mapping[str, Any]:
        client = ControlClient(stage.world.runtime)
        try:
            return client.ask(verb, **fields)
        finally:
            client.close()

    return await run_in_thread("control", work)


def cdi_ids(pod: Pod) -> Mapping[str, tuple[str, ...]]:
    """CDI names of the pod's devices, by claim UID."""
    return {
        uid: tuple(name for device in devices for name in device.cdi_ids)
        for uid, devices in pod.prepared.items()
    }
