"""From the command line to the daemon's end, and the exit code."""

from __future__ import annotations

import faulthandler
import os
from pathlib import Path

import pytest
import trio

from berth.daemon import start
from berth.daemon.configfile import ConfigFile, read_config
from berth.errors import BerthError, ConfigError, Faults, HostError, StateError
from berth.runtime.lock import hold_lock
from tests.unit.daemon.conftest import journal, write_config


@pytest.fixture(autouse=True)
def _leave_the_process_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the daemon does to its own process is not done to the tests'."""
    monkeypatch.setattr(start, "start_logging", lambda **_: None)
    monkeypatch.setattr(faulthandler, "enable", lambda: None)
    monkeypatch.setattr(os, "umask", lambda _: 0)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "run"))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ConfigFile]:
    """What was served, by a daemon that ends at once."""
    files: list[ConfigFile] = []

    async def run(file: ConfigFile, _environ: dict[str, str]) -> None:
        await trio.lowlevel.checkpoint()
        files.append(file)

    monkeypatch.setattr(start, "_run", run)
    return files


def end_with(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
    """Let the daemon end with these errors, as its nursery tells them."""

    async def run(_file: ConfigFile, _environ: dict[str, str]) -> None:
        async def fail(error: Exception) -> None:
            if error is errors[-1]:
                await trio.lowlevel.checkpoint()
            raise error

        async with trio.open_nursery() as outer, trio.open_nursery() as inner:
            inner.start_soon(fail, errors[0])
            for error in errors[1:]:
                outer.start_soon(fail, error)

    monkeypatch.setattr(start, "_run", run)


def test_stop_that_was_asked_for_ends_with_0(
    config: Path, served: list[ConfigFile], tmp_path: Path
) -> None:
    """The file is served in folders that only root enters."""

    assert start.main(["--config", str(config)]) == 0

    assert [file.path for file in served] == [config]
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("state", "run")}
    assert modes == {"state": 0o700, "run": 0o700}


def test_what_an_interrupted_write_left_is_taken_away(
    config: Path, served: list[ConfigFile], tmp_path: Path
) -> None:
    """Each crash in a write to the state folder itself would leave one more file for ever."""

    state = tmp_path / "state"
    state.mkdir()
    (state / ".berth-0123.tmp").write_bytes(b"{")
    (state / "stock.json").write_bytes(b"{}")

    assert start.main(["--config", str(config)]) == 0
    assert len(served) == 1
    assert not (state / ".berth-0123.tmp").exists()
    assert (state / "stock.json").exists()


def test_selftest_serves_nothing(config: Path, served: list[ConfigFile], tmp_path: Path) -> None:
    """It reads the file, changes nothing, and says whether the daemon would start."""

    assert start.main(["--config", str(config), "--selftest"]) == 0

    assert served == []
    assert not (tmp_path / "state").exists()


def test_refused_configuration_ends_with_2(
    config: Path, served: list[ConfigFile], caplog: pytest.LogCaptureFixture
) -> None:
    """Every fault has its line, a group's defaults are judged too, and nothing is served."""

    write_config(
        config,
        '[nri]\ntimeout_s = -3\n[[nic.group]]\nname = "lab"\nmatch = {}\n'
        '[nic.group.defaults]\ninterface = { name = "a/b" }\n',
    )

    assert start.main(["--config", str(config)]) == 2

    lines = journal(caplog)
    assert len(lines) >= 2
    assert all(line.startswith("configuration refused fault=") for line in lines)
    assert any("timeout_s" in line for line in lines)
    assert served == []


def test_group_defaults_are_judged(config: Path) -> None:
    """What claims would be refused for later is refused at once."""

    write_config(
        config,
        '[[nic.group]]\nname = "lab"\nmatch = { name = ["nic0"] }\n'
        'defaults = { interface = { name = "a/b" } }\n',
    )

    with pytest.raises(Faults, match="a/b"):
        read_config(config)


def test_held_lock_ends_with_1(
    config: Path, served: list[ConfigFile], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A second daemon refuses, naming the first one's process."""

    (tmp_path / "state").mkdir()
    with hold_lock(tmp_path / "state"):
        assert start.main(["--config", str(config)]) == 1

    assert served == []
    assert "held by process" in journal(caplog)[-1]


def test_unusable_folder_ends_with_1(
    config: Path, served: list[ConfigFile], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file lies where the state belongs."""

    (tmp_path / "state").touch()

    assert start.main(["--config", str(config)]) == 1

    assert str(tmp_path / "state") in journal(caplog)[-1]


@pytest.mark.parametrize(
    "error", [HostError("disk", "is gone"), StateError("record", "is newer"), ConfigError("a", "b")]
)
def test_error_of_ours_ends_with_1(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: BerthError,
) -> None:
    """However deep in nurseries it was raised, its own words are told, and no traceback."""

    end_with(monkeypatch, error)

    assert start.main(["--config", str(config)]) == 1

    assert journal(caplog) == [f'cannot go on reason="{error}"']


def test_faults_found_while_running_end_with_2(
    config: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A configuration that only the running daemon could refuse is told fault by fault."""

    end_with(monkeypatch, Faults("kubeconfig", [ConfigError("a", "one"), ConfigError("b", "two")]))

    assert start.main(["--config", str(config)]) == 2

    assert journal(caplog) == [
        'configuration refused fault="a: one"',
        'configuration refused fault="b: two"',
    ]


def test_defect_is_not_hidden(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw ends with its traceback, beside whatever else there is."""

    end_with(monkeypatch, ZeroDivisionError("defect"), HostError("disk", "is gone"))

    with pytest.raises(BaseException, match="Exceptions from Trio nursery") as caught:
        start.main(["--config", str(config)])

    assert "ZeroDivisionError" in repr(caught.value)


def test_runtime_folder_is_systemds_or_our_own() -> None:
    """The unit names it; without one there is a fixed place."""

    assert start.runtime_folder({"RUNTIME_DIRECTORY": "/run/x"}) == Path("/run/x")
    assert start.runtime_folder({}) == Path("/run/berth")


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The option of that name ends the program."""

    with pytest.raises(SystemExit) as caught:
        start.main(["--version"])

    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("berthd ")
