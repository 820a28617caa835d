"""Which claims have devices of ours on this node, as the API server says, prepared or not.

Kubelet tells a driver of a claim when its pod starts, and of some never. Who has to know earlier,
or at all, wants this watch. It is cluster-wide, since no field of a claim can be selected: it runs
only while somebody wants it, and keeps what concerns this node and no more.

What is known outlives an interruption of the watch, which is told beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import trio

from berth.kube.api import (
    ClaimEvent,
    ClaimGone,
    ClaimQuery,
    ClaimSeen,
    ClaimsListed,
    KubeApi,
    WatchInterrupted,
)
from berth.model.allocation import AllocatedClaim
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

AllocatedClaims: TypeAlias = "Mapping[str, AllocatedClaim]"
"""By UID."""

_DENIED: Final = frozenset({401, 403})
_NOT_LISTED: Final = "the API server has not listed them yet"
_log = get_log(__name__)


class Allocations:
    """Watches claims while somebody wants to know of them.

    Args:
        api: The API server.

    Attributes:
        claims: What is known; ``None`` while nobody wants it, or the server has not listed it yet.
        trouble: Why nothing new is seen now; empty while all is well.
        denied: The server does not let us see claims.
        unseen: Why nothing at all is known; ``None`` while something is.
    """

    def __init__(self, api: KubeApi) -> None:
        self.claims: Latest[AllocatedClaims | None] = Latest(None)
        self.trouble: Latest[str] = Latest("")
        self.denied: Latest[bool] = Latest(False)
        self.unseen: Latest[str | None] = Latest(_NOT_LISTED)
        self._api = api
        self._wanted: Latest[frozenset[str]] = Latest(frozenset())

    @property
    def is_wanted(self) -> bool:
        """Whether anybody wants to know."""
        return bool(self._wanted.get())

    def want(self, who: str, wanted: bool) -> None:
        """Somebody wants to know of claims from now on, or no longer.

        Args:
            who: A word for each who may want it.
            wanted: Whether it does.
        """
        others = self._wanted.get() - {who}
        self._wanted.set(others | {who} if wanted else others)

    async def run(self, query: ClaimQuery) -> None:
        """Watch whenever somebody wants it, until cancelled.

        Raises:
            KubeError: There is no connection to the server; in an exception group.
        """
        while True:
            await self._wanted.wait_value(bool)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._api.watch_claims, query, self._report)
                    await self._wanted.wait_value(lambda wanted: not wanted)
                    nursery.cancel_scope.cancel()
            finally:
                self.claims.set(None)
                self.trouble.set("")
                self.denied.set(False)
                self.unseen.set(_NOT_LISTED)

    def _report(self, event: ClaimEvent) -> None:
        if isinstance(event, WatchInterrupted):
            if event.attempts == 1:
                _log.warning("claims are not watched", reason=event.error, retry_s=event.retry_s)
            self.trouble.set(str(event.error))
            self.denied.set(event.error.status in _DENIED)
        else:
            self.trouble.set("")
            self.denied.set(False)
            self.claims.set(after(self.claims.get(), event))
        unknown = self.claims.get() is None
        self.unseen.set((self.trouble.get() or _NOT_LISTED) if unknown else None)


def after(known: AllocatedClaims | None, event: ClaimEvent) -> AllocatedClaims | None:
    """What is known after an event; the same object when it tells nothing new."""
    if isinstance(event, ClaimsListed):
        return {claim.ref.uid: claim for claim in event.claims}
    if isinstance(event, ClaimSeen) and known is not None:
        return {**known, event.claim.ref.uid: event.claim}
    if isinstance(event, ClaimGone) and known is not None and event.uid in known:
        return {uid: claim for uid, claim in known.items() if uid != event.uid}
    return known
