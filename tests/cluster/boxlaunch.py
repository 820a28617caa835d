"""Becomes another program with inherited sockets where systemd's protocol wants them.

`python3 boxlaunch.py FD[,FD...] NAME COMMAND...`: the descriptors become 3, 4 and so on, and
`LISTEN_PID` the number that the program has inside the box, which nobody outside can foretell.
It imports nothing of ours, since it is run by path.
Source: sd_listen_fds(3) of systemd 252.
"""

from __future__ import annotations

import os
import sys

FIRST_FD = 3


def main() -> None:
    """Move the descriptors, set the variables, become the program."""
    given = [int(number) for number in sys.argv[1].split(",")]
    name, command = sys.argv[2], sys.argv[3:]
    # First out of the way: a given one may lie where another must go.
    high = [os.dup(number) for number in given]
    spare = max(high) + 1
    high = [os.dup2(number, spare + place) for place, number in enumerate(high)]
    for place, number in enumerate(high):
        os.dup2(number, FIRST_FD + place)
    os.closerange(FIRST_FD + len(given), spare + len(given))
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = str(len(given))
    os.environ["LISTEN_FDNAMES"] = ":".join([name] * len(given))
    os.execvp(command[0], command)  # noqa: S606 -- becoming the program is what this is for


if __name__ == "__main__":
    main()
