"""Listening unix sockets at public paths: binding one without taking what belongs to others."""

from __future__ import annotations

import enum
import errno
import os
import socket
import stat
from collections import Counter
from pathlib import Path
from typing import Final

from berth.errors import HostError
from berth.runtime.files import host_error, make_folder
from berth.runtime.sockets import SocketId, check_path, find_socket

MODE: Final = 0o600
"""Mode of a public socket: kubelet and operators are root."""

FOLDER_MODE: Final = 0o750
"""Mode of a folder made for a socket, as kubelet makes its own."""

BACKLOG: Final = 128
"""Connections that the kernel keeps while nobody accepts."""


_runs: Final[Counter[Path]] = Counter()


class Occupant(enum.Enum):
    """What lies at a path where a socket should be."""

    NOTHING = "nothing"
    DEAD = "a socket on which nobody listens"
    LISTENING = "a socket on which a process listens"
    OTHER = "something that is no socket"


def probe_path(path: Path) -> Occupant:
    """Say what lies at the path, by connecting to it; does not block.

    A listener sees a connection that ends at once.

    Raises:
        HostError: The path cannot be looked at.
    """
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Occupant.NOTHING
    except OSError as error:
        raise host_error(error, path, "cannot look at it") from error
    if not stat.S_ISSOCK(found.st_mode):
        return Occupant.OTHER
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        number = probe.connect_ex(os.fsencode(path))
    return Occupant.DEAD if number == errno.ECONNREFUSED else Occupant.LISTENING


def clear_path(path: Path) -> None:
    """Remove a dead socket of our own user from the path, so that it can be bound.

    Raises:
        HostError: Something lies there that is not ours to remove.
    """
    occupant = probe_path(path)
    if occupant is Occupant.NOTHING:
        return
    if occupant is not Occupant.DEAD or path.lstat().st_uid != os.geteuid():
        raise HostError(
            str(path),
            f"there is {occupant.value}",
            rule="only a dead socket of the daemon's own user is replaced",
            mend="stop the process that uses it, or remove it",
        )
    try:
        path.unlink()
    except OSError as error:
        raise host_error(error, path, "cannot remove the dead socket") from error


def bind_listener(path: Path, *, make_parent: bool) -> tuple[socket.socket, SocketId]:
    """Bind a listening socket at a path, and say which file it became.

    Args:
        path: Where; a dead socket of ours there is replaced.
        make_parent: Whether to make the folder, with `FOLDER_MODE`, when it is missing.

    Raises:
        HostError: The path is too long or taken, or its folder is missing or read-only.
    """
    check_path(path)
    if make_parent:
        make_folder(path.parent, mode=FOLDER_MODE)
    clear_path(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Before bind this sets the mode of the file to be made, whatever the umask adds.
        os.fchmod(listener.fileno(), MODE)
        listener.bind(os.fsencode(path))
        listener.listen(BACKLOG)
        identity = find_socket(path)
        if identity is None:
            raise FileNotFoundError(errno.ENOENT, "removed while it was bound")
    except OSError as error:
        listener.close()
        raise host_error(error, path, "cannot bind it") from error
    return listener, identity


def release_path(path: Path, identity: SocketId) -> bool:
    """Remove the file of a socket bound here, unless another lies there by now.

    Returns:
        Whether it was removed.

    Raises:
        HostError: It is there and cannot be removed.
    """
    if find_socket(path) != identity:
        return False
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise host_error(error, path, "cannot remove the socket") from error
    return True


def private_path(folder: Path, door: str) -> Path:
    """Give a path for the private socket behind a door, which this process never gave before.

    It is ``<pid>-<door>.sock`` and, for later runs of a plugin, ``<pid>-<door>-<run>.sock``:
    a server that could not be stopped in time removes the file at its own path some day, and
    must not hit its successor's.

    Raises:
        HostError: The path is too long for a socket.
    """
    path = folder / f"{os.getpid()}-{door}.sock"
    _runs[path] += 1
    if _runs[path] > 1:
        path = path.with_name(f"{path.stem}-{_runs[path]}.sock")
    return check_path(path)


def sweep_private_sockets(folder: Path) -> tuple[Path, ...]:
    """Remove dead sockets that processes before this one left in their folder, and say which.

    Args:
        folder: The private folder; nobody else's sockets lie there.

    Raises:
        HostError: One is there and cannot be removed.
    """
    dead = [path for path in sorted(folder.glob("*.sock")) if probe_path(path) is Occupant.DEAD]
    for path in dead:
        clear_path(path)
    return tuple(dead)
