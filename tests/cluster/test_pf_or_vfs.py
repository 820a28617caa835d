"""A PF or its VFs, never both: the real scheduler over slices of a machine that has such.

The machine is a tree of files and its slices are put on the server by hand, since no kernel here
has such functions. So pods are placed and get no further; what is looked at is who was given what.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.config.nic import NicTable
from berth.dra.origin import Origin
from berth.dra.slices import plan
from berth.kube.slices import Owner, slice_json
from berth.model.device import NicKind
from berth.node.inventory.sighting import Memory, Outlook
from berth.node.inventory.snapshot import judge
from tests.cluster.api import Object
from tests.cluster.berthd import DRIVER
from tests.cluster.claimforms import request
from tests.cluster.site import PodView, Site
from tests.unit.nic.machine import Machine, group

PF = "0000:41:00.0"
PF_NAME, VF_NAMES = "nic-0000-41-00-0", {"nic-0000-41-10-0", "nic-0000-41-10-1"}
GROUPS = (
    group("whole", kind=(NicKind.PF,), beside_vfs=True),
    group("parts", kind=(NicKind.VF,)),
)


@pytest.fixture(name="placing")
def _placing(site: Site, tmp_path: Path) -> Site:
    """A site whose node offers one PF and its two VFs."""
    machine = Machine(tmp_path / "machine")
    machine.tree.function(PF, total_vfs=8)
    machine.nic("ens1f0", PF)
    for number in range(2):
        machine.vf(f"v{number}", f"0000:41:10.{number}", pf=PF, number=number)
    found = judge(machine.scan(), Outlook(table=NicTable(groups=GROUPS)), Memory()).inventory
    node = site.api.get(site.node.object_path)["metadata"]
    origin = Origin(driver=DRIVER, owner=Owner(name=node["name"], uid=node["uid"]))
    (pool,) = plan(
        origin, found.devices, (), editions={}, accepted={}, counter_sets=found.counter_sets
    )
    for write in pool.writes:
        site.api.create(slice_json(write.slice))
    site.wait_offered({PF_NAME, *VF_NAMES})
    return site


def ask(site: Site, name: str, group: str) -> PodView:
    """A pod with a claim for a NIC of a group."""
    site.claim(name, request(cel=f'own.group == "{group}"'))
    return site.create(name, name)


def given(site: Site, name: str) -> str:
    """Wait until a claim has its device; gives its name."""

    def devices(claim: Object) -> list[str]:
        results = claim.get("status", {}).get("allocation", {}).get("devices", {})
        return [each["device"] for each in results.get("results", ())]

    return devices(site.api.wait(site.claim_path(name), devices, what=f"{name} given"))[0]


def end(site: Site, pod: PodView) -> None:
    """End a pod that never ran, and its claim."""
    pod.delete(grace_s=0)
    site.api.delete(site.claim_path(pod.name))


def test_pf_goes_to_one_pod_or_its_vfs_to_others(placing: Site) -> None:
    """Each side waits until nobody has anything of the other."""

    whole = ask(placing, "whole", "whole")
    assert given(placing, "whole") == PF_NAME
    parts = [ask(placing, name, "parts") for name in ("one", "two")]
    for pod in parts:
        assert "cannot allocate all claims" in pod.wait_event("FailedScheduling")
    end(placing, whole)
    assert {given(placing, pod.name) for pod in parts} == VF_NAMES

    again = ask(placing, "again", "whole")
    assert "cannot allocate all claims" in again.wait_event("FailedScheduling")
    end(placing, parts[0])
    late = ask(placing, "late", "parts")
    assert given(placing, "late") in VF_NAMES
    for pod in (parts[1], late):
        end(placing, pod)
    assert given(placing, "again") == PF_NAME
    end(placing, again)
