"""How long nobody answers while the package is installed and upgraded under a real systemd."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

import berth
from tests.bench.callers import Caller, calling
from tests.bench.conftest import Report
from tests.bench.figures import Aim, Row
from tests.nspawn import bed as beds
from tests.nspawn.bed import Bed
from tests.nspawn.conftest import RELEASES
from tests.nspawn.container import LIMIT_S, poll
from tests.nspawn.node import Node
from tests.nspawn.releases import Releases

ROUNDS = 5
NEXT = berth.__version__[:-1] + "7"
AFTER_S = 0.5
"""Callers go on so long after systemd has said that the service is ready."""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """This release of the package and the next."""
    current = beds.package()
    return current, Releases(current, tmp_path_factory.mktemp("releases")).make(NEXT)


@pytest.fixture(params=RELEASES)
def node(request: pytest.FixtureRequest, packages: tuple[Path, Path]) -> Iterator[Node]:
    """A container of each release of Debian in which nothing is installed."""
    lacks = beds.missing()
    if lacks:
        pytest.skip(f"no containers on this machine: it lacks {', '.join(lacks)}")
    beds.install_tools()
    bed = Bed([])
    made = bed.boot(request.param)
    for package, name in zip(packages, ("this", "next"), strict=True):
        made.path(f"/root/{name}.deb").write_bytes(package.read_bytes())
    yield made
    bed.close()


def dpkg(node: Node, *arguments: str) -> float:
    """Run dpkg; gives when it began, on the clock of `time.perf_counter`."""
    began = time.perf_counter()
    node.run("dpkg", *arguments)
    return began


def wait_answered(callers: Mapping[str, Caller]) -> None:
    """Wait until all are answered again, and some more, so that a late failure is seen too."""
    time.sleep(AFTER_S)
    now = time.perf_counter()
    for name, one in callers.items():
        poll(partial(one.was_answered, now), bool, what=f"an answer to {name}")


def test_install_and_upgrade(report: Report, node: Node) -> None:
    """Installed, upgraded, purged, again and again, and each socket is asked all the time."""

    release = node.container.name.partition("-")[0].removeprefix("debian")
    ready: list[float] = []
    first: dict[str, list[float]] = {}
    away: dict[str, list[float]] = {}
    failed: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        with calling(node) as callers:
            began = dpkg(node, "--install", "/root/this.deb")
            poll(node.is_active, bool, what="berthd ready", limit_s=LIMIT_S)
            ready.append(time.perf_counter() - began)
            wait_answered(callers)
        for name, one in callers.items():
            first.setdefault(name, []).append(one.first(began) - began)
        with calling(node) as callers:
            wait_answered(callers)
            pid = node.pid
            dpkg(node, "--install", "/root/next.deb")
            node.wait_other(pid)
            wait_answered(callers)
        for name, one in callers.items():
            away.setdefault(name, []).append(one.longest_s() * 1000)
            failed.setdefault(name, []).append(len(one.failures))
        dpkg(node, "--purge", "berthd")

    where = f"Debian {release}"
    note = "dpkg unpacks and compiles the modules in it"
    report(Row(name=f"{where}: install to READY", unit="s", samples=tuple(ready), note=note))
    for name, times in first.items():
        report(Row(name=f"{where}: install to an answer, {name}", unit="s", samples=tuple(times)))
    for name, times in away.items():
        count = sum(failed[name])
        report(
            Row(
                name=f"{where}: upgrade, longest without an answer, {name}",
                unit="ms",
                samples=tuple(times),
                note=f"{count:.0f} questions failed in all, each by a connection of its own",
            )
        )
    for name in ("DRA", "registration"):
        report(
            Row(
                name=f"{where}: upgrade, failed calls, {name}",
                unit="",
                samples=tuple(failed[name]),
                aims=(Aim(of="p99", most=0.0),),
            )
        )
