"""Small files that must be whole or absent: atomic writes, removal and listing in one directory.

The functions block (fsync may take seconds on a bad disk) and are meant for a worker thread;
`Folder` is their asynchronous form. Whatever the system refuses becomes a `HostError` that names
the path and carries the system's reason.

A write goes to a temporary file beside the target, is synced, renamed over it, and the folder is
synced: after a crash at any point the target has its old or its new content. What a crash leaves
is a temporary file, which `sweep_temporaries` takes away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from berth.errors import HostError
from berth.model.meter import Tally
from berth.runtime.threads import run_in_thread

AnyPath: TypeAlias = "str | os.PathLike[str]"
"""A path as it comes, made no `Path` of where its name is used once, such as a claim's UID.

`Path` interns each part of its text (``pathlib.py`` of 3.10 to 3.13), and the interpreter's table
of interned text grows by the names that come and go: after some hundred it is made anew with twice
its room, 0.9 MB for good."""

FILE_MODE: Final = 0o600
"""Mode of files that only root reads."""

FOLDER_MODE: Final = 0o700
"""Mode of folders that only root enters."""

READ_LIMIT: Final = 16 * 1024 * 1024
"""Largest file that is read, in bytes."""

_PREFIX: Final = ".berth-"
_SUFFIX: Final = ".tmp"
_MENDS: Final = {
    errno.ENOSPC: "free space on that file system",
    errno.EDQUOT: "raise the quota or free space",
    # A sandbox holds on to the folders that were there when it was made.
    errno.EROFS: "`systemctl restart berthd` if the folder was made anew since it started; else "
    "remount it, or add its path to ReadWritePaths= by a drop-in",
    errno.EACCES: "check owner and mode of the folder, and ReadWritePaths= of the unit",
    errno.EPERM: "check owner and mode of the folder, and ReadWritePaths= of the unit",
}


def host_error(error: OSError, path: AnyPath, doing: str) -> HostError:
    """Turn the system's refusal into ours.

    Args:
        error: What the system said.
        path: The path that was asked for.
        doing: What was tried, as in ``cannot write``.
    """
    number = error.errno or 0
    reason = os.strerror(number) if number else str(error)
    return HostError(str(path), f"{doing}: {reason}", mend=_MENDS.get(number, ""), errno=number)


@contextlib.contextmanager
def _refusals(path: AnyPath, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise host_error(error, path, doing) from error


def make_folder(path: AnyPath, *, mode: int = FOLDER_MODE) -> None:
    """Make a folder and those above it; an existing one is left as it is.

    Raises:
        HostError: It cannot be made, or something else lies there.
    """
    with _refusals(path, "cannot make the folder"):
        os.makedirs(path, mode=mode, exist_ok=True)


def write_file(path: AnyPath, data: bytes, *, mode: int = FILE_MODE, durable: bool = True) -> None:
    """Put ``data`` at ``path``, whole or not at all, and on the disk before it returns.

    Args:
        path: Where.
        data: What.
        mode: Of the file.
        durable: Without it the file outlives this process, and maybe not a power cut: for what is
            made anew after one.

    Raises:
        HostError: The folder is missing, read-only or full; the old content stays.
    """
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}")
    with _refusals(path, "cannot write"):
        try:
            _write_whole(temporary, data, mode=mode, durable=durable)
            os.rename(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
            _sync_folder(folder)


def _write_whole(path: str, data: bytes, *, mode: int, durable: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        os.fchmod(descriptor, mode)
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        if durable:
            os.fsync(descriptor)


def _sync_folder(path: AnyPath) -> None:
    descriptor = os.open(path or os.curdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_file(path: AnyPath, *, limit: int = READ_LIMIT) -> bytes | None:
    """Give the content of a regular file, or None when there is none.

    Raises:
        HostError: It cannot be read, is no regular file, or is longer than ``limit`` bytes.
    """
    try:
        # A FIFO or a device in the place of a file must not hold the thread up.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise host_error(error, path, "cannot read") from error
    # Asked before `fdopen`, which refuses a folder in its own way and leaves the descriptor open.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise HostError(str(path), "is no regular file")
    with os.fdopen(descriptor, "rb") as file, _refusals(path, "cannot read"):
        data = file.read(limit + 1)
    if len(data) > limit:
        raise HostError(str(path), f"is longer than {limit} bytes")
    return data


def remove_file(path: AnyPath) -> bool:
    """Take a file away, and see to it that it is gone from the disk too.

    Returns:
        Whether there was one.

    Raises:
        HostError: It is there and cannot be removed.
    """
    with _refusals(path, "cannot remove"):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        _sync_folder(os.path.dirname(path))
    return True


def list_names(
    folder: Path, *, prefix: str = "", suffix: str = "", any_kind: bool = False
) -> tuple[str, ...]:
    """Give the names of the regular files in a folder, sorted; none when it is missing.

    Temporary files of a write under way and other hidden files are left out.

    Args:
        any_kind: Name folders, links and pipes as well: what lies where a file belongs.

    Raises:
        HostError: It cannot be read.
    """
    return tuple(
        name
        for name in _entry_names(folder, any_kind=any_kind)
        if name.startswith(prefix) and name.endswith(suffix) and not name.startswith(".")
    )


def _entry_names(folder: Path, *, any_kind: bool = False) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name for entry in entries if any_kind or entry.is_file(follow_symlinks=False)
            )
    except FileNotFoundError:
        return []
    except OSError as error:
        raise host_error(error, folder, "cannot list") from error


def quarantine_file(path: Path) -> Path:
    """Move a file, or what lies in its place, out of the way; give its new path beside it.

    The new name ends in ``.bad-N`` with the first N that is free, so nothing is overwritten and
    no listing by suffix meets it again.

    Raises:
        HostError: It cannot be moved.
    """
    with _refusals(path, "cannot set aside"):
        for number in range(1, 10_000):
            aside = path.with_name(f"{path.name}.bad-{number}")
            try:
                _move_aside(path, aside)
            except FileExistsError:
                continue
            _sync_folder(path.parent)
            return aside
    raise HostError(str(path), "cannot set aside: too many files were set aside before")


def _move_aside(path: Path, aside: Path) -> None:
    if not stat.S_ISDIR(path.lstat().st_mode):
        # A link refuses to overwrite, a rename does not.
        os.link(path, aside, follow_symlinks=False)
        path.unlink()
    elif os.path.lexists(aside):
        raise FileExistsError(aside)
    else:
        path.rename(aside)


def sweep_temporaries(folder: Path) -> tuple[Path, ...]:
    """Remove what interrupted writes left in a folder, and give what was removed.

    Only to be called while nobody writes there, as at start.

    Raises:
        HostError: The folder cannot be read, or a file in it cannot be removed.
    """
    leftovers = [
        folder / name
        for name in _entry_names(folder)
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX)
    ]
    for path in leftovers:
        with _refusals(path, "cannot remove"):
            path.unlink(missing_ok=True)
    return tuple(leftovers)


class Folder:
    """One directory of small files, for tasks: each operation runs in a worker thread.

    A cancel is served only when the operation under way has ended, so a file is never left
    half written; whether it was written then is for the next start to find out.

    Args:
        path: The directory; `make` makes it.
        mode: Of the files written into it.
        durable: See `write_file`.

    Attributes:
        sizes: What is known of the files, in bytes by their names: those that were written, read or
            listed here; 0 where only the name is known.
        writes: How often one was written, by result: ``ok`` or ``error``.
        quarantined: How many were set aside.
    """

    def __init__(self, path: Path, *, mode: int = FILE_MODE, durable: bool = True) -> None:
        self.path = path
        self.sizes: dict[str, int] = {}
        self.writes = Tally("result").begin("ok", "error")
        self.quarantined = Tally()
        self._mode = mode
        self._durable = durable

    async def make(self, *, mode: int = FOLDER_MODE) -> None:
        """Make the folder; see `make_folder`."""
        await run_in_thread("files", make_folder, self.path, mode=mode)

    async def write(self, name: str, data: bytes) -> None:
        """Write one file; see `write_file`."""
        try:
            await run_in_thread(
                "files", write_file, self._place(name), data, mode=self._mode, durable=self._durable
            )
        except HostError:
            self.writes.add("error")
            raise
        self.writes.add("ok")
        self.sizes[name] = len(data)

    async def read(self, name: str, *, limit: int = READ_LIMIT) -> bytes | None:
        """Read one file, None when it is not there; see `read_file`."""
        data = await run_in_thread("files", read_file, self._place(name), limit=limit)
        if data is not None:
            self.sizes[name] = len(data)
        return data

    async def remove(self, name: str) -> bool:
        """Remove one file; see `remove_file`."""
        was_there = await run_in_thread("files", remove_file, self._place(name))
        self.sizes.pop(name, None)
        return was_there

    async def names(
        self, *, prefix: str = "", suffix: str = "", any_kind: bool = False
    ) -> tuple[str, ...]:
        """List the files; see `list_names`."""
        names = await run_in_thread(
            "files", list_names, self.path, prefix=prefix, suffix=suffix, any_kind=any_kind
        )
        for name in names:
            self.sizes.setdefault(name, 0)
        return names

    async def quarantine(self, name: str) -> Path:
        """Set one file aside; see `quarantine_file`."""
        aside = await run_in_thread("files", quarantine_file, self.path / name)
        self.sizes.pop(name, None)
        self.quarantined.add()
        return aside

    async def set_aside(self, name: str) -> str:
        """As `quarantine`; says for the journal where the file is now, also when it had to stay."""
        try:
            return f"kept as {await self.quarantine(name)}"
        except HostError as error:
            # On a read-only disk the daemon runs on all the same; the next start tries again.
            return f"left where it is, since {error}"

    def _place(self, name: str) -> str:
        """Where a file lies; see `AnyPath` for why this is text."""
        return os.path.join(self.path, name)

    async def sweep(self) -> tuple[Path, ...]:
        """Remove what interrupted writes left; see `sweep_temporaries`."""
        return await run_in_thread("files", sweep_temporaries, self.path)
