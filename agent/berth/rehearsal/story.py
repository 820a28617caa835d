"""The rehearsal as the operator's command sees it: a world is made, and the play runs in it.

The play is another process with namespaces of its own (`berth.rehearsal.performance`). When the
command is gone, in whatever way, its end of the pipe closes and the play ends, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import attrs

from berth.errors import HostError
from berth.rehearsal.enter import inside
from berth.rehearsal.report import Report


@attrs.frozen(kw_only=True)
class RehearsalOptions:
    """What the operator asks for.

    Attributes:
        config: The configuration to rehearse; without one an embedded one is played.
        claim: Manifests with claims; without them the play brings its own.
    """

    config: Path | None = None
    claim: Path | None = None


def rehearse(options: RehearsalOptions) -> int:
    """Play a rehearsal and print it as it goes.

    Returns:
        0 when every stage was verified, 1 when one was not or no world could be made, 2 when a
        file cannot be used, 130 after Ctrl-C, 141 when whoever read the output has gone.
    """
    given = {"config": options.config, "claim": options.claim}
    asked = json.dumps({name: str(path) for name, path in given.items() if path is not None})
    try:
        command = inside("story", asked)
    except HostError as error:
        Report(sys.stderr).failure("world", error)
        return 1
    # An installed command finds its modules by paths that no other process of this Python knows.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # The play was interrupted as well: it says so, and its world ends with it.
                continue
