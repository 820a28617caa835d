"""Killed at any step of prepare, attach and return, the next start ends in one of two states.

Either the NICs are attached and verified, with the sandbox alive and the claim prepared, or they
are home and equal to the originals. Nothing in between, nothing lost (network.md §10, row 34).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.host.netlink.link import Link
from berth.nic.attach import verify
from berth.nic.config.values import NicConfig
from berth.nic.execute import open_namespaces
from berth.nic.look import look_home
from berth.nic.record import Stage
from berth.nic.view import take_originals
from berth.node.holders.nicholders import NicHolder, nics_of
from berth.node.records.document import claim_from_bytes, given_from_bytes, to_bytes
from berth.node.records.record import ClaimRecord
from tests.integration.nic.beds import Bed, Pod, child_config_of, config_of
from tests.integration.node.fates import Driver
from tests.integration.node.nodebeds import asked_for, drafted
from tests.netns import need_kind

pytestmark = pytest.mark.root

UID = "u1"


@pytest.fixture(name="driver")
def _driver(bed: Bed) -> Iterator[Driver]:
    """Stands in the test's scratch namespace, as whoever starts it does."""
    assert bed is not None
    driver = Driver("tests.integration.node.crashdriver")
    yield driver
    driver.close()


@attrs.frozen(kw_only=True)
class Scene:
    """One claim on some NICs, and what they were before anything was done.

    Attributes:
        draft: The claim's record before its prepare.
        before: Each link at home, as it was.
    """

    bed: Bed
    driver: Driver
    pod: Pod
    state: Path
    links: tuple[Link, ...]
    draft: NicHolder
    before: tuple[dict[str, Any], ...]

    def run(self, work: str, *, kill_at: int = 0) -> dict[str, Any]:
        """Have one life do some work on the claim."""
        return self.driver.order(
            work=work,
            state=str(self.state),
            uid=UID,
            sandbox=attrs.asdict(self.pod.sandbox),
            homes=[link.index for link in self.links],
            kill_at=kill_at,
        )

    def reset(self) -> None:
        """Put the claim's record before its prepare."""
        self.path.write_bytes(to_bytes(self.draft))

    @property
    def path(self) -> Path:
        """The claim's file."""
        folder = "claims" if isinstance(self.draft, ClaimRecord) else "ledger"
        return self.state / folder / f"{UID}.json"

    def record(self) -> NicHolder:
        """The claim, or what stands in its place, as its file has it."""
        read = claim_from_bytes if isinstance(self.draft, ClaimRecord) else given_from_bytes
        return read(self.path.read_bytes(), where=str(self.path))

    def outcome(self) -> str:
        """``attached`` or ``home``; anything else fails."""
        record = self.record()
        nics = [nic for _, nic in nics_of(record)]
        stages = {nic.stage for nic in nics}
        names = {nic.config.interface.name for nic in nics}
        if stages == {Stage.ATTACHED}:
            assert record.prepared
            assert not record.revoked
            assert self.pod.names() == names
            assert verify(nics) == ()
            for nic in nics:
                assert nic.network is not None
                shown = self.pod.ips(nic.config.interface.name)
                assert sorted(nic.network.ips) == sorted(shown) != []
            return "attached"
        assert stages <= {Stage.HOME, Stage.STAGED, Stage.RESERVED}, stages
        assert self.pod.names() == set()
        return "staged" if record.prepared and Stage.STAGED in stages else self.require_home()

    def require_home(self) -> str:
        """Fail unless every link at home is what it was."""
        for link, before in zip(self.links, self.before, strict=True):
            now = originals_of(link)
            assert {n: (before[n], now[n]) for n in now if now[n] != before[n]} == {}
        return "home"


def originals_of(link: Link) -> dict[str, Any]:
    """All of a link at home that a return has to put back, found by its index; in no order."""
    with open_namespaces() as spaces:
        seen = spaces.home.link(index=link.index)
        assert seen is not None, link.name
        found = take_originals(look_home(spaces, seen))
    values = attrs.asdict(found, recurse=False)
    return {n: sorted(map(str, v)) if isinstance(v, tuple) else v for n, v in values.items()}


WISH: dict[str, Any] = {
    "routes": [{"to": "198.51.100.0/24", "via": "192.0.2.1"}],
    "neighbors": [{"address": "192.0.2.9", "hardwareAddr": "02:00:00:00:00:99"}],
    "sysctls": {"ipv4": {"arp_ignore": 1}, "ipv6": {"accept_ra": 2}},
}


def wish(number: int, *, child: bool) -> NicConfig:
    """What the NIC of a number shall be in the pod."""
    more = dict(WISH) if number == 1 else {}
    more["addresses"] = [
        {"address": f"192.0.{number + 1}.5/24"},
        {"address": f"2001:db8:{number}::5/64"},
    ]
    if not child:
        more["ethtool"] = {"features": {"tx-tcp-segmentation": False}}
    interface: dict[str, Any] = {"mtu": 1400, "hardwareAddr": f"02:00:00:00:02:0{number}"}
    make = child_config_of if child else config_of
    return make(f"net{number}", interface=interface, **more)


def make_scene(bed: Bed, driver: Driver, state: Path, kind: str, count: int) -> Scene:
    """Links at home with all that a host can have on them, and a claim on them."""
    child = kind == "child"
    if child:
        need_kind("macvlan")
    (state / "claims").mkdir(parents=True)
    (state / "ledger").mkdir()
    (state / "cdi").mkdir()
    links = [bed.veth("v0")] * count if child else [bed.veth(f"v{n}") for n in range(count)]
    for command in (
        "link property add dev v0 altname net1 altname enp1s0",
        "addr add 10.9.0.1/24 dev v0",
        "addr add 2001:db8:9::1/64 dev v0 nodad",
        "route add 10.8.0.0/16 via 10.9.0.2",
        "neigh add 10.9.0.2 lladdr 02:00:00:00:00:77 dev v0",
    ):
        bed.home.ip(*command.split())
    pod = bed.pod()
    wishes = [(link, wish(n + 1, child=child)) for n, link in enumerate(links)]
    draft: NicHolder = drafted(UID, wishes, pod=pod, children=child)
    if kind == "resource":
        draft = asked_for(UID, wishes, pod=pod)
    return Scene(
        bed=bed,
        driver=driver,
        pod=pod,
        state=state,
        links=tuple(links),
        draft=draft,
        before=tuple(map(originals_of, links)),
    )


def lead_up(scene: Scene, work: str) -> None:
    """Bring the claim to where the work begins."""
    scene.reset()
    if work != "stage":
        scene.run("stage")
    if work in {"return", "unprepare"}:
        scene.run("attach")


def points(scene: Scene, work: str, *, every: bool) -> list[int]:
    """The events of a piece of work before which a life is ended."""
    told: dict[str, Any] = {}
    # Twice, since the pod's namespace gets its number here by the first attach alone.
    for _ in range(2):
        lead_up(scene, work)
        told = scene.run(work)
        scene.run("unprepare")
        scene.require_home()
    return list(range(1, told["count"] + 1) if every else told["changes"])


def crash_at(scene: Scene, work: str, number: int) -> str:
    """Die before one event, start again, and give how that ended."""
    lead_up(scene, work)
    assert scene.run(work, kill_at=number) == {"killed": True}
    scene.run("recover")
    ended = scene.outcome()
    # A second start finds nothing to do.
    again = scene.run("recover")
    assert scene.outcome() == ended
    assert again["count"] > 0
    scene.run("unprepare")
    scene.require_home()
    assert scene.pod.names() == set()
    return ended


ENDS = {
    "stage": {"home", "staged"},
    "attach": {"home", "staged", "attached"},
    "return": {"home", "attached"},
    "unprepare": {"home", "attached"},
}


def run_matrix(scene: Scene, work: str, chosen: list[int]) -> None:
    """Crash at every chosen point of a piece of work."""
    ends = {number: crash_at(scene, work, number) for number in chosen}
    assert set(ends.values()) <= ENDS[work], ends


@pytest.mark.parametrize("work", ["attach", "return"])
def test_crash_before_some_changes(bed: Bed, driver: Driver, tmp_path: Path, work: str) -> None:
    """One moved NIC, killed before each third change: settled by the next start."""

    scene = make_scene(bed, driver, tmp_path / "state", "moved", 1)
    chosen = points(scene, work, every=False)[::3]

    assert len(chosen) > 3
    run_matrix(scene, work, chosen)


# The fewest points that each piece of work has: a matrix that shrinks is told.
LEAST = {"stage": 3, "attach": 20, "return": 4, "unprepare": 4}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["moved", "child", "resource"])
@pytest.mark.parametrize("work", ["stage", "attach", "return", "unprepare"])
def test_crash_before_each_event(
    bed: Bed, driver: Driver, tmp_path: Path, work: str, kind: str
) -> None:
    """One NIC: every message, file and setting, and every mere question too.

    Unprepare differs from a return by the first file alone, so its questions are left out.
    """

    scene = make_scene(bed, driver, tmp_path / "state", kind, 1)
    chosen = points(scene, work, every=work != "unprepare")

    assert len(chosen) >= LEAST[work]
    run_matrix(scene, work, chosen)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["moved", "child"])
@pytest.mark.parametrize("work", ["attach", "return"])
def test_crash_before_each_change_of_three(
    bed: Bed, driver: Driver, tmp_path: Path, work: str, kind: str
) -> None:
    """Three NICs of one claim: every event that changes anything."""

    scene = make_scene(bed, driver, tmp_path / "state", kind, 3)
    chosen = points(scene, work, every=False)

    assert len(chosen) >= LEAST[work]
    run_matrix(scene, work, chosen)


@pytest.mark.slow
@pytest.mark.parametrize("work", ["attach", "return"])
def test_crash_in_the_start_after_a_crash(
    bed: Bed, driver: Driver, tmp_path: Path, work: str
) -> None:
    """The start that settles things may be killed too, at each change; the one after it settles."""

    scene = make_scene(bed, driver, tmp_path / "state", "moved", 1)
    first = points(scene, work, every=False)
    # In the middle the link is neither as it was nor as it shall be.
    at = first[len(first) // 2]
    lead_up(scene, work)
    scene.run(work, kill_at=at)
    changes = scene.run("recover")["changes"]
    scene.run("unprepare")

    assert len(changes) >= 5
    for number in changes:
        lead_up(scene, work)
        assert scene.run(work, kill_at=at) == {"killed": True}
        assert scene.run("recover", kill_at=number) == {"killed": True}
        scene.run("recover")
        assert scene.outcome() in ENDS[work]
        scene.run("unprepare")
        scene.require_home()


@pytest.mark.slow
@pytest.mark.parametrize("work", ["attach", "return"])
def test_crash_and_the_pod_ends_before_the_start(
    bed: Bed, driver: Driver, tmp_path: Path, work: str
) -> None:
    """A link that died with its pod is lost, one that was not there yet or no more is home."""

    probe = make_scene(bed, driver, tmp_path / "probe", "moved", 1)
    chosen = points(probe, work, every=False)
    ends = set()
    for number in chosen:
        bed.forget("v0")
        scene = make_scene(bed, driver, tmp_path / str(number), "moved", 1)
        lead_up(scene, work)
        assert scene.run(work, kill_at=number) == {"killed": True}
        scene.pod.netns.end()
        scene.run("recover")
        nic = scene.record().devices[0].nic
        assert nic is not None
        if nic.stage is Stage.LOST:
            assert "v0" not in bed.names()
        elif nic.stage is Stage.HOME:
            scene.require_home()
        ends.add(nic.stage)

    # Before its announcement an attach has touched nothing, and the claim waits for a new sandbox.
    waiting = {Stage.STAGED} if work == "attach" else set()
    assert ends == {Stage.HOME, Stage.LOST} | waiting
