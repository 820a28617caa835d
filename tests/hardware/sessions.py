"""What berth's own session keeps open of a GPU, and what it hears.

As a program it does one thing:

    python -m tests.hardware.sessions files LIBRARY    # device files in hold, probe, after release
    python -m tests.hardware.sessions xid LIBRARY      # the events of an illegal store

LIBRARY may be empty. Told is one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from berth.host.nvml.calls import FIELDS
from berth.host.nvml.owner import Nvml
from berth.host.nvml.session import SessionState
from berth.host.nvml.values import EventKind, NvmlEvent, Probe

_OPENED_S: Final = 30.0
_HEARD_S: Final = 20.0
_MORE_S: Final = 1.0
"""How long further events of one fault are waited for."""


def open_files() -> dict[str, int]:
    """Give this process's open files of a driver, with how often each is open."""
    found: dict[str, int] = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith(("/dev/nvidia", "/proc/driver/nvidia")):
            found[target] = found.get(target, 0) + 1
    return found


async def files(library: str) -> dict[str, Any]:
    """Tell what is open in each way of the session."""
    told: dict[str, Any] = {"before": open_files()}
    for name, hold in (("hold", True), ("probe", False)):
        owner = Nvml(library=library, hold=hold)
        async with trio.open_nursery() as nursery:
            await _up(nursery, owner)
            await owner.walk()
            told[name] = open_files()
            if hold:
                await owner.release(600)
                told["released"] = open_files()
                owner.resume()
                await _wait(owner, SessionState.UP)
                told["resumed"] = open_files()
            nursery.cancel_scope.cancel()
        told[f"{name} ended"] = open_files()
    return told


async def xid(library: str) -> dict[str, Any]:
    """Let a process store to where no memory is, and tell what is heard of it."""
    owner = Nvml(library=library)
    heard: list[dict[str, Any]] = []
    async with trio.open_nursery() as nursery:
        await _up(nursery, owner)
        gpus = (await owner.walk()).gpus
        await _registered(owner, {gpu.address for gpu in gpus})
        command = [sys.executable, "-m", "tests.hardware.cuda", "illegal"]
        done = await trio.run_process(command, capture_stdout=True, check=False)
        child = json.loads(done.stdout.splitlines()[-1])
        with trio.move_on_after(_HEARD_S) as scope:
            while True:
                event = await owner.receive_event()
                if event.kind is not EventKind.REGISTERED:
                    heard.append(_event(event, child.get("stored_at", 0)))
                    scope.deadline = trio.current_time() + _MORE_S
        after = {gpu.address: await _fields(owner, gpu.address) for gpu in gpus}
        nursery.cancel_scope.cancel()
    return {"child": child, "events": heard, "fields afterwards": after}


async def _up(nursery: trio.Nursery, owner: Nvml) -> None:
    await nursery.start(owner.run)
    owner.notice(functions=1)
    await _wait(owner, SessionState.UP)


async def _wait(owner: Nvml, state: SessionState) -> None:
    with trio.fail_after(_OPENED_S):
        version = owner.version
        while owner.session.state is not state:
            version = await owner.wait_session_changed(version)


async def _registered(owner: Nvml, addresses: set[str]) -> None:
    """Wait until events of all GPUs are heard; those that have none keep nobody for ever."""
    with trio.move_on_after(_OPENED_S):
        while addresses:
            event = await owner.receive_event()
            if event.kind is EventKind.REGISTERED:
                addresses.discard(event.address)


def _event(event: NvmlEvent, stored_at: float) -> dict[str, Any]:
    told = attrs.asdict(event)
    # The store happens after the moment that the child tells, which its library took to get there.
    return {**told, "kind": event.kind.value, "after_s": round(time.time() - stored_at, 3)}


async def _fields(owner: Nvml, address: str) -> Any:
    answer = await owner.probe(address)
    if isinstance(answer, Probe):
        return {str(number): answer.fields.get(number) for number in FIELDS}
    return answer.text


def main(what: str, library: str) -> int:
    """Do it and tell."""
    acts = {"files": files, "xid": xid}
    print(json.dumps(trio.run(acts[what], library)), flush=True)  # noqa: T201 - a program's answer
    # A call that does not come back keeps no one from the answer.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
