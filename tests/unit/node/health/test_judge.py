"""The owner of health: what is told of devices, when, and what outlives it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import ClaimError, HostError
from berth.health.course import CAUSE_LIMIT, Course, Flapping, Moment
from berth.health.finding import OPERATOR, Finding, Severity
from berth.health.reports import Prober, Reports
from berth.health.terms import Terms
from berth.health.verdict import UNASKED, Status, Verdict
from berth.model.device import Exclusion, Nic, NicKind
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT, Peripheral
from berth.node.health.file import BURST, NAME, SPACING_S, HealthFile
from berth.node.health.judge import ASK_S, PACE_S, PATIENCE_S, Health, Watching
from berth.runtime.latest import Latest
from tests.unit.daemon.conftest import journal
from tests.unit.node.peripherals import modem

TERMS: Final = Terms(interval_s=5, deadline_s=4, timeout_s=30)
MODEM: Final = modem()
NIC: Final = Nic(identity="pci:0000:41:00.0", name="nic-0", kind=NicKind.PF, group="fast")
SICK: Final = Finding(code="xid-79", severity=Severity.LOST, message="it fell off the bus")
WORN: Final = Finding(code="remap-pending", severity=Severity.DEGRADED, message="reset it soon")


class Always:
    """Every device is watched by the same terms."""

    def __init__(self, terms: Terms = TERMS) -> None:
        self._terms = terms

    def of_peripheral(self, _one: Peripheral) -> Terms:
        """The terms."""
        return self._terms

    def of_nic(self, _nic: Nic) -> Terms:
        """The terms."""
        return self._terms


class Bed:
    """The owner of a node with a modem and a NIC, and everything around it."""

    def __init__(self, folder: Path | None = None, *, boot: str = "this") -> None:
        # A thread that writes is no reason for virtual time to stand still: here telling waits.
        self.inventory = Latest(Inventory(peripherals=(MODEM,), nics=(NIC,)))
        self.terms: Latest[Watching] = Latest(Always())
        self.jump_s = 0.0
        self.health = Health(
            inventory=self.inventory,
            terms=self.terms,
            file=HealthFile(folder, boot_id=boot) if folder is not None else None,
            wall=lambda: 1_000_000_000 + trio.current_time() + self.jump_s,
            patience_s=math.inf,
        )

    @property
    def verdict(self) -> Verdict:
        """What is told of the modem."""
        return self.health.state.get().of(MODEM.name)

    def ask(self, *findings: Finding, subject: str = MODEM.identity) -> None:
        """The device was asked, and this was found."""
        self.health.report(subject, "nvml", findings)

    async def until_told(self, words: str) -> None:
        """Wait until the modem's verdict begins so."""
        await self.health.state.wait_value(lambda s: s.of(MODEM.name).message.startswith(words))

    async def heal(self) -> None:
        """The device answers that it is well for as long as it takes."""
        for _ in range(8):
            self.ask()
            await trio.sleep(5)

    def see(self, *peripherals: Peripheral, **more: Any) -> None:
        """The machine shows this now."""
        self.inventory.set(Inventory(peripherals=peripherals, **more))


@pytest.fixture
def bed() -> Bed:
    """A node without a disk."""
    return Bed()


async def begun(nursery: trio.Nursery, bed: Bed) -> Bed:
    """The bed with its owner recalled and running."""
    await bed.health.recall()
    await nursery.start(bed.health.run)
    return bed


def file_of(folder: Path) -> Mapping[str, Any]:
    """What is on disk."""
    found: Mapping[str, Any] = json.loads((folder / NAME).read_bytes())
    return found


async def test_reports_of_one_moment_are_told_once(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """However many came, readers see the last state of each device alone."""

    await begun(nursery, bed)
    version = bed.health.state.version
    for _ in range(100):
        bed.ask(SICK)
        bed.ask(SICK, WORN)
    await wait_all_tasks_blocked()

    assert bed.health.state.version == version + 1
    assert bed.verdict.causes == 2


async def test_nothing_runs_while_nothing_is_due(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """A year in which nobody says anything passes in no time, and tells nothing new."""

    await begun(nursery, bed)
    bed.ask(SICK)
    await wait_all_tasks_blocked()
    version = bed.health.state.version
    await trio.sleep(365 * 24 * 3600)

    assert bed.health.state.version == version
    assert bed.verdict.status is Status.UNHEALTHY


async def test_confirmations_are_told_once_a_second(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """Devices that are asked in turn wake no reader for each; what is new is told at once."""

    await begun(nursery, bed)
    version = bed.health.state.version
    for _ in range(100):
        bed.ask()
        await trio.sleep(0.1)
    assert bed.health.state.version - version <= 12
    assert bed.verdict.observed_s >= 1_000_000_008
    for number in range(10):
        bed.ask(attrs.evolve(WORN, message=f"{number}"))
        await wait_all_tasks_blocked()
        assert bed.verdict.message.startswith(f"{number} ")


async def test_verdict_expires_when_nobody_confirms_it(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """At that moment, without anybody's report."""

    await begun(nursery, bed)
    bed.ask()
    asked_s = trio.current_time()
    await bed.health.state.wait_value(lambda s: s.of(MODEM.name).status is Status.HEALTHY)
    await bed.health.state.wait_value(lambda s: s.of(MODEM.name).status is Status.UNKNOWN)

    assert trio.current_time() == pytest.approx(asked_s + TERMS.timeout_s)


async def test_sick_device_is_well_after_the_hold_time(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """Its own timer tells so, between two reports."""

    await begun(nursery, bed)
    bed.ask(SICK)
    await trio.sleep(7)
    nursery.start_soon(bed.heal)
    began_s = trio.current_time()
    await wait_all_tasks_blocked()
    assert bed.verdict.reason == "xid-79"

    await bed.health.state.wait_value(lambda s: s.of(MODEM.name).status is Status.HEALTHY)
    assert trio.current_time() == pytest.approx(began_s + TERMS.recover_after_s)


async def test_wall_clock_that_jumps_changes_no_verdict(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """A year ahead, and a year behind: it is told in texts alone."""

    await begun(nursery, bed)
    bed.ask()
    await trio.sleep(1)
    for jump_s in (365 * 24 * 3600, -365 * 24 * 3600, 0):
        bed.jump_s = jump_s
        bed.ask()
        await trio.sleep(29)
        assert bed.verdict.status is Status.HEALTHY
    await trio.sleep(2)
    assert bed.verdict.status is Status.UNKNOWN


class Looker:
    """A source that can be asked, and answers after a while, or never."""

    def __init__(self, reports: Reports, *, takes_s: float, found: Sequence[Finding] = ()) -> None:
        self.asked: list[str] = []
        self._reports = reports
        self._takes_s = takes_s
        self._found = found

    async def probe_now(self, subject: str) -> None:
        """Look."""
        self.asked.append(subject)
        await trio.sleep(self._takes_s)
        self._reports.report(subject, "looker", self._found)


@pytest.mark.parametrize(
    ("takes_s", "found", "status"),
    [
        (1.0, (), Status.HEALTHY),
        (1.0, (SICK,), Status.UNHEALTHY),
        (10.0, (), Status.UNKNOWN),
    ],
)
async def test_unknown_device_is_asked_before_it_is_given(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    bed: Bed,
    *,
    takes_s: float,
    found: Sequence[Finding],
    status: Status,
) -> None:
    """For two seconds; who has not answered by then is as unknown as before."""

    looker: Prober = Looker(bed.health, takes_s=takes_s, found=found)
    bed.health.add_prober(looker)
    await begun(nursery, bed)

    began_s = trio.current_time()
    assert (await bed.health.ask(MODEM.name)).status is status
    assert trio.current_time() - began_s == pytest.approx(min(takes_s, ASK_S))


class Broken(Looker):
    """A source whose own parts refuse."""

    async def probe_now(self, subject: str) -> None:
        """Fail."""
        await trio.sleep(0.1)
        raise HostError(subject, "cannot be looked at")


async def test_source_that_fails_to_ask_keeps_nobody_from_the_device(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    bed: Bed,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others are asked all the same, and the log has its words."""

    bed.health.add_prober(Broken(bed.health, takes_s=0))
    bed.health.add_prober(Looker(bed.health, takes_s=1))
    await begun(nursery, bed)

    assert (await bed.health.ask(MODEM.name)).status is Status.HEALTHY
    assert "cannot be looked at" in journal(caplog)[0]


async def test_device_of_which_it_is_known_is_not_asked(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """Neither a well one nor a sick one, nor one that nobody knows."""

    looker = Looker(bed.health, takes_s=1)
    bed.health.add_prober(looker)
    await begun(nursery, bed)
    bed.ask(subject=NIC.identity)
    bed.ask(SICK)

    # What was reported counts for it before the task that tells has run.
    assert (await bed.health.ask(NIC.name)).status is Status.HEALTHY
    assert (await bed.health.ask(MODEM.name)).status is Status.UNHEALTHY
    assert (await bed.health.ask("nobody")).status is Status.UNKNOWN
    assert looker.asked == []


async def test_part_is_asked_by_its_wholes_as_well(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """A part that nobody asks is as its whole is."""

    looker = Looker(bed.health, takes_s=1)
    bed.health.add_prober(looker)
    bed.see(attrs.evolve(MODEM, identity="pci:0000:3b:00.0/gi-1/ci-0"))
    await begun(nursery, bed)

    await bed.health.ask(MODEM.name)
    assert sorted(looker.asked) == [
        "pci:0000:3b:00.0",
        "pci:0000:3b:00.0/gi-1",
        "pci:0000:3b:00.0/gi-1/ci-0",
    ]


async def test_words_of_the_survey_are_causes(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """A device that is gone is lost, other words are faults, and both heal once they are over."""

    await begun(nursery, bed)
    bed.ask()
    bed.see(attrs.evolve(MODEM, unhealthy=ABSENT))
    await wait_all_tasks_blocked()
    assert (bed.verdict.reason, bed.verdict.severity) == (ABSENT, Severity.LOST)

    bed.see(attrs.evolve(MODEM, unhealthy="no-driver"))
    await wait_all_tasks_blocked()
    assert bed.verdict.causes == 2
    bed.see(MODEM)
    await bed.heal()
    assert bed.verdict.status is Status.HEALTHY


async def test_cleared_word_of_the_survey_is_back_while_it_is_so(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """At once when the device is asked, and not before the survey has looked again else."""

    await begun(nursery, bed)
    bed.see(attrs.evolve(MODEM, unhealthy=ABSENT))
    await wait_all_tasks_blocked()
    assert await bed.health.clear(MODEM.name, ABSENT) == (ABSENT,)
    assert bed.health.verdict(MODEM.name).status is Status.UNKNOWN
    await bed.health.probe_now(MODEM.name)
    assert bed.health.verdict(MODEM.name).reason == ABSENT


async def test_a_survey_says_nothing_against_a_nic(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """It may see one in the midst of a move; whoever looks where the NIC should be tells."""

    nic = attrs.evolve(NIC, exclusion=Exclusion(reason="restore-failed"))
    listing = attrs.evolve(MODEM, name=NIC.name, identity=NIC.identity, unhealthy=ABSENT)
    await begun(nursery, bed)
    bed.see(nics=(nic,), listings=(listing,))
    bed.ask(subject=NIC.identity)
    await wait_all_tasks_blocked()

    assert bed.health.state.get().of(NIC.name).reason == ""


async def test_device_that_leaves_takes_the_word_of_the_survey_with_it(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """What comes at its place later begins anew; what others said of it is theirs."""

    await begun(nursery, bed)
    bed.see(attrs.evolve(MODEM, unhealthy="no-driver"))
    await wait_all_tasks_blocked()
    bed.see()
    await wait_all_tasks_blocked()

    assert MODEM.identity not in bed.health.courses
    assert MODEM.name not in bed.health.state.get().verdicts


async def test_other_terms_hold_from_the_reload_on(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """Nobody has to report for it."""

    await begun(nursery, bed)
    bed.ask()
    bed.terms.set(Always(attrs.evolve(TERMS, timeout_s=300)))
    await trio.sleep(200)

    assert (bed.verdict.status, bed.verdict.timeout_s) == (Status.HEALTHY, 300)


async def test_sick_device_is_sick_after_a_restart(
    nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    """It was on disk before it was told, and only its source makes it well again."""

    async with trio.open_nursery() as life:
        bed = await begun(life, Bed(tmp_path))
        bed.ask(SICK)
        await bed.health.state.wait_value(lambda s: s.of(MODEM.name).causes == 1)
        (kept,) = file_of(tmp_path)["health"]["courses"]
        assert kept["causes"][0]["code"] == "xid-79"
        life.cancel_scope.cancel()

    async with trio.open_nursery() as life:
        again = await begun(life, Bed(tmp_path))
        assert again.verdict.reason == "xid-79"
        assert again.health.standing(MODEM.identity, "nvml") == (SICK,)
        await trio.sleep(1000)
        assert again.verdict.status is Status.UNHEALTHY
        await again.heal()
        await again.health.state.wait_value(lambda s: s.of(MODEM.name).status is Status.HEALTHY)
        life.cancel_scope.cancel()

    last = Bed(tmp_path)
    await last.health.recall()
    assert not last.health.courses


def xids(count: int) -> tuple[Finding, ...]:
    """Faults of so many codes."""
    return tuple(attrs.evolve(SICK, code=f"xid-{number}") for number in range(count))


async def test_faults_one_after_the_other_are_each_on_disk_before_they_are_told(
    nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    """A kill at any moment after the news leaves the next life no healthier device."""

    bed = await begun(nursery, Bed(tmp_path))
    for count in range(1, BURST + 1):
        bed.ask(*xids(count))
        await bed.health.state.wait_value(lambda s, n=count: s.of(MODEM.name).causes == n)  # type: ignore[misc]
        (kept,) = file_of(tmp_path)["health"]["courses"]
        assert len(kept["causes"]) == count


class Counting(HealthFile):
    """A disk that counts what it takes, and is behind for ever."""

    writes = 0

    async def write(self, _known: Callable[[], Mapping[str, Course]], _at: Moment) -> None:
        """Count it."""
        await trio.lowlevel.checkpoint()
        self.writes += 1


async def test_storm_of_news_wears_no_disk_out(
    nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Ten seconds with something else each tenth of one come to few writes."""

    file = Counting(tmp_path, boot_id="this")
    inventory = Latest(Inventory(peripherals=(MODEM,)))
    health = Health(inventory=inventory, terms=Latest(Always()), file=file)
    await nursery.start(health.run)
    for count in range(100):
        health.report(MODEM.identity, "nvml", xids(1 + count % 30))
        await trio.sleep(0.1)

    assert BURST <= file.writes <= BURST + 10 / SPACING_S + 1


class Opened(Course):
    """How a subject fares, and how often somebody looked into it."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        """Count the looks at what is read for the file alone."""
        if name == "flapping":
            Opened.looks += 1
        return super().__getattribute__(name)


async def test_file_is_compared_by_what_changed_alone(tmp_path: Path) -> None:
    """Of hundreds of sick devices each change of one would else look into all."""

    at = Moment(s=0, wall_s=0)
    one = Opened().reported("nvml", (SICK,), asked=True, at=at)
    courses = {f"chr:{number}": attrs.evolve(one) for number in range(300)}
    file = HealthFile(tmp_path, boot_id="this")
    await file.write(lambda: courses, at)
    for change in ({"answers": (1.0,)}, {"flapping": Flapping(doublings=1)}):
        courses["chr:7"] = attrs.evolve(courses["chr:7"], **change)
        Opened.looks = 0
        assert file.is_behind(courses) == ("flapping" in change)
        assert Opened.looks == 2


class Hung(HealthFile):
    """A disk that takes a write and never ends it."""

    async def write(self, _known: Callable[[], Mapping[str, Course]], _at: Moment) -> None:
        """Write for ever."""
        await trio.sleep_forever()


async def test_disk_that_hangs_holds_no_verdict_up(
    nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Readers wait for it for a moment, and are told then."""

    health = Health(
        inventory=Latest(Inventory(peripherals=(MODEM,))),
        terms=Latest(Always()),
        file=Hung(tmp_path, boot_id="this"),
    )
    await nursery.start(health.run)
    began_s = trio.current_time()
    health.report(MODEM.identity, "nvml", (SICK,))

    await health.state.wait_value(lambda s: s.of(MODEM.name).causes == 1)
    assert trio.current_time() - began_s == pytest.approx(PATIENCE_S)


async def test_telling_waits_for_no_write_that_is_a_while_off(
    nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    """After a burst the disk rests for a second; what comes then is told at once, and in one."""

    bed = await begun(nursery, Bed(tmp_path))
    bed.ask(SICK)
    await bed.health.state.wait_value(lambda s: s.of(MODEM.name).causes == 1)
    for number in range(BURST):
        bed.ask(SICK, attrs.evolve(WORN, code=f"look-{number}"))
        async for state in bed.health.state.changes():
            if state.of(MODEM.name).causes == number + 2:
                break
    await trio.sleep(2 * PACE_S)
    began_s, version = trio.current_time(), bed.health.state.version
    bed.ask(SICK, WORN)
    await bed.health.state.wait_value(lambda s: s.of(MODEM.name).causes == BURST + 2)
    assert trio.current_time() == began_s

    for number in range(5):
        bed.ask(SICK, WORN, attrs.evolve(WORN, code=f"worn-{number}"))
        await trio.sleep(PACE_S / 10)
    await bed.health.state.wait_value(lambda s: s.of(MODEM.name).causes == BURST + 7)
    assert bed.health.state.version == version + 2
    assert trio.current_time() == pytest.approx(began_s + PACE_S)


async def test_new_boot_makes_well_what_no_person_spoke_against(
    nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    """What a person said stands until a person says otherwise."""

    async with trio.open_nursery() as life:
        bed = await begun(life, Bed(tmp_path))
        bed.ask(SICK)
        await bed.health.set_by_operator(MODEM.name, "fan", "it rattles")
        await bed.health.state.wait_value(lambda s: s.of(MODEM.name).causes == 2)
        life.cancel_scope.cancel()

    again = await begun(nursery, Bed(tmp_path, boot="another"))
    assert (again.verdict.reason, again.verdict.causes) == ("fan", 1)
    assert await again.health.clear(MODEM.name) == ("fan",)
    last = Bed(tmp_path, boot="a third")
    await last.health.recall()
    assert not last.health.courses


async def test_word_of_a_person_counts_until_it_is_cleared(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """Each reason by itself; the device is as its sources say afterwards, at once."""

    await begun(nursery, bed)
    bed.ask()
    await bed.health.set_by_operator(MODEM.name, "fan", "it rattles")
    await bed.health.set_by_operator(MODEM.name, "smell", "of smoke")
    assert len(bed.health.standing(MODEM.identity, OPERATOR)) == 2

    assert await bed.health.clear(MODEM.name, "smell") == ("smell",)
    await wait_all_tasks_blocked()
    assert bed.verdict.reason == "fan"
    assert await bed.health.clear(MODEM.name) == ("fan",)
    assert await bed.health.clear(MODEM.name) == ()
    await wait_all_tasks_blocked()
    assert bed.verdict.status is Status.HEALTHY


async def test_two_persons_at_a_time_are_both_heard(
    nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    """What the one says is not taken back by what the other says meanwhile."""

    bed = await begun(nursery, Bed(tmp_path))
    async with trio.open_nursery() as both:
        for reason in ("fan", "smell"):
            both.start_soon(bed.health.set_by_operator, MODEM.name, reason, "")

    (course,) = bed.health.courses.values()
    assert {(one.finding.code, one.gone_s) for one in course.causes} == {
        ("fan", None),
        ("smell", None),
    }
    (kept,) = file_of(tmp_path)["health"]["courses"]
    assert len(kept["causes"]) == 2


async def test_cleared_cause_of_a_source_has_to_be_asked_for_anew(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """The device is not well before its source has looked again; what it finds counts."""

    await begun(nursery, bed)
    bed.ask(SICK)

    assert await bed.health.clear(MODEM.name, "xid-79") == ("xid-79",)
    assert bed.health.standing(MODEM.identity, "nvml") == ()
    await wait_all_tasks_blocked()
    assert bed.verdict.reason == UNASKED.reason
    bed.ask(SICK)
    await wait_all_tasks_blocked()
    assert bed.verdict.status is Status.UNHEALTHY


async def test_what_is_no_device_is_refused(bed: Bed) -> None:
    """With a word about where the names stand."""

    for verb in (bed.health.set_by_operator("x", "fan", ""), bed.health.clear("x", "fan")):
        with pytest.raises(ClaimError, match="x: is no device of this node; `berth devices`"):
            await verb


async def test_disk_that_refuses_is_told_once_and_stops_nothing(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Evidence is told all the same; what a person says is refused, and changes nothing."""

    folder = tmp_path / "health"
    folder.write_text("a file in the place of the folder")
    bed = await begun(nursery, Bed(folder))
    for words in ("first", "second", "third"):
        bed.ask(attrs.evolve(SICK, message=words), WORN)
        await bed.until_told(words)

    assert caplog.text.count("not noted down") == 1
    with pytest.raises(HostError):
        await bed.health.set_by_operator(MODEM.name, "fan", "")
    with pytest.raises(HostError):
        await bed.health.clear(MODEM.name, "xid-79")
    await wait_all_tasks_blocked()
    assert (bed.verdict.reason, bed.verdict.causes) == ("xid-79", 2)


@pytest.mark.parametrize("content", [b"{", b'{"schema": 99, "health": {}}'])
async def test_file_that_cannot_be_read_is_set_aside(
    content: bytes,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It costs what it told and nothing more."""

    (tmp_path / NAME).write_bytes(content)
    (tmp_path / ".berth-0.tmp").touch()

    bed = await begun(nursery, Bed(tmp_path))

    assert (tmp_path / f"{NAME}.bad-1").read_bytes() == content
    assert not (tmp_path / ".berth-0.tmp").exists()
    assert "what spoke against devices is lost" in caplog.text
    bed.ask(SICK)
    await bed.health.state.wait_value(lambda s: s.of(MODEM.name).causes == 1)
    assert file_of(tmp_path)["health"]["courses"]


async def test_file_that_cannot_be_opened_costs_nothing_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bed: Bed
) -> None:
    """As a folder in its place."""

    (tmp_path / NAME).mkdir()
    bed = Bed(tmp_path)
    await bed.health.recall()

    assert not bed.health.courses
    (line,) = journal(caplog)
    assert "is no regular file" in line


async def test_journal_tells_each_change_with_its_holder(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    bed: Bed,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """That a device is well when it is first asked is no change."""

    caplog.set_level("INFO")
    bed.see(attrs.evolve(MODEM, held_by=("team/user",)))
    await begun(nursery, bed)
    bed.ask()
    await trio.sleep(1)
    assert not journal(caplog)
    bed.ask(SICK)
    await trio.sleep(1)
    await bed.heal()

    first, second = journal(caplog)
    for part in (
        "device health device=modem-0 from=healthy to=unhealthy reason=xid-79",
        "it fell off the bus (since ",
        "holder=team/user held_back=0",
    ):
        assert part in first
    assert "from=unhealthy/xid-79 to=healthy reason=- message=- " in second


async def test_journal_of_a_device_that_flaps_ends_with_the_truth(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    bed: Bed,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The same change is told once a minute, with how many were held back, the last one too."""

    await begun(nursery, bed)
    for _ in range(10):
        bed.ask(SICK)
        await trio.sleep(0.5)
        bed.health.retire(MODEM.identity, "nvml")
        bed.ask()
        await trio.sleep(0.5)
    bed.ask(SICK)
    began_s = trio.current_time()
    await wait_all_tasks_blocked()
    assert len(journal(caplog)) == 1
    await trio.sleep(120)

    lines = journal(caplog)
    assert "to=unhealthy reason=xid-79" in lines[-1]
    assert "held_back=0" not in lines[-1]
    assert len(lines) <= 3
    assert trio.current_time() == pytest.approx(began_s + 120)


async def test_reason_too_many_is_refused_and_not_dropped(
    nursery: trio.Nursery, autojump_clock: MockClock, bed: Bed
) -> None:
    """Whoever was told that it holds until it is cleared relies on that; the same may be resaid."""

    await begun(nursery, bed)
    for number in range(CAUSE_LIMIT):
        await bed.health.set_by_operator(MODEM.name, f"reason-{number}", "")

    with pytest.raises(ClaimError, match="for 32 reasons already; `berth health clear modem-0 "):
        await bed.health.set_by_operator(MODEM.name, "one-more", "")
    await bed.health.set_by_operator(MODEM.name, "reason-0", "other words")

    assert bed.health.verdict(MODEM.name).causes == CAUSE_LIMIT
