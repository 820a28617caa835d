"""The inside of a rehearsal: ``python -m berth.rehearsal`` in namespaces of its own.

``story`` plays the rehearsal; ``run PROGRAM …`` becomes a program in a furnished world, as the
integration tests do. Both are started by the command line of `berth.rehearsal.enter.inside`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Furnish the world, then do what is asked; gives the exit code."""
    if os.getpid() != 1:
        # Without a world of its own this would mount over the machine's own folders.
        sys.stderr.write("berth.rehearsal is started by `berth rehearse`\n")
        return 2
    try:
        return _inside(*arguments)
    except KeyboardInterrupt:
        # Ctrl-C before the play could listen to it.
        return 130


def _inside(what: str, *rest: str) -> int:
    # Imports are late, so that Ctrl-C during them is met.
    from berth.errors import HostError

    try:
        if what == "run":
            from berth.rehearsal.world import furnish

            furnish()
            os.execvp(rest[0], rest)  # noqa: S606 - becoming that program is what it is for
        from berth.rehearsal.performance import play

        return play(rest)
    except HostError as error:
        sys.stderr.write(f"berth rehearse: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
