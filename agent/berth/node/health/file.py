"""The file of what speaks against devices, read at start and written as it changes.

Evidence goes on without the disk: a file that cannot be read costs what it told, a disk that
refuses holds nothing up. What an operator asks for is on disk before it is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import trio

from berth.errors import HostError
from berth.health.course import Course, Moment
from berth.health.document import from_bytes, kept_of, recalled, same, to_bytes
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.statefile import StateFile

NAME: Final = "causes.json"

LAST_S: Final = 2.0
"""Longest that the end waits for the disk to take what it lacks."""

SPACING_S: Final = 1.0
"""Least time between two writes in the long run: a storm of evidence wears no disk out."""

BURST: Final = 8
"""Writes that may come at once after a quiet time: whoever is killed right after some devices fell
ill, one after the other, has noted down each."""

_log = get_log(__name__)


class HealthFile:
    """What is on disk.

    Args:
        folder: Where the file is; made when it is first written.
        boot_id: Of this boot.
    """

    def __init__(self, folder: Path, *, boot_id: str) -> None:
        self._folder = Folder(folder)
        self._file = StateFile(
            self._folder,
            NAME,
            to_bytes=to_bytes,
            from_bytes=from_bytes,
            lost="what spoke against devices is lost",
            unwritten="what speaks against devices is not noted down, so a restart may forget it",
        )
        self._boot_id = boot_id
        self._written: dict[str, Course] | None = None
        self._writing = trio.Lock()
        self._wanted = trio.Event()
        self._tries: Latest[int] = Latest(0)
        self._rests = False

    @property
    def rests(self) -> bool:
        """Whether it was written just now, so that the next write is a while off."""
        return self._rests

    @property
    def folder(self) -> Folder:
        """Where it is, for figures."""
        return self._folder

    async def recall(self, at: Moment) -> Mapping[str, Course]:
        """What the life before left, as far as it still holds."""
        try:
            await self._folder.sweep()
        except HostError as error:
            _log.warning("leftovers of interrupted writes stay", reason=error)
        kept = await self._file.read()
        if kept is None:
            return {}
        found = recalled(kept, boot_id=self._boot_id, at=at)
        self._written = dict(found) if kept.boot_id == self._boot_id else None
        return found

    def want(self) -> None:
        """Have it written as soon as the disk may be written again."""
        self._wanted.set()

    def is_behind(self, courses: Mapping[str, Course]) -> bool:
        """Whether the file tells less or other than this.

        It is asked at each change of any device, so a course that is still the same object is not
        looked into.
        """
        speaking = _speaking(courses)
        written = self._written
        if written is None or written.keys() != speaking.keys():
            return bool(written or speaking)
        for subject, course in speaking.items():
            if not same(written[subject], course):
                return True
            written[subject] = course
        return False

    async def run(
        self, known: Callable[[], Mapping[str, Course]], now: Callable[[], Moment]
    ) -> None:
        """Write whenever somebody waits for it, and what is left at the end."""
        paid_s = -math.inf
        try:
            while True:
                await self._wanted.wait()
                self._wanted = trio.Event()
                await self._write_or_note(known, now())
                paid_s = max(paid_s, trio.current_time()) + SPACING_S
                again_s = paid_s - (BURST - 1) * SPACING_S
                self._rests = again_s > trio.current_time()
                self._tries.set(self._tries.get() + 1)
                await trio.sleep_until(again_s)
                self._rests = False
        finally:
            with trio.move_on_after(LAST_S, shield=True):
                if self.is_behind(known()):
                    await self._write_or_note(known, now())

    async def wait_tried(self) -> None:
        """Have it written, and wait until the disk has taken it or refused."""
        tries = self._tries.version
        self.want()
        await self._tries.wait_changed(tries)

    async def write(self, known: Callable[[], Mapping[str, Course]], at: Moment) -> None:
        """Write what is known at the moment at which the disk is free.

        A cancel is served before or after, never between.

        Raises:
            HostError: The disk refused; the old file stays.
        """
        async with self._writing:
            courses = _speaking(known())
            kept = kept_of(courses, boot_id=self._boot_id, at=at)
            with trio.CancelScope(shield=True):
                await self._file.write(kept)
            self._written = courses

    async def _write_or_note(self, known: Callable[[], Mapping[str, Course]], at: Moment) -> None:
        try:
            await self.write(known, at)
        except HostError as error:
            self._file.note(error)


def _speaking(courses: Mapping[str, Course]) -> dict[str, Course]:
    """Those against which something speaks: no others are written down."""
    return {subject: course for subject, course in courses.items() if course.causes}
