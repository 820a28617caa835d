"""Verdicts as kubelet's device manager sees them: in lists, and when it asks for a device."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from berth.errors import RemoteProtocolError
from berth.model.inventory import Inventory
from berth.node.ledger import Ledger
from berth.node.plugin.allotments import Allotments, given_shelf
from berth.rehearsal.kubelet import Act
from berth.runtime.latest import Latest
from tests.integration.deviceplugin.conftest import LIMIT_S, OpenBed
from tests.unit.node.machine import BOOT
from tests.unit.node.peripherals import RESOURCE, modem
from tests.unit.node.plugin.test_allotments import Named
from tests.unit.node.verdicts import DEGRADED, SICK, SILENT, WELL, Judge


async def test_sick_device_is_listed_and_refused_until_it_heals(
    open_bed: OpenBed, tmp_path: Path
) -> None:
    """Its place in the list stays; pods get the others, and it when it is well again."""

    judge = Judge(modem_0=WELL, modem_1=WELL)
    allotments = Allotments(
        given_shelf(tmp_path / "ledger"),
        ledger=Ledger(),
        inventory=Latest(Inventory(peripherals=(modem(0), modem(1)))),
        files=Named(),
        boot_id=BOOT,
        inquiry=judge.inquiry(),
    )
    await allotments.load()
    with trio.fail_after(LIMIT_S):
        async with (
            trio.open_nursery() as nursery,
            open_bed(counter=allotments) as bed,
            bed.kubelet_running() as kubelet,
        ):
            await nursery.start(allotments.run)
            await kubelet.wait_allocatable(RESOURCE, 2)
            judge.tell({"modem-0": SICK, "modem-1": DEGRADED})
            await kubelet.wait_allocatable(RESOURCE, 1)
            assert kubelet.capacity(RESOURCE) == 2
            (given,) = await kubelet.admit("ns", "first", {"main": {RESOURCE: 1}})
            assert given.ids == ("modem-1",)

            judge.tell({"modem-0": SILENT})
            await kubelet.wait_allocatable(RESOURCE, 2)
            judge.answers["modem-0"] = SICK
            with pytest.raises(RemoteProtocolError, match="modem-0: is unhealthy"):
                await kubelet.admit("ns", "second", {"main": {RESOURCE: 1}})
            judge.answers["modem-0"] = WELL
            await kubelet.admit("ns", "third", {"main": {RESOURCE: 1}})
            assert len(bed.acts(Act.LISTED, RESOURCE)) == 3
            nursery.cancel_scope.cancel()
