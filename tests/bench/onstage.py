"""Hooks as a runtime sees them, on a rehearsal's stage: run in a world of its own, tells JSON.

The runtime's side is our own core in the other role, so its time to write a request and to read the
answer is in every figure.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any

import trio

from berth.model.pod import Container, Sandbox
from berth.nri.events import Event
from berth.nri.runtime_peer import Outcome, RuntimePeer
from berth.rehearsal.manifests import pod_using
from berth.rehearsal.stage import Setting, Stage
from tests.integration.rehearsal.players import until

NICS = 4
GROUP = {"name": "spare", "match": {"name": [f"nic{number}" for number in range(NICS)]}}


ECHO = "ECHO"
_ECHO_BYTES = 512
_ECHO_PROGRAM = """
import socket, sys
with socket.socket(fileno=int(sys.argv[1])) as end:
    while data := end.recv(65536):
        end.send(data)
"""


class Echo:
    """A process that sends back what it gets: what two processes and a socket cost alone."""

    def __init__(self) -> None:
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-c", _ECHO_PROGRAM, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def time_ms(self) -> float:
        """How long one way there and back takes now."""
        began = time.perf_counter()
        self._end.send(bytes(_ECHO_BYTES))
        self._end.recv(65536)
        return (time.perf_counter() - began) * 1000

    def close(self) -> None:
        """End the process."""
        self._end.close()
        self._process.wait(5)


class Stopwatch(RuntimePeer):
    """A runtime's end of the connection that takes the time of each event, and of an echo before.

    Attributes:
        times: Milliseconds, by the event's name.
        echo: Whom to ask.
    """

    times: dict[str, list[float]] = {}  # noqa: RUF012 - the stage makes peers; all count together
    echo: Echo

    async def relay(
        self, kind: Event, sandbox: Sandbox, container: Container | None = None
    ) -> Outcome:
        """Relay it, and take the time."""
        self.times.setdefault(ECHO, []).append(self.echo.time_ms())
        began = time.perf_counter()
        try:
            return await super().relay(kind, sandbox, container)
        finally:
            took_ms = (time.perf_counter() - began) * 1000
            self.times.setdefault(kind.name, []).append(took_ms)


def claim(name: str, count: int) -> dict[str, Any]:
    """A claim for so many NICs, each with an address."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": f"nic{number}",
                        "exactly": {"deviceClassName": "nic.berth.dev"},
                    }
                    for number in range(count)
                ],
                "config": [
                    {
                        "requests": [f"nic{number}"],
                        "opaque": {
                            "driver": "berth.dev",
                            "parameters": {
                                "apiVersion": "berth.dev/v1alpha1",
                                "kind": "NicConfig",
                                "addresses": [{"address": f"192.0.{number}.10/24"}],
                            },
                        },
                    }
                    for number in range(count)
                ],
            }
        },
    }


async def round_of(stage: Stage, name: str, nics: int) -> dict[str, float]:
    """Start and stop one pod; gives what each step took, in milliseconds."""
    wanted: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main"}]},
    }
    if nics:
        stage.cluster.add_claim(claim(name, nics))
        wanted = pod_using(name, {"resourceClaimName": name})
    scheduled, _ = stage.cluster.schedule(wanted)
    pod = stage.pods.found(scheduled)
    Stopwatch.times.clear()
    began = time.perf_counter()
    await stage.pods.prepare(pod, stage.kubelet)
    prepare_ms = (time.perf_counter() - began) * 1000
    await stage.pods.run_sandbox(pod)
    await stage.pods.run_containers(pod)
    taken = {event: sum(times) for event, times in Stopwatch.times.items()}
    taken[ECHO] = Stopwatch.times[ECHO][0]
    await stage.pods.stop(pod, stage.kubelet)
    return {**taken, "prepare": prepare_ms}


async def play(job: dict[str, int]) -> dict[str, list[dict[str, float]]]:
    """Set the stage and let pods of each kind come and go in turns."""
    stage = Stage(Setting(config={"nic": {"group": [GROUP]}}))
    found: dict[str, list[dict[str, float]]] = {}
    async with trio.open_nursery() as nursery:
        await nursery.start(stage.run)
        for number in range(NICS):
            await stage.world.add_nic(f"nic{number}", mac=f"02:00:5e:10:00:{number:02x}")
        await stage.start()
        await until(lambda: len(stage.cluster.devices()) == NICS)
        left = dict(job)
        while any(left.values()):
            for kind, nics in (("none", 0), ("one", 1), ("four", 4)):
                for _ in range(10 if kind == "none" else 1):
                    if left[kind]:
                        left[kind] -= 1
                        name = f"{kind}{left[kind]}"
                        found.setdefault(kind, []).append(await round_of(stage, name, nics))
        nursery.cancel_scope.cancel()
    return found


def main() -> None:
    """Do the job of stdin."""
    import berth.rehearsal.runtime as standin

    # The stand-in makes its peers itself.
    setattr(standin, "RuntimePeer", Stopwatch)  # noqa: B010 - mypy knows it as private there
    Stopwatch.echo = Echo()
    job = json.load(sys.stdin)
    found = trio.run(play, job)
    Stopwatch.echo.close()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
