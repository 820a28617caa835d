"""Pods that get their NICs by claims: what is asked for is there, and told everywhere alike."""

from __future__ import annotations

import json

import pytest

from tests.cluster.berthd import DRIVER
from tests.cluster.claimforms import choice, first_available, nic_config, request
from tests.cluster.pods import container
from tests.cluster.site import LAB, METADATA, Site, device


def test_pod_with_a_claim_by_name_has_the_nic_as_the_claim_says(site: Site) -> None:
    """Name and address are there, traffic flows, and metadata and journal tell the same."""

    site.open()
    peer = site.peer("nic0").set_address("192.0.2.1/24")
    at_home = site.home("nic0")
    settings = nic_config(interface={"name": "data0"}, addresses=[{"address": "192.0.2.10/24"}])
    site.claim("uplink", config=[settings])

    pod = site.run("user", "uplink")

    assert pod.links() == {"lo", "eth0", "data0"}
    peer.ping("192.0.2.10")
    assert peer.who_has("192.0.2.10") == {at_home["address"]}
    newest, older = pod.metadata("resourceclaims/uplink/nic")
    assert newest["apiVersion"] == "metadata.resource.k8s.io/v1beta1"
    assert older == {**newest, "apiVersion": "metadata.resource.k8s.io/v1alpha1"}
    assert "podClaimName" not in newest
    assert newest["metadata"]["generation"] == 2
    (told,) = newest["requests"]
    assert told["name"] == "nic"
    (nic,) = told["devices"]
    assert (nic["pool"], nic["name"]) == (f"{site.node.name}/nic", device("nic0"))
    assert nic["attributes"]["ifName"] == {"string": "nic0"}
    assert nic["networkData"] == {
        "interfaceName": "data0",
        "ips": ["192.0.2.10/24"],
        "hardwareAddress": at_home["address"],
    }
    assert site.log_lines("NIC attached", f"{site.namespace}/user", "data0", "192.0.2.10/24")
    pod.delete()
    site.wait_home("nic0", at_home)


def test_pod_with_a_template_finds_metadata_under_its_own_name_for_the_claim(site: Site) -> None:
    """The claim is made for the pod and goes with it; the path holds the pod's name for it."""

    site.open()
    site.template("one", config=[nic_config(addresses=[{"address": "192.0.2.10/24"}])])

    pod = site.run("user", templates=["one"])

    (made,) = pod.now["status"]["resourceClaimStatuses"]
    (newest, _) = pod.metadata("resourceclaimtemplates/one/nic")
    assert newest["podClaimName"] == "one"
    assert newest["metadata"]["name"] == made["resourceClaimName"]
    assert newest["requests"][0]["devices"][0]["networkData"]["interfaceName"] == "net1"
    pod.delete()
    site.api.wait_all(site.claim_path(), lambda left: not left, what="the pod's claim gone")


def test_pod_with_two_nics_of_one_claim_has_each_as_its_own_request_says(site: Site) -> None:
    """Both are there under their names, each reaches its own network, each has its own file."""

    site.open(nics=["nic0", "nic1"])
    settings = [
        nic_config("inside", interface={"name": "in0"}, addresses=[{"address": "192.0.2.10/24"}]),
        nic_config(
            "outside", interface={"name": "out0"}, addresses=[{"address": "203.0.113.9/24"}]
        ),
    ]
    site.claim("both", request("inside"), request("outside"), config=settings)

    pod = site.run("router", "both")

    homes = {site.home_mac(nic): nic for nic in ("nic0", "nic1")}
    for name, address, wanted in (
        ("inside", "192.0.2.10", "in0"),
        ("outside", "203.0.113.9", "out0"),
    ):
        (nic,) = pod.metadata(f"resourceclaims/both/{name}")[0]["requests"][0]["devices"]
        assert nic["networkData"]["interfaceName"] == wanted
        peer = site.peer(homes[nic["networkData"]["hardwareAddress"]])
        assert device(homes[pod.link(wanted)["address"]]) == nic["name"]
        peer.set_address(f"{address[:-1]}1/24").ping(address)


def test_nics_of_several_claims_are_named_in_the_order_of_the_pod(site: Site) -> None:
    """Without wishes they are `net1`, `net2` …; a name that a claim asks for is left to its NIC."""

    site.open(nics=["nic0", "nic1", "nic2"])
    site.claim("first")
    site.claim("second", config=[nic_config(interface={"name": "net1"})])
    site.claim("third")

    pod = site.run("user", "third", "second", "first")

    assert pod.links() == {"lo", "eth0", "net1", "net2", "net3"}
    names = {}
    for each in ("first", "second", "third"):
        (nic,) = pod.metadata(f"resourceclaims/{each}/nic")[0]["requests"][0]["devices"]
        names[each] = nic["networkData"]["interfaceName"]
        assert pod.link(names[each])["address"] == nic["networkData"]["hardwareAddress"]
    assert names == {"third": "net2", "second": "net1", "first": "net3"}


def test_both_containers_see_the_nic_and_only_the_one_that_asks_sees_metadata(site: Site) -> None:
    """A NIC is the pod's; files and marker are for the container that refers to the claim."""

    site.open()
    site.claim("uplink", config=[nic_config(interface={"name": "data0"})])
    both = [container("main", "uplink"), container("side")]

    pod = site.run("user", "uplink", containers=both)

    uid = site.api.get(site.claim_path("uplink"))["metadata"]["uid"].replace("-", "")
    for name in ("main", "side"):
        assert "data0" in pod.run("ip", "link", container=name)
    assert f"BERTH_CLAIM_{uid}={device('nic0')}" in pod.run("env").splitlines()
    assert "BERTH_CLAIM" not in pod.run("env", container="side")
    assert pod.metadata("resourceclaims/uplink/nic")
    assert "No such" in pod.run("sh", "-c", "ls /var/run 2>&1 || true", container="side")


def test_init_container_sees_nic_and_completed_metadata(site: Site) -> None:
    """The NIC is there before the first container, and the file tells its network data."""

    site.open()
    site.claim("uplink", config=[nic_config(addresses=[{"address": "192.0.2.10/24"}])])
    file = f"{METADATA}/resourceclaims/uplink/nic/{DRIVER}-metadata.json"
    look = f"ip address show net1 && cat {file} && echo that is all"
    first = container("first", "uplink", command=["/bin/sh", "-c", look])

    pod = site.run("user", "uplink", initContainers=[first])

    said = pod.wait_said("that is all", container="first")
    assert "inet 192.0.2.10/24" in said
    document, _ = json.JSONDecoder().raw_decode(said, said.index("{"))
    assert document["metadata"]["generation"] == 2
    (nic,) = document["requests"][0]["devices"]
    assert nic["networkData"]["ips"] == ["192.0.2.10/24"]


@pytest.mark.parametrize(("mtu", "chosen"), [(9000, "jumbo"), (1500, "any")])
def test_choice_of_a_prioritized_list_has_its_own_configuration(
    site: Site, mtu: int, chosen: str
) -> None:
    """Metadata names request and choice; the entries for the request and for the choice hold."""

    site.node.add_nic("nic0")
    site.node.ip("link", "set", "nic0", "mtu", str(mtu))
    site.open()
    asked = first_available("nic", jumbo=choice(cel="own.mtu >= 9000"), any=choice())
    settings = [
        nic_config("nic", addresses=[{"address": "192.0.2.10/24"}]),
        nic_config("nic/jumbo", interface={"name": "jumbo0"}),
        nic_config("nic/any", interface={"name": "any0"}),
    ]
    site.claim("uplink", asked, config=settings)

    pod = site.run("user", "uplink")

    (told,) = pod.metadata("resourceclaims/uplink/nic")[0]["requests"]
    assert told["name"] == f"nic/{chosen}"
    assert told["devices"][0]["networkData"]["interfaceName"] == f"{chosen}0"
    assert pod.links() == {"lo", "eth0", f"{chosen}0"}
    assert pod.link(f"{chosen}0")["mtu"] == mtu
    site.peer("nic0").set_address("192.0.2.1/24").ping("192.0.2.10")


EVERYTHING = {
    "interface": {
        "name": "data0",
        "mtu": 1400,
        "hardwareAddr": "02:00:5e:10:00:07",
        "txQueueLen": 321,
        "gsoMaxSize": 32768,
        "groMaxSize": 16384,
    },
    "addresses": [
        {"address": "192.0.2.10/24"},
        {"address": "192.0.2.11/24"},
        {"address": "2001:db8::10/64"},
    ],
    "routes": [
        {"to": "198.51.100.0/24", "via": "192.0.2.1", "metric": 50, "mtu": 1300},
        {"to": "203.0.113.0/24", "scope": "link", "source": "192.0.2.11"},
        {"to": "default", "via": "192.0.2.1", "table": 100},
        {"to": "2001:db8:1::/48", "via": "2001:db8::1"},
    ],
    "rules": [{"priority": 1000, "from": "192.0.2.0/24", "table": 100}],
    "neighbors": [{"address": "192.0.2.77", "hardwareAddr": "02:00:5e:10:00:77"}],
    "sysctls": {"ipv4": {"rp_filter": 2, "arp_ignore": 1}, "ipv6": {"dad_transmits": 0}},
}


def test_every_kind_of_setting_that_a_claim_asks_for_is_there(site: Site) -> None:
    """Link, addresses, routes, rules, neighbors and sysctls are as asked, in the pod's own view."""

    site.open(LAB + 'claims_may = ["rules"]\n')
    site.claim("uplink", config=[nic_config(**EVERYTHING)])

    pod = site.run("user", "uplink")

    link = pod.link("data0")
    assert (link["mtu"], link["txqlen"]) == (1400, 321)
    assert link["address"] == "02:00:5e:10:00:07"
    assert (link["gso_max_size"], link["gro_max_size"]) == (32768, 16384)
    assert {"UP"} <= set(link["flags"])
    addresses = [f"{a['local']}/{a['prefixlen']}" for a in link["addresses"]]
    assert addresses[:3] == ["192.0.2.10/24", "192.0.2.11/24", "2001:db8::10/64"]
    routes = {each["dst"]: each for each in link["routes"]}
    assert routes["198.51.100.0/24"]["gateway"] == "192.0.2.1"
    assert routes["198.51.100.0/24"]["metric"] == 50
    assert routes["198.51.100.0/24"]["metrics"] == [{"mtu": 1300}]
    assert routes["203.0.113.0/24"]["prefsrc"] == "192.0.2.11"
    assert routes["default"]["table"] == "100"
    assert routes["2001:db8:1::/48"]["gateway"] == "2001:db8::1"
    rules = {each["priority"]: each for each in pod.ip("rule", "show")}
    assert (rules[1000]["src"], rules[1000]["srclen"]) == ("192.0.2.0", 24)
    assert rules[1000]["table"] == "100"
    assert [(n["dst"], n["lladdr"]) for n in link["neighbors"]] == [
        ("192.0.2.77", "02:00:5e:10:00:77")
    ]
    wanted = {
        "ipv4/conf/data0/rp_filter": "2",
        "ipv4/conf/data0/arp_ignore": "1",
        "ipv6/conf/data0/dad_transmits": "0",
        "ipv6/conf/data0/accept_ra": "0",
    }
    assert {name: link["sysctls"][name] for name in wanted} == wanted


def test_traffic_takes_the_addresses_and_routes_of_the_claim(site: Site) -> None:
    """IPv4 and IPv6 reach the peer and what lies behind it, and the pod's own network stays."""

    site.open(LAB + 'claims_may = ["rules"]\n')
    peer = site.peer("nic0").set_address(
        *(
            "192.0.2.1/24",
            "2001:db8::1/64",
            "198.51.100.7/32",
            "203.0.113.7/32",
            "2001:db8:1::7/128",
        )
    )
    site.claim("uplink", config=[nic_config(**EVERYTHING)])

    pod = site.run("user", "uplink")

    default = [each for each in pod.ip("route") if each["dst"] == "default"]
    assert [each["dev"] for each in default] == ["eth0"]
    for address in ("192.0.2.1", "198.51.100.7", "203.0.113.7", "2001:db8::1", "2001:db8:1::7"):
        pod.run("ping", "-c", "1", "-w", "10", address)
    peer.ping("2001:db8::10")
    assert peer.who_has("192.0.2.11") == {"02:00:5e:10:00:07"}
    pod.run("ping", "-c", "1", "-w", "10", site.node.address)


def test_nic_is_there_although_no_container_refers_to_the_claim(site: Site) -> None:
    """The pod has the claim, so the pod has the NIC; no container gets files or marker."""

    site.open()
    site.claim("uplink", config=[nic_config(interface={"name": "data0"})])

    pod = site.run("user", "uplink", containers=[container("main")])

    assert pod.links() == {"lo", "eth0", "data0"}
    assert "BERTH_CLAIM" not in pod.run("env")
    pod.delete()
    assert "nic0" in site.node.ip("link", "show", "dev", "nic0")


def test_claim_serves_one_pod_after_the_other(site: Site) -> None:
    """A claim that outlives its pods gives each the same NIC, with metadata from its beginning."""

    site.open()
    site.claim("uplink", config=[nic_config(addresses=[{"address": "192.0.2.10/24"}])])

    for name in ("first", "second"):
        pod = site.run(name, "uplink")
        newest, _ = pod.metadata("resourceclaims/uplink/nic")
        assert newest["metadata"]["generation"] == 2
        assert newest["requests"][0]["devices"][0]["networkData"]["ips"] == ["192.0.2.10/24"]
        pod.delete()

    assert len(site.log_lines("claim unprepared")) == 2


def test_pod_that_asks_by_an_extended_resource_gets_a_nic(site: Site) -> None:
    """The scheduler makes the claim, and the container finds metadata under its name."""

    site.open()
    resource = f"deviceclass.resource.kubernetes.io/nic.{DRIVER}"
    asking = container("main", resources={"limits": {resource: "1"}})

    pod = site.run("user", containers=[asking])

    made = pod.now["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    assert pod.links() == {"lo", "eth0", "net1"}
    newest, _ = pod.metadata(f"resourceclaims/{made}/container-0-request-0")
    assert newest["requests"][0]["devices"][0]["networkData"]["interfaceName"] == "net1"


def test_group_class_and_claim_lay_their_settings_over_each_other(site: Site) -> None:
    """The claim has the last word, and what is guarded is taken from the class alone."""

    site.open(LAB + "defaults = { interface = { mtu = 1400, txQueueLen = 77, name = 'x0' } }\n")
    name = f"{site.namespace}.{DRIVER}"
    from_class = nic_config(interface={"mtu": 1450, "name": "y0", "promiscuous": True})
    site.api.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {
                "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
                "config": [from_class],
            },
        }
    )
    site.claim("uplink", request(of=site.namespace), config=[nic_config(interface={"name": "z0"})])

    try:
        link = site.run("user", "uplink").link("z0")
    finally:
        site.api.delete(f"/apis/resource.k8s.io/v1/deviceclasses/{name}")

    assert (link["mtu"], link["txqlen"]) == (1450, 77)
    assert "PROMISC" in link["flags"]
