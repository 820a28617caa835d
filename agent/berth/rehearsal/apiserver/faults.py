"""What a broken server does, as data: which requests it hits, and what happens to them.

Source: KC §3.2, §4.5; runtime-libraries.md, "Kubernetes API client" (what other clients failed at).
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import attrs


class Cut(Enum):
    """How a connection ends."""

    FIN = "the stream ends without its last chunk"
    RST = "the connection is reset"
    HALF_LINE = "half an event, then the end"
    ENDED = "the stream ends in order, before its time"


@attrs.frozen(kw_only=True)
class Hang:
    """The request is read and never answered, as long as the connection lives."""


@attrs.frozen(kw_only=True)
class Refuse:
    """The request is answered with an error."""

    status: int
    message: str = "refused by the rehearsal"
    reason: str = ""


@attrs.frozen(kw_only=True)
class Break:
    """The connection ends before the answer."""

    cut: Cut = Cut.RST


@attrs.define(kw_only=True)
class Fault:
    """One fault that waits for its requests.

    Attributes:
        action: What happens.
        method: HTTP method that it hits; empty for each.
        path: Part of the path that it hits.
        watch: Whether it hits watches (``True``), all but watches (``False``) or both (``None``).
        times: How many requests it hits before it is over; ``None`` for all.
    """

    action: Hang | Refuse | Break
    method: str = ""
    path: str = ""
    watch: bool | None = None
    times: int | None = 1

    def hits(self, method: str, path: str, params: Any) -> bool:
        """Whether it hits this request; uses up one of `times` if so."""
        watching = params.get("watch") in {"1", "true"}
        hit = (
            self.times != 0
            and self.method in {"", method}
            and self.path in path
            and self.watch in {None, watching}
        )
        if hit and self.times is not None:
            self.times -= 1
        return hit
