"""The API server for those who cannot wait for it to be there: one object over all connections.

Credentials may come later than the daemon (a node joins its cluster after it boots), and a server
may be away for a moment. Reads of claims wait for that, since a prepare can afford to and a failed
one costs its pod a minute; everything else fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import trio

from berth.errors import KubeError
from berth.kube.api import (
    ClaimEvent,
    ClaimQuery,
    Identity,
    KubeApi,
    Node,
    ServerVersion,
    SliceEvent,
    SliceQuery,
)
from berth.kube.slices import Slice
from berth.kube.status import DeviceStatus
from berth.kube.taintrules import TaintRule
from berth.model.claim import Claim, ClaimRef
from berth.model.pod import PodClaims
from berth.runtime.backoff import BackOff
from berth.runtime.latest import Latest

WAIT_S: Final = 20.0
"""How long a read of a claim waits for an answer of the API server, all attempts together."""

_BUSY: Final = 429


class Gateway:
    """Implements `berth.kube.api.KubeApi` by whichever connection there is.

    Attributes:
        server: The connection of now; ``None`` while there is none.
    """

    def __init__(self) -> None:
        self.server: Latest[KubeApi | None] = Latest(None)
        self._reason = "not connected yet"

    def connect(self, server: KubeApi) -> None:
        """Go by this connection from now on."""
        self.server.set(server)

    def disconnect(self, reason: str) -> None:
        """There is none for now, and why."""
        self._reason = reason
        self.server.set(None)

    @property
    def identity(self) -> Identity:
        """Whom we are to the server; nobody while there is none."""
        server = self.server.get()
        if server is None:
            return Identity(kind="none", source=self._reason, server="")
        return server.identity

    async def get_claim(self, ref: ClaimRef, *, driver: str) -> Claim:
        """The claim, as soon as there is a server that answers."""
        error = KubeError(f"claim {ref}", f"the API server gave no answer within {WAIT_S:.0f} s")
        backoff = BackOff(first_s=0.2, most_s=2.0)
        with trio.move_on_after(WAIT_S):
            while True:
                try:
                    return await self._now().get_claim(ref, driver=driver)
                except KubeError as found:
                    if not _is_passing(found):
                        raise
                    error = found
                backoff, delay_s = backoff.next_delay()
                with trio.move_on_after(delay_s):
                    await self.server.wait_changed(self.server.version)
        raise error

    async def watch_claims(
        self, query: ClaimQuery, report: Callable[[ClaimEvent], None]
    ) -> NoReturn:
        """See `KubeApi`."""
        await self._now().watch_claims(query, report)

    async def list_slices(self, query: SliceQuery) -> tuple[Slice, ...]:
        """See `KubeApi`."""
        return await self._now().list_slices(query)

    async def watch_slices(
        self, query: SliceQuery, report: Callable[[SliceEvent], None]
    ) -> NoReturn:
        """See `KubeApi`."""
        await self._now().watch_slices(query, report)

    async def list_taint_rules(self) -> tuple[TaintRule, ...]:
        """See `KubeApi`."""
        return await self._now().list_taint_rules()

    async def create_slice(self, wanted: Slice) -> Slice:
        """See `KubeApi`."""
        return await self._now().create_slice(wanted)

    async def try_slice(self, wanted: Slice) -> Slice:
        """See `KubeApi`."""
        return await self._now().try_slice(wanted)

    async def update_slice(self, wanted: Slice) -> Slice:
        """See `KubeApi`."""
        return await self._now().update_slice(wanted)

    async def delete_slice(self, gone: Slice) -> None:
        """See `KubeApi`."""
        await self._now().delete_slice(gone)

    async def apply_claim_status(
        self, ref: ClaimRef, devices: Sequence[DeviceStatus], *, driver: str, manager: str
    ) -> None:
        """See `KubeApi`."""
        await self._now().apply_claim_status(ref, devices, driver=driver, manager=manager)

    async def read_claim_status(self, ref: ClaimRef, *, driver: str) -> tuple[DeviceStatus, ...]:
        """See `KubeApi`."""
        return await self._now().read_claim_status(ref, driver=driver)

    async def get_node(self, name: str) -> Node:
        """See `KubeApi`."""
        return await self._now().get_node(name)

    async def pod_is_ending(self, namespace: str, name: str, *, uid: str) -> bool:
        """See `KubeApi`."""
        return await self._now().pod_is_ending(namespace, name, uid=uid)

    async def pod_claims(self, namespace: str, name: str, *, uid: str) -> PodClaims | None:
        """See `KubeApi`."""
        return await self._now().pod_claims(namespace, name, uid=uid)

    async def server_version(self) -> ServerVersion:
        """See `KubeApi`."""
        return await self._now().server_version()

    def local_endpoints(self) -> tuple[str, ...]:
        """See `KubeApi`; none without a connection."""
        server = self.server.get()
        return server.local_endpoints() if server is not None else ()

    def _now(self) -> KubeApi:
        server = self.server.get()
        if server is None:
            raise KubeError("API server", self._reason, mend="`berth status` shows the connection")
        return server


def _is_passing(error: KubeError) -> bool:
    """Whether nobody judged the request: no server, no answer, or one that is not well."""
    return error.status in {0, _BUSY} or error.status >= 500
