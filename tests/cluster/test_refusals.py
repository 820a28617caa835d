"""Claims that cannot be done: refused before anything is touched, with every reason at once."""

from __future__ import annotations

import json

from tests.cluster.api import Object
from tests.cluster.berthd import DRIVER
from tests.cluster.claimforms import nic_config, raw_config, request
from tests.cluster.pods import is_running
from tests.cluster.site import LAB, Site, device

HEAD = {"apiVersion": f"{DRIVER}/v1alpha1", "kind": "NicConfig"}
ROOT = "config[0].opaque.parameters."
FAULTS: dict[str, tuple[Object, str]] = {
    "unknown-field": ({"adresses": []}, "adresses: unknown field; did you mean addresses?"),
    "wrong-type": (
        {"interface": {"mtu": "1500"}},
        (
            'interface.mtu: "1500": it must be a whole number from 68 to 65535; write 1500, '
            "without quotes"
        ),
    ),
    "guarded-field": (
        {"interface": {"promiscuous": True}},
        (
            "interface.promiscuous: a claim may not set interface.promiscuous here: "
            'a DeviceClass or the defaults of group "lab" may; '
            'claims_may = ["interface.promiscuous"] in that group allows it'
        ),
    ),
    "eth0": (
        {"interface": {"name": "eth0"}},
        (
            'interface.name: a claim may not set interface.name to "eth0" here: '
            'a DeviceClass or the defaults of group "lab" may; '
            'claims_may = ["eth0"] in that group allows it'
        ),
    ),
    "long-name": (
        {"interface": {"name": "sixteen-letters-"}},
        (
            'interface.name: "sixteen-letters-" has 16 bytes: it must be 1 to 15 letters, digits, '
            "'_', '.' and '-'"
        ),
    ),
    "network-address": (
        {"addresses": [{"address": "192.0.2.0/24"}]},
        (
            'addresses[0].address: "192.0.2.0/24" is the address of the network itself: it must be '
            'the address of a host with its prefix, such as "10.0.0.5/24"'
        ),
    ),
    "gateway-off-link": (
        {
            "addresses": [{"address": "192.0.2.10/24"}],
            "routes": [{"to": "default", "via": "198.51.100.1"}],
        },
        (
            "routes[0].via: 198.51.100.1 is not reachable by any address of this interface: give "
            "onLink or a link-scope route"
        ),
    ),
    "host-bits": (
        {"routes": [{"to": "192.0.2.7/24", "scope": "link"}]},
        (
            'routes[0].to: "192.0.2.7/24" has bits behind its prefix: it must be '
            'a network with its prefix, such as "10.1.0.0/16", or "default"; write 192.0.2.0/24'
        ),
    ),
    "mtu-too-large": (
        {"interface": {"mtu": 100000}},
        "interface.mtu: 100000: it must be a whole number from 68 to 65535",
    ),
    "mtu-too-small": (
        {"interface": {"mtu": 1000}, "addresses": [{"address": "2001:db8::1/64"}]},
        "interface.mtu: the MTU is 1000, and there are IPv6 addresses: IPv6 needs at least 1280",
    ),
    "group-address": (
        {"interface": {"hardwareAddr": "01:00:5e:00:00:01"}},
        (
            'interface.hardwareAddr: "01:00:5e:00:00:01" is a group address: it must be a unicast '
            'address of 6 octets, such as "02:00:00:00:00:01"'
        ),
    ),
    "mode-that-is-none": (
        {"mode": "bridge"},
        'mode: "bridge": it must be "move", "macvlan", "ipvlan", "vlan" or "vfio"',
    ),
    "field-of-a-later-version": (
        {"dhcp": {"ipv4": True}},
        "dhcp.ipv4: ipv4 is not available in this version; drop it",
    ),
    "other-kind": (
        {"kind": "NicConfiguration"},
        (
            'kind: "NicConfiguration" is no kind that a NIC takes, and the entry applies to no '
            'other device: it must be "NicConfig"'
        ),
    ),
}


def test_each_kind_of_fault_is_refused_by_its_place_and_rule(site: Site) -> None:
    """A claim's author reads in the pod's event which field is wrong, and what is allowed."""

    nics = [f"nic{number}" for number in range(len(FAULTS))]
    site.open(f'[[nic.group]]\nname = "lab"\nmatch = {{ name = {json.dumps(nics)} }}\n', nics=nics)
    homes = {nic: site.home(nic) for nic in nics}
    for name, (parameters, _) in FAULTS.items():
        site.claim(name, config=[raw_config(parameters={**HEAD, **parameters})])
    pods = {name: site.create(f"pod-{name}", name) for name in FAULTS}

    told = {name: pod.wait_refused() for name, pod in pods.items()}

    assert told == {name: f"{ROOT}{fault}" for name, (_, fault) in FAULTS.items()}
    assert {nic: site.home(nic) for nic in nics} == homes


def test_all_faults_of_a_claim_are_told_at_once_and_its_nic_stays_free(site: Site) -> None:
    """Two entries for two NICs with seven faults make one event; another pod gets the NICs."""

    site.open(nics=["nic0", "nic1"])
    homes = {nic: site.home(nic) for nic in ("nic0", "nic1")}
    faulty = [
        nic_config(
            "a",
            interface={"name": "data0", "mtu": 1},
            addresses=[{"address": "192.0.2.0/24"}, {"address": "192.0.2.10"}],
            sysctls={"ipv4": {"ip_forward": 1}},
        ),
        nic_config("b", interface={"name": "data0", "speed": 10}, routes=[{"via": "192.0.2.1"}]),
    ]
    site.claim("bad", request("a"), request("b"), config=faulty)
    site.claim("good", request("a"), request("b"))

    bad = site.create("bad", "bad")
    told = bad.wait_refused()

    for place in (
        "config[0].opaque.parameters.interface.mtu: 1:",
        "config[0].opaque.parameters.addresses[0].address:",
        "config[0].opaque.parameters.addresses[1].address:",
        "config[0].opaque.parameters.sysctls.ipv4.ip_forward:",
        "config[1].opaque.parameters.interface.speed:",
        "config[1].opaque.parameters.routes[0]: lacks to:",
        'config[1].opaque.parameters.interface.name: "data0" is the name of',
    ):
        assert place in told
    assert {nic: site.home(nic) for nic in ("nic0", "nic1")} == homes
    assert len(site.log_lines("claim prepare failed", "bad")) == 1
    bad.delete()
    assert site.run("good", "good").links() == {"lo", "eth0", "net1", "net2"}


def test_second_claim_that_wants_the_same_in_one_pod_is_refused_by_both_names(site: Site) -> None:
    """Names and addresses must differ over all claims of a pod, and both NICs are told."""

    site.open(nics=["nic0", "nic1"])
    same = nic_config(interface={"name": "data0"}, addresses=[{"address": "192.0.2.10/24"}])
    site.claim("one", config=[same])
    site.claim("other", config=[same])

    told = site.create("user", "one", "other").wait_refused()

    assert 'interface.name: "data0" is the name of' in told
    assert "addresses[0].address: 192.0.2.10 is an address of" in told
    assert f"claim {site.namespace}/one" in told
    assert f"claim {site.namespace}/other" in told


def test_name_that_the_pod_network_has_taken_keeps_the_nic_at_home(site: Site) -> None:
    """With `eth0` allowed the clash shows in the sandbox; pod and name are told, nothing moved."""

    site.open(LAB + 'claims_may = ["eth0"]\n')
    at_home = site.home("nic0")
    site.claim("uplink", config=[nic_config(interface={"name": "eth0"})])

    told = site.create("user", "uplink").wait_event("FailedCreatePodSandBox")

    assert f"pod {site.namespace}/user: has a link 'eth0'" in told
    assert "every NIC of the pod is home" in told
    site.wait_home("nic0", at_home)


def test_nic_that_became_the_uplink_is_refused_with_the_way_to_it(site: Site) -> None:
    """A default route between allocation and prepare is caught, and the pod runs without it."""

    site.open()
    at_home = site.home("nic0")
    site.claim("uplink")

    with site.node.kubelet.asleep():
        pod = site.create("user", "uplink")
        site.api.wait(
            site.claim_path("uplink"), lambda now: now.get("status", {}).get("allocation")
        )
        site.node.ip("route", "add", "default", "dev", "nic0", "metric", "4000")
    told = pod.wait_refused()
    at_fault = site.home("nic0")
    site.node.ip("route", "delete", "default", "dev", "nic0")
    pod.nudge()
    pod.wait(is_running, what="runs")

    assert told.startswith(f"{device('nic0')}: is not offered any more: uplink")
    assert "default route (table main) → nic0" in told
    assert at_fault["flags"] == at_home["flags"]
    assert pod.links() == {"lo", "eth0", "net1"}


def test_second_pod_of_a_claim_is_refused_by_the_name_of_the_first(site: Site) -> None:
    """A NIC is in one pod; the second one learns whose it is, and the first does not notice."""

    site.open()
    peer = site.peer("nic0").set_address("192.0.2.1/24")
    site.claim("uplink", config=[nic_config(addresses=[{"address": "192.0.2.10/24"}])])
    first = site.run("first", "uplink")

    told = site.create("second", "uplink").wait_event("FailedCreatePodSandBox")

    assert f"claim {site.namespace}/uplink: is used by pod first" in told
    assert "its NIC can be in one pod only; give each pod a claim of its own" in told
    assert first.links() == {"lo", "eth0", "net1"}
    peer.ping("192.0.2.10")


def test_claim_of_two_pods_at_once_is_refused_by_both_names(site: Site) -> None:
    """When both are there before anything is prepared, neither is preferred in silence."""

    site.open()
    site.claim("uplink")

    with site.node.kubelet.asleep():
        pods = [site.create(name, "uplink") for name in ("first", "second")]
        site.api.wait(
            site.claim_path("uplink"),
            lambda now: len(now.get("status", {}).get("reservedFor", ())) == 2,
        )
    told = pods[0].wait_refused()

    assert "is reserved for 2 pods: first, second: a NIC can be in one pod only" in told
    pods[1].delete()
    pods[0].nudge()
    pods[0].wait(is_running, what="runs")


def test_pod_on_the_hosts_network_gets_no_nic(site: Site) -> None:
    """There is nowhere to move it to; the pod does not run, and the NIC stays as it is."""

    site.open()
    at_home = site.home("nic0")
    site.claim("uplink", config=[nic_config(interface={"mtu": 1300})])

    pod = site.create("user", "uplink", hostNetwork=True)
    told = pod.wait_event("FailedCreatePodSandBox")
    pod.delete()

    assert f"pod {site.namespace}/user: uses the host's network" in told
    site.wait_home("nic0", at_home)


def test_administrator_reads_metadata_of_a_nic_and_leaves_its_tenant_alone(site: Site) -> None:
    """A claim with admin access gets the device's facts; nothing is moved, held or freed by it."""

    site.open()
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    site.api.merge(f"/api/v1/namespaces/{site.namespace}", label)
    peer = site.peer("nic0").set_address("192.0.2.1/24")
    site.claim("tenant", config=[nic_config(addresses=[{"address": "192.0.2.10/24"}])])
    site.claim("look", request("look", adminAccess=True))
    tenant = site.run("tenant", "tenant")
    before = tenant.link("net1")

    admin = site.run("admin", "look")

    (seen,) = admin.metadata("resourceclaims/look/look")[0]["requests"][0]["devices"]
    assert seen["name"] == device("nic0")
    assert seen["attributes"]["ifName"] == {"string": "nic0"}
    assert "networkData" not in seen
    assert "BERTH_CLAIM" not in admin.run("env")
    assert admin.links() == {"lo", "eth0"}
    admin.delete()
    assert tenant.link("net1") == before
    peer.ping("192.0.2.10")
