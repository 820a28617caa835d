"""Runs commands in the guest for the tests outside: one connection, one command.

Asked with a line of JSON, `{"argv": [...], "given": N}`, and N bytes for the command's input;
answers with `{"code": C, "stdout": N, "stderr": M}` and those bytes. A command that cannot be
started ends with 127, as in a shell.

It is the whole program of a unit and imports nothing of ours: it must serve before all else.
"""

from __future__ import annotations

import json
import socket
import subprocess
import threading

PORT = 1024


def serve(connection: socket.socket) -> None:
    """Run the one command that is asked for and tell how it went."""
    with connection, connection.makefile("rwb") as stream:
        asked = json.loads(stream.readline())
        given = stream.read(asked["given"])
        try:
            done = subprocess.run(asked["argv"], input=given, capture_output=True, check=False)
            code, stdout, stderr = done.returncode, done.stdout, done.stderr
        except OSError as error:
            code, stdout, stderr = 127, b"", str(error).encode()
        answer = {"code": code, "stdout": len(stdout), "stderr": len(stderr)}
        stream.write(json.dumps(answer).encode() + b"\n" + stdout + stderr)


def main() -> None:
    """Serve each connection by a thread of its own, for ever."""
    with socket.create_server(("", PORT)) as server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
