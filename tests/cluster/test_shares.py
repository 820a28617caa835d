"""Shares of NICs and GPUs: what they come to, and where each is named, on a real cluster.

All scenes share one node; each ends its pods and claims.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from berth.rehearsal.nvml.cards import whole
from tests.cluster.api import Object
from tests.cluster.bed import Bed
from tests.cluster.berthd import DRIVER
from tests.cluster.claimforms import claim, request, spec
from tests.cluster.gpumachine import GpuMachine
from tests.cluster.pods import is_running
from tests.cluster.session import apply_classes
from tests.cluster.site import PodView, Site, device, entries
from tests.cluster.test_credentials import TOKEN, WITH_TOKEN, grant, make_token
from tests.nvml import need_compiler

CARD = whole(0, "0000:1b:00.0")
GPU = "gpu-0000-1b-00-0"
MIB = CARD.memory_bytes >> 20
PARENTS = (device("nic0", "lan"), device("nic1", "lan"))
CONFIG = """
[[gpu.group]]
name = "gpus"
match = { type = ["gpu"] }
inject = "cdi"
share = { slots = 3, memory = "free" }

[[nic.group]]
name = "lan"
match = { name = ["nic0", "nic1"] }
mode = "shared"
shared = { slots = 3, bandwidth = "3G" }
"""
WHY = (
    "unpublishable: the API server drops allowMultipleAllocations: its feature gate "
    "DRAConsumableCapacity is off or unknown"
)
TELL_PODS = """
import grpc
from berth.pb import podresources_v1_pb2 as pb

ask = grpc.insecure_channel("unix:///var/lib/kubelet/pod-resources/kubelet.sock").unary_unary(
    "/v1.PodResourcesLister/List",
    request_serializer=pb.ListPodResourcesRequest.SerializeToString,
    response_deserializer=pb.ListPodResourcesResponse.FromString,
)
print(ask(pb.ListPodResourcesRequest(), timeout=10))
"""


@pytest.fixture(name="machine", scope="module")
def _machine() -> Iterator[GpuMachine]:
    """One GPU."""
    need_compiler()
    with tempfile.TemporaryDirectory(prefix="berth-shares-", dir="/var/tmp") as folder:
        yield GpuMachine(Path(folder), (CARD,))


@pytest.fixture(name="sharing", scope="module")
def _sharing(shared_site: Site, machine: GpuMachine) -> Site:
    """A node with two parents and a GPU that is shared, whose daemon may write claims' status."""
    grant(shared_site.cluster)
    shared_site.node.write(TOKEN, make_token(shared_site))
    start(shared_site, machine, WITH_TOKEN)
    shared_site.wait_offered((GPU, *PARENTS))
    return shared_site


def start(site: Site, machine: GpuMachine, more: str = "") -> None:
    """Start the daemon with all that is shared."""
    for name in ("nic0", "nic1"):
        site.node.add_nic(name)
    config = f"{machine.config}{CONFIG}{more}"
    site.node.start_berthd(config, command=machine.command, activated=True).wait_ready()
    site.wait_registered()


def share(of: str, name: str = "share", **amounts: str) -> Object:
    """A request for a share that takes so much of each capacity."""
    asked = {"capacity": {"requests": amounts}} if amounts else {}
    return request(name, of=of, **asked)


def given(site: Site, name: str) -> list[Object]:
    """What the scheduler gave a claim."""
    found = site.api.get(site.claim_path(name))
    results: list[Object] = found["status"]["allocation"]["devices"]["results"]
    return results


def reasons(site: Site) -> set[tuple[str, str]]:
    """Why each of our devices is not offered."""
    ours = [one for one in site.listed("devices") if one["name"] in {GPU, *PARENTS}]
    return {(one["name"], f"{one['reason']}: {one['detail']}") for one in ours}


def end(site: Site, *pods: PodView) -> None:
    """Delete pods and all claims."""
    for pod in pods:
        pod.delete()
    for one in site.api.items(site.claim_path()):
        site.api.delete(site.claim_path(one["metadata"]["name"]))


@pytest.mark.parametrize(
    ("of", "asked", "consumed"),
    [
        ("nic-shared", {}, {"bandwidth": "1G", "slots": "1"}),
        ("nic-shared", {"bandwidth": "1k"}, {"bandwidth": "1M", "slots": "1"}),
        ("nic-shared", {"bandwidth": "1500k"}, {"bandwidth": "2M", "slots": "1"}),
        ("nic-shared", {"bandwidth": "3G"}, {"bandwidth": "3G", "slots": "1"}),
        ("gpu", {}, {"memory": "0", "slots": "1"}),
        ("gpu", {"memory": "1"}, {"memory": "1Mi", "slots": "1"}),
        ("gpu", {"memory": "1500Ki", "slots": "2"}, {"memory": "2Mi", "slots": "2"}),
        ("gpu", {"memory": f"{MIB}Mi"}, {"memory": f"{MIB}Mi", "slots": "1"}),
    ],
)
def test_what_is_asked_is_rounded_up_to_what_may_be(
    sharing: Site, of: str, asked: Mapping[str, str], consumed: Mapping[str, str]
) -> None:
    """By the policy that the slice tells of each capacity."""

    sharing.claim("one", share(of, **asked))
    pod = sharing.run("user", "one")

    (result,) = given(sharing, "one")
    assert result["consumedCapacity"] == consumed
    (hold,) = sharing.listed("holds")
    assert (hold["share"], hold["slots"]) == (result["shareID"], int(consumed["slots"]))
    end(sharing, pod)


@pytest.mark.parametrize(
    ("of", "asked"),
    [
        ("nic-shared", {"bandwidth": "3001M"}),
        ("nic-shared", {"slots": "2"}),
        ("gpu", {"memory": f"{MIB + 1}Mi"}),
        ("gpu", {"slots": "4"}),
    ],
)
def test_more_than_a_parent_has_is_never_given(
    sharing: Site, of: str, asked: Mapping[str, str]
) -> None:
    """The pod waits, and says for what."""

    sharing.claim("much", share(of, **asked))
    pod = sharing.create("user", "much")

    assert "cannot allocate all claims" in pod.wait_event("FailedScheduling")
    end(sharing, pod)


def test_shares_of_a_gpu_are_never_more_than_its_memory(sharing: Site) -> None:
    """The last Mi goes to one claim; the next waits until another gives some back."""

    for name, amount in (("half", MIB // 2), ("rest", MIB - MIB // 2), ("more", 1)):
        sharing.claim(name, share("gpu", memory=f"{amount}Mi"))
    pods = [sharing.run(name, name) for name in ("half", "rest")]
    waiting = sharing.create("more", "more")
    assert "cannot allocate all claims" in waiting.wait_event("FailedScheduling")
    pods[0].delete()

    waiting.wait(is_running, what="runs")
    assert given(sharing, "more")[0]["consumedCapacity"]["memory"] == "1Mi"
    end(sharing, pods[1], waiting)


def test_two_shares_are_on_different_parents_where_the_claim_says_so(sharing: Site) -> None:
    """Without the constraint both may be on one; three distinct ones are not to be had of two."""

    distinct = [{"distinctAttribute": f"{DRIVER}/ifName"}]
    names = ("a", "b", "c")
    for name, count in (("two", 2), ("three", 3)):
        asked = [share("nic-shared", each) for each in names[:count]]
        made = claim(sharing.namespace, name, spec(*asked, constraints=distinct))
        sharing.api.create(made)
    sharing.claim("near", *(share("nic-shared", each) for each in names[:2]))

    waiting = sharing.create("three", "three")
    assert "cannot allocate all claims" in waiting.wait_event("FailedScheduling")
    apart, near = sharing.run("apart", "two"), sharing.run("near", "near")
    assert {each["device"] for each in given(sharing, "two")} == {*PARENTS}
    assert len({each["device"] for each in given(sharing, "near")}) == 1
    assert apart.links() == near.links() == {"lo", "eth0", "net1", "net2"}
    end(sharing, waiting, apart, near)


def test_share_is_named_in_all_that_is_told_of_it(sharing: Site) -> None:
    """Two shares of one parent and one of the GPU: the claim, the node, CDI and kubelet agree."""

    names = ("a", "b")
    sharing.claim("all", *(share("nic-shared", each) for each in names), share("gpu", "gpu"))
    pod = sharing.run("user", "all")
    results = given(sharing, "all")
    uid = sharing.api.get(sharing.claim_path("all"))["metadata"]["uid"]
    shares = {each["shareID"] for each in results}
    assert len(shares) == 3

    told = sharing.api.wait(sharing.claim_path("all"), lambda it: len(entries(it)) == 3)
    assert {(each["device"], each["shareID"]) for each in entries(told)} == {
        (each["device"], each["shareID"]) for each in results
    }
    assert {hold["share"] for hold in sharing.listed("holds")} == shares
    cdi = {
        each["name"]
        for kind in ("nic", "gpu")
        for each in json.loads(
            sharing.node.path(f"/run/cdi/{DRIVER}-{kind}_{uid}.json").read_text()
        )["devices"]
    }
    assert cdi == {f"{uid}_{each['device']}_{each['shareID'][:8]}" for each in results}
    kubelet = sharing.node.run(sys.executable, "-c", TELL_PODS)
    assert set(re.findall(r'share_id: "([^"]+)"', kubelet)) == shares
    for asked, (where, name) in zip(
        (*names, "gpu"), ((each["pool"], each["device"]) for each in results), strict=True
    ):
        (metadata,) = pod.metadata(f"resourceclaims/all/{asked}")[0]["requests"]
        (seen,) = metadata["devices"]
        assert (metadata["name"], seen["pool"], seen["name"]) == (asked, where, name)
    end(sharing, pod)


def test_server_that_knows_no_shares_is_offered_nothing_to_share(
    bed: Bed, machine: GpuMachine
) -> None:
    """It would give one claim the whole: nothing is offered, and the operator reads why."""

    gates = {"DRAConsumableCapacity": False, "DRAFractionalCapacityRange": False}
    with bed.cluster(gates=gates) as cluster:
        apply_classes(cluster)
        site = Site(cluster, cluster.node("1.37+2.4"), "default")
        start(site, machine)
        site.wait_offered(())
        site.wait_same("reasons", lambda: reasons(site), {(GPU, WHY), *((p, WHY) for p in PARENTS)})
