"""What the file may say of how devices are watched, and what it is told where that is no good."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.config.health import GenericHealth, HealthTable, UnknownEffect
from berth.config.schema import Config
from tests.unit.config.reading import check_text, faults, read_table

RULE = "the timeout must be at least twice the other two together"


def test_table_is_read() -> None:
    """A kind that is not given keeps its times, as do keys that are not given."""
    text = """
        recover_after_s = 60
        unknown_effect = "NoSchedule"
        evict = ["lost", "xid-79"]
        nic = { interval_s = 20 }
        [xid]
        ignore = 63
        [[device]]
        name = "gpu-0000-41-00-0"
        timeout_s = 60
    """

    table, said = read_table(HealthTable, text)

    assert said == []
    assert table is not None
    assert (table.recover_after_s, table.unknown_effect) == (60, UnknownEffect.NO_SCHEDULE)
    assert table.evict == ("lost", "xid-79")
    assert (table.nic.interval_s, table.nic.deadline_s, table.nic.timeout_s) == (20, 2, 60)
    assert table.gpu == HealthTable().gpu
    (device,) = table.devices
    assert (device.interval_s, device.timeout_s) == (0, 60)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[health]\ngpu = { interval_s = 12 }",
            (
                f"3: [health] gpu comes to timeout_s = 30 with interval_s = 12 and "
                f"deadline_s = 4: {RULE}; write timeout_s = 32, or look more often"
            ),
        ),
        (
            "[health]\nnic = { interval_s = 0 }",
            "3: [health.nic] interval_s is 0: it must be a whole number from 1 to 3600",
        ),
        (
            '[health]\nevict = ["lost", "XID 79"]',
            '3: [health] evict holds "XID 79": it must be a reason such as "xid-79" or "lost"',
        ),
        (
            '[health]\nunknown_effect = "NoExecute"',
            '3: [health] unknown_effect is "NoExecute": it must be "None" or "NoSchedule"',
        ),
        (
            '[[health.device]]\nname = "a"\ninterval_s = 20\ntimeout_s = 30',
            (
                '2: [[health.device]] 1 "a" comes to timeout_s = 30 with interval_s = 20 and '
                f"deadline_s = 0: {RULE}; write timeout_s = 40, or look more often"
            ),
        ),
        (
            '[[health.device]]\nname = "a"\n[[health.device]]\nname = "a"',
            '5: [[health.device]] 2 "a": name is "a", as is that of entry 1; join the two',
        ),
        (
            '[[nic.group]]\nname = "a"\nmatch = { name = "x" }\nhealth = { timeout_s = 20 }',
            (
                '5: [[nic.group]] 1 "a": health comes to timeout_s = 20 with interval_s = 15 and '
                f"deadline_s = 2: {RULE}; write timeout_s = 34, or look more often"
            ),
        ),
        (
            '[[gpu.group]]\nname = "a"\nmatch = { type = "vfio" }\nhealth = { timeout_s = 20 }',
            (
                '5: [[gpu.group]] 1 "a": health comes to timeout_s = 20 with interval_s = 15 and '
                f"deadline_s = 2: {RULE}; write timeout_s = 34, or look more often"
            ),
        ),
        (
            '[[gpu.group]]\nname = "a"\nmatch = { pci = "0000:*" }\nhealth = { interval_s = 40 }',
            (
                '5: [[gpu.group]] 1 "a": health comes to timeout_s = 30 with interval_s = 40 and '
                f"deadline_s = 4: {RULE}; write timeout_s = 88, or look more often"
            ),
        ),
        (
            (
                '[[generic]]\nname = "a"\nmatch = { path = "/dev/a" }\n'
                'health = { command = ["/bin/a", "{1}"] }'
            ),
            (
                '5: [[generic]] 1 "a": health.command holds {1}: it stands for a wildcard of '
                "match.path, which has 0; drop it, or add the wildcard"
            ),
        ),
    ],
)
def test_fault_names_place_rule_and_mend(tmp_path: Path, text: str, told: str) -> None:
    """Times of a group are looked at over those of their kind."""

    assert faults(check_text(tmp_path, f"# one fault\n{text}\n")) == [f"agent.toml:{told}"]


@pytest.mark.parametrize("given", ['interval_s = "60"', "interval_s = 7200", "timeout = 9"])
def test_times_at_fault_are_not_compared(tmp_path: Path, given: str) -> None:
    """One mistake is told once."""
    text = f'[[nic.group]]\nname = "a"\nmatch = {{ name = "x" }}\nhealth = {{ {given} }}'

    assert len(faults(check_text(tmp_path, text))) == 1
    assert len(faults(check_text(tmp_path, f"[health]\nnic = {{ {given} }}"))) == 1


@pytest.mark.parametrize(
    "program", ["modem-ok", "/a/../b", "/a//b", "/opt/{name}", "/", "./a", "/a\\nb"]
)
def test_command_begins_with_one_program(program: str) -> None:
    """No shell looks it up, and no device chooses it."""
    _, said = read_table(GenericHealth, f'command = ["{program}", "x"]')

    assert len(said) == 1
    assert "first stands the absolute path of a program" in said[0]


def test_command_may_repeat_its_words() -> None:
    """Unlike the items of other lists."""
    health, said = read_table(GenericHealth, 'command = ["/bin/a", "-v", "-v", "{node}"]')

    assert said == []
    assert health is not None
    assert [str(word) for word in health.command] == ["/bin/a", "-v", "-v", "{node}"]


def test_health_has_an_effect(tmp_path: Path) -> None:
    """No warning says otherwise any more."""
    text = '[[nic.group]]\nname = "a"\nmatch = { name = "x" }\nhealth = { carrier = "fault" }'

    report = check_text(tmp_path, text)

    assert (report.faults, report.warnings) == ((), ())
    assert report.config != Config()
