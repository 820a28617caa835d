"""``berth gpu``: who has GPUs open, and what the daemon is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli import gpu
from tests.unit.cli.conftest import Berth, Serve


@pytest.mark.parametrize(("text", "for_s"), [("10m", 600), ("90s", 90), ("2h", 7200), ("7", 7)])
def test_release_asks_for_a_time(berth: Berth, daemon: Serve, text: str, for_s: int) -> None:
    """In seconds; what it means is said."""

    asked = daemon({"gpu": {"session": "released given up"}})
    ran = berth("gpu", "release", "--for", text)

    assert ran.code == 0
    assert {key: asked[0][key] for key in ("action", "for_s")} == {
        "action": "release",
        "for_s": for_s,
    }
    assert ran.out.startswith("berthd has let go of the driver for ")


@pytest.mark.parametrize("text", ["", "x", "0", "10d", "25h", "-1"])
def test_release_for_no_time_is_refused(berth: Berth, daemon: Serve, text: str) -> None:
    """Before anybody is asked."""

    asked = daemon({"gpu": {}})
    ran = berth("gpu", "release", f"--for={text}")

    assert (ran.code, asked) == (2, [])
    assert "it must be a time such as 90s, 10m or 2h" in ran.err


def test_resume_tells_the_session(berth: Berth, daemon: Serve) -> None:
    """As the daemon says it is."""

    daemon({"gpu": {"session": "up"}})

    assert berth("gpu", "resume").out == "berthd has taken up the driver again: up\n"


def test_holders_are_those_of_this_machine(
    berth: Berth, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No daemon is asked; what this process has open is there."""

    assert berth("gpu", "holders").out == "no process that can be seen here has a GPU open\n"
    monkeypatch.setattr(gpu, "NODES", str(tmp_path))
    with (tmp_path / "node").open("w"):
        ran = berth("gpu", "holders")
        (found,) = berth("gpu", "holders", "--json").json["holders"]

    assert ran.out.splitlines()[0].split() == ["PROCESS", "COMMAND", "OPEN", "CONTROL", "GROUP"]
    assert found["paths"] == [str(tmp_path / "node")]
