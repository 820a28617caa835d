"""The whole file: every fault at once, with its line, and files that cannot be read at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.config.finding import Finding
from berth.config.load import SIZE_LIMIT, check, load
from berth.config.schema import Config
from berth.errors import ConfigError, Faults
from tests.unit.config.reading import check_text, faults

FORTY = """\
nodename = "x"
token = "abc"
[node]
name = "Worker_7"
statedir = "/x"
state_dir = "relative"
[kubelet]
root = 3
[kubernetes]
credentials = "secret"
server = "http://10.0.0.1"
password = "hunter2"
[dra]
enabled = "true"
driver = "nodot"
lists = 0
[nri]
timeout_s = -3
timeout = 2
socket = "nri.sock"
[plugin]
enabled = true
[metrics]
listen = ":9100"
[nics]
[nic]
aliases = ["multus", "multus", "foo"]
uplink_ok = ["pci:0000:41:*", "0000:41:00.0"]
[[nic.group]]
name = "fast"
mode = "macvlan"
door = "window"
match = { pfName = "ens1f0", vendor = 8086, device = [0x403, "zz"], name = "eth*" }
[[nic.group]]
name = "fast"
match.pf = ["ens1f0#0-3"]
attributes = { type = "x", rail = 1.5 }
mode = "shared"
shared = { slots = 0 }
[[nic.group]]
match = { pf = "ens1f0#2" }
claims_may = ["rules"]
claims_deny = ["rules"]
[[nic.group]]
name = "b"
match = {}
scrub = "rebinds"
health = { carrier = "x", timeout_s = 4.5 }
"""


def test_forty_errors_give_forty_faults_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Each mistake is told once, on its line."""
    report = check_text(tmp_path, FORTY)
    lines = [int(fault.split(":")[1]) for fault in faults(report)]

    assert len(report.faults) == 40
    assert sorted(lines) == lines
    assert report.config is None


def test_no_message_shows_a_secret(tmp_path: Path) -> None:
    """Not the one that finds it, and none besides."""
    told = "\n".join(faults(check_text(tmp_path, FORTY)))

    assert told.count("looks like a secret") == 2
    assert "hunter2" not in told
    assert '"abc"' not in told


def test_fault_names_file_line_place_value_rule_and_mend(tmp_path: Path) -> None:
    """The one form of all messages."""
    text = "# a comment\n[nri]\n\ntimeout_s = -3\n"

    assert faults(check_text(tmp_path, text)) == [
        (
            "agent.toml:4: [nri] timeout_s is -3: it must be above 0 and at most 60; "
            "drop the line for the default"
        )
    ]


def test_fault_in_a_group_names_its_number_and_name(tmp_path: Path) -> None:
    """Case 19: an unknown key, with the nearest one."""
    text = (
        '[[nic.group]]\nname = "a"\nmatch.name = "x"\n'
        '[[nic.group]]\nname = "fast"\nmatch.pfName = "y"\n'
    )
    (fault,) = faults(check_text(tmp_path, text))

    assert fault.startswith('agent.toml:6: [[nic.group]] 2 "fast": match.pfName is unknown: ')
    assert fault.endswith("; nearest is pf")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("\n[[nic.group.bind]]\nwithin_s = 0\n", [2, 2, 2, 2, 3]),
        ("\n[[generic.bind]]\nwithin_s = 0\n", [2, 2, 2, 2, 3]),
        ("\n[[health.device.odd]]\na = 1\n", [2, 2, 2]),
        ("\n[[nics.group]]\nname = 'a'\n", [2]),
        ("\n[nik.group]\nname = 'a'\n", [2]),
        ("[nic.group]\nmatch.name = 'a'\nname = 'a'\nmode = 'odd'\n", [1, 4]),
        ("[[nic]]\n[[nic.group]]\nname = 'a'\nmatch.name = 'a'\nmode = 'odd'\n", [1, 5]),
        (
            "[[nic.group]]\nname='a'\nmatch.name='a'\n[[nic.group.bind]]\na=0\n[nic.group.odd.b]\n",
            [4, 5, 6],
        ),
    ],
)
def test_fault_in_a_table_that_stands_elsewhere_than_it_should_has_its_line(
    tmp_path: Path, text: str, lines: list[int]
) -> None:
    """An array in place of one table, one in place of an array, and a name on the way to one."""
    told = faults(check_text(tmp_path, text))

    assert [int(fault.split(":")[1]) for fault in told] == lines


def test_load_gives_the_configuration(tmp_path: Path) -> None:
    """A good file, its path told by the operator."""
    path = tmp_path / "agent.toml"
    path.write_text('[kubelet]\nroot = "/data/kubelet"\n')

    assert Path("/data/kubelet") == load(path).kubelet.root


def test_load_raises_all_faults_together(tmp_path: Path) -> None:
    """The daemon ends with the same messages that the check prints."""
    report = check_text(tmp_path, "[nri]\ntimeout_s = 0\nsocket = 3")
    with pytest.raises(Faults) as caught:
        load(report.path)

    assert [str(fault) for fault in report.faults] == [str(fault) for fault in caught.value.faults]
    assert len(report.faults) == 2
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "[nic]\n", b"\r\n"])
def test_file_that_says_nothing_means_the_defaults(tmp_path: Path, text: str | bytes) -> None:
    """An empty file is valid."""
    report = check_text(tmp_path, text)

    assert (Config(), (), ()) == (report.config, report.faults, report.warnings)


def test_byte_order_mark_is_refused_and_the_rest_is_checked(tmp_path: Path) -> None:
    """Editors put it there unseen; what follows it is read all the same."""

    assert faults(check_text(tmp_path, b"\xef\xbb\xbf[nri]\ntimeout_s = 0\n")) == [
        (
            "agent.toml:1:1: the file begins with a byte-order mark: it must be plain UTF-8; "
            "save it without the mark"
        ),
        (
            "agent.toml:2: [nri] timeout_s is 0: it must be above 0 and at most 60; "
            "drop the line for the default"
        ),
    ]


@pytest.mark.parametrize("rest", [b"a = [", b"\xff"])
def test_byte_order_mark_is_told_before_what_ends_the_reading(tmp_path: Path, rest: bytes) -> None:
    """Even a file that is no TOML, or no text, has both of its faults told."""
    report = check_text(tmp_path, b"\xef\xbb\xbf" + rest)

    assert ["byte-order" in fault for fault in faults(report)] == [True, False]
    assert report.config is None


def test_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """A wrong path may lead to anything."""

    assert faults(check_text(tmp_path, b"#" * (SIZE_LIMIT + 1))) == [
        "agent.toml: is larger than 1 MiB: a configuration is smaller"
    ]


def test_missing_file_is_a_fault(tmp_path: Path) -> None:
    """The path was given by someone, so its absence is a mistake."""

    assert faults(check(tmp_path / "agent.toml")) == [
        "agent.toml: does not exist; create it; an empty file means the defaults"
    ]


def test_directory_is_a_fault(tmp_path: Path) -> None:
    """It cannot be read as a file."""
    folder = tmp_path / "agent.toml"
    folder.mkdir()

    assert faults(check(folder)) == ["agent.toml: is a directory: it must be a file"]


def test_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    """A pipe that nobody writes to would hold the start for ever."""
    pipe = tmp_path / "agent.toml"
    os.mkfifo(pipe)

    assert faults(check(pipe)) == ["agent.toml: is not a regular file"]


def test_path_through_a_file_is_told_in_the_system_s_words(tmp_path: Path) -> None:
    """Whatever else the system says is passed on."""
    (tmp_path / "file").touch()
    (fault,) = faults(check(tmp_path / "file" / "agent.toml"))

    assert fault == "agent.toml: cannot be read: Not a directory"


@pytest.fixture
def unreadable(tmp_path: Path) -> Iterator[Path]:
    """A file that this process may not read, given by a user without rights."""
    path = tmp_path / "agent.toml"
    path.touch(mode=0)
    if os.geteuid() != 0:
        yield path
        return
    os.seteuid(65534)
    try:
        yield path
    finally:
        os.seteuid(0)


def test_unreadable_file_is_a_fault(unreadable: Path) -> None:
    """The system's reason is told."""
    (fault,) = check(unreadable).faults

    assert f"{unreadable}: cannot be read: Permission denied" == str(fault)


def test_further_checks_are_told_with_file_and_line(tmp_path: Path) -> None:
    """What another part of the program finds stands among the faults, in the order of the file."""
    path = tmp_path / "agent.toml"
    path.write_text(
        '[[nic.group]]\nname = "a"\nmatch.name = "x"\n'
        'defaults = { interface = { mtu = 3 } }\norder = "x"\n'
    )

    def further(config: Config) -> Iterator[Finding | ConfigError]:
        yield ConfigError("elsewhere", "is odd")
        for number, group in enumerate(config.nic.groups):
            mtu = group.defaults["interface"]["mtu"]
            steps = ("nic", "group", number, "defaults", "interface", "mtu")
            yield Finding(steps=steps, found=f"is {mtu}", rule="it must be at least 68")

    assert faults(check(path, also=[further])) == [
        'agent.toml:4: [[nic.group]] 1 "a": defaults.interface.mtu is 3: it must be at least 68',
        (
            'agent.toml:5: [[nic.group]] 1 "a": order is "x": '
            "it must be a whole number from -1000 to 1000"
        ),
        "elsewhere: is odd",
    ]
    with pytest.raises(Faults, match="at least 68"):
        load(path, also=[further])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[kubernetes]\ncredentials = "kubelet"\nkubeconfig = "/k"\n',
            '3: [kubernetes] kubeconfig is not used with credentials "kubelet"',
        ),
        (
            (
                '[kubernetes]\ncredentials = "kubeconfig"\nkubeconfig = "/k"\n'
                'server = "https://a"\ntoken_file = "/t"\n'
            ),
            '5: [kubernetes] token_file is not used with credentials "kubeconfig"',
        ),
        (
            '[nic]\nenabled = false\n[[nic.group]]\nname = "a"\nmatch.name = "x"\n',
            "2: [nic] enabled is false, so no group of NICs offers anything",
        ),
        (
            'dra.enabled = false\n[[nic.group]]\nname = "a"\nmatch.name = "x"\n',
            '2: [[nic.group]] 1 "a": door is "dra", and [dra] enabled is false: no claim gets it',
        ),
    ],
)
def test_warning_leaves_the_configuration_usable(tmp_path: Path, text: str, words: str) -> None:
    """What has no effect is said, with its place, and is no fault."""
    report = check_text(tmp_path, text)

    assert report.config is not None
    assert (f"{report.path}:{words}",) == report.warnings


def test_file_that_everyone_may_write_is_warned_of(tmp_path: Path) -> None:
    """It decides what a root process does."""
    path = tmp_path / "agent.toml"
    path.touch()
    path.chmod(0o666)

    assert (f"{path}: everyone may write to it: chmod o-w it",) == check(path).warnings
