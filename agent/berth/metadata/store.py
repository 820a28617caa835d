"""Metadata files on the host: a folder per claim UID, a folder per request in it.

Keyed by UID, because a claim of the same name may follow before the first is gone. A change is
written beside and renamed, so a reader never sees half a file; a running container keeps the file
that it was started with, since its mount holds the inode.

Source: KEP-5304; ``kubeletplugin/metadata.go`` of Kubernetes 1.37 for modes and atomicity.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import trio

from berth.errors import HostError
from berth.metadata.document import RequestMetadata, container_path, render
from berth.model.meter import Tally, Timing
from berth.runtime.files import host_error, make_folder, write_file
from berth.runtime.threads import run_in_thread


class MetadataStore:
    """The metadata files of one driver.

    Args:
        driver: The driver's name.
        kubelet_root: Kubelet's root folder.

    Attributes:
        seconds: How long writes took.
        writes: Those that succeeded.
        write_errors: First writes of a file that failed.
        update_errors: Later ones that did.
    """

    def __init__(self, driver: str, kubelet_root: Path) -> None:
        self.seconds = Timing()
        self.writes = Tally()
        self.write_errors = Tally()
        self.update_errors = Tally()
        self._driver = driver
        self._folder = kubelet_root / "plugins" / driver / "dra-device-metadata"

    def path(self, metadata: RequestMetadata) -> str:
        """Where the file of one request lies on the host."""
        return os.path.join(self._of(metadata.claim.uid), metadata.base_request, "metadata.json")

    def _of(self, claim_uid: str) -> str:
        """The folder of one claim; see `AnyPath` for why this is text."""
        return os.path.join(self._folder, claim_uid)

    def container_path(self, metadata: RequestMetadata) -> str:
        """Where a container finds it."""
        return container_path(metadata, self._driver)

    async def write(self, metadata: RequestMetadata) -> None:
        """Put the file of one request in place.

        Raises:
            HostError: The folder is missing, full or read-only; the old file stands.
        """
        content = render(metadata, driver=self._driver)
        began = trio.current_time()
        try:
            await run_in_thread("files", _write, self.path(metadata), content)
        except HostError:
            (self.update_errors if metadata.generation > 1 else self.write_errors).add()
            raise
        finally:
            self.seconds.observe(trio.current_time() - began)
        self.writes.add()

    async def remove(self, claim_uid: str) -> None:
        """Take away every file of the claim; none is no fault.

        Raises:
            HostError: A file is there and cannot be removed.
        """
        await run_in_thread("files", _remove_tree, self._of(claim_uid))

    async def claims(self) -> frozenset[str]:
        """UIDs of the claims that have files: what an interrupted unprepare may have left."""
        return frozenset(await run_in_thread("files", _folders, self._folder))


def _write(path: str, content: bytes) -> None:
    make_folder(os.path.dirname(path), mode=0o755)
    # After a power cut every claim is prepared anew.
    write_file(path, content, mode=0o644, durable=False)


def _remove_tree(path: str) -> None:
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise host_error(error, path, "cannot remove") from error


def _folders(path: Path) -> tuple[str, ...]:
    if not path.is_dir():
        return ()
    return tuple(entry.name for entry in path.iterdir() if entry.is_dir())
