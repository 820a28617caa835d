"""What is told of probes, and of what GPUs report."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from trio.testing import MockClock

from berth.config.xid import XidClass
from berth.health.finding import Finding
from berth.health.terms import Terms
from berth.host.nvml.registry import RegistryStatistics
from berth.host.nvml.silence import OpenCall
from berth.host.nvml.values import EventKind, NvmlEvent
from berth.metrics.health import put_probes
from berth.metrics.machine import put_gpus
from berth.metrics.page import Page
from berth.model.meter import Spread, Tally, Timing
from berth.node.health.rounds import Rounds, Watched
from berth.node.watches.gpucases import GpuFigures
from berth.node.watches.xids import XidJournal
from tests.unit.node.reported import Reported

ADDRESS = "0000:41:00.0"
NAME = "gpu-0000-41-00-0"
TERMS = Terms(interval_s=10, deadline_s=2, timeout_s=30)


async def quick() -> Sequence[Finding]:
    """Answer in a moment."""
    await trio.sleep(0.2)
    return ()


async def never() -> Sequence[Finding]:
    """Hang."""
    await trio.sleep_forever()
    return ()


async def test_probes_are_timed_and_those_that_hang_are_counted(
    autojump_clock: MockClock,
) -> None:
    """Of two sources of one kind the sum; what is out is stuck from its deadline on, once."""
    nodes, commands = (Rounds(Reported(), source=word) for word in ("nodes", "commands"))
    nodes.watch({"a": Watched(terms=TERMS, probe=quick), "b": Watched(terms=TERMS, probe=never)})
    commands.watch({"a": Watched(terms=TERMS, probe=quick)})
    page = Page()
    async with trio.open_nursery() as nursery:
        await nursery.start(nodes.run)
        await nursery.start(commands.run)
        await trio.sleep(25)
        rounds = (("generic", nodes), ("generic", commands))
        put_probes(page, rounds, None, trio.current_time())
        nursery.cancel_scope.cancel()

    spread = page.series("berth_probe_seconds")["generic",]
    assert isinstance(spread, Spread)
    assert sum(spread.counts) == 6
    assert page.series("berth_probe_timeouts_total") == {("generic",): 1}
    assert page.series("berth_probes_stuck") == {("generic",): 1}


def test_gpus_hang_where_their_calls_do() -> None:
    """The rounds have an answer of them all the same, so NVML's calls say it."""
    late = OpenCall(key=ADDRESS, purpose="probe", began_s=0, deadline_s=4)
    calls = RegistryStatistics(
        calls={"probe": 3, "walk": 1},
        unanswered={"probe": 2, "walk": 1},
        ended=Tally("call", "result"),
        seconds=Timing("call"),
        open=(late, OpenCall(key="0000:42:00.0", purpose="probe", began_s=9, deadline_s=4)),
    )
    page = Page()
    put_probes(page, (("gpu", Rounds(Reported(), source="nvml")),), calls, 10)

    assert page.series("berth_probe_timeouts_total") == {("gpu",): 2}
    assert page.series("berth_probes_stuck") == {("gpu",): 1}


def test_xids_and_errors_are_told_by_gpu() -> None:
    """A GPU that is offered in parts has its own name; one that nobody knows has none."""
    journal = XidJournal()
    for address, code in ((ADDRESS, 79), (ADDRESS, 79), ("", 13)):
        event = NvmlEvent(kind=EventKind.XID, address=address, data=code)
        xid_class = XidClass.FAULT if code == 79 else XidClass.APPLICATION
        journal.note(event, xid_class, now_s=0)
    for type_ in (0x1, 0x1, 0x2):
        event = NvmlEvent(kind=EventKind.OTHER, address=ADDRESS, type=type_)
        journal.note(event, XidClass.CONFIRM, now_s=0)
    page = Page()
    put_gpus(
        page,
        journal,
        {
            f"pci:{ADDRESS}": GpuFigures(action=1, remap_pending=True),
            "pci:0000:42:00.0": GpuFigures(action=None, remap_pending=False),
        },
    )

    assert page.series("berth_gpu_xid_total") == {
        (NAME, "79", "fault"): 2,
        ("unknown", "13", "application"): 1,
    }
    assert page.series("berth_gpu_ecc_errors_total") == {
        (NAME, "corrected"): 2,
        (NAME, "uncorrected"): 1,
    }
    assert page.series("berth_gpu_recovery_action") == {(NAME,): 1}
    assert page.series("berth_gpu_rows_remap_pending") == {
        (NAME,): True,
        ("gpu-0000-42-00-0",): False,
    }
    journal.retain(lambda address: address != ADDRESS)
    assert (len(journal.xids), len(journal.ecc_errors)) == (1, 0)
