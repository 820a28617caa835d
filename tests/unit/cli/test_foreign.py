"""No word from outside steers a terminal or forges a line of ours, whichever command tells it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth.cli import device, devices, gpu, health, holds, status, topology, why
from berth.cli import reload as reloading
from berth.cli.asking import Refused
from berth.errors import ConfigError, Faults, HostError
from berth.node.views import devices_view, health_view, status_view, topology_view, why_view
from tests.unit.cli.conftest import Berth, Serve
from tests.unit.cli.test_asking import HOLDS, ILL, REFUSED
from tests.unit.node.views.fourroots import PODS, layout
from tests.unit.node.views.illness import HEALTH, courses_of
from tests.unit.node.views.scenes import INVENTORY, claim_record, nic_record
from tests.unit.node.views.test_views import WELL
from tests.unit.node.views.test_why import known

FORGED = "\n→ all is well\r\x1b[2J\x9b31m\u2028\u202e"
RELOADED = {"config": "/x", "applied": ["a"], "at_next_start": ["b"], "warnings": ["c"]}
SET = {"done": "d", "name": "n", "verdict": {"status": "unhealthy", "reason": "r", "message": "m"}}

COMMANDS: dict[tuple[str, ...], tuple[Any, dict[str, Any]]] = {
    ("status",): (status, status_view(ILL)),
    ("status", "--runtime-dir", "/x"): (status, status_view(WELL)),
    ("devices",): (devices, devices_view(INVENTORY, HEALTH)),
    ("holds",): (holds, HOLDS),
    ("health",): (health, health_view(HEALTH, INVENTORY, courses_of)),
    ("health", "set", "d", "r"): (health, SET),
    ("why", "web"): (why, why_view("web", known(claim_record(nic_record()), troubles=(REFUSED,)))),
    ("why", "ens1f0"): (why, why_view("ens1f0", known(claim_record(nic_record()), health=HEALTH))),
    ("why", "nobody"): (why, why_view("nobody", known())),
    ("reload",): (reloading, RELOADED),
    ("gpu", "resume"): (gpu, {"session": "s"}),
    ("device", "forget", "x"): (device, {"done": "d"}),
}


def _named(value: Any, key: str, name: str) -> Any:
    """A copy in which the texts below one key are forged."""
    if isinstance(value, dict):
        return {inner: _named(each, inner, name) for inner, each in value.items()}
    if isinstance(value, list):
        return [_named(each, key, name) for each in value]
    return value + FORGED if isinstance(value, str) and key == name else value


def _keys(value: Any, key: str = "") -> Iterator[str]:
    """The keys below which there are texts."""
    inside = value.items() if isinstance(value, dict) else ()
    for name, each in inside or ((key, each) for each in value if isinstance(value, list)):
        yield from _keys(each, name) if isinstance(each, dict | list) else (name,)


def _forged(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The answer, with its texts of one kind forged, kind by kind."""
    plain = json.loads(json.dumps(answer))
    for key in dict.fromkeys(_keys(plain)):
        made = _named(plain, "", key)
        if made != plain:
            yield made


def harmless(text: str) -> bool:
    """Whether each line of what was told can be shown, and none begins as ours do."""
    lines = text.split("\n")
    return all(line.isprintable() and not line.lstrip(" ").startswith("→ all") for line in lines)


@pytest.mark.parametrize("words", COMMANDS)
def test_no_text_of_an_answer_steers_or_forges(
    berth: Berth, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Whatever of it comes from outside."""
    module, answer = COMMANDS[words]
    shown = 0
    for forged in _forged(answer):
        monkeypatch.setattr(module, "ask", lambda *_, forged=forged, **__: forged)
        try:
            ran = berth(*words)
        except KeyError:
            # A word that we choose ourselves, such as that of a severity.
            continue
        shown += r"\x1b[2J" in ran.out + ran.err
        assert harmless(ran.out), forged
        assert harmless(ran.err), forged

    assert shown


def test_no_text_of_a_topology_steers_or_forges(
    berth: Berth, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Pods, containers and devices of other plugins."""
    shown = 0
    for forged in _forged(topology_view(layout(tmp_path / "sys", *PODS, warnings=("slow",)))):
        monkeypatch.setattr(topology, "ask", lambda *_, forged=forged, **__: forged)
        ran = berth("topology")
        shown += r"\x1b[2J" in ran.out + ran.err
        assert harmless(ran.out), forged
        assert harmless(ran.err), forged

    assert shown


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (HostError("/x", f"says {FORGED}"), 1),
        (Faults("/x", [ConfigError("/x", FORGED), ConfigError("/x", "odd", mend=FORGED)]), 2),
    ],
)
def test_no_refusal_steers_or_forges(
    berth: Berth, daemon: Serve, error: HostError | Faults, lines: int
) -> None:
    """One line for each fault, from the daemon too."""
    daemon({"status": error, "reload": error})

    for ran in (berth("status"), berth("reload")):
        told = [line for line in (ran.out + ran.err).splitlines() if "all is well" in line]
        assert len(told) == lines
        assert harmless(ran.out)
        assert harmless(ran.err)


def test_several_faults_of_a_claim_are_a_line_each(
    berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie below it, farther in than anything that begins a line."""
    answer = why_view("web", known(claim_record(nic_record()), troubles=(REFUSED,)))
    answer["found"][0]["verdict"] = "pod default/web: was refused: one\ntwo"
    monkeypatch.setattr(why, "ask", lambda *_, **__: answer)

    assert "  → pod default/web: was refused: one\n      - two\n" in berth("why", "web").out


def test_words_of_the_command_line_steer_nothing(berth: Berth) -> None:
    """Scripts hand on names of others."""
    ran = berth("status", f"--odd{FORGED}")

    assert ran.code == 2
    assert harmless(ran.err)


def test_text_of_an_error_is_one_line_however_it_is_refused() -> None:
    """What the daemon says is not read anew."""
    assert "\n" not in str(Refused(f"a{FORGED}"))
