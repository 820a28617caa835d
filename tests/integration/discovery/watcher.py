"""A discovery of its own process, in the namespace that it was started in.

``python -m tests.integration.discovery.watcher CONFIG RECORDS`` prints a line of JSON whenever the
inventory changes, and one for each line that it reads: what it read, with figures.
Worker threads live in the namespace of the process, which a thread that was moved would not give.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import trio

from berth.config.load import load
from berth.host.sysfs import Sysfs
from berth.node.inventory.discovery import Discovery
from berth.node.records.records import Records


def _say(**words: Any) -> None:
    print(json.dumps(words), flush=True)  # noqa: T201 - its lines are what the test reads


async def _tell_changes(discovery: Discovery) -> None:
    async for inventory in discovery.inventory.changes():
        _say(
            at=time.monotonic(),
            devices=[device.name for device in inventory.devices],
            names={d.name: d.attributes["ifName"] for d in inventory.devices},
            reasons={nic.name: str(nic.exclusion or "") for nic in inventory.nics},
            identities={nic.name: nic.identity for nic in inventory.nics},
            version=discovery.inventory.version,
        )


async def _answer(discovery: Discovery, stirred: list[float]) -> None:
    async with trio.wrap_file(sys.stdin) as lines:
        async for line in lines:
            figures = discovery.statistics()
            _say(asked=line.strip(), looks=figures.looks, last_s=figures.last_s, stirs=len(stirred))


async def _main(config: Path, records: Path) -> None:
    stirred: list[float] = []
    discovery = Discovery(
        Records(records),
        table=load(config).nic,
        sysfs=Sysfs(),
        toward=lambda: (),
        own_addresses=lambda: (),
        stirred=lambda: stirred.append(0.0),
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(discovery.run)
        nursery.start_soon(_tell_changes, discovery)
        await _answer(discovery, stirred)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(_main, Path(sys.argv[1]), Path(sys.argv[2]))
