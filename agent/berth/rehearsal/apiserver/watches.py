"""One watch: every change after a version, bookmarks in between, an end in order or not.

Source: Kubernetes documentation, "Efficient detection of changes"; ``cacher.go`` of
``apiserver/pkg/storage/cacher`` in 1.37.2 (a version that is forgotten is told by an event).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import trio

from berth.errors import KubeError
from berth.rehearsal.apiserver.faults import Cut
from berth.rehearsal.apiserver.problems import refuse, status_json
from berth.rehearsal.apiserver.resources import Call, matches
from berth.rehearsal.apiserver.store import Change, Store
from berth.rehearsal.apiserver.web import Exchange

DEFAULT_LIMIT_S: Final = 1800.0
"""How long a watch lasts that asks for no time, in seconds."""

_HALF: Final = b'{"type":"MODIFIED","object":{"kind":"ResourceSlice","metadata":{"name":"0000'


class Watch:
    """A watch that is being served.

    Args:
        call: What is watched.
        store: Where.
        bookmark_s: Seconds between two bookmarks.

    Attributes:
        bookmarks: How many bookmarks were sent.
    """

    def __init__(self, call: Call, store: Store, *, bookmark_s: float) -> None:
        self._call = call
        self._store = store
        self._selector = call.selector
        self._bookmark_s = bookmark_s if call.params.get("allowWatchBookmarks") else float("inf")
        self._since = _version(call.params.get("resourceVersion", ""))
        self._limit_s = float(call.params.get("timeoutSeconds") or DEFAULT_LIMIT_S)
        self._changed = trio.Event()
        self._cut: Cut | None = None
        self.bookmarks = 0

    def wake(self) -> None:
        """Have the store looked at again."""
        self._changed.set()

    def cut(self, how: Cut) -> None:
        """End the watch now, in the given way."""
        self._cut = how
        self._changed.set()

    async def run(self, exchange: Exchange) -> None:
        """Serve until its time is over, it is cut, or the client is gone."""
        await exchange.begin()
        end = trio.current_time() + self._limit_s
        bookmark = trio.current_time() + self._bookmark_s
        while self._cut is None and trio.current_time() < end:
            self._changed = trio.Event()
            try:
                lines = b"".join(self._pending())
            except KubeError as error:
                await exchange.write(_line("ERROR", status_json(error)))
                break
            if trio.current_time() >= bookmark:
                bookmark += self._bookmark_s
                lines += self._bookmark()
                self.bookmarks += 1
            if lines:
                await exchange.write(lines)
            with trio.move_on_at(min(end, bookmark)):
                await self._changed.wait()
        await self._end(exchange)

    async def _end(self, exchange: Exchange) -> None:
        if self._cut in {None, Cut.ENDED}:
            await exchange.end()
            return
        if self._cut is Cut.HALF_LINE:
            await exchange.write(_HALF)
        if self._cut is Cut.RST:
            exchange.reset()

    def _pending(self) -> Iterator[bytes]:
        """The lines that are due."""
        resource = self._call.resource.plural
        if self._since is None:
            self._since = self._store.version
            for item in self._store.objects(resource, self._call.namespace):
                if matches(item, self._selector):
                    yield _line("ADDED", self._typed(item))
            return
        for change in self._store.changes_since(self._since, resource):
            self._since = change.version
            kind = self._kind(change)
            if kind:
                yield _line(kind, self._typed(change.object))

    def _kind(self, change: Change) -> str:
        """What a change is to somebody who sees the selected objects alone; empty for nothing."""
        namespace = change.object["metadata"].get("namespace", "")
        if self._call.namespace not in {"", namespace}:
            return ""
        was = change.before is not None and matches(change.before, self._selector)
        now = change.kind != "DELETED" and matches(change.object, self._selector)
        if was and now:
            return "MODIFIED"
        return "ADDED" if now else "DELETED" if was else ""

    def _bookmark(self) -> bytes:
        version = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
        return _line("BOOKMARK", self._typed({"metadata": version}))

    def _typed(self, value: Mapping[str, Any]) -> dict[str, Any]:
        resource = self._call.resource
        return {"kind": resource.kind, "apiVersion": resource.api_version, **value}


def _line(kind: str, value: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


def _version(text: str) -> int | None:
    """The version to start after; ``None`` for all objects first."""
    if text in {"", "0"}:
        return None
    try:
        return int(text)
    except ValueError:
        raise refuse(500, f"resourceVersion: Invalid value: {text!r}") from None
