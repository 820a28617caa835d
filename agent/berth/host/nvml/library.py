"""Loads the library for pynvml, and knows which file it is.

pynvml opens nothing but ``libnvidia-ml.so.1``. Another file answers only when it was loaded before
and has that for its soname; then the loader gives pynvml the same one again. A library that is
loaded stays so until the process ends.

Everything blocks and belongs into a worker thread. One thread at a time calls it.

Source: nvidia-ml-py 13.615.71 ``_LoadNvmlLibrary``; dlopen(3); GH §2.2, §2.3, §2.4.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Final

import attrs
import pynvml

from berth.host.nvml.calls import SYMBOLS, ask
from berth.host.nvml.values import Refusal
from berth.model.gpu import Driver

MAPS: Final = Path("/proc/self/maps")
MODULE_VERSION: Final = Path("/sys/module/nvidia/version")

_NO_GPUS: Final = 1
"""Init flag: no error where there is no GPU."""

_NAME: Final = "libnvidia-ml.so"


@attrs.frozen(kw_only=True)
class LibraryFile:
    """A file of the library, mapped or on disk.

    Attributes:
        version: As its name ends, such as ``580.65.06``; empty when it has none.
    """

    path: str
    inode: int
    version: str = ""


class Library:
    """The library, and whether a session is open in it.

    Args:
        path: The file; empty for the one that the dynamic loader finds.
    """

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._opened: ctypes.CDLL | None = None
        self._ready = False

    def open(self) -> Driver | Refusal:
        """Load it where that is not done, open a session where none is, and ask the versions."""
        refusal = self._load()
        if refusal is None and not self._ready:
            refusal = ask(pynvml.nvmlInitWithFlags, _NO_GPUS)
        if isinstance(refusal, Refusal):
            return refusal
        self._ready = True
        return _driver()

    def close(self) -> Refusal | None:
        """End the session; nothing without one."""
        if not self._ready:
            return None
        answer = ask(pynvml.nvmlShutdown)
        if isinstance(answer, Refusal):
            return answer
        self._ready = False
        return None

    def _load(self) -> Refusal | None:
        if self._path and self._opened is None:
            try:
                self._opened = ctypes.CDLL(self._path, mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                return Refusal(code=12, text=f"{self._path} cannot be loaded: {error}")
        answer = ask(pynvml._LoadNvmlLibrary)  # noqa: SLF001 - nothing public loads without init
        if isinstance(answer, Refusal):
            return answer
        if self._opened is not None and self._opened._handle != pynvml.nvmlLib._handle:  # noqa: SLF001 - the loader's own answer to "the same?"
            found = mapped()
            other = found.path if found else "another file"
            return Refusal(code=12, text=f"{self._path} is not what answers: {other} does")
        for symbol in SYMBOLS:
            ask(pynvml._nvmlGetFunctionPointer, symbol)  # noqa: SLF001 - later none waits on its lock
        return None


def mapped(maps: Path = MAPS) -> LibraryFile | None:
    """Give the file of the library that this process has mapped; ``None`` for none."""
    for line in maps.read_text(errors="replace").splitlines():
        parts = line.split(maxsplit=5)
        if len(parts) == 6 and _NAME in Path(parts[5]).name:
            path = parts[5].removesuffix(" (deleted)")
            return LibraryFile(path=path, inode=int(parts[4]), version=_version(path))
    return None


def on_disk(path: str) -> LibraryFile | None:
    """Give the file that a path leads to now, with every link followed; ``None`` for none."""
    try:
        real = Path(path).resolve(strict=True)
        return LibraryFile(path=str(real), inode=real.stat().st_ino, version=_version(str(real)))
    except OSError:
        return None


def module_version(path: Path = MODULE_VERSION) -> str:
    """Give the version of the kernel module; empty while there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def successor(held: LibraryFile | None, disk: LibraryFile | None, module: str) -> str:
    """Give what only a new process could load, as ``inode:version``; empty when there is nothing.

    It is another file than the one that is mapped, and of the version of the kernel module.
    """
    if held is None or disk is None or held.inode == disk.inode or not module:
        return ""
    return f"{disk.inode}:{module}" if disk.version == module else ""


def successor_of(path: str) -> str:
    """Give that for the library of a path, or of the dynamic loader where it is empty; blocks."""
    held = mapped()
    beside = f"{held.path.rpartition('/')[0]}/libnvidia-ml.so.1" if held else ""
    return successor(held, on_disk(path or beside), module_version())


def _version(path: str) -> str:
    _, found, version = Path(path).name.partition(f"{_NAME}.")
    return version if found and "." in version else ""


def _driver() -> Driver:
    version: Any = ask(pynvml.nvmlSystemGetDriverVersion)
    cuda: Any = ask(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    nvml: Any = ask(pynvml.nvmlSystemGetNVMLVersion)
    return Driver(
        version="" if isinstance(version, Refusal) else version,
        cuda=None if isinstance(cuda, Refusal) else cuda,
        nvml="" if isinstance(nvml, Refusal) else nvml,
    )
