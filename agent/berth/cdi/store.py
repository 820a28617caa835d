"""CDI files on disk: one per claim and kind, whole or absent, found again by the claim's UID.

A file is never edited after kubelet was answered except by a repeated prepare: runtimes keep what
they have read and look again only on a miss.

Source: CDI SPEC.md (directories, suffixes); names by the project's own scheme.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from berth.cdi.document import CdiDevice, environment_of, qualified, render
from berth.model.edits import Edits
from berth.runtime.files import Folder

FOLDER: Final = Path("/var/run/cdi")
"""Where runtimes read transient CDI files; a tmpfs, so empty after a reboot."""


class CdiStore:
    """The CDI files of one driver.

    Args:
        driver: The driver's name, which is the vendor of every kind.
        folder: Where the runtime reads them.

    Attributes:
        writes: How often a file was written, by result.
    """

    def __init__(self, driver: str, folder: Path = FOLDER) -> None:
        self._driver = driver
        # After a power cut every claim is prepared anew.
        self._folder = Folder(folder, mode=0o644, durable=False)
        self.writes = self._folder.writes

    async def open(self) -> None:
        """Make the folder, and take away what interrupted writes left there.

        Raises:
            HostError: It cannot be made or read.
        """
        await self._folder.make(mode=0o755)
        await self._folder.sweep()

    def kind(self, name: str) -> str:
        """The CDI kind for devices of ours called ``name``, such as ``berth.dev/nic``."""
        return f"{self._driver}/{name}"

    def id(self, name: str, device: str) -> str:
        """The qualified name that kubelet is told for ``device`` of kind ``name``."""
        return qualified(self.kind(name), device)

    async def write(
        self, name: str, claim_uid: str, devices: Sequence[CdiDevice], common: Edits = Edits()
    ) -> None:
        """Offer ``devices`` of the claim; without devices the file goes, since it would be invalid.

        Args:
            common: What a container gets once that uses any of them.

        Raises:
            HostError: The folder is missing, full or read-only; the old file stands.
        """
        if not devices:
            await self._folder.remove(self._file(name, claim_uid))
            return
        content = render(self.kind(name), devices, common)
        await self._folder.write(self._file(name, claim_uid), content)

    async def write_lasting(
        self, name: str, devices: Sequence[CdiDevice], common: Edits = Edits()
    ) -> None:
        """Offer ``devices`` of kind ``name`` to no claim in particular; without any the file goes.

        Raises:
            HostError: The folder is missing, full or read-only; the old file stands.
        """
        file = f"{self._driver}-{name}.json"
        if not devices:
            await self._folder.remove(file)
            return
        await self._folder.write(file, render(self.kind(name), devices, common))

    async def remove(self, claim_uid: str) -> None:
        """Take away every file of the claim; none is no fault."""
        for name in await self._files(claim_uid):
            await self._folder.remove(name)

    async def environment(self, claim_uid: str) -> tuple[str, ...]:
        """What the claim's files put into the environment, each once; none without a file."""
        entries: list[str] = []
        for name in await self._files(claim_uid):
            content = await self._folder.read(name)
            entries += environment_of(content) if content is not None else ()
        return tuple(dict.fromkeys(entries))

    async def claims(self) -> frozenset[str]:
        """UIDs of the claims that files of ours speak of: evidence when records are lost."""
        names = await self._folder.names(prefix=f"{self._driver}-", suffix=".json")
        return frozenset(
            name.removesuffix(".json").rpartition("_")[2] for name in names if "_" in name
        )

    def kinds(self) -> Mapping[str, int]:
        """How many files there are of each kind, as far as was seen here."""
        begin = f"{self._driver}-"
        names = (name for name in self._folder.sizes if name.startswith(begin))
        return Counter(
            name.removeprefix(begin).removesuffix(".json").partition("_")[0] for name in names
        )

    async def _files(self, claim_uid: str) -> tuple[str, ...]:
        return tuple(
            await self._folder.names(prefix=f"{self._driver}-", suffix=f"_{claim_uid}.json")
        )

    def _file(self, name: str, claim_uid: str) -> str:
        return f"{self._driver}-{name}_{claim_uid}.json"
