"""Containers that have something of the device plugin's, as the runtime tells of them."""

from __future__ import annotations

import tracemalloc

import attrs
import pytest

from berth.model.pod import Container, ContainerState, Sandbox
from berth.node.plugin.running import MOST_MARKS, Running, mark, mark_name, units_of
from tests.unit.node.peripherals import RESOURCE, USER, given, modem

MODEM = given(modem())
POD = Sandbox(id="s1", namespace="team", name="user")


def container(
    name: str = "c1", *entries: str, state: ContainerState = ContainerState.RUNNING
) -> Container:
    """A container with entries in its environment."""
    env = dict(entry.split("=", 1) for entry in entries)
    return Container(id=name, sandbox_id="s1", env=env, state=state)


MARKED = container("c1", mark(RESOURCE, ["modem-1", "modem-0"]))


def test_mark_is_one_entry_of_the_resource() -> None:
    """Its name is one that a shell takes, its value tells all."""

    assert mark(RESOURCE, ["a", "b"]) == "BERTH_PLUGIN_BERTH_DEV_MODEM_F504B85C=berth.dev/modem:a,b"


def test_marks_of_resources_with_like_names_stand_beside_each_other() -> None:
    """A variable's name knows less signs than a resource's."""

    entries = [mark(name, ["a"]) for name in ("lab.dev/a-b", "lab.dev/a.b", "lab.dev/a_b")]
    env = dict(entry.split("=", 1) for entry in entries)

    assert {resource for resource, _ in units_of(env)} == {
        "lab.dev/a-b",
        "lab.dev/a.b",
        "lab.dev/a_b",
    }


@pytest.mark.parametrize("end", ["stop", "sandbox", "unseen"])
def test_marked_container_is_live_until_it_ends(end: str) -> None:
    """By its own end, its sandbox's, or when the runtime comes back without it."""

    calls: list[int] = []
    running = Running(lambda: calls.append(1))
    running.made(POD, MARKED)
    assert running.is_live(MODEM)

    if end == "stop":
        running.ended(MARKED)
    elif end == "sandbox":
        running.sandbox_ended("s1")
    else:
        running.synchronize([POD], [])

    assert not running.is_live(MODEM)
    assert len(calls) == (end != "unseen")


def test_others_are_nobodys_business() -> None:
    """Without a mark, or with that of other ids, nothing is kept and nobody is told."""

    calls: list[int] = []
    owned = given(modem(7), uid="g7", container=USER)
    running = Running(lambda: calls.append(1), given=lambda: [owned])
    other = attrs.evolve(container("c2", mark(RESOURCE, ["modem-7"])), name="main")
    running.made(POD, container("c3", "PATH=/bin"))
    running.made(POD, other)

    assert not running.is_live(MODEM)
    running.ended(container("c3", "PATH=/bin"))
    assert calls == []


def test_synchronize_takes_what_lives() -> None:
    """A list of the runtime replaces what was known; ended containers are in it too."""

    running = Running()
    running.made(POD, MARKED)
    running.synchronize([POD], [container("c9", *_entries(MARKED), state=ContainerState.STOPPED)])
    assert not running.is_live(MODEM)

    running.synchronize([POD], [MARKED])
    assert running.is_live(MODEM)


@pytest.mark.parametrize(
    ("pod", "live"),
    [
        (POD, True),
        (attrs.evolve(POD, namespace="elsewhere"), False),
        (attrs.evolve(POD, name="other"), False),
        (Sandbox(id="s1"), True),
    ],
)
def test_mark_that_another_pod_wrote_keeps_nothing_held(pod: Sandbox, *, live: bool) -> None:
    """Kubelet has shown whose it is; a pod of which nothing is known may be that one."""

    running = Running()
    running.synchronize([pod], [MARKED])

    assert running.is_live(given(modem(), container=USER)) is live
    assert running.is_live(MODEM)


HIDDEN = [
    f"{mark_name(RESOURCE)}=",
    f"{mark_name(RESOURCE)}=gone",
    mark(RESOURCE, ["modem-7"]),
    mark(RESOURCE, ["modem-1", "modem-7"]),
]
SHOWN = given(modem(), container=USER)


@pytest.mark.parametrize("entry", HIDDEN)
def test_container_that_hides_its_mark_counts_for_what_it_has(entry: str) -> None:
    """By the container's name and the mark's, which its author cannot take away."""

    foreign = given(modem(7), uid="g7", container=attrs.evolve(USER, pod="other"))
    others = given(modem(1), uid="g1", container=USER)
    running = Running(given=lambda: [SHOWN, others, foreign])
    hiding = attrs.evolve(container("c1", entry), name="main")
    running.synchronize([POD], [hiding])

    assert running.is_live(SHOWN)
    assert not running.is_live(foreign)
    running.ended(hiding)
    assert not running.is_live(SHOWN)


@pytest.mark.parametrize("entry", HIDDEN)
def test_what_kubelet_has_shown_nobody_with_may_be_of_any_container_that_hides(entry: str) -> None:
    """Its pod may be deleted by force before the first list: then the runtime alone knows of it."""

    elsewhere = Sandbox(id="s1", namespace="far", name="away")
    others = given(modem(1), uid="g1", container=USER)
    running = Running(given=lambda: [MODEM, others])
    running.made(elsewhere, container("c1", f"{mark_name('berth.dev/fax')}="))
    assert not running.is_live(MODEM)

    running.made(elsewhere, attrs.evolve(container("c2", entry), name="main"))
    assert running.is_live(MODEM)
    running.ended(container("c2"))
    assert not running.is_live(MODEM)


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(container("c1", *HIDDEN[:1]), name="aside"),
        attrs.evolve(container("c1", f"{mark_name('berth.dev/fax')}="), name="main"),
        attrs.evolve(container("c1", mark(RESOURCE, ["modem-1"])), name="main"),
    ],
    ids=["another container", "another resource", "the successor of its pod"],
)
def test_container_with_a_true_mark_or_none_counts_for_nothing_else(other: Container) -> None:
    """A pod that was made anew under its name has what kubelet shows it with now."""

    now = given(modem(1), uid="g2", container=USER)
    running = Running(given=lambda: [SHOWN, now])
    running.made(POD, other)

    assert not running.is_live(SHOWN)


FLOODS = {
    "names": [f"BERTH_PLUGIN_{number}=" for number in range(40_000)],
    "units": [mark("lab.dev/a", [str(number) for number in range(5_000)])],
    "value": [f"BERTH_PLUGIN_A={'a' * 1_000_000}:b"],
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
def test_flood_of_marks_takes_no_memory_and_hides_no_true_one(flood: list[str]) -> None:
    """A pod's author can write megabytes of them, in each of many containers."""

    foreign = given(modem(7), uid="g7", container=attrs.evolve(USER, pod="other"))
    running = Running(given=lambda: [SHOWN, foreign])
    flooding = attrs.evolve(container("c0", *flood, *_entries(MARKED)), name="main")
    tracemalloc.start()
    try:
        for number in range(20):
            running.made(POD, attrs.evolve(flooding, id=f"c{number}"))
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept_bytes < 20 * 10_000
    assert running.is_live(SHOWN)
    assert running.is_live(MODEM)
    assert not running.is_live(foreign)


def test_container_with_as_many_resources_as_are_kept_is_known_by_each() -> None:
    """Its marks are true, so it counts for nothing that its pod's predecessor had."""

    entries = [mark(f"lab.dev/a{number}", ["one"]) for number in range(MOST_MARKS - 1)]
    mine = mark(RESOURCE, ["modem-0"])
    running = Running(given=lambda: [SHOWN])
    running.made(POD, attrs.evolve(container("c1", *entries, mine), name="main"))

    assert running.is_live(SHOWN)
    assert not running.is_live(given(modem(5), uid="g5", container=USER))


def _entries(one: Container) -> list[str]:
    return [f"{name}={value}" for name, value in one.env.items()]


def test_container_of_before_counts_as_running_until_the_runtime_tells() -> None:
    """Daemon and runtime may start together beside the container of a pod deleted by force."""

    before = attrs.evolve(MODEM, ran=True)
    running = Running()
    assert running.is_live(before)
    assert not running.is_live(MODEM)

    running.synchronize([POD], [MARKED])
    assert running.is_live(before)
    running.synchronize([POD], [])
    assert not running.is_live(before)
