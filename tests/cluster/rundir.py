"""The folder of one run of the test bed, and what is left of runs that were interrupted."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from tests.cluster import cgroups

BASE = Path("/var/tmp/berth-cluster")
CGROUP_PREFIX = "berth-"


class RunFolder:
    """A folder of this run alone; its name also names the run's control groups.

    A lock in it tells others that the run is alive. Processes, mounts and namespaces end with the
    run by themselves; folders and control groups do not, so the next run takes them away.
    """

    def __init__(self) -> None:
        BASE.mkdir(parents=True, exist_ok=True)
        with (BASE / ".lock").open("w") as everybody:
            fcntl.flock(everybody, fcntl.LOCK_EX)
            _sweep()
            self.path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=BASE))
            self._lock = (self.path / ".lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path.chmod(0o755)

    @property
    def cgroup(self) -> str:
        """The run's own control group, in every hierarchy."""
        return CGROUP_PREFIX + self.path.name

    def close(self, *, keep: bool = False) -> None:
        """Take the run's control groups away, and its folder unless somebody wants to look at it.

        A kept folder goes with the next run's start.
        """
        cgroups.remove(self.cgroup)
        self._lock.close()
        if not keep:
            shutil.rmtree(self.path)


def _sweep() -> None:
    """Remove what interrupted runs left behind."""
    for folder in BASE.iterdir():
        lock = folder / ".lock"
        if lock.exists() and _is_free(lock):
            cgroups.remove(CGROUP_PREFIX + folder.name)
            shutil.rmtree(folder)


def _is_free(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
