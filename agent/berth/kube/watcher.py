"""A watch that does not end: the list, then every change, over broken connections and old versions.

**Theory.** A list gives a version; a watch from that version gives every change since. A connection
that ends is taken up at the version of the last event, bookmarks included, so nothing is missed and
nothing is listed twice. When the server has forgotten that version (410) the list is read again:
the first time at once, after that with the same back-off as any other failure, which ends with the
first event. A stream that ends by itself at its time is no failure; one that ends at once is.

**Left out.** Initial events by watch (``sendInitialEvents``): our lists have a handful of objects,
or are read page by page and mostly dropped.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias

import attrs
import trio

from berth.errors import KubeError, RemoteProtocolError
from berth.kube import fields
from berth.kube.api import WatchInterrupted, WatchResumed
from berth.kube.client import KubeClient, Request
from berth.kube.watching import WatchDecoder, WatchEvent, delay_s
from berth.model.names import excerpt

ROUND_S: Final = 300
"""After how long the server is asked to end a stream, in seconds."""

SILENCE_LIMIT_S: Final = ROUND_S + 30.0
"""After how much silence a stream is given up, in seconds."""

SHORT_S: Final = 5.0
"""A stream that ends earlier than this without an event counts as a failure."""

PAGES_LIMIT: Final = 20
"""Pages of a list that are read, unless a watch asks for more; a node's objects fit on one."""

LARGE_PAGE: Final = 25
"""Objects of a page where they are large. A slice of 64 devices that have all there is has 0.4 MB
(seen), and an answer has its limit; the largest node has three pages of slices, most have one."""

_PAGE: Final = 500
_GONE: Final = 410


@attrs.frozen(kw_only=True)
class Listed:
    """All objects that there are now."""

    items: tuple[Mapping[str, Any], ...]


Report: TypeAlias = "Callable[[Listed | WatchEvent | WatchInterrupted | WatchResumed], None]"


def _all(_item: Mapping[str, Any]) -> bool:
    return True


async def list_all(
    client: KubeClient,
    path: str,
    params: Mapping[str, str],
    *,
    concerns: Callable[[Mapping[str, Any]], bool] = _all,
    pages: int = PAGES_LIMIT,
    large: bool = False,
) -> tuple[tuple[Mapping[str, Any], ...], str]:
    """All objects at ``path``, page by page, and the version of the list.

    Args:
        client: Connection to the server.
        path: Of the collection.
        params: Selectors.
        concerns: Says which objects are kept; others are dropped with their page.
        pages: Most pages that are read.
        large: Objects are large, so that fewer are read at once.

    Raises:
        KubeError: The server refused, did not answer, or gave something else than a list, or one
            of more than ``pages`` pages.
    """
    items: list[Mapping[str, Any]] = []
    page = {**params, "limit": str(LARGE_PAGE if large else _PAGE)}
    for _ in range(pages):
        request = Request(method="GET", path=path, params=page)
        value = await client.request(request)
        try:
            metadata = fields.mapping(value, "metadata")
            items += filter(concerns, fields.mappings(value, "items"))
            following = fields.text(metadata, "continue")
            version = fields.text(metadata, "resourceVersion")
        except RemoteProtocolError as error:
            raise KubeError(request.where, f"the answer is no list: {error}") from error
        if not following:
            return tuple(items), version
        page["continue"] = following
    raise KubeError(request.where, f"the list has more than {pages} pages")


class Watcher:
    """One watch.

    Args:
        client: Connection to the server.
        path: Of the collection.
        params: Selectors.
        report: Told of everything, in order; must not block. It may raise `RemoteProtocolError` for
            what it does not understand: that is listed again then.
        concerns: Says which objects of a list are kept; of changes all are told.
        pages: Most pages of a list that are read.
        large: Objects are large, so that fewer are read at once.
        jitter: Gives a number from 0 to 1.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        *,
        params: Mapping[str, str],
        report: Report,
        concerns: Callable[[Mapping[str, Any]], bool] = _all,
        pages: int = PAGES_LIMIT,
        large: bool = False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._path = path
        self._params = params
        self._report = report
        self._concerns = concerns
        self._pages = pages
        self._large = large
        self._jitter = jitter
        self._version = ""
        self._failures = 0
        self._listed_again = False

    async def run(self) -> NoReturn:
        """List, watch and mend, until cancelled."""
        while True:
            trouble = await self._round()
            if trouble is not None:
                await self._rest(trouble)

    async def _round(self) -> KubeError | None:
        """List if need be, and read one stream to its end; gives what went wrong."""
        try:
            await self._list_and_follow()
        except KubeError as error:
            return error
        return None

    async def _list_and_follow(self) -> None:
        if not self._version:
            items, version = await list_all(
                self._client,
                self._path,
                self._params,
                concerns=self._concerns,
                pages=self._pages,
                large=self._large,
            )
            try:
                self._report(Listed(items=items))
            except RemoteProtocolError as error:
                raise KubeError(self._path, f"the list is not understood: {error}") from error
            self._version = version
        started, before = trio.current_time(), self._version
        await self._follow()
        if self._version == before and trio.current_time() - started < SHORT_S:
            raise KubeError(self._path, "the server ends each watch at once")

    async def _follow(self) -> None:
        """Read one stream to its end."""
        params = {
            **self._params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(ROUND_S),
        }
        request = Request(method="GET", path=self._path, params=params)
        async with self._client.stream(request, silence_s=SILENCE_LIMIT_S) as pieces:
            if self._failures:
                self._report(WatchResumed(attempts=self._failures))
            await self._read(pieces)

    async def _read(self, pieces: AsyncIterator[bytes]) -> None:
        decoder = WatchDecoder()
        try:
            async for piece in pieces:
                for event in decoder.feed(piece):
                    self._take(event)
        except RemoteProtocolError as error:
            # The same event would come again from the same version.
            self._version = ""
            raise KubeError(self._path, f"the watch is not understood: {error}") from error

    def _take(self, event: WatchEvent) -> None:
        if event.kind == "ERROR":
            raise _error(self._path, event)
        if event.kind != "BOOKMARK":
            self._report(event)
        self._version = event.resource_version or self._version
        self._failures, self._listed_again = 0, False

    async def _rest(self, error: KubeError) -> None:
        """Wait as long as ``error`` and those before it ask for."""
        if error.status == _GONE:
            self._version = ""
            if not self._listed_again:
                self._listed_again = True
                return
        self._failures += 1
        retry_s = delay_s(self._failures, self._jitter())
        self._report(WatchInterrupted(error=error, retry_s=retry_s, attempts=self._failures))
        await trio.sleep(retry_s)


def _error(path: str, event: WatchEvent) -> KubeError:
    status = event.object
    return KubeError(
        path,
        excerpt(fields.text(status, "message")) or "the watch ended with an error",
        status=fields.integer(status, "code"),
        reason=fields.text(status, "reason"),
    )
