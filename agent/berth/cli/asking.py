"""Questions to the daemon, and what it means when there is none."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from berth.errors import BerthError, HostError

_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED})


class NoDaemon(HostError):
    """No daemon is running, or it ended before it answered."""


class Refused(BerthError):
    """The daemon answered that it will not do what was asked for.

    Args:
        text: Its words.
        faults: Each fault by itself, where there are several.
    """

    def __init__(self, text: str, *, faults: tuple[str, ...] = ()) -> None:
        super().__init__("", text)
        self.faults = faults


def ask(folder: Path, verb: str, **fields: Any) -> Mapping[str, Any]:
    """Ask the daemon and give its answer, without what belongs to the conversation.

    Raises:
        NoDaemon: There is none.
        Refused: It refused.
        HostError: It may not be asked by this user, or it does not answer.
        RemoteProtocolError: Its answer cannot be read.
    """
    # Imported here: trio and sockets are of no use to a command that asks nobody.
    from berth.control import ControlClient, Ended

    try:
        client = ControlClient(folder)
    except HostError as error:
        raise _unreachable(error) from error
    try:
        answer = client.ask(verb, **fields)
    except Ended as error:
        raise NoDaemon("berthd", "ended before it answered", mend="ask again") from error
    finally:
        client.close()
    if not answer["ok"]:
        faults = tuple(str(fault) for fault in answer.get("faults", ()))
        raise Refused(str(answer.get("error", "no reason was given")), faults=faults)
    return {key: value for key, value in answer.items() if key not in {"id", "ok"}}


def _unreachable(error: HostError) -> HostError:
    if error.errno in _ABSENT:
        return NoDaemon(
            "berthd",
            f"is not running ({error.where}: {error.found})",
            mend="start it: systemctl start berthd",
            errno=error.errno,
        )
    if error.errno in {errno.EACCES, errno.EPERM}:
        return HostError(error.where, error.found, mend="run this as root", errno=error.errno)
    return error
