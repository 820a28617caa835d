"""Our daemon on a node: started as systemd would start it, killed as systemd would not."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from berth.errors import HostError
from tests.cluster.boxes import LIMIT_S, Box, Daemon

CONFIG = "/etc/berth/agent.toml"
NOTIFY_SOCKET = "/run/berthd-notify.sock"
DRIVER = "berth.dev"
SOCKET_UNIT = "berthd.socket"
_HERE = Path(__file__).parent


def program() -> list[str]:
    """How berthd is started: the one of the virtual environment that runs the tests."""
    return [str(Path(sys.executable).with_name("berthd")), "--config", CONFIG]


def socket_paths(driver: str = DRIVER) -> list[str]:
    """The two sockets that `berthd.socket` holds for kubelet, the service's and the registration's.

    Source: shared names of packaging/ and of kubelet's plugin watcher (1.34 to 1.37).
    """
    return [
        f"/var/lib/kubelet/plugins/{driver}/dra.sock",
        f"/var/lib/kubelet/plugins_registry/{driver}-reg.sock",
    ]


class Berthd(Daemon):
    """The daemon in a node's box.

    Args:
        box: The node's.
        command: What is started; `program()` but in tests of this class.
        activated: Whether its listening sockets are held out here and handed to each start, so
            that they outlive it, as with `berthd.socket`.
        driver: Names those sockets.
    """

    def __init__(
        self,
        box: Box,
        *,
        command: Sequence[str] = (),
        activated: bool = False,
        driver: str = DRIVER,
    ) -> None:
        self._held = _hold(box, socket_paths(driver)) if activated else []
        listening = ",".join(str(each.fileno()) for each in self._held)
        launch = [sys.executable, str(_HERE / "boxlaunch.py"), listening, SOCKET_UNIT]
        super().__init__(
            box,
            "berthd",
            [*(launch if activated else ()), *(command or program())],
            environment={"NOTIFY_SOCKET": NOTIFY_SOCKET, "PYTHONUNBUFFERED": "1"},
            pass_fds=[each.fileno() for each in self._held],
        )
        self._notified: socket.socket | None = None

    def start(self) -> None:
        """Start it, or start it again; `wait_ready` tells when it serves."""
        self._close_notified()
        # The queue's length is the network's; systemd raises it likewise when it boots.
        self.box.run("sh", "-c", "echo 512 > /proc/sys/net/unix/max_dgram_qlen")
        self._notified = self.box.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        where = self.box.path(NOTIFY_SOCKET)
        where.unlink(missing_ok=True)
        self._notified.bind(str(where))
        super().start()

    def wait_ready(self, limit_s: float = LIMIT_S) -> list[str]:
        """Wait for its `READY=1`; gives every line it told the service manager until then.

        Raises:
            HostError: It ended, or was not ready within the limit; its log's end is told.
        """
        return self.wait_notified("READY=1", limit_s)

    def wait_notified(self, line: str, limit_s: float = LIMIT_S) -> list[str]:
        """Wait until it tells the service manager that line; gives what it told until then.

        Raises:
            HostError: It ended, or did not say so within the limit; its log's end is told.
        """
        assert self._notified is not None, "berthd was never started"
        told: list[str] = []
        end = time.monotonic() + limit_s
        with self._ending() as ended:
            heard = self._notified.fileno()
            while line not in told and (left_s := end - time.monotonic()) > 0:
                ready, _, _ = select.select([heard, *ended], [], [], left_s if ended else 0)
                if heard in ready:
                    told += self._notified.recv(65536).decode().splitlines()
                else:
                    break
        if line not in told:
            raise HostError(
                f"{self.box.name}: berthd",
                f"did not say {line}, but {told}",
                rule=self.log_text()[-3000:],
            )
        return told

    @contextlib.contextmanager
    def _ending(self) -> Iterator[list[int]]:
        """A descriptor that is readable once the process has ended; none if that was seen."""
        if self._process is None or self._process.poll() is not None:
            yield []
            return
        descriptor = os.pidfd_open(self._process.pid)
        try:
            yield [descriptor]
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """End it, and let go of the sockets that were held for it, their files included."""
        try:
            self._end()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._close_notified()
        for each in self._held:
            with contextlib.suppress(OSError):
                self.box.path(each.getsockname()).unlink(missing_ok=True)
            each.close()
        self._held.clear()

    def _end(self) -> None:
        """End it politely; when it does not within 30 s, by force and with an error."""
        if not self.alive:
            return
        try:
            self.terminate(limit_s=30)
        except HostError:
            # Its log then tells where each of its threads is.
            self.signal(signal.SIGABRT)
            with contextlib.suppress(HostError):
                self.wait(limit_s=5)
            self.kill()
            raise

    def _close_notified(self) -> None:
        if self._notified is not None:
            self._notified.close()
            self._notified = None


def _hold(box: Box, paths: Sequence[str]) -> list[socket.socket]:
    """Listening sockets that were bound inside the box and are held out here."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        listener = Daemon(
            box,
            "berthd-socket",
            [sys.executable, str(_HERE / "boxlisten.py"), str(theirs.fileno()), *paths],
            pass_fds=[theirs.fileno()],
        )
        listener.start()
        theirs.close()
        ours.settimeout(LIMIT_S)
        _, descriptors, _, _ = socket.recv_fds(ours, 1, len(paths))
        listener.wait()
    if len(descriptors) != len(paths):
        raise HostError(
            f"{box.name}: {', '.join(paths)}", "could not be bound", rule=listener.log_text()
        )
    return [socket.socket(fileno=number) for number in descriptors]
