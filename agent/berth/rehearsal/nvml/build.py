"""Compiles the stand-in, once for each text of its source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from berth.errors import HostError

SONAME: Final = "libnvidia-ml.so.1"
"""A library that is loaded under this name is the one that pynvml finds."""

SOURCE: Final = Path(__file__).parent

_FLAGS: Final = (
    "-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -fvisibility=hidden -shared -fPIC -pthread"
)
_NOT_LINKED: Final = "vendor.c"
_WHERE: Final = "NVML stand-in"


def compiler() -> str:
    """Give the path of the system's C compiler; empty where there is none."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or ""


def build(*, old_driver: bool = False, below: Path | None = None) -> Path:
    """Give the built library, compiling it when its source is new; blocks for seconds then.

    It lies in a folder named by the hash of source and flags.

    Args:
        old_driver: Leave out the symbols that older drivers do not have.
        below: Where it is put if the user's cache folder does not have it; there if not given.

    Raises:
        HostError: There is no compiler, or it refused.
    """
    flags = [*_FLAGS.split(), f"-Wl,-soname,{SONAME}", *(["-DOLD_DRIVER"] if old_driver else [])]
    name = Path(_hash(flags), SONAME)
    if (_cache() / name).exists():
        return _cache() / name
    library = (below or _cache()) / name
    if not library.exists():
        _compile(flags, library)
    return library


def sources() -> tuple[Path, ...]:
    """Give the files that are compiled, in the order of their names."""
    return tuple(path for path in sorted(SOURCE.glob("*.c")) if path.name != _NOT_LINKED)


def _compile(flags: list[str], library: Path) -> None:
    program = compiler()
    if not program:
        raise HostError(_WHERE, "there is no C compiler", mend="install gcc, or set CC")
    library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = library.with_name(f"{SONAME}.{os.getpid()}")
    command = [program, *flags, "-o", str(beside), *map(str, sources())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(_WHERE, f"{program} refused: {done.stderr.strip()}")
    beside.replace(library)


def _hash(flags: list[str]) -> str:
    digest = hashlib.sha256(" ".join(flags).encode())
    for path in (*sources(), *sorted(SOURCE.glob("*.h"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "berth" / "nvml"
