"""The machine's own switchboard: QMP, a line of JSON each way over a Unix socket."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from berth.errors import HostError

LIMIT_S = 120.0


class Qmp:
    """A connection to one emulated machine.

    Args:
        path: Of its socket.
    """

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_S)
        self._socket.connect(str(path))
        self._stream = self._socket.makefile("rwb")
        self._read()
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: object) -> Any:
        """Have it do something; gives what it answers. Blocks until it is done.

        Raises:
            HostError: It refused, with its words, or went away.
        """
        asked = {"execute": command, "arguments": arguments}
        self._stream.write(json.dumps(asked).encode() + b"\n")
        self._stream.flush()
        while True:
            answer = self._read()
            if "error" in answer:
                raise HostError(f"qemu: {command}", str(answer["error"]["desc"]))
            if "return" in answer:
                return answer["return"]

    def monitor(self, line: str) -> str:
        """The same by the words of the monitor for people, for what QMP itself has no command."""
        said: str = self.ask("human-monitor-command", **{"command-line": line})
        if "rror" in said:
            raise HostError(f"qemu: {line}", said.strip())
        return said

    def wait_event(self, name: str, **fields: object) -> dict[str, Any]:
        """Wait until it tells of something; gives what it told.

        Args:
            name: Of the event.
            fields: That its data must have.

        Raises:
            HostError: It went away.
        """
        while True:
            told = self._read()
            data = told.get("data", {})
            if told.get("event") == name and fields.items() <= data.items():
                return dict(data)

    def close(self) -> None:
        """Let go of it."""
        self._stream.close()
        self._socket.close()

    def _read(self) -> dict[str, Any]:
        line = self._stream.readline()
        if not line:
            raise HostError("qemu", "went away")
        told: dict[str, Any] = json.loads(line)
        return told
