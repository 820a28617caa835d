"""Become another program that holds listening sockets as systemd hands them in.

Run by its path, so that it starts in milliseconds: ``handover.py FD,FD… PROGRAM ARGUMENT…``. The
number of the process must stand in ``LISTEN_PID``, and only the process itself knows it in time.

Source: ``sd_listen_fds(3)``.
"""

import os
import sys

FIRST = 3
FAR = 100
"""Where copies are kept meanwhile, so that no target is a source that is still needed."""


def main(numbers: list[int], program: list[str]) -> None:
    """Put the descriptors where they are looked for, then run the program in this process."""
    for place, number in enumerate(numbers):
        os.dup2(number, FAR + place, inheritable=False)
        os.set_inheritable(number, False)
    for place in range(len(numbers)):
        os.dup2(FAR + place, FIRST + place)
    os.environ["LISTEN_FDS"] = str(len(numbers))
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.execv(program[0], program)  # noqa: S606 - this is what the file is for


if __name__ == "__main__":
    main([int(number) for number in sys.argv[1].split(",")], sys.argv[2:])
