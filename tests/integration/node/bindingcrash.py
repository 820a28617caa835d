"""One life after the other of the daemon's part that binds, each in a process that may be killed.

Run as ``python -m tests.integration.node.bindingcrash``. What can be interrupted is counted: each
write to the driver core, each file written or removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from berth.rehearsal.drivercore import DriverCore
from berth.runtime import files
from tests.integration.node.bindingbeds import BindingNode
from tests.integration.node.fates import Fate, serve
from tests.vfio_tree import VfioMachine


async def live(work: str, folder: Path) -> None:
    """Do one piece of work in this process."""
    node = BindingNode(VfioMachine(folder / "machine"), folder / "state")
    if work == "recover":
        await node.start()
        async with node.running():
            await node.until(lambda: all(r.prepared and not r.revoked for r in node.records.all()))
        return
    await node.recovery.load()
    await (node.prepare() if work == "prepare" else node.unprepare())


def live_by(words: dict[str, Any], fate: Fate) -> None:
    """Live one life by an order."""
    for place, name in ((files, "write_file"), (files, "remove_file"), (DriverCore, "write")):
        fate.count_calls(place, name)
    trio.run(live, words["work"], Path(words["folder"]))


if __name__ == "__main__":
    serve(live_by)
