"""Boxes: sets of namespaces in which the control plane and each node live, and what runs in them.

The machine's own network and folders are never touched. A box ends with its first process, and
that one ends when the test run does; so nothing has to be cleaned up but folders and cgroups.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from berth.errors import HostError

LIMIT_S = 120.0
"""How long anything may take that takes a second on an idle machine."""
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}
# What each node has to itself, kept over its reboots.
OWN_FOLDERS = (
    "/etc/berth",
    "/etc/cdi",
    "/etc/cni/net.d",
    "/etc/containerd",
    "/etc/kubernetes",
    "/var/lib/berth",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
)
_CLONE_NEWNET = 0x40000000


class Daemon:
    """A process that stays, in a box, with a log of its own.

    Args:
        box: Where it runs.
        name: Names its log.
        command: Program and arguments.
        environment: Added to a small fixed one.
        pass_fds: Descriptors of ours that it inherits under the same numbers.
    """

    def __init__(
        self,
        box: Box,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.box = box
        self.name = name
        self.command = tuple(command)
        self.environment = dict(environment or {})
        self.pass_fds = tuple(pass_fds)
        self.log = box.folder / "log" / f"{name}.log"
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, or start it again after its end; the log goes on."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.box.enter(), *self.command],
                env={**ENVIRONMENT, **self.environment},
                pass_fds=self.pass_fds,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        # One that ended at once has no number and takes no signal; `wait` tells how it ended.
        self.pid = _only_child(self._process)

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send it a signal; an ended one gets none."""
        if self.alive and self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def freeze(self) -> None:
        """Stop it in its tracks, until `thaw`."""
        self.signal(signal.SIGSTOP)
        self.wait_frozen()

    def wait_frozen(self, limit_s: float = LIMIT_S) -> None:
        """Wait until it is stopped, whoever stopped it.

        Raises:
            HostError: It runs on, or has ended.
        """
        assert self._process is not None, f"{self.name} was never started"
        end = time.monotonic() + limit_s
        # nsenter stops itself when what it runs is stopped, and sees no end of that until `thaw`.
        while {_state(self.pid), _state(self._process.pid)} != {"T"}:
            if time.monotonic() >= end or not self.alive:
                raise HostError(f"{self.box.name}: {self.name}", "is not stopped")
            time.sleep(0.002)

    def thaw(self) -> None:
        """Let it go on after `freeze`."""
        assert self._process is not None, f"{self.name} was never started"
        self._process.send_signal(signal.SIGCONT)
        self.signal(signal.SIGCONT)

    def wait(self, limit_s: float = LIMIT_S) -> int:
        """Wait for its end; gives the exit code, or minus the signal that ended it.

        Raises:
            HostError: It still runs after the limit.
        """
        assert self._process is not None, f"{self.name} was never started"
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise HostError(
                f"{self.box.name}: {self.name}", f"still runs after {limit_s:.0f} s"
            ) from error

    def terminate(self, limit_s: float = LIMIT_S) -> int:
        """Ask it to end and wait for that; gives its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(limit_s)

    def kill(self) -> int:
        """End it as a crash would."""
        self.signal(signal.SIGKILL)
        return self.wait()

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """Have it stand still for the time of the block: its sockets take, nobody answers."""
        assert self._process is not None, f"{self.name} was never started"
        # `nsenter` stops itself when it sees its child stopped; if it slept on, nobody would
        # collect the child, and its namespaces could not end.
        numbers = (self.pid, self._process.pid)
        os.kill(self.pid, signal.SIGSTOP)
        while not all(_is_stopped(number) for number in numbers):
            time.sleep(0.002)
        try:
            yield
        finally:
            for number in numbers:
                os.kill(number, signal.SIGCONT)

    def restart(self) -> None:
        """End it politely and start it again."""
        self.terminate()
        self.start()

    def log_text(self) -> str:
        """What it logged, over all its starts; earlier processes of its name are left out."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")


class Box:
    """Namespaces of network, mounts and processes; with a host name it is a whole node.

    Args:
        name: What it is called in messages, and its host name if it is a node.
        folder: Where its logs and, for a node, its own file systems lie; kept over a reboot.
        node: Whether it gets a host name and the standard paths to itself.
    """

    def __init__(self, name: str, folder: Path, *, node: bool) -> None:
        self.name = name
        self.folder = folder
        self.node = node
        self._namespaces = ("--net", "--mount", "--pid", *(("--uts",) if node else ()))
        self.boot_id = ""
        self.pid = 0
        self.daemons: dict[str, Daemon] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Make the namespaces; for a node that is a boot: a new boot id and an empty `/run`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.boot_id = str(uuid.uuid4())
        plan = {
            "hostname": self.name if self.node else "",
            "folder": str(self.folder),
            "own": OWN_FOLDERS,
            "boot_id": self.boot_id,
        }
        init = [sys.executable, "-I", "-S", str(Path(__file__).with_name("boxinit.py"))]
        (self.folder / "log").mkdir(exist_ok=True)
        with (self.folder / "log" / "box.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["unshare", *self._namespaces, "--fork", "--kill-child", *init, json.dumps(plan)],
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], LIMIT_S)
        if not ready or self._process.stdout.readline() != b"ready\n":
            self._process.kill()
            raise HostError(f"box {self.name}", "its first process did not lay it out")
        self.pid = _only_child(self._process)
        self.run("ip", "link", "set", "lo", "up")

    def enter(self, *namespaces: str) -> list[str]:
        """The command that runs what follows it inside; namespaces can be named by nsenter(1)'s
        flags, else all of the box are entered.
        """
        return ["nsenter", f"--target={self.pid}", *(namespaces or self._namespaces), "--"]

    def run(self, *command: str, given: str | None = None, check: bool = True) -> str:
        """Run a short command inside; gives what it wrote to stdout.

        Args:
            command: Program and arguments.
            given: Its input.
            check: Whether a failure raises.

        Raises:
            HostError: It ended with another code than 0, with what it said.
        """
        result = subprocess.run(
            [*self.enter(), *command],
            check=False,
            env=ENVIRONMENT,
            input=given or "",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        if check and result.returncode:
            raise HostError(
                f"{self.name}: {' '.join(command)}",
                f"ended with {result.returncode}",
                rule=(result.stderr + result.stdout).strip(),
            )
        return result.stdout

    def spawn(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Daemon:
        """Start a process that stays; it takes the place of an earlier one of that name."""
        daemon = Daemon(self, name, command, environment=environment, pass_fds=pass_fds)
        self.daemons[name] = daemon
        daemon.start()
        return daemon

    def path(self, inside: str) -> Path:
        """The way from here to a file of the box; valid until the box ends or reboots."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """A socket in the box's network, for use out here."""
        made: list[socket.socket] = []

        def make() -> None:
            # A namespace belongs to a thread, a socket to the namespace it was made in.
            with Path(f"/proc/{self.pid}/ns/net").open("rb") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), f"setns to {self.name}")
            made.append(socket.socket(family, kind))

        maker = threading.Thread(target=make, name=f"socket in {self.name}")
        maker.start()
        maker.join()
        if not made:
            raise HostError(f"box {self.name}", "no socket could be made in its network")
        return made[0]

    def kill(self) -> None:
        """End it as a power cut would: every process at once."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait(LIMIT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process = None
        for daemon in self.daemons.values():
            if daemon.alive:
                daemon.wait()


def _is_stopped(pid: int) -> bool:
    # After the name, which may hold anything and stands in brackets, comes the state.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")


def _state(pid: int) -> str:
    """The kernel's letter for what a process does: `T` for a stopped one; `X` for none."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    return "X"


def _only_child(process: subprocess.Popen[bytes]) -> int:
    """The process that `unshare` or `nsenter` runs for us, as numbered out here; 0 if it ended."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if child := children.read_text(encoding="ascii").split():
                return int(child[0])
        # The kernel tells nobody of a fork; this one is at most a few milliseconds away.
        time.sleep(0.002)
    return 0
