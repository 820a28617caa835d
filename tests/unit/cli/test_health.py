"""``berth health``: what the daemon is asked for, and what is told."""

from __future__ import annotations

from typing import Any

import pytest

from berth.errors import ConfigError
from berth.node.views import health_view
from tests.unit.cli.conftest import Berth, Serve, golden
from tests.unit.node.views.illness import HEALTH, courses_of
from tests.unit.node.views.scenes import INVENTORY

SICK = {"status": "unhealthy", "reason": "fan-broken"}


def view(*, without: str = "") -> dict[str, Any]:
    """What the daemon tells of the scene, less one device."""
    whole = health_view(HEALTH, INVENTORY, courses_of)
    return {**whole, "devices": [one for one in whole["devices"] if one["name"] != without]}


def test_list_shows_verdicts_and_what_speaks_against_each(berth: Berth, daemon: Serve) -> None:
    """A sick one is a finding; NICs that no group selects are counted alone."""

    daemon({"health.list": view()})
    ran = berth("health")

    assert (ran.code, ran.out) == (1, golden("health.txt", ran.out))
    assert berth("health", "list").out == ran.out


def test_list_of_one_device_asks_for_it(berth: Berth, daemon: Serve) -> None:
    """Nobody is left out then."""

    uplink = view()["devices"][0]
    asked = daemon({"health.list": {"warnings": [], "devices": [uplink]}})
    ran = berth("health", "list", "eth0")

    assert asked[0]["device"] == "eth0"
    assert (ran.code, "is unknown (unasked)" in ran.out) == (0, True)
    assert "no group" not in ran.out


def test_list_for_programs(berth: Berth, daemon: Serve) -> None:
    """As it came."""

    daemon({"health.list": view()})
    ran = berth("health", "list", "--json")

    assert (ran.code, ran.json) == (1, view())


def test_list_of_nothing_says_so(berth: Berth, daemon: Serve) -> None:
    """Degraded devices are no finding, and neither is an empty node."""

    daemon({"health.list": {"warnings": ["nic0 is not here"], "devices": []}})
    ran = berth("health")
    assert (ran.code, ran.out) == (0, "no device is watched\n")
    assert ran.err == "warning: nic0 is not here\n"


def test_degraded_device_is_no_finding(berth: Berth, daemon: Serve) -> None:
    """Pods get it."""

    daemon({"health.list": view(without="nic-lab-veth0")})
    assert berth("health").code == 0


def test_set_asks_with_reason_and_message(berth: Berth, daemon: Serve) -> None:
    """What was done is said, and how the device is now."""

    answer = {"done": "gpu-0 is out", "name": "gpu-0", "verdict": SICK}
    asked = daemon({"health.set": answer})
    ran = berth("health", "set", "gpu-0", "fan-broken", "--message", "on Friday")

    assert (ran.code, ran.out) == (0, "gpu-0 is out\ngpu-0 is unhealthy (fan-broken) now\n")
    assert {key: asked[0][key] for key in ("device", "reason", "message")} == {
        "device": "gpu-0",
        "reason": "fan-broken",
        "message": "on Friday",
    }
    assert berth("health", "set", "gpu-0", "fan-broken", "--json").json == answer


def test_clear_asks_with_or_without_a_reason(berth: Berth, daemon: Serve) -> None:
    """No message is sent along."""

    well = {"status": "healthy", "reason": ""}
    asked = daemon({"health.clear": {"done": "done", "name": "gpu-0", "verdict": well}})

    assert berth("health", "clear", "gpu-0").out == "done\ngpu-0 is healthy now\n"
    assert berth("health", "clear", "gpu-0", "xid-48").code == 0
    assert [request["reason"] for request in asked] == ["", "xid-48"]
    assert "message" not in asked[0]


@pytest.mark.parametrize("action", ["set", "clear"])
def test_device_must_be_named(berth: Berth, daemon: Serve, action: str) -> None:
    """Before anybody is asked."""

    asked = daemon({"health.set": {}, "health.clear": {}})
    ran = berth("health", action)

    assert (ran.code, asked) == (2, [])
    assert f"DEVICE: is missing: health {action} is of one device" in ran.err


def test_refusal_is_told(berth: Berth, daemon: Serve) -> None:
    """In the daemon's words."""

    daemon({"health.set": ConfigError("device x", "is not known here", rule="devices are y")})
    ran = berth("health", "set", "x", "fan")

    assert (ran.code, ran.out) == (1, "")
    assert "device x: is not known here: devices are y" in ran.err
