"""``berth device``: what the daemon is asked for, and what is told."""

from __future__ import annotations

from berth.errors import HostError
from tests.unit.cli.conftest import Berth, Serve


def test_forget_asks_by_name_and_tells_what_was_done(berth: Berth, daemon: Serve) -> None:
    """In the daemon's words, or as they came."""

    asked = daemon({"device": {"done": "gpu-0 is forgotten"}})
    ran = berth("device", "forget", "gpu-0")

    assert (ran.code, ran.out) == (0, "gpu-0 is forgotten\n")
    assert (asked[0]["action"], asked[0]["device"]) == ("forget", "gpu-0")
    assert berth("device", "forget", "gpu-0", "--json").json == {"done": "gpu-0 is forgotten"}


def test_forget_tells_why_not(berth: Berth, daemon: Serve) -> None:
    """The device may be there still."""

    daemon({"device": HostError("device gpu-0", "is there", rule="only what is lost is forgotten")})
    ran = berth("device", "forget", "gpu-0")

    assert (ran.code, ran.out) == (1, "")
    assert "device gpu-0: is there: only what is lost is forgotten" in ran.err


def test_nothing_else_is_done_to_a_device(berth: Berth) -> None:
    """A word that is no action is a wrong command line."""

    assert berth("device", "reset", "gpu-0").code == 2
    assert berth("device", "forget").code == 2
