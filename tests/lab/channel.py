"""Commands in the guest, files of the guest: what its agent does for us."""

from __future__ import annotations

import json
import time

from berth.errors import HostError
from tests.cluster.boxes import Box
from tests.lab.guest.agent import PORT

LIMIT_S = 300.0


class Guest:
    """A guest that serves; safe to use from several threads.

    Args:
        box: In whose network it is reached.
        address: Its own.
    """

    def __init__(self, box: Box, address: str) -> None:
        self._box = box
        self._address = address

    def run(self, *command: str, given: str | bytes | None = None, check: bool = True) -> str:
        """Run a command; gives what it wrote to stdout.

        Args:
            command: Program and arguments.
            given: Its input.
            check: Whether a failure raises.

        Raises:
            HostError: It ended with another code than 0, with what it said; or nobody serves.
        """
        code, stdout, stderr = self._ask(command, given, LIMIT_S)
        if check and code:
            said = (stderr + stdout).strip()
            raise HostError(f"lab: {' '.join(command)}", f"ended with {code}", rule=said)
        return stdout

    def write(self, name: str, contents: str | bytes, *, mode: str = "644") -> None:
        """Write a file, its folder too."""
        script = 'mkdir -p "$(dirname "$1")" && cat >"$1" && chmod "$2" "$1"'
        self.run("sh", "-c", script, "write", name, mode, given=contents)

    def read(self, name: str) -> str:
        """What a file holds, without the last line's end."""
        return self.run("cat", name).rstrip("\n")

    def wait_serving(self, limit_s: float = LIMIT_S) -> None:
        """Wait until it serves.

        Raises:
            HostError: It did not within the limit.
        """
        end = time.monotonic() + limit_s
        while True:
            try:
                self._ask(["true"], None, 5)
            except HostError:
                if time.monotonic() > end:
                    raise
                # Nobody out here is told of a boot but by its answer.
                time.sleep(0.1)
            else:
                return

    def _ask(
        self, command: tuple[str, ...] | list[str], given: str | bytes | None, limit_s: float
    ) -> tuple[int, str, str]:
        data = given.encode() if isinstance(given, str) else given or b""
        asked = json.dumps({"argv": list(command), "given": len(data)}).encode() + b"\n"
        try:
            with self._box.socket() as connection:
                connection.settimeout(limit_s)
                connection.connect((self._address, PORT))
                with connection.makefile("rwb") as stream:
                    stream.write(asked + data)
                    stream.flush()
                    answer = json.loads(stream.readline() or "null")
                    if answer is None:
                        raise HostError("lab: its agent", "hung up")
                    stdout, stderr = (
                        stream.read(answer[each]).decode(errors="replace")
                        for each in ("stdout", "stderr")
                    )
        except OSError as error:
            raise HostError(
                f"lab: {' '.join(command)}", f"no answer: {error}", rule="see its console's log"
            ) from error
        return answer["code"], stdout, stderr
