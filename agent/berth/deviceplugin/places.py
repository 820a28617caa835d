"""Where the sockets of device plugins lie, whose they are, and which are in the way.

Kubelet removes every socket in the folder when it starts. Between two starts the sockets of dead
processes stay there; those of ours are told by their names, and removed.

Source: KC §1.6, §1.7.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
from pathlib import Path
from typing import Final

import attrs

from berth.errors import HostError
from berth.runtime.files import host_error
from berth.runtime.listeners import Occupant, clear_path, probe_path
from berth.runtime.sockets import find_socket

FOLDER: Final = Path("/var/lib/kubelet/device-plugins")
"""A constant of kubelet: it does not move with ``--root-dir``."""

KUBELET: Final = "kubelet.sock"

SHOWN: Final = 24
"""How much of a resource's name stands in the name of its socket, in characters."""

_numbers: Final = itertools.count(1)


@attrs.frozen(kw_only=True)
class Places:
    """The sockets of one resource.

    Attributes:
        folder: Where kubelet's socket and those of all plugins are.
        own: A socket for us, of a name that nobody has and that we never had.
        kin: What the names of all our sockets for this resource begin with.
    """

    folder: Path
    own: Path
    kin: str

    @property
    def kubelet(self) -> Path:
        """The socket on which kubelet takes registrations."""
        return self.folder / KUBELET

    def remove_dead(self) -> None:
        """Remove the sockets that earlier processes of ours left; what is in use stays."""
        for path in self.folder.glob(f"{self.kin}*.sock"):
            # In use, or another user's: not ours to remove.
            with contextlib.suppress(HostError):
                clear_path(path)

    def kubelet_listens(self) -> bool:
        """Whether somebody listens on kubelet's socket; a dead one stays until the next start."""
        try:
            return probe_path(self.kubelet) is Occupant.LISTENING
        except HostError:
            return False

    def rivals(self) -> tuple[str, ...]:
        """Names of other plugins' sockets that were made after ours; they may serve any resource.

        Raises:
            HostError: The folder cannot be read.
        """
        own = find_socket(self.own)
        since_ns = 0 if own is None else own.made_ns
        return tuple(
            path.name
            for path in _entries(self.folder)
            if path not in {self.own, self.kubelet}
            and (found := find_socket(path)) is not None
            and found.made_ns >= since_ns
        )


def places_for(folder: Path, *, driver: str, resource: str) -> Places:
    """Give the places of a resource; each call gives another socket."""
    digest = hashlib.sha256(f"{driver}\0{resource}".encode()).hexdigest()[:8]
    shown = re.sub(r"[^A-Za-z0-9.-]", "-", resource.rpartition("/")[2])[:SHOWN]
    kin = f"berth-{shown}-{digest}-"
    return Places(folder=folder, own=folder / f"{kin}{os.getpid()}-{next(_numbers)}.sock", kin=kin)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise host_error(error, folder, "cannot list") from error
