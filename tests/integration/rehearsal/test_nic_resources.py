"""NICs that are asked for as resources, on the rehearsal's stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth.errors import BerthError, ClaimError, RemoteProtocolError
from berth.rehearsal import checks, devicechecks
from berth.rehearsal.iproute import LinkFacts, ip, link_facts
from berth.rehearsal.pods import Pod
from berth.rehearsal.stage import Stage
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import ADDRESS, ask, schedule, start_pod, until

RESOURCE = "lab.example/fast"
GROUP = {
    "name": "spare",
    "match": {"name": ["nic0", "nic1"]},
    "resource": RESOURCE,
    "defaults": {"addresses": [{"address": ADDRESS}], "interface": {"mtu": 1400}},
}


async def set_stage(stages: Stages, nics: int = 1, **group: Any) -> Stage:
    """A stage with NICs at the plugin's door; its kubelet is believed that a pod has ended."""
    config = {"nic": {"group": [{**GROUP, **group}]}}
    stage = await stages(nics, config=config, start=False, kubelet_age_s=600.0)
    await stage.start()
    await stage.devices.wait_allocatable(RESOURCE, nics)
    return stage


def asking(stage: Stage, name: str = "asking", count: int = 1) -> Pod:
    """A scheduled pod that asks for NICs by its limits."""
    container = {"name": "main", "resources": {"limits": {RESOURCE: str(count)}}}
    manifest = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    pod, _ = stage.cluster.schedule(manifest)
    return stage.pods.found(pod)


async def run(stage: Stage, pod: Pod) -> None:
    """Start the pod's sandbox and its containers."""
    await stage.pods.run_sandbox(pod)
    await stage.pods.run_containers(pod)


async def end(stage: Stage, pod: Pod) -> None:
    """Stop the pod, and let kubelet forget it."""
    await stage.pods.stop(pod, stage.kubelet)
    stage.devices.end_pod("default", pod.name.name)


async def in_pod(pod: Pod, name: str) -> LinkFacts | None:
    """A link of the pod's namespace."""
    return await link_facts(name, netns=Path(pod.running.netns_path or "").name)


async def at_home(name: str) -> LinkFacts:
    """A link of the host, which is there."""
    facts = await link_facts(name)
    assert facts is not None
    return facts


async def holds(stage: Stage) -> list[dict[str, Any]]:
    """Who has what."""
    return list((await ask(stage, "holds"))["holds"])


async def test_hook_moves_the_nic_and_brings_it_home(stages: Stages) -> None:
    """By the group's defaults, under a free name, and restored when the pod ends."""

    stage = await set_stage(stages, door="plugin", attach="nri")
    before = await at_home("nic0")
    pod = asking(stage)
    await stage.pods.admit(pod, stage.devices)
    await run(stage, pod)

    facts = await in_pod(pod, "net1")
    assert facts is not None
    assert facts.mtu == 1400
    assert await link_facts("nic0") is None
    (hold,) = await holds(stage)
    assert (hold["stage"], hold["interface"], hold["door"]) == ("attached", "net1", "plugin")
    env = pod.containers[0].container.env
    assert env["PCIDEVICE_LAB_EXAMPLE_FAST"] == "nic-spare-nic0"
    assert not stage.cluster.devices()

    await end(stage, pod)
    await checks.returned({"nic0": before})
    await devicechecks.recorded(stage, 0)
    assert stage.devices.allocatable(RESOURCE) == 1


async def test_second_sandbox_of_the_pod_gets_the_nic_again(stages: Stages) -> None:
    """Kubelet does not ask again for what a pod has."""

    stage = await set_stage(stages, door="plugin", attach="nri")
    pod = asking(stage)
    await stage.pods.admit(pod, stage.devices)
    await run(stage, pod)
    await stage.pods.stop_sandbox(pod)
    pod.containers.clear()
    await run(stage, pod)

    assert await in_pod(pod, "net1") is not None


@pytest.mark.slow
async def test_daemon_that_was_killed_finds_the_nic_in_its_pod(stages: Stages) -> None:
    """What was given is on disk; the pod's end is heard by the next life."""

    stage = await set_stage(stages, door="plugin", attach="nri")
    before = await at_home("nic0")
    pod = asking(stage)
    await stage.pods.admit(pod, stage.devices)
    await run(stage, pod)
    await stage.berthd.kill()
    await stage.start()

    assert await in_pod(pod, "net1") is not None
    await end(stage, pod)
    await checks.returned({"nic0": before})
    await devicechecks.recorded(stage, 0)


async def test_container_brings_the_nic_when_its_hook_was_missed(stages: Stages) -> None:
    """The daemon was away when the sandbox was made."""

    stage = await set_stage(stages, door="plugin", attach="nri")
    pod = asking(stage)
    await stage.pods.admit(pod, stage.devices)
    await stage.berthd.kill()
    await until(lambda: stage.runtime.plugins == 0)
    await stage.pods.run_sandbox(pod)
    await stage.start()
    await stage.runtime.wait_plugins()
    await stage.pods.run_containers(pod)

    assert await in_pod(pod, "net1") is not None


async def test_next_pod_gets_the_nic_at_once(stages: Stages) -> None:
    """Kubelet gives away again what still counts as held here: it comes home first."""

    stage = await set_stage(stages, door="plugin", attach="nri")
    first = asking(stage, "first")
    await stage.pods.admit(first, stage.devices)
    await run(stage, first)
    # As after a deletion by force: the sandbox is there yet.
    stage.devices.end_pod("default", "first")
    second = asking(stage, "second")
    await stage.pods.admit(second, stage.devices)
    await run(stage, second)

    assert await in_pod(first, "net1") is None
    assert await in_pod(second, "net1") is not None


async def test_pod_gets_as_many_nics_as_it_asks_for(stages: Stages) -> None:
    """Numbered through."""

    stage = await set_stage(stages, 2, door="plugin", attach="nri", defaults={})
    pod = asking(stage, count=2)
    await stage.pods.admit(pod, stage.devices)
    await run(stage, pod)

    assert await in_pod(pod, "net1") is not None
    assert await in_pod(pod, "net2") is not None
    env = pod.containers[0].container.env
    assert env["PCIDEVICE_LAB_EXAMPLE_FAST"] == "nic-spare-nic0,nic-spare-nic1"


async def test_pods_share_a_parent_by_its_slots(stages: Stages) -> None:
    """Each has a link of its own over it, by an id of its own; the parent stays at home."""

    shared = {"mode": "shared", "shared": {"slots": 2}, "defaults": {}, "match": {"name": ["nic0"]}}
    config = {"nic": {"group": [{**GROUP, **shared, "door": "plugin", "attach": "nri"}]}}
    stage = await stages(1, config=config, start=False)
    await ip("link", "set", "nic0", "up")
    await stage.start()
    await stage.devices.wait_allocatable(RESOURCE, 2)
    before = await at_home("nic0")
    pods = [asking(stage, name) for name in ("one", "two")]
    for pod in pods:
        await stage.pods.admit(pod, stage.devices)
        await run(stage, pod)

    ids = sorted(hold["request"] for hold in await holds(stage))
    assert ids == ["nic-spare-nic0::0", "nic-spare-nic0::1"]
    found = [await in_pod(pod, "net1") for pod in pods]
    assert None not in found
    assert len({one.mac for one in found if one is not None}) == 2
    assert await at_home("nic0") == before


async def test_claim_and_resource_never_have_one_nic(stages: Stages) -> None:
    """With door "both": first a claim, then a resource, and neither beside the other."""

    stage = await set_stage(stages, door="both", attach="nri", defaults={})
    await until(lambda: bool(stage.cluster.devices()))
    claiming = await start_pod(stage, "claiming")
    await devicechecks.allocatable(stage, RESOURCE, 0)
    with pytest.raises(RemoteProtocolError, match="number of devices unavailable"):
        await stage.pods.admit(asking(stage, "early"), stage.devices)
    await stage.pods.stop(claiming, stage.kubelet)
    await devicechecks.allocatable(stage, RESOURCE, 1)

    pod = asking(stage)
    await stage.pods.admit(pod, stage.devices)
    await run(stage, pod)
    assert await in_pod(pod, "net1") is not None
    await until(lambda: bool(stage.cluster.devices()["nic-spare-nic0"].get("taints")))
    with pytest.raises(ClaimError):
        schedule(stage, "late")


async def test_uplink_is_refused_at_the_last_moment(stages: Stages) -> None:
    """The machine is looked at anew before anything is given."""

    stage = await set_stage(stages, door="plugin", attach="nri")
    await ip("link", "set", "nic0", "up")
    await ip("address", "add", "198.51.100.1/24", "dev", "nic0")
    await ip("route", "add", "default", "via", "198.51.100.2", "dev", "nic0")

    with pytest.raises(BerthError, match="is not offered now"):
        await stage.pods.admit(asking(stage), stage.devices)


@pytest.mark.slow
async def test_nic_for_a_cni_plugin_is_put_back_when_its_pod_has_ended(stages: Stages) -> None:
    """Berth touches nothing before, and knows how it was."""

    stage = await set_stage(stages, door="plugin")
    before = await at_home("nic0")
    pod = asking(stage)
    await stage.pods.admit(pod, stage.devices)
    await run(stage, pod)
    assert await link_facts("nic0") == before
    (hold,) = await holds(stage)
    assert hold["stage"] == "lent"

    await ip("link", "set", "nic0", "mtu", "1300")
    await end(stage, pod)
    await devicechecks.recorded(stage, 0)
    await checks.returned({"nic0": before})


@pytest.mark.slow
async def test_nic_that_came_home_from_a_cni_plugin_is_put_back(stages: Stages) -> None:
    """While its pod has it still, a while after it came home."""

    stage = await set_stage(stages, door="plugin")
    before = await at_home("nic0")
    pod = asking(stage)
    await stage.pods.admit(pod, stage.devices)
    await run(stage, pod)
    pods = pod.running.netns_path or ""
    await ip("link", "set", "nic0", "netns", pods)
    await until(lambda: is_away(stage))
    (hold,) = await holds(stage)
    assert hold["stage"] == "lent"
    assert stage.devices.allocatable(RESOURCE) == 1

    await ip("link", "set", "nic0", "mtu", "1300", netns=Path(pods).name)
    await ip("link", "set", "nic0", "netns", "1", netns=Path(pods).name)
    await until(lambda: is_as(before))
    (hold,) = await holds(stage)
    assert hold["stage"] == "lent"


async def is_away(stage: Stage) -> bool:
    """Whether the daemon has seen that the NIC is not at home."""
    (device,) = (await ask(stage, "devices"))["devices"]
    return bool(device["ifindex"] == 0)


async def is_as(before: LinkFacts) -> bool:
    """Whether the NIC at home is as it was."""
    return await link_facts(before.name) == before
