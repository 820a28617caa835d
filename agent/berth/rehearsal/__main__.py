"""The inside of a rehearsal: ``python -m berth.rehearsal`` in namespaces of its own.

``story`` plays the rehearsal; ``run PROGRAM …`` becomes a program in a furnished world, as the
integration tests do. Both are started by the command line of `berth.rehearsal.enter.inside`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from berth.errors import HostError
from berth.rehearsal.world import furnish


def main(arguments: Sequence[str]) -> int:
    """Furnish the world, then do what is asked; gives the exit code."""
    if os.getpid() != 1:
        # Without a world of its own this would mount over the machine's own folders.
        sys.stderr.write("berth.rehearsal is started by `berth rehearse`\n")
        return 2
    what, *rest = arguments
    if what == "run":
        furnish()
        os.execvp(rest[0], rest)  # noqa: S606 - becoming that program is what it is for
    # The story needs much that a program run here does not.
    from berth.rehearsal.story import play

    return play(rest)


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except HostError as error:
        sys.stderr.write(f"berth rehearse: {error}\n")
        code = 1
    sys.exit(code)
