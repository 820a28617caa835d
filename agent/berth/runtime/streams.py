"""Standard output that cannot be written: its reader has gone, its disk is full, it is closed."""

from __future__ import annotations

import errno
import os
from typing import Final, TextIO

from berth.errors import HostError

WHERE: Final = "standard output"

_MENDS: Final = {
    errno.ENOSPC: "free space on that file system",
    errno.EDQUOT: "raise the quota or free space",
}


class Unheard(HostError):
    """What was to be told cannot be written, so there is nothing more to say."""

    @property
    def is_cut_off(self) -> bool:
        """Whether the reader has gone, as that of ``| head`` does, which is no fault."""
        return self.errno == errno.EPIPE


def unheard(error: OSError) -> Unheard:
    """The system's refusal of a write to standard output, as ours."""
    number = error.errno or 0
    reason = os.strerror(number) if number else str(error)
    return Unheard(WHERE, f"cannot write: {reason}", mend=_MENDS.get(number, ""), errno=number)


def let_go(stream: TextIO | None) -> None:
    """Keep the interpreter from writing to a stream that takes nothing, when it ends."""
    if stream is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
