"""The stream of a watch: bytes to events, and how long to wait before the next attempt.

Each line of the stream is one JSON object ``{"type", "object"}``. A line that the end of the
connection cuts off is dropped: its event comes again after a resume from the last whole one.

Source: ``apimachinery/pkg/apis/meta/v1/watch.go``; Kubernetes documentation, "Efficient detection
of changes".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.kube import fields
from berth.model import jsontext

LINE_LIMIT: Final = 8 * 1024 * 1024
"""Longest line, in bytes. The largest object that etcd stores has 1.5 MiB."""

DELAY_LIMIT_S: Final = 30.0
"""Longest wait between two attempts, in seconds."""

_KINDS: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})


@attrs.frozen(kw_only=True)
class WatchEvent:
    """One event.

    Attributes:
        kind: ``ADDED``, ``MODIFIED``, ``DELETED``, ``BOOKMARK`` or ``ERROR``.
        object: The object; with ``ERROR`` a ``Status``, with ``BOOKMARK`` one without content.
    """

    kind: str
    object: Mapping[str, Any]

    @property
    def resource_version(self) -> str:
        """Version from which the watch goes on after this event.

        Raises:
            RemoteProtocolError: The object's metadata are no object.
        """
        return fields.text(fields.mapping(self.object, "metadata"), "resourceVersion")


class WatchDecoder:
    """Bytes of a watch in, events out; after an error it is of no further use."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._broken = False

    def feed(self, data: bytes) -> list[WatchEvent]:
        """The events that ``data`` completes.

        Raises:
            RemoteProtocolError: A line is too long or no event.
            LocalProtocolError: It was fed after an error.
        """
        if self._broken:
            raise LocalProtocolError("watch", "fed after an error")
        self._broken = True
        events = [_event(line) for line in self._lines(data) if line.strip()]
        self._broken = False
        return events

    def _lines(self, data: bytes) -> list[bytes]:
        """The lines that ``data`` ends; only new bytes are searched, since lines may be long."""
        first, *others = data.split(b"\n")
        self._buffer += first
        lines: list[bytes] = []
        for part in others:
            lines.append(bytes(self._buffer))
            self._buffer = bytearray(part)
        if len(self._buffer) > LINE_LIMIT:
            raise RemoteProtocolError("watch", f"a line is longer than {LINE_LIMIT} bytes")
        return lines


def _event(line: bytes) -> WatchEvent:
    try:
        value = jsontext.loads(line)
    except (ValueError, RecursionError):
        raise RemoteProtocolError("watch", "a line is no JSON") from None
    kind = fields.text(value, "type")
    if kind not in _KINDS:
        raise RemoteProtocolError("watch", f"an event has type {kind[:40]!r}")
    return WatchEvent(kind=kind, object=fields.mapping(value, "object"))


def delay_s(attempts: int, jitter: float) -> float:
    """Seconds to wait after ``attempts`` failures in a row: 1, 2, 4 … 30, less up to a half.

    Args:
        attempts: At least 1.
        jitter: From 0 to 1, drawn by the caller, so that many nodes do not come back at once.
    """
    whole: float = min(DELAY_LIMIT_S, 2.0 ** min(attempts - 1, 10))
    return whole * (1 - jitter / 2)
