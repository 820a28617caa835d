"""Prioritized lists: the scheduler takes the next choice, and everybody names the one taken."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from berth.errors import KubeError
from tests.cluster.api import Object
from tests.cluster.claimforms import choice, first_available, nic_config, request
from tests.cluster.gpumachine import GpuMachine
from tests.cluster.pods import container, is_running
from tests.cluster.site import LAB, Site, device, entries
from tests.cluster.test_credentials import TOKEN, WITH_TOKEN, granted, make_token, wait_told
from tests.cluster.test_gpus import CONTROL, NAMES, _machine, nodes, start

__all__ = ["_machine", "granted"]

SHARED = """
[[nic.group]]
name = "lan"
match = { name = ["nic9"] }
mode = "shared"
shared = { slots = 4, children = ["macvlan"] }
"""
SETTINGS = [
    nic_config("nic", sysctls={"ipv4": {"arp_notify": 0}}),
    nic_config("nic/whole", interface={"name": "whole0"}),
    nic_config("nic/part", interface={"name": "part0", "mtu": 1400}),
]


def results(site: Site, claim: str) -> list[Object]:
    """What the scheduler gave."""
    found: list[Object] = site.api.get(site.claim_path(claim))["status"]["allocation"]["devices"][
        "results"
    ]
    return found


def test_second_choice_is_named_everywhere_when_the_first_is_taken(
    site: Site, granted: None
) -> None:
    """Config, metadata, marker, status and holds all speak of the child, and of the NIC before."""

    site.node.write(TOKEN, make_token(site))
    offers = [device("nic0"), device("nic9", "lan")]
    site.open(LAB + SHARED + WITH_TOKEN, nics=["nic0", "nic9"], offers=offers)
    asked = first_available("nic", whole=choice(), part=choice(of="nic-shared"))
    expected: Mapping[str, tuple[str, str, str]] = {
        "first": ("nic/whole", offers[0], "whole0"),
        "second": ("nic/part", offers[1], "part0"),
    }
    for name, (chosen, given, link) in expected.items():
        site.claim(name, asked, config=SETTINGS)
        main = container("main", resources={"claims": [{"name": name, "request": "nic"}]})
        pod = site.run(name, name, containers=[main])

        (result,) = results(site, name)
        assert (result["request"], result["device"]) == (chosen, given)
        assert pod.links() == {"lo", "eth0", link}
        assert pod.sysctl(f"ipv4/conf/{link}/arp_notify") == "0"
        (told,) = pod.metadata(f"resourceclaims/{name}/nic")[0]["requests"]
        assert (told["name"], told["devices"][0]["name"]) == (chosen, given)
        assert f"={given}" in pod.run("env")
        wait_told(site, name, "Attached")
        (entry,) = entries(site.api.get(site.claim_path(name)))
        assert (entry["device"], entry.get("shareID")) == (given, result.get("shareID"))
        assert entry["networkData"]["interfaceName"] == link
        (hold,) = (one for one in site.listed("holds") if one["claim"].endswith(f"/{name}"))
        assert (hold["request"], hold["device"], hold["interface"]) == (chosen, given, link)
    assert pod.link("part0")["mtu"] == 1400


def test_second_choice_may_be_more_devices(site: Site, machine: GpuMachine) -> None:
    """Two of another product where the one is not to be had; files are the request's own."""

    start(site, machine, door="dra", offers=NAMES)
    asked = first_available(
        "gpu", big=choice(of="gpu", cel='own.productName == "H900"'), two=choice(of="gpu", count=2)
    )
    site.claim("gpus", asked)

    pod = site.run("user", "gpus")

    given = {one["device"] for one in results(site, "gpus")}
    assert {one["request"] for one in results(site, "gpus")} == {"gpu/two"}
    (told,) = pod.metadata("resourceclaims/gpus/gpu")[0]["requests"]
    assert (told["name"], {one["name"] for one in told["devices"]}) == ("gpu/two", given)
    assert len(nodes(pod).keys() - CONTROL.keys()) == 2
    assert {(one["request"], one["device"]) for one in site.listed("holds")} == {
        ("gpu/two", name) for name in given
    }


@pytest.mark.parametrize("wrong", ["nic/hole", "other"])
def test_configuration_for_a_choice_that_is_none_is_refused_by_the_server(
    site: Site, wrong: str
) -> None:
    """So a slip of the pen is told when the claim is made, and no pod waits for it."""

    asked = first_available("nic", whole=choice(), part=choice(of="nic-shared"))

    with pytest.raises(KubeError, match=r"config\[0\]\.requests\[0\]"):
        site.claim("uplink", asked, config=[nic_config(wrong)])


def test_fault_in_the_entry_of_a_choice_that_is_not_taken_stops_nobody(site: Site) -> None:
    """An entry speaks for its own choice alone, as does one for both for either."""

    site.open()
    asked = first_available("nic", part=choice(of="nic-shared"), whole=choice())
    settings = [
        nic_config("nic/part", macvlan={"mode": "passthru"}),
        nic_config("nic/whole", interface={"name": "whole0"}),
    ]
    site.claim("uplink", asked, request("again"), config=settings)
    waiting = site.create("user", "uplink")
    waiting.wait_event("FailedScheduling", "cannot allocate all claims")
    site.node.add_nic("nic1")

    waiting.wait(is_running, what="run")

    assert "whole0" in waiting.links()
