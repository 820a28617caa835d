"""Functions that go to vfio-pci for a pod's virtual machine, on real IOMMU groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.claimforms import request
from tests.cluster.nodeconfig import SECOND_HANDLER
from tests.cluster.pods import runtime_class
from tests.lab.labnode import SLOW
from tests.lab.labsite import LabSite

SCRIPTS = Path(__file__).parent / "scripts"
VIABLE, HOLDER = SCRIPTS / "viable.py", SCRIPTS / "holder.py"
VF, ADDRESS = "nic-0000-21-10-0", "0000:21:10.0"
# Two NICs behind a conventional bridge, which cannot tell them apart: one IOMMU group.
OFFERED, NEIGHBOR = "0000:43:01.0", "0000:43:02.0"
LINK = "0000:21:10.2"
SETTINGS = f"""{SLOW}
[[nic.group]]
name = "machines"
mode = "vfio"
match = {{ pci = ["{ADDRESS}", "{OFFERED}"] }}
"""
BESIDE = f"""{SETTINGS}
[[nic.group]]
name = "pods"
match = {{ pf = ["ens1#1"] }}
"""


def test_vf_is_bound_for_a_pod_and_given_back_to_its_driver(site: LabSite) -> None:
    """Its group is whole in the pod's hands; home it is the link that it was."""

    node = site.node
    node.make_vfs("ens1", 1)
    at_home = site.home("ens1v0")
    site.open(SETTINGS, nics=[], offers=[VF])
    site.claim("vm", request(of="nic-vfio"))

    pod = site.run("machine", "vm")

    group = _group(site)
    assert pod.run("ls", "/dev/vfio").split() == [group, "vfio"]
    assert node.driver(ADDRESS) == "vfio-pci"
    told = node.run("python3", "-", f"/dev/vfio/{group}", given=VIABLE.read_bytes())
    assert told == "viable\n"
    pod.delete()
    site.wait_home("ens1v0", at_home, limit_s=60)
    assert node.driver(ADDRESS) == "igbvf"
    assert site.listed("holds") == []


def test_pod_of_a_handler_for_machines_gets_its_function_and_no_link(site: LabSite) -> None:
    """By one class of its own each: one VF as a function, and its neighbor as the link it is."""

    node = site.node
    node.make_vfs("ens1", 2)
    site.api.apply(runtime_class(SECOND_HANDLER))
    links = f'[[nic.group]]\nname = "links"\nmatch = {{ pci = ["{LINK}"] }}\n'
    handlers = f'[nic]\nvm_handlers = ["{SECOND_HANDLER}"]\n'
    link = f"nic-{LINK.replace(':', '-').replace('.', '-')}"
    site.open(f"{handlers}{SETTINGS}{links}", nics=[], offers=[VF, link])
    site.claim("function", request(of="nic-vfio"))
    site.claim("link", request())

    inside = site.run("inside", "function", runtimeClassName=SECOND_HANDLER)
    outside = site.create("outside", "link", runtimeClassName=SECOND_HANDLER)

    told = outside.wait_event("FailedCreatePodSandBox", "runs in a virtual machine")
    assert f"into which {link} cannot be brought" in told
    assert "vfio" in inside.run("ls", "/dev/vfio").split()
    assert node.driver("0000:21:10.0") == "vfio-pci"


@pytest.fixture(name="held")
def _held(site: LabSite) -> Iterator[list[str]]:
    """The processes that hold functions open; those that are left are ended."""
    held: list[str] = []
    yield held
    for each in held:
        end_holder(site, each)


@pytest.mark.slow
def test_function_that_is_held_open_keeps_nobody_waiting_and_goes_home_in_the_end(
    site: LabSite, held: list[str]
) -> None:
    """The kernel holds up who unbinds it: others start, berthd starts anew, the hold stays."""

    node = site.node
    node.make_vfs("ens1", 2)
    at_home = site.home("ens1v0")
    site.open(BESIDE, nics=[], offers=[VF, "nic-0000-21-10-2"])
    site.claim("vm", request(of="nic-vfio"))
    pod = site.run("machine", "vm")
    held.append(node.run("python3", "-", _group(site), ADDRESS, given=HOLDER.read_bytes()).strip())

    pod.delete()

    site.wait_log("function not given back yet", "has not returned", limit_s=60)
    site.claim("beside")
    beside = site.run("beside", "beside")
    node.start_berthd(BESIDE)
    beside.delete()
    (hold,) = site.listed("holds")
    assert hold["device"] == VF
    assert "ens1v0" not in node.links()
    end_holder(site, held.pop())
    site.wait_home("ens1v0", at_home, limit_s=60)
    site.wait_same("holds", lambda: site.listed("holds"), [], limit_s=60)


def test_function_in_one_group_with_the_hosts_own_is_not_given(site: LabSite) -> None:
    """Its neighbor is named; when that has gone from its driver, the function is offered."""

    node = site.node
    node.start_berthd(SETTINGS)

    listed = {each["pci"]: each for each in site.listed("devices")}
    assert listed[OFFERED]["reason"] == "iommu-group"
    assert NEIGHBOR in listed[OFFERED]["detail"]
    assert node.driver(OFFERED) == "e1000"
    node.write("/sys/bus/pci/drivers/e1000/unbind", NEIGHBOR)
    try:
        site.wait_offered(["nic-0000-43-01-0"])
    finally:
        node.write("/sys/bus/pci/drivers/e1000/bind", NEIGHBOR)


def _group(site: LabSite) -> str:
    """The number of the VF's IOMMU group."""
    return site.node.leads_to(f"{site.node.pci(ADDRESS)}/iommu_group").rpartition("/")[2]


def end_holder(site: LabSite, number: str) -> None:
    """End a process that heeds nothing."""
    site.node.run("sh", "-c", f"kill -KILL {number}")
