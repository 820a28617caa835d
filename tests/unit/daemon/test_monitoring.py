"""The page of a daemon: every part is asked, and one with a defect blinds no other."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.config.listen import Listen
from berth.config.schema import Config, MetricsTable
from berth.daemon.configfile import ConfigFile
from berth.daemon.monitoring import FRESH_S, Monitoring
from berth.daemon.operator import Operator
from berth.daemon.parts import Parts
from berth.errors import ClaimError
from berth.health.changes import STREAM
from berth.health.finding import Finding, Severity
from berth.health.verdict import HealthState, Status, Verdict
from berth.model.claim import ClaimRef
from berth.model.device import Device, Exclusion, Nic, NicKind
from berth.model.inventory import Inventory
from berth.node.ledger import Hold, Holder
from berth.nri.plugin import PluginState
from berth.runtime.supervisor import Plugin, Supervisor
from berth.runtime.systemd import Systemd
from tests.unit.daemon.conftest import journal
from tests.unit.metrics.exposition import Told, read
from tests.unit.node.peripherals import given, kvm, modem

WELL = Verdict(status=Status.HEALTHY)
CLAIM = ClaimRef(namespace="team", name="claim", uid="u1")


async def _run(*, task_status: trio.TaskStatus[None]) -> None:
    task_status.started()
    await trio.sleep_forever()


@pytest.fixture
def supervisor() -> Supervisor:
    """The plugins of a daemon, none of which runs."""
    names = ("node", "health", "api", "nri", "dra", "slices", "device-plugin", "metrics")
    return Supervisor([Plugin(name=name, run=_run) for name in names])


@pytest.fixture
def ready() -> list[bool]:
    """Whether the daemon is ready: its last entry."""
    return [False]


@pytest.fixture
def monitoring(
    parts: Parts, file: ConfigFile, supervisor: Supervisor, ready: list[bool]
) -> Monitoring:
    """Whoever reads the parts."""
    return Monitoring(
        parts,
        supervisor=supervisor,
        operator=Operator(parts, file, supervisor=supervisor, systemd=Systemd({})),
        is_ready=lambda: ready[-1],
    )


def told(monitoring: Monitoring) -> dict[str, Told]:
    """What a scraper reads."""
    return read(monitoring.page().text())


def values(found: dict[str, Told], name: str) -> dict[tuple[str, ...], float]:
    """The values of one family, by those of its labels."""
    return {tuple(one.labels.values()): one.value for one in found[name].samples}


async def test_new_daemon_tells_what_it_is_and_what_does_not_work_yet(
    monitoring: Monitoring, file: ConfigFile, caplog: pytest.LogCaptureFixture
) -> None:
    """Every part has something to say, and none a defect."""
    found = told(monitoring)

    assert values(found, "berth_config_info") == {(file.digest,): 1}
    assert len(file.digest) == 12
    assert values(found, "berth_ready") == {(): 0}
    up = values(found, "berth_component_up")
    assert {name for (name,) in up} >= {"api", "dra", "nri", "udev", "monitors"}
    assert not any(up.values())
    assert values(found, "berth_holds") == {("dra",): 0, ("plugin",): 0}
    assert values(found, "dra_metadata_feature_enabled") == {(): 1}
    assert values(found, "berth_nri_connected") == {(): 0}
    assert "berth_nvml_session" not in found
    assert journal(caplog) == []


async def test_devices_are_counted_by_what_becomes_of_them(
    monitoring: Monitoring, parts: Parts
) -> None:
    """Offered ones by door and verdict, others by reason; each that somebody could have by name."""
    excluded = attrs.evolve(modem(1), exclusion=Exclusion(reason="absent"))
    nics = (
        Nic(identity="pci:a", name="nic-a", kind=NicKind.PF, group="fast", pci="0000:41:00.0"),
        Nic(
            identity="pci:b",
            name="nic-b",
            kind=NicKind.PF,
            exclusion=Exclusion(reason="uplink", detail="the node's own way out"),
        ),
    )
    device = Device(name="nic-a", identity="pci:a", type="nic", group="fast", attributes={})
    parts.held.discovery.inventory.set(
        Inventory(nics=nics, peripherals=(kvm(), modem(0), excluded), devices=(device,))
    )
    found = told(monitoring)

    assert values(found, "berth_devices") == {
        ("generic", "both", "unknown"): 2,
        ("nic", "dra", "unknown"): 1,
    }
    assert values(found, "berth_device_excluded") == {
        ("generic", "absent"): 1,
        ("nic", "uplink"): 1,
    }
    assert values(found, "berth_device_info") == {
        ("nic-a", "nic", "fast", "dra", "0000:41:00.0"): 1,
        ("modem-0", "generic", "modem", "both", ""): 1,
        ("kvm-dev-kvm", "generic", "kvm", "both", ""): 1,
    }


async def test_holds_are_counted_by_door_and_disputes_by_device(
    monitoring: Monitoring, parts: Parts
) -> None:
    """A device with two keys is one, a share of it is one too."""
    ledger = parts.held.ledger
    for key in ("pci:a", "chr:1:2"):
        ledger.restore([Hold(key=key, device="nic-a", holder=CLAIM)])
    other = given(modem(0)).holder
    ledger.restore([Hold(key="usb:m", device="modem-0", holder=other)])
    assert values(told(monitoring), "berth_holds") == {("dra",): 1, ("plugin",): 1}
    assert values(told(monitoring), "berth_holds_disputed") == {(): 0}

    ledger.restore([Hold(key="usb:m", device="modem-0", holder=CLAIM)])
    found = told(monitoring)

    assert values(found, "berth_holds") == {("dra",): 2, ("plugin",): 1}
    assert values(found, "berth_holds_disputed") == {(): 1}
    shares: tuple[Holder, ...] = (CLAIM, other)
    ledger.restore(
        Hold(key="k", device="kvm", holder=holder, share=str(number), limit=3)
        for number, holder in enumerate(shares)
    )
    assert values(told(monitoring), "berth_holds_disputed") == {(): 1}


async def test_unit_that_a_claim_has_counts_as_a_conflict(
    monitoring: Monitoring, parts: Parts
) -> None:
    """By the door that refused, and by who has it."""
    parts.held.discovery.inventory.set(Inventory(peripherals=(modem(0),)))
    parts.care.health.state.set(HealthState(verdicts={"modem-0": WELL}))
    key = modem(0).keys[0]
    parts.held.ledger.restore([Hold(key=key, device="modem-0", holder=CLAIM)])
    with pytest.raises(ClaimError):
        await parts.allotments.allocate("berth.dev/modem", ["modem-0"])

    assert values(told(monitoring), "berth_hold_conflicts_total") == {("plugin", "claim"): 1}


async def test_health_is_told_by_device_with_what_speaks_against_it(
    monitoring: Monitoring, parts: Parts, nursery: trio.Nursery
) -> None:
    """A verdict that changed is counted, and what a reader was told of it is timed."""
    parts.held.discovery.inventory.set(Inventory(peripherals=(modem(0), modem(1))))
    health = parts.care.health
    await nursery.start(health.run)
    for one in (modem(0), modem(1)):
        health.report(one.identity, "test", ())
    await health.state.wait_value(lambda state: state.of("modem-0").status is Status.HEALTHY)
    lost = Finding(code="lost", severity=Severity.LOST, message="it is gone")
    health.report(modem(0).identity, "test", (lost,))
    await health.state.wait_value(lambda state: state.of("modem-0").status is Status.UNHEALTHY)
    parts.told(STREAM)(["modem-0", "modem-1"])
    found = told(monitoring)

    kind = ("generic",)
    assert values(found, "berth_device_health") == {("modem-0", *kind): 0, ("modem-1", *kind): 1}
    assert values(found, "berth_device_causes") == {("modem-0", "lost"): 1}
    assert values(found, "berth_device_health_changes_total")["modem-0", "unhealthy"] == 1
    assert values(found, "berth_devices") == {
        ("generic", "both", "healthy"): 1,
        ("generic", "both", "unhealthy"): 1,
    }
    sums = {one.name: one.value for one in found["berth_health_publish_seconds"].samples}
    assert sums["berth_health_publish_seconds_count"] >= 1
    assert values(found, "berth_health_streams").keys() == {("v1",), ("v1alpha1",)}


async def test_claim_that_fails_is_counted(monitoring: Monitoring, parts: Parts) -> None:
    """One that is cut off is late, wherever in the work that was."""
    with trio.move_on_after(0):
        await parts.metered.prepare(CLAIM)

    assert values(told(monitoring), "berth_prepare_errors_total") == {("unknown", "late"): 1}


async def test_runtime_that_goes_away_counts_as_a_restart(
    monitoring: Monitoring, parts: Parts
) -> None:
    """And only if it had been there."""
    for connected in (False, True, False, False, True):
        reason = "" if connected else f"away {connected}"
        parts.tell_nri(PluginState(synchronized=connected, reason=reason))

    found = told(monitoring)
    assert values(found, "berth_nri_connected") == {(): 1}
    assert values(found, "berth_component_restarts_total")["nri",] == 1


async def test_component_works_only_while_its_plugin_serves(
    monitoring: Monitoring, parts: Parts, supervisor: Supervisor
) -> None:
    """A connection of a plugin that rests is of no use."""
    parts.tell_nri(PluginState(synchronized=True))
    assert values(told(monitoring), "berth_component_up")["nri",] == 0

    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        up = values(told(monitoring), "berth_component_up")
        nursery.cancel_scope.cancel()
    assert (up["nri",], up["dra",]) == (1, 0)


async def test_what_was_not_started_is_left_out_whatever_a_reload_says(
    parts: Parts, file: ConfigFile, caplog: pytest.LogCaptureFixture
) -> None:
    """NICs that a reload switches on have no hooks before the next start."""
    supervisor = Supervisor([Plugin(name="node", run=_run)])
    operator = Operator(parts, file, supervisor=supervisor, systemd=Systemd({}))
    reader = Monitoring(parts, supervisor=supervisor, operator=operator, is_ready=lambda: True)
    found = told(reader)

    assert parts.config.nic.enabled
    assert parts.config.dra.enabled
    assert not {"berth_nri_connected", "berth_dra_registrations_total"} & found.keys()
    up = values(found, "berth_component_up")
    assert not {("nri",), ("dra",), ("plugin",)} & up.keys()
    assert journal(caplog) == []


async def test_part_with_a_defect_is_told_once_and_blinds_no_other(
    monitoring: Monitoring, parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    """A figure that fits no family is such a defect."""
    del parts.held.nics
    first, second = told(monitoring), told(monitoring)

    assert first.keys() == second.keys()
    assert "berth_holds" in first
    assert "berth_nics_away" not in first
    assert "berth_uevent_overflows_total" in first
    assert [line for line in journal(caplog) if "figures of a part" in line] == [
        line for line in journal(caplog) if "part=_holdings" in line
    ][:1]


async def test_page_is_made_once_a_second_at_most(
    monitoring: Monitoring, ready: list[bool], autojump_clock: MockClock
) -> None:
    """However many ask."""
    first = monitoring.text()
    ready.append(True)
    assert monitoring.text() is first

    await trio.sleep(FRESH_S)
    assert b"berth_ready 1\n" in monitoring.text()


def test_nothing_runs_where_nobody_wants_figures() -> None:
    """They are off by default."""

    assert not Config().metrics.is_wanted
    assert MetricsTable(listen=Listen(host="127.0.0.1", port=9471)).is_wanted


async def test_what_speaks_against_devices_is_state_as_well(
    monitoring: Monitoring, parts: Parts, nursery: trio.Nursery
) -> None:
    """Whoever is called when the disk refuses is called before a restart forgets it."""
    parts.held.discovery.inventory.set(Inventory(peripherals=(modem(0),)))
    await nursery.start(parts.care.health.run)

    await parts.care.health.set_by_operator("modem-0", "odd", "")

    found = told(monitoring)
    assert values(found, "berth_state_writes_total")["ok",] >= 1
    assert values(found, "berth_state_bytes")[()] > 0
