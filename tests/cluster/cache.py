"""The folder outside the tree where built and fetched parts are kept, and who may fill it when."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROGRESS_EVERY_S = 15.0


def root() -> Path:
    """The cache of the cluster's parts: `$BERTH_CACHE/cluster`, else `/var/cache/berth/cluster`."""
    return Path(os.environ.get("BERTH_CACHE") or "/var/cache/berth") / "cluster"


def say(text: str) -> None:
    """Tell the person who waits, on stderr, at once."""
    print(f"cluster parts: {text}", file=sys.stderr, flush=True)  # noqa: T201 -- a build's progress


@contextlib.contextmanager
def progress(what: Callable[[], str]) -> Iterator[None]:
    """Say `what()` and the time that passed every 15 s until the block is left."""
    done = threading.Event()
    began = time.monotonic()

    def tell() -> None:
        while not done.wait(PROGRESS_EVERY_S):
            say(f"{what()}, {time.monotonic() - began:.0f} s")

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Hold the lock of one entry, so that two runs do not make it twice."""
    root().mkdir(parents=True, exist_ok=True)
    with (root() / f".{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress(lambda: f"waiting for another run that makes {name}"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def entry(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache; when it is not there yet, `make` fills it.

    The folder appears whole or not at all: it is filled under another name and then renamed.

    Args:
        name: What the entry is called; it must change when its contents would.
        make: Fills the empty folder that it is given.
    """
    wanted = root() / name
    if wanted.is_dir():
        return wanted
    with _alone(name):
        if wanted.is_dir():
            return wanted
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=root()))
        try:
            make(unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(wanted)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return wanted
