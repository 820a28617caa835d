"""By whose rights the daemon works, what it may do with them, and what it does without a server."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from berth.errors import HostError
from tests.cluster import nodeconfig, parts
from tests.cluster.api import Object
from tests.cluster.bed import Cluster
from tests.cluster.berthd import DRIVER
from tests.cluster.claimforms import nic_config, request
from tests.cluster.controlplane import SERVER
from tests.cluster.gobuild import build
from tests.cluster.node import SLICES
from tests.cluster.pods import container, phase
from tests.cluster.site import LAB, MANIFESTS, Site, device

TOKEN = "/etc/berth/token"
WITH_TOKEN = f"""
[kubernetes]
server = "{SERVER}"
token_file = "{TOKEN}"
ca_file = "{nodeconfig.CA_FILE}"
"""
ADDRESS = nic_config(addresses=[{"address": "192.0.2.10/24"}])
NO_STATUS = "claim status is not written"


@pytest.fixture(scope="session")
def granted(classes: None, request: pytest.FixtureRequest) -> None:
    """What an administrator grants once: the service account, its role, and the policy over it."""
    grant(request.getfixturevalue("cluster"))


def grant(cluster: Cluster) -> None:
    """Let the service account do what berthd asks for, as an administrator does."""
    for name in ("rbac.yaml", "admission.yaml"):
        cluster.api.apply((MANIFESTS / name).read_text())


def make_token(site: Site, *, bound: bool = True) -> str:
    """A token of the service account, bound to the Node object of the site's node."""
    spec: Object = {}
    if bound:
        uid = site.api.get(site.node.object_path)["metadata"]["uid"]
        spec["boundObjectRef"] = {
            "kind": "Node",
            "apiVersion": "v1",
            "name": site.node.name,
            "uid": uid,
        }
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = "/api/v1/namespaces/kube-system/serviceaccounts/berthd/token"
    return str(site.api.request("POST", path, asked)["status"]["token"])


def conditions(entry: Object) -> Mapping[str, tuple[str, str]]:
    """Status and reason of each condition of a device."""
    return {each["type"]: (each["status"], each["reason"]) for each in entry["conditions"]}


def wait_told(site: Site, claim: str, reason: str) -> list[Object]:
    """Wait until each of our devices in the claim's status is told Ready for that reason."""

    def told(now: Object) -> bool:
        ready = [conditions(each)["Ready"][1] for each in devices_of(now)]
        return bool(ready) and set(ready) == {reason}

    return devices_of(site.api.wait(site.claim_path(claim), told, limit_s=20))


def devices_of(claim: Object) -> list[Object]:
    """What our daemon wrote into a claim's status."""
    told = claim.get("status", {}).get("devices", ())
    return [each for each in told if each["driver"] == DRIVER]


def test_kubelets_own_credentials_suffice_and_claim_status_is_given_up_once(site: Site) -> None:
    """Nothing is granted in the cluster: slices and claims work, one line tells what fails."""

    site.open()
    for name in ("first", "second"):
        site.claim(name, config=[ADDRESS])
        site.run(name, name).delete()

    (published,) = site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")
    assert published["metadata"]["ownerReferences"][0]["name"] == site.node.name
    assert site.log_lines("API server known", nodeconfig.KUBELET_KUBECONFIG)
    (warning,) = site.log_lines(NO_STATUS)
    assert "configs/kubernetes/rbac.yaml" in warning
    assert devices_of(site.api.get(site.claim_path("first"))) == []
    assert site.node.berthd.alive


def test_service_account_tells_the_nic_in_the_claims_status(site: Site, granted: None) -> None:
    """Conditions and network data are there, the same as in the container's file."""

    site.node.write(TOKEN, make_token(site))
    site.open(LAB + WITH_TOKEN)
    at_home = site.home("nic0")
    site.claim("uplink", config=[ADDRESS])

    pod = site.run("user", "uplink")

    (told,) = wait_told(site, "uplink", "Attached")
    assert (told["pool"], told["device"]) == (f"{site.node.name}/nic", device("nic0"))
    assert conditions(told) == {
        "Ready": ("True", "Attached"),
        "NetworkReady": ("True", "Usable"),
        "Healthy": ("True", "Healthy"),
    }
    (seen,) = pod.metadata("resourceclaims/uplink/nic")[0]["requests"][0]["devices"]
    assert told["networkData"] == seen["networkData"]
    assert told["networkData"]["ips"] == ["192.0.2.10/24"]
    assert told["data"]["home"] == {"name": "nic0", "mac": at_home["address"], "mtu": 1500}
    assert not site.log_lines(NO_STATUS)
    pod.delete()
    site.api.wait(site.claim_path("uplink"), lambda now: not devices_of(now), what="status empty")


def checked(site: Site, topic: str) -> Mapping[str, str]:
    """What the operator is told of a topic: the level of each text."""
    command = Path(sys.executable).with_name("berth")
    told = json.loads(site.node.run("sh", "-c", f"{command} check --json; test $? -le 1"))
    return {one["text"]: one["level"] for one in told["lines"] if one["topic"] == topic}


def test_check_tells_what_each_credentials_may_do(site: Site, granted: None) -> None:
    """Kubelet's own have all that was asked for; a service account's lack what nobody granted."""

    site.open()
    own = checked(site, "API server")
    kubelet = checked(site, "kubelet")
    site.node.write(TOKEN, make_token(site))
    site.open(LAB + WITH_TOKEN)
    granted_rights = checked(site, "API server")

    with_all = "these credentials have the rights that were asked for"
    assert own[with_all] == granted_rights[with_all] == "ok"
    assert [level for text, level in kubelet.items() if text.startswith("version 1.")] == ["ok"]
    assert "fault" not in {*own.values(), *kubelet.values(), *granted_rights.values()}


def test_check_tells_of_rights_that_are_lacking(site: Site, granted: None) -> None:
    """Somebody took a rule out of the role."""

    site.node.write(TOKEN, make_token(site))
    site.open(LAB + WITH_TOKEN)
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/berthd"
    role = site.api.get(path)
    rules = [rule for rule in role["rules"] if rule["resources"] != ["pods"]]
    site.api.request("PUT", path, {**role, "rules": rules})
    try:
        site.wait_same(
            "what the command tells",
            lambda: [
                level
                for text, level in checked(site, "API server").items()
                if text.startswith("these credentials may not get pods")
            ],
            ["warning"],
            limit_s=20,
        )
    finally:
        site.api.apply((MANIFESTS / "rbac.yaml").read_text())


def test_status_without_the_narrow_verbs_is_given_up_once(site: Site, granted: None) -> None:
    """The server calls it 422, not 403; slices and pods go on, and the right is named."""

    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/berthd"
    role = site.api.get(path)
    rules = [rule for rule in role["rules"] if rule["resources"] != ["resourceclaims/driver"]]
    assert len(rules) == len(role["rules"]) - 1
    site.api.request("PUT", path, {**role, "rules": rules})
    try:
        site.node.write(TOKEN, make_token(site))
        site.open(LAB + WITH_TOKEN, nics=["nic0", "nic1"])
        for name in ("first", "second"):
            site.claim(name)
            assert "net1" in site.run(name, name).links()
        site.wait_log(NO_STATUS)

        (warning,) = site.log_lines(NO_STATUS)
        assert "resourceclaims/driver" in warning
        assert "associated-node:patch" in warning
        assert "configs/kubernetes/rbac.yaml" in warning
        assert devices_of(site.api.get(site.claim_path("first"))) == []
        assert not site.log_lines("trying again")
    finally:
        site.api.apply((MANIFESTS / "rbac.yaml").read_text())


def test_failed_attach_is_told_with_step_and_reason(site: Site, granted: None) -> None:
    """Whoever looks at the claim learns why its pod does not start, without the node's journal."""

    site.node.write(TOKEN, make_token(site))
    site.open(LAB + 'claims_may = ["eth0"]\n' + WITH_TOKEN)
    site.claim("uplink", config=[nic_config(interface={"name": "eth0"})])

    site.create("user", "uplink")

    (told,) = wait_told(site, "uplink", "AttachFailed")
    (ready,) = (each for each in told["conditions"] if each["type"] == "Ready")
    assert "has a link 'eth0'" in ready["message"]
    assert conditions(told)["NetworkReady"] == ("False", "AttachFailed")
    assert "networkData" not in told


def test_each_share_of_a_parent_has_its_own_entry(site: Site, granted: None) -> None:
    """Two children of one claim are told side by side, each under its share's id."""

    site.node.write(TOKEN, make_token(site))
    site.open(LAB + 'mode = "shared"\n' + WITH_TOKEN)
    site.claim("two", request("a", of="nic-shared"), request("b", of="nic-shared"))

    pod = site.run("user", "two")

    entries = wait_told(site, "two", "Attached")
    results = site.api.get(site.claim_path("two"))["status"]["allocation"]["devices"]["results"]
    names = dict(zip((each["shareID"] for each in results), ("net1", "net2"), strict=True))
    assert {e["shareID"]: e["networkData"]["interfaceName"] for e in entries} == names
    assert {e["networkData"]["hardwareAddress"] for e in entries} == {
        pod.link(name)["address"] for name in names.values()
    }


@pytest.mark.parametrize(
    ("bound", "why"),
    [
        (True, "this token may write ResourceSlices of node 'node137' only"),
        (False, "the token is bound to no node, so it may write no ResourceSlice"),
    ],
)
def test_token_of_one_node_may_not_write_slices_of_another(
    site: Site, granted: None, bound: bool, why: str
) -> None:
    """The shipped policy keeps a node that was broken into from offering what others have."""

    foreign = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "foreign"},
        "spec": {
            "driver": DRIVER,
            "nodeName": "elsewhere",
            "pool": {"name": "elsewhere/nic", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "one"}],
        },
    }

    with pytest.raises(HostError, match=why):
        kubectl_as(site, make_token(site, bound=bound), "create", "-f", "-", given=foreign)

    assert "foreign" not in {each["metadata"]["name"] for each in site.api.items(SLICES)}


def kubectl_as(site: Site, token: str, *arguments: str, given: Any = None) -> str:
    """Run kubectl by a token alone."""
    control = site.cluster.control
    return control.box.run(
        str(build(parts.KUBERNETES) / "kubectl"),
        "--kubeconfig=/dev/null",
        f"--server={SERVER}",
        f"--certificate-authority={control.authority.certificate}",
        f"--token={token}",
        *arguments,
        given=json.dumps(given),
    )


def test_token_is_read_again_when_it_changes(site: Site, granted: None) -> None:
    """A refused token is told, and a good one in its place serves at once, without a restart."""

    site.node.write(TOKEN, "no.such.token")
    for name in ("nic0", "nic1"):
        site.node.add_nic(name)
    berthd = site.node.start_berthd(LAB + WITH_TOKEN)
    berthd.wait_ready()
    site.wait_log("401")

    site.node.write(TOKEN, make_token(site))
    site.wait_offered([device("nic0"), device("nic1")])
    site.node.write(TOKEN, "no.such.token")
    site.claim("uplink")
    pod = site.create("user", "uplink")
    site.node.write(TOKEN, make_token(site))
    pod.nudge()
    site.cluster.wait_running(pod.now)

    assert wait_told(site, "uplink", "Attached")
    assert len(berthd.log_text().splitlines()) < 60


def slice_versions(site: Site) -> list[str]:
    """What changes with each write of the node's slices."""
    slices = site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")
    return [f"{each['metadata']['uid']} {each['metadata']['resourceVersion']}" for each in slices]


def test_restart_of_the_api_server_is_no_event_for_pods_and_slices(site: Site) -> None:
    """The running pod keeps its NIC, nothing is written anew, and the next pod starts."""

    site.open(nics=["nic0", "nic1"])
    for name in ("before", "after"):
        site.claim(name, config=[ADDRESS])
    pod = site.run("before", "before")
    link, slices = pod.link("net1"), slice_versions(site)
    control = site.cluster.control

    control.apiserver.kill()
    control.apiserver.start()
    control.wait_ready()

    next_pod = site.run("after", "after")
    assert pod.link("net1") == link
    assert next_pod.links() == {"lo", "eth0", "net1"}
    assert slice_versions(site) == slices
    assert site.node.berthd.alive


def test_pod_that_ends_while_the_api_server_hangs_returns_its_nic(site: Site) -> None:
    """What is undone needs nobody's answer; the server learns of it when it wakes."""

    site.open()
    at_home, slices = site.home("nic0"), slice_versions(site)
    site.claim("uplink", config=[ADDRESS])
    until = ["sh", "-c", "until [ -e /tmp/end ]; do sleep 0.1; done; sleep 1"]
    pod = site.run("user", "uplink", containers=[container("main", "uplink", command=until)])
    pod.run("touch", "/tmp/end")

    with site.cluster.control.apiserver.asleep():
        site.wait_home("nic0", at_home, limit_s=20)
        site.wait_log("claim unprepared", "uplink")

    pod.wait(lambda now: phase(now) == "Succeeded", what="is Succeeded")
    assert slice_versions(site) == slices


def test_daemon_is_ready_while_the_api_server_hangs_and_publishes_when_it_wakes(
    site: Site,
) -> None:
    """A node that boots during an outage serves what it can: the pod that runs keeps its NIC."""

    site.open(nics=["nic0", "nic1"])
    site.claim("uplink", config=[ADDRESS])
    pod = site.run("user", "uplink")
    link = pod.link("net1")
    site.node.berthd.terminate()
    site.node.remove_nic("nic1")

    with site.cluster.control.apiserver.asleep():
        site.node.berthd.start()
        site.node.berthd.wait_ready(limit_s=10)

    site.wait_offered([device("nic0")])
    assert pod.link("net1") == link
    pod.delete()
