"""Containers with systemd as their first process: booted, asked, ended."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from berth.errors import HostError
from tests.cluster import cgroups

LIMIT_S = 120.0
"""How long anything may take that takes a second on an idle machine."""
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}
_T = TypeVar("_T")


class Container:
    """One Debian with systemd; all that it writes goes with it.

    Args:
        name: Its host name, and the name of its folder.
        rootfs: What it begins as.
        folder: Where the run keeps its files.
        cgroup: The run's own control group, in which it gets one.
        binds: Folders out here that it sees, with the path in there.
    """

    def __init__(
        self,
        name: str,
        rootfs: Path,
        *,
        folder: Path,
        cgroup: str,
        binds: Mapping[Path, str] | None = None,
    ) -> None:
        self.name = name
        self.leader = 0
        """Number of its first process, out here."""
        self._rootfs = rootfs
        self._folder = folder / name
        self._cgroup = f"{cgroup}-{name}"
        self._binds = {str(outside): inside for outside, inside in (binds or {}).items()}
        self._process: subprocess.Popen[bytes] | None = None

    def boot(self) -> None:
        """Start it, and wait until systemd has started everything.

        Raises:
            HostError: It did not come up; what it said is told.
        """
        self._folder.mkdir(parents=True)
        plan = {
            "name": self.name,
            "rootfs": str(self._rootfs),
            "folder": str(self._folder),
            "cgroup": self._cgroup,
            "binds": self._binds,
        }
        notify = str(self._folder / "notify")
        launch = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py"))]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(notify)
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    ["unshare", "--mount", *launch, json.dumps(plan)],
                    env={**ENVIRONMENT, "NOTIFY_SOCKET": notify},
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            self.leader = self._wait_leader(told)
        state = self.attempt("systemctl", "is-system-running", "--wait").stdout.strip()
        if state != "running":
            failed = self.attempt("systemctl", "list-units", "--failed", "--plain").stdout
            raise HostError(self.name, f"is {state}", rule=failed)

    def _wait_leader(self, told: socket.socket) -> int:
        """Wait until systemd in there says that it is up; gives its number out here.

        Source: systemd-nspawn(1), ``--notify-ready=``; nspawn adds ``X_NSPAWN_LEADER_PID``.
        """
        told.settimeout(0.5)
        heard = ""
        end = time.monotonic() + LIMIT_S
        assert self._process is not None
        while "READY=1" not in heard.splitlines():
            if self._process.poll() is not None or time.monotonic() > end:
                raise HostError(self.name, "did not boot", rule=self.console())
            try:
                heard += told.recv(65536).decode() + "\n"
            except TimeoutError:
                continue
        found = re.search(r"^X_NSPAWN_LEADER_PID=(\d+)$", heard, re.MULTILINE)
        if found is None:
            raise HostError(self.name, "nspawn named no first process", rule=heard)
        return int(found[1])

    @property
    def _log(self) -> Path:
        return self._folder / "console.log"

    def console(self) -> str:
        """What nspawn and the container wrote to the console."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def path(self, inside: str) -> Path:
        """The way from here to a file in there."""
        return Path(f"/proc/{self.leader}/root{inside}")

    def enter(self) -> list[str]:
        """The command that runs what follows it in there, outside of every unit."""
        namespaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
        return ["nsenter", f"--target={self.leader}", *namespaces, "--"]

    def attempt(
        self, *command: str, given: str = "", limit_s: float = LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in there, outside of every unit, and give how it ended.

        Raises:
            HostError: It still runs after the limit, and is ended.
        """
        try:
            return subprocess.run(
                [*self.enter(), *command],
                check=False,
                env=ENVIRONMENT,
                input=given,
                capture_output=True,
                text=True,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired as error:
            raise HostError(
                f"{self.name}: {' '.join(command)}", f"still runs after {limit_s:.0f} s"
            ) from error

    def run(self, *command: str, given: str = "", limit_s: float = LIMIT_S) -> str:
        """Run a command in there; gives what it wrote to stdout.

        Raises:
            HostError: It ended with another code than 0, with what it said, or not in time.
        """
        result = self.attempt(*command, given=given, limit_s=limit_s)
        if result.returncode:
            raise HostError(
                f"{self.name}: {' '.join(command)}",
                f"ended with {result.returncode}",
                rule=(result.stderr + result.stdout).strip(),
            )
        return result.stdout

    def write(self, inside: str, text: str) -> None:
        """Write a file in there; its folder is made."""
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def close(self) -> None:
        """End it as a power cut would."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(LIMIT_S)
        self._process = None
        cgroups.remove(self._cgroup)


def poll(
    look: Callable[[], _T], ready: Callable[[_T], object], *, what: str, limit_s: float = LIMIT_S
) -> _T:
    """Look at what tells nobody of its changes, until it is as wished; gives it.

    Raises:
        HostError: It was not so within the limit.
    """
    end = time.monotonic() + limit_s
    while not ready(seen := look()):
        if time.monotonic() >= end:
            raise HostError(what, f"not so within {limit_s:.0f} s", rule=f"last seen: {seen}")
        time.sleep(0.05)
    return seen
