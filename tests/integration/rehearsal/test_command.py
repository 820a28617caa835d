"""``berth rehearse`` as its user meets it: what it prints, how it ends, and what it leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from berth.errors import HostError
from berth.rehearsal.enter import inside
from berth.rehearsal.nvml.build import compiler

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "configs"
EXAMPLES = CONFIGS / "kubernetes" / "examples"
STAGES = (
    "world",
    "ready",
    "registered",
    "discovered",
    "published",
    "scheduled",
    "prepared",
    "attached",
    "traffic",
    "completed",
    "returned",
    "unprepared",
)
BY_CLAIM = ("scheduled", "prepared", "given", "unprepared")
BY_RESOURCE = ("allocated", "given", "held")
ROOMY = """
[[nic.group]]
name = "spare"
match = { name = ["x0", "x1", "x2", "x3", "x4"] }
[[nic.group]]
name = "lan"
match = { name = "y0" }
mode = "shared"
shared = { slots = 8, bandwidth = "10G" }
"""
DEVICES = """
[[nic.group]]
name = "spare"
match = { name = "x0" }
[[generic]]
name = "full"
match = { path = "/dev/full" }
door = "both"
rename = "/dev/berth/"
[[generic]]
name = "dice"
match = { path = ["/dev/random", "/dev/urandom"] }
door = "plugin"
resource = "example.com/dice"
[[generic]]
name = "gone"
match = { path = "/dev/berth-has-no-such-*" }
"""
LIMIT_S = 60
MARK = "BERTH_TEST_MARK"


@pytest.fixture(autouse=True)
def _worlds() -> None:
    """Skip, loudly, where no world can be made."""
    try:
        inside()
    except HostError as error:
        pytest.skip(f"SKIPPED FOR WANT OF NAMESPACES: {error}")


def command(*arguments: object) -> list[str]:
    """The command line of a rehearsal."""
    return [sys.executable, "-m", "berth", "rehearse", *map(str, arguments)]


def rehearse(
    *arguments: object, before: Sequence[str] = (), path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Play one to its end."""
    return subprocess.run(
        [*before, *command(*arguments)],
        env={**os.environ, **({"PATH": path} if path is not None else {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def stages_of(output: str) -> list[str]:
    """The stages that were reached, in their order."""
    return [
        parts[4]
        for line in output.splitlines()
        if len(parts := line.split()) > 4 and parts[1] == "s" and parts[3] == "ms"
    ]


def processes_marked(mark: str) -> list[str]:
    """Command lines of all processes that were started with a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text(encoding="utf-8").replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_main_job_is_seen_without_arguments() -> None:
    """Every stage is shown and verified: addresses, metadata, and what a device node adds."""

    done = rehearse()

    assert done.returncode == 0, done.stdout + done.stderr
    kinds = 2 if compiler() and os.geteuid() == 0 else 1  # a node of a GPU needs root
    devices = [*kinds * BY_CLAIM, *kinds * BY_RESOURCE, "freed"]
    assert stages_of(done.stdout) == [*STAGES, *devices, "stopped"]
    assert "inet 192.0.2.10/24 scope global net1" in done.stdout
    assert '"ips": ["192.0.2.10/24"]' in done.stdout
    assert done.stdout.count("node   /dev/null (c 1:3, rw)") == 2
    assert done.stdout.count("node   /dev/nvidiactl (c 195:255, rw)") == 2 * (kinds - 1)
    assert ("GPUs are NOT rehearsed" in done.stdout) == (kinds == 1)
    assert "Each stage was verified" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_every_example_claim_is_played(tmp_path: Path) -> None:
    """What is shipped for a cluster works together, on a node with enough NICs for it."""

    config, claims = tmp_path / "agent.toml", tmp_path / "claims.yaml"
    config.write_text(ROOMY, encoding="utf-8")
    texts = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.yaml"))]
    claims.write_text("\n---\n".join(texts), encoding="utf-8")

    done = rehearse("--config", config, "--claim", claims)

    assert done.returncode == 0, done.stdout + done.stderr
    assert stages_of(done.stdout).count("completed") == 7
    assert "for request nic/shared" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nic-node", "sriov-node"])
def test_shipped_configuration_is_played(name: str) -> None:
    """Groups of links are played as they are; groups of hardware are told as not rehearsed."""

    done = rehearse("--config", CONFIGS / f"{name}.toml")

    assert done.returncode == 0, done.stdout + done.stderr
    assert ("is NOT rehearsed" in done.stdout) == (name == "sriov-node")


@pytest.mark.slow
def test_groups_of_device_nodes_are_played(tmp_path: Path) -> None:
    """By the doors that each opens; a group without a node here is told as not rehearsed."""

    config = tmp_path / "agent.toml"
    config.write_text(DEVICES, encoding="utf-8")

    done = rehearse("--config", config)

    assert done.returncode == 0, done.stdout + done.stderr
    assert stages_of(done.stdout).count("given") == 3
    assert "/dev/berth/full (c 1:7, rw) is the host's /dev/full" in done.stdout
    assert "group 'gone' is NOT rehearsed: no node here fits it" in done.stdout
    assert "kubelet may give 1 berth.dev/full, 2 example.com/dice" in done.stdout
    assert "in its slice it has a taint" in done.stdout


@pytest.mark.slow
def test_claim_of_a_device_node_is_played(tmp_path: Path) -> None:
    """A claim of one's own may be for a node alone: there is no traffic then."""

    config, claim = tmp_path / "agent.toml", tmp_path / "claim.yaml"
    config.write_text(DEVICES, encoding="utf-8")
    text = (EXAMPLES / "generic" / "modem.yaml").read_text(encoding="utf-8")
    claim.write_text(text.replace('"modem"', '"full"'), encoding="utf-8")

    done = rehearse("--config", config, "--claim", claim)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "traffic" not in stages_of(done.stdout)
    assert "completed   /dev/berth/full (c 1:7, rw) is the host's /dev/full" in done.stdout


@pytest.mark.slow
def test_driver_of_another_name_is_played(tmp_path: Path) -> None:
    """Slices, claims, rights and metadata go by the name that the file gives."""

    config = tmp_path / "agent.toml"
    config.write_text(f'[dra]\ndriver = "nic.example.com"\n{ROOMY}', encoding="utf-8")

    done = rehearse("--config", config)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "nic.example.com-metadata.json" in done.stdout


@pytest.mark.slow
def test_faults_of_a_claim_are_shown_as_kubelet_shows_them(tmp_path: Path) -> None:
    """All of them, in the pod's event; the exit code says that it did not work."""

    claim = tmp_path / "claim.yaml"
    text = (EXAMPLES / "claim-by-name.yaml").read_text(encoding="utf-8")
    text = text.replace("192.0.2.10/24", "192.0.2.10").replace("name: net1", "name: a/b")
    claim.write_text(text, encoding="utf-8")

    done = rehearse("--claim", claim)

    assert done.returncode == 1
    assert "FAILED in stage 'prepared'" in done.stdout
    assert "event FailedPrepareDynamicResources" in done.stdout
    assert "interface.name" in done.stdout
    assert "addresses[0].address" in done.stdout
    assert "The end of berthd's log:" in done.stdout


def test_faults_of_files_end_it_before_it_begins(tmp_path: Path) -> None:
    """A file that cannot be used is exit code 2, with every fault and its line."""

    config = tmp_path / "agent.toml"
    config.write_text("[nic]\nbogus = 1\n[nri]\ntimeout_s = 0\n", encoding="utf-8")

    done = rehearse("--config", config)

    assert done.returncode == 2
    assert f"{config}:2" in done.stdout
    assert f"{config}:4" in done.stdout
    assert stages_of(done.stdout) == []


@pytest.mark.slow
def test_end_when_the_reader_has_gone() -> None:
    """``| head`` ends it as it ends any command: its own code, and no word."""

    with subprocess.Popen(
        command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()

        assert process.stderr.read() == b""
        assert process.wait(LIMIT_S) == 141


@pytest.mark.slow
def test_end_when_the_output_is_full() -> None:
    """What cannot be shown is told in one line, and the exit code says that it did not work."""

    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command(),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    assert done.returncode == 1
    assert done.stderr == (
        "berth rehearse: standard output: cannot write: No space left on device; "
        "free space on that file system\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED FOR WANT OF ROOT: drops its rights")
def test_user_namespace_serves_where_rights_are_missing() -> None:
    """Without the right to make namespaces a user namespace is made, and all works in it."""

    done = rehearse(before=("setpriv", "--bounding-set=-sys_admin,-net_admin,-sys_chroot"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "GPUs are NOT rehearsed" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED FOR WANT OF ROOT: drops its rights")
def test_what_is_missing_for_a_world_is_told() -> None:
    """Where no namespace can be had at all, it says so, and how to get one."""

    done = rehearse(before=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))

    assert done.returncode == 1
    assert "a rehearsal lives in namespaces of its own" in done.stderr
    assert "run it as root" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("missing", "package"), [("ip", "iproute2"), ("unshare", "util-linux")])
def test_missing_program_is_named_with_its_package(
    tmp_path: Path, missing: str, package: str
) -> None:
    """A newcomer learns what to install."""

    for name in {"ip", "mount", "unshare"} - {missing}:
        (tmp_path / name).symlink_to(str(shutil.which(name)))

    done = rehearse(path=str(tmp_path))

    assert done.returncode == 1
    assert package in done.stdout + done.stderr


@pytest.mark.slow
def test_gpus_are_left_out_without_a_compiler(tmp_path: Path) -> None:
    """One line tells it before the play, which goes on."""

    for name in ("ip", "mount", "unshare"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    own = {"PATH": str(tmp_path), "CC": "no-such-compiler", "XDG_CACHE_HOME": str(tmp_path)}
    environment = {**os.environ, **own}

    with subprocess.Popen(
        command(), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line)
            if "ready" in line:
                break
        process.kill()

    (note,) = [line for line in told if "NOTE" in line]
    assert "GPUs are NOT rehearsed: NVML stand-in: there is no C compiler" in note


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_nothing_is_left_however_it_ends(number: signal.Signals, code: int) -> None:
    """Ctrl-C and a crash of the command: no process of the world lives on."""

    mark = f"{MARK}={uuid.uuid4()}"
    name, _, value = mark.partition("=")
    with subprocess.Popen(
        command(),
        env={**os.environ, name: value},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "published" in line:
                break
        assert any("berth.daemon" in one for one in processes_marked(mark))
        if number is signal.SIGINT:
            # A terminal sends it to everybody at once.
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait(LIMIT_S) == code
    # The pipe is at its end only when the last process that could write to it is gone.
    assert processes_marked(mark) == []
    assert "Traceback" not in rest
