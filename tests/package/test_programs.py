"""The programs as an operator has them after the installation, on every Python of this machine."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import berth
from berth.node.records.document import to_bytes
from berth.node.records.record import SCHEMA
from tests.package.conftest import Laid, pythons
from tests.unit.node.claimrecords import of_claim

IMPORTALL = Path(__file__).with_name("importall.py")

ELSEWHERE = re.compile(
    # For other systems than Linux.
    r"rich\._win32_console|rich\._windows_renderer|truststore\._(macos|windows)"
    r"|trio\.(_core\.)?(_generated_windows_ffi|_io_kqueue|_io_windows|_windows_cffi|_windows_pipes)"
    r"|trio\._subprocess_platform\.windows|trio\._wait_for_object"
    # For programs that have a desktop, a command line of their own, HTTP/2, SOCKS or a manual.
    r"|pyudev\.(glib|pyqt5|pyside6?|wx)|httpx2\.(_main|websockets)"
    r"|httpcore2\._(async|sync)\.(http2|socks_proxy)|pygments\.sphinxext"
)
"""Modules of the wheels that cannot be imported here, and that nothing of ours asks for."""


def test_pythons_of_this_machine_are_found() -> None:
    """Debian's own at least, else the next test would prove nothing."""

    assert pythons()


@pytest.mark.parametrize("python", pythons(), ids=str)
def test_every_module_can_be_imported(python: Path, tree: Path) -> None:
    """All of ours and of the wheels, but for those that are for another system or program."""
    ours = tree / "usr/lib/berthd"

    done = subprocess.run(
        [python, "-IS", IMPORTALL, ours, ours / "vendor"],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
    )

    told = json.loads(done.stdout)
    assert told["count"] > 1000
    assert {
        name: why for name, why in told["failed"].items() if not ELSEWHERE.fullmatch(name)
    } == {}


@pytest.mark.parametrize("python", pythons(), ids=str)
def test_every_module_can_be_compiled(python: Path, tree: Path) -> None:
    """As the installation does it: without bytecode each start would be slower and larger."""

    done = subprocess.run(
        [python, "-IS", "-m", "compileall", "-q", "-f", tree / "usr/lib/berthd"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("program", ["berthd", "berth"])
@pytest.mark.parametrize("python", pythons(), ids=str)
def test_programs_run_on_each_python(laid: Laid, program: str, python: Path) -> None:
    """Each finds its modules and those of the wheels."""
    launcher = laid.run("sh", "-c", f"command -v {program}").stdout.strip()

    done = laid.run(python, "-IS", launcher, "--version")

    assert (done.returncode, done.stdout) == (0, f"{program} {berth.__version__}\n")


@pytest.mark.parametrize("program", ["berthd", "berth"])
def test_programs_load_nothing_from_outside(laid: Laid, program: str) -> None:
    """Neither variables, nor the current folder, nor packages of the machine, nor .pth files."""
    trap = "raise SystemExit('loaded from outside')\n"
    for folder in ("", "/usr/lib/python3/dist-packages/", "/path/"):
        for module in ("berth", "trio", "attr", "sitecustomize", "usercustomize"):
            laid.write(f"{folder}{module}.py", trap)
    laid.write("/usr/lib/python3/dist-packages/trap.pth", "import os; os._exit(9)\n")

    done = laid.run(
        program,
        "--version",
        PYTHONPATH=f"{laid.above}:{laid.above}/path",
        PYTHONSTARTUP=f"{laid.above}/trio.py",
        PYTHONHOME="/nonexistent",
        PYTHONPLATLIBDIR="nowhere",
        PYTHONWARNINGS="error",
    )

    assert (done.returncode, done.stdout) == (0, f"{program} {berth.__version__}\n")


def test_selftest_is_silent_with_what_was_installed(laid: Laid) -> None:
    """The configuration as it comes is served."""

    done = laid.run("berthd", "--selftest")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_selftest_refuses_a_broken_configuration_in_one_line(laid: Laid) -> None:
    """It names file, line and fault."""
    laid.write("/etc/berth/agent.toml", "[nri]\ntimeout_s = -3\n")

    done = laid.run("berthd", "--selftest")

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "/etc/berth/agent.toml:2" in line
    assert "timeout_s" in line


def test_selftest_refuses_records_of_a_newer_release_in_one_line(laid: Laid) -> None:
    """A downgrade that could not read them would not start."""
    record = json.loads(to_bytes(of_claim("one")))
    laid.write("state/claims/one.json", json.dumps({**record, "schema": SCHEMA + 1}))
    laid.write("/etc/berth/agent.toml", f'[node]\nstate_dir = "{laid.above}/state"\n')

    done = laid.run("berthd", "--selftest")

    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"has schema {SCHEMA + 1}" in line
    assert "install the berthd that wrote it" in line


def test_selftest_refuses_a_tree_that_is_not_whole_in_its_last_line(laid: Laid) -> None:
    """Also where so much is missing that the daemon itself cannot say it."""
    laid.write("/usr/lib/berthd/berth/nic/plan.py", "import nowhere\n")

    done = laid.run("berthd", "--selftest")

    assert done.returncode == 1
    assert "No module named 'nowhere'" in done.stderr.splitlines()[-1]


def test_selftest_loads_what_only_some_nodes_need(laid: Laid) -> None:
    """A module that no start here would load is told by its name."""
    laid.write("/usr/lib/berthd/berth/convert/spare.py", "import nowhere\n")

    done = laid.run("berthd", "--selftest")

    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "berth.convert.spare" in line


@pytest.mark.slow
def test_installed_command_rehearses(laid: Laid) -> None:
    """Its processes find the modules that lie on no path of Python's."""

    done = laid.run("berth", "rehearse")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Each stage was verified" in done.stdout
