"""What a group may say of when its pods are bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.config.bind import BindWhen, Ungated
from berth.config.schema import Config
from tests.unit.config.reading import check_text, faults, read_table

NIC = '[[nic.group]]\nname = "fast"\nmatch.name = ["ens1"]\n'
MODEM = '[[generic]]\nname = "modem"\nmatch.path = ["/dev/ttyUSB*"]\n'


def test_groups_are_read() -> None:
    """A command has the places of its kind."""
    text = f"""{NIC}bind.when = "link-up"
        bind.within_s = 20
        {MODEM}bind = {{ when = "command", command = ["/usr/lib/up", "{{node}}", "{{1}}"] }}
    """

    config, said = read_table(Config, text)

    assert (said, config is not None) == ([], True)
    assert config is not None
    nic, modem = config.nic.groups[0].bind, config.generic[0].bind
    assert (nic.when, nic.within_s, nic.ungated) == (BindWhen.LINK_UP, 20, Ungated.PREPARE)
    assert [word.text for word in modem.command] == ["/usr/lib/up", "{node}", "{1}"]
    assert (modem.is_wanted, Config().nic.groups) == (True, ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'{NIC}bind.when = "command"', 'when is "command", and no command is given'),
        (
            f'{NIC}bind.command = ["/usr/lib/up"]',
            'command is given with when = "at-once"; write when = "command"',
        ),
        (
            f'{NIC}bind = {{ when = "command", command = ["up"] }}',
            "command begins with 'up': first stands the absolute path of a program",
        ),
        (
            f'{NIC}bind = {{ when = "command", command = ["/up", "{{node}}"] }}',
            "bind.command holds {node}: what is filled in here is {name}, {ifname} and {pci}",
        ),
        (
            f'{NIC}bind = {{ when = "command", command = ["/up", "{{1}}"] }}',
            "bind.command holds {1}: what is filled in here is {name}, {ifname} and {pci}",
        ),
        (f'{MODEM}bind.when = "link-up"', 'when is "link-up": device nodes have no link'),
        (
            f'{NIC}mode = "vfio"\nbind.when = "link-up"',
            'bind.when is "link-up" with mode "vfio": what vfio-pci has comes with no link',
        ),
        (
            f'{MODEM}bind = {{ when = "command", command = ["/up", "{{2}}"] }}',
            "holds {2}: it stands for a wildcard of match.path, which has 1",
        ),
        (
            f"""{MODEM}skip_node_operations = "all"
            bind = {{ when = "command", command = ["/up"] }}""",
            'bind.ungated is "prepare" with skip_node_operations "all": a pod whose claim nobody',
        ),
        (
            f"""{MODEM}bind = {{ when = "command", command = ["/up"], deadline_s = 61 }}""",
            "bind comes to deadline_s = 61 with within_s = 60: the command must be allowed no",
        ),
        (
            f"""{MODEM}bind = {{ when = "command", command = ["/up"], within_s = 9 }}""",
            "write deadline_s = 9 or less, or a larger within_s",
        ),
    ],
)
def test_fault_is_told(tmp_path: Path, text: str, told: str) -> None:
    """With its place, and how to mend it."""

    (fault,) = faults(check_text(tmp_path, text))

    assert told in fault


def test_deadline_of_no_command_is_no_matter(tmp_path: Path) -> None:
    """A link is not asked."""

    report = check_text(tmp_path, f'{NIC}bind = {{ when = "link-up", within_s = 9 }}')

    assert faults(report) == []


def test_bind_that_waits_for_nothing_is_warned_of(tmp_path: Path) -> None:
    """Whoever says how long to wait forgot to say for what."""

    report = check_text(tmp_path, f"{NIC}bind.within_s = 20")

    (warning,) = report.warnings
    assert 'waits for nothing: when is "at-once"' in warning


@pytest.mark.parametrize("group", [NIC, MODEM])
def test_what_no_scheduler_waits_for_is_warned_of(tmp_path: Path, group: str) -> None:
    """Kubelet binds nothing."""
    bind = 'bind = { when = "command", command = ["/up"] }'

    report = check_text(tmp_path, f'{group}door = "plugin"\n{bind}')

    (warning,) = [str(each) for each in report.warnings if "bind" in str(each)]
    assert 'is not used with door "plugin"' in warning
