"""Learns that only a new process can speak with the driver that runs now.

A library that is loaded is never unloaded. After an upgrade of the driver beneath us it and the
module differ for good, however often a session is tried; pods that run lose nothing, and free GPUs
stay unhealthy until a process is there that loads the new library.

Source: gpu-and-health.md §2.3, state ``mismatch``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

import trio

from berth.errors import HostError, StateError
from berth.host.nvml.session import Session, SessionState
from berth.node.records.kept import Kept
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.statefile import StateFile

PATIENCE_S: Final = 90.0
"""How long library and module have to differ: the session tries once more in between."""

FILE: Final = "renewed-for"
"""Names what the last process ended for, in the state folder."""

_LONGEST: Final = 256
_log = get_log(__name__)


class Driver(Protocol):
    """What is asked of NVML's owner; see `berth.node.gpus.nvml.Nvml`."""

    @property
    def session(self) -> Session:
        """Its state."""

    @property
    def version(self) -> int:
        """How often the session changed."""

    async def wait_session_changed(self, since: int) -> int:
        """Wait until the session is another."""
        ...

    async def successor(self) -> str:
        """What only a new process could load; empty when there is nothing."""
        ...


class Renewal:
    """Tells when a new process is due, once for the same library and module.

    Without the memory a machine on which the new process finds the same would be restarted for
    ever.

    Args:
        folder: Where it is kept what was tried; ``None`` to forget it with the process.

    Attributes:
        due: What a new process could load; empty while none is due.
    """

    def __init__(self, folder: Path | None) -> None:
        self.due: Latest[str] = Latest("")
        self._tried: Kept[str] = Kept(
            "",
            StateFile(
                Folder(folder) if folder is not None else None,
                FILE,
                to_bytes=str.encode,
                from_bytes=_text,
                lost="it is lost for which library of the driver berthd was started anew",
                unwritten="it is not noted down for which library of the driver berthd starts anew",
            ),
        )

    async def follow(self, nvml: Driver) -> None:
        """Look, whenever library and module differ for long, until cancelled."""
        await self._tried.recall()
        while True:
            version = nvml.version
            if nvml.session.state is not SessionState.MISMATCH:
                await nvml.wait_session_changed(version)
                continue
            await trio.sleep(PATIENCE_S)
            if nvml.session.state is SessionState.MISMATCH:
                await self._look(nvml)

    async def _look(self, nvml: Driver) -> None:
        found = await nvml.successor()
        if not found or found == self._tried.value:
            return
        try:
            # On disk before the process ends, so that the next one does not end for the same.
            await self._tried.change(lambda _: found)
        except HostError as error:
            _log.warning("not ending for another library, tried again", of=found, reason=error)
            return
        self.due.set(found)


def _text(content: bytes, /, *, where: str) -> str:
    text = content[:_LONGEST].decode(errors="replace").strip()
    if not text.isprintable():
        raise StateError(where, "is no line of text", mend="delete it: it is written anew")
    return text
