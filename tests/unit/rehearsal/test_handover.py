"""Sockets handed over as systemd does it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from berth.rehearsal import handover

SHOW = """
import os, socket
count = int(os.environ["LISTEN_FDS"])
print(os.environ["LISTEN_PID"] == str(os.getpid()))
print(*[socket.socket(fileno=os.dup(3 + n)).getsockname() for n in range(count)])
print(sorted(map(int, os.listdir("/proc/self/fd"))))
"""


def test_program_finds_the_sockets_in_their_order(tmp_path: Path) -> None:
    """They begin at 3, the process is named in LISTEN_PID, and no other descriptor is left."""

    paths = [str(tmp_path / name) for name in ("a", "b")]
    made = [socket.socket(socket.AF_UNIX) for _ in paths]
    for one, path in zip(made, paths, strict=True):
        one.bind(path)
    numbers = [one.fileno() for one in reversed(made)]

    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            handover.__file__,
            ",".join(map(str, numbers)),
            sys.executable,
            "-c",
            SHOW,
        ],
        pass_fds=numbers,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )

    for one in made:
        one.close()
    named, found, descriptors = done.stdout.splitlines()
    assert named == "True"
    assert found.split() == [paths[1], paths[0]]
    # The program's three, the two, and the one with which the folder was read.
    assert descriptors == "[0, 1, 2, 3, 4, 5]"
