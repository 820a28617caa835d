"""Devices that stay where they are, by both doors, on the rehearsal's stage."""

from __future__ import annotations

from typing import Any

import pytest

from berth.errors import ClaimError, HostError, RemoteProtocolError
from berth.rehearsal import devicechecks
from berth.rehearsal.devicechecks import Offer, ask
from berth.rehearsal.kubelet import Act
from berth.rehearsal.manifests import pod_using
from berth.rehearsal.pods import Pod
from berth.rehearsal.stage import Stage
from berth.runtime.threads import run_in_thread
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import until

RESOURCE = "berth.dev/full"
CONFIG = {"generic": [{"name": "full", "match": {"path": "/dev/full"}, "door": "both"}]}


async def set_device(stages: Stages, **setting: Any) -> tuple[Stage, Offer]:
    """A stage with one device that both doors offer."""
    stage = await stages(0, config=CONFIG, start=False, **setting)
    await stage.start()
    answer = await run_in_thread("control", ask, stage.world.runtime, "devices")
    (offer,) = await devicechecks.offers(answer["devices"], ["full"])
    await devicechecks.published(stage, [offer])
    return stage, offer


def claiming(stage: Stage) -> Pod:
    """A scheduled pod that claims the device."""
    exactly = {"deviceClassName": "generic.berth.dev"}
    devices = {"requests": [{"name": "device", "exactly": exactly}]}
    stage.cluster.add_claim({"metadata": {"name": "claim"}, "spec": {"devices": devices}})
    name, _ = stage.cluster.schedule(pod_using("claiming", {"resourceClaimName": "claim"}))
    return stage.pods.found(name)


def asking(stage: Stage, name: str = "asking") -> Pod:
    """A scheduled pod that asks for the device by its limits."""
    container = {"name": "main", "resources": {"limits": {RESOURCE: "1"}}}
    manifest = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    pod, _ = stage.cluster.schedule(manifest)
    return stage.pods.found(pod)


async def run(stage: Stage, pod: Pod) -> None:
    """Start the pod's sandbox and its containers."""
    await stage.pods.run_sandbox(pod)
    await stage.pods.run_containers(pod)


async def test_claim_gives_the_node_and_takes_it_from_the_resource(stages: Stages) -> None:
    """Kubelet has none to give while the claim has the device, and one again afterwards."""

    stage, offer = await set_device(stages)
    pod = claiming(stage)
    await stage.pods.prepare(pod, stage.kubelet)
    await devicechecks.allocatable(stage, RESOURCE, 0)
    await run(stage, pod)

    assert devicechecks.given(pod, [offer])[0] == offer
    with pytest.raises(RemoteProtocolError, match="number of devices unavailable"):
        await stage.pods.admit(asking(stage), stage.devices)
    await stage.pods.stop(pod, stage.kubelet)
    await devicechecks.allocatable(stage, RESOURCE, 1)


async def test_resource_gives_the_node_and_keeps_it_from_claims(stages: Stages) -> None:
    """A kubelet of some age is believed that the pod has ended; then claims get it again."""

    stage, offer = await set_device(stages, kubelet_age_s=600.0)
    pod = asking(stage)
    await stage.pods.admit(pod, stage.devices)
    await run(stage, pod)

    assert devicechecks.given(pod, [offer])[0] == offer
    await devicechecks.recorded(stage, 1)
    await devicechecks.held(stage, pod, offer)
    await devicechecks.kept_from_claims(stage, offer, kept=True)
    with pytest.raises(ClaimError):
        claiming(stage)

    await stage.pods.stop(pod, stage.kubelet)
    stage.devices.end_pod("default", "asking")
    await devicechecks.recorded(stage, 0)
    await devicechecks.kept_from_claims(stage, offer, kept=False)


async def test_kubelet_restart_opens_the_door_again(stages: Stages) -> None:
    """The device manager is a part of kubelet's life; what it gave stays given."""

    stage, offer = await set_device(stages)
    pod = asking(stage)
    await stage.pods.admit(pod, stage.devices)
    await run(stage, pod)
    await stage.stop_kubelet()
    await stage.start_kubelet()
    await stage.devices.wait_allocatable(RESOURCE, 1)

    assert [one.subject for one in stage.notes if one.act is Act.REGISTERED].count(RESOURCE) == 2
    again = stage.pods.found(pod.name)
    await stage.pods.admit(again, stage.devices)
    assert again.allotments == pod.allotments
    await devicechecks.recorded(stage, 1)
    assert devicechecks.given(pod, [offer])[0] == offer


async def test_checks_say_what_is_not_so(stages: Stages) -> None:
    """A rehearsal that cannot fail would prove nothing."""

    stage, offer = await set_device(stages)
    pod = asking(stage)
    await run(stage, pod)

    with pytest.raises(HostError, match="has no node"):
        devicechecks.given(pod, [offer])
    with pytest.raises(HostError, match="1 records are to be there"):
        await devicechecks.recorded(stage, 1, limit_s=0.1)
    await until(lambda: stage.devices.allocatable(RESOURCE) == 1)
