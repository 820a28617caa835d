"""Stands before a connection to the API server, and counts what is asked of it.

The figures outlive connections: one `Traffic` for all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

import trio

from berth.errors import ClaimError, KubeError
from berth.kube.api import (
    ClaimEvent,
    ClaimQuery,
    Identity,
    KubeApi,
    Node,
    ServerVersion,
    SliceEvent,
    SliceQuery,
    WatchInterrupted,
)
from berth.kube.slices import Slice
from berth.kube.status import DeviceStatus
from berth.kube.taintrules import TaintRule
from berth.metrics.words import result_of_write
from berth.model.claim import Claim, ClaimRef
from berth.model.meter import Tally, Timing
from berth.model.pod import PodClaims

_CLAIMS: Final = "resourceclaims"
_SLICES: Final = "resourceslices"
_TAINT_RULES: Final = "devicetaintrules"

_DONE: Final = {"create": "201", "try": "201"}
# Status of an answer that was no refusal; of all others it is 200.


class Traffic:
    """What was asked of the API server, over all connections.

    Attributes:
        requests: How many, by verb, resource and status.
        seconds: How long they took, by verb and resource.
        watch_restarts: Watches that broke, by resource.
        slice_writes: How long writes of slices took, by verb and result.
        status_writes: Writes of claim statuses, by result.
    """

    def __init__(self) -> None:
        self.requests = Tally("verb", "resource", "code")
        self.seconds = Timing("verb", "resource")
        self.watch_restarts = Tally("resource")
        self.slice_writes = Timing("verb", "result")
        self.status_writes = Tally("result").begin("ok", "conflict", "refused", "error")


class MeteredApi:
    """A `KubeApi` that counts.

    Args:
        server: Who answers.
        traffic: Where it is counted.
    """

    def __init__(self, server: KubeApi, traffic: Traffic) -> None:
        self._server = server
        self._traffic = traffic

    @property
    def identity(self) -> Identity:
        """See `KubeApi`."""
        return self._server.identity

    async def get_claim(self, ref: ClaimRef, *, driver: str) -> Claim:
        """See `KubeApi`."""
        with self._request("get", _CLAIMS):
            return await self._server.get_claim(ref, driver=driver)

    async def watch_claims(
        self, query: ClaimQuery, report: Callable[[ClaimEvent], None]
    ) -> NoReturn:
        """See `KubeApi`."""

        def told(event: ClaimEvent) -> None:
            if isinstance(event, WatchInterrupted):
                self._traffic.watch_restarts.add(_CLAIMS)
            report(event)

        await self._server.watch_claims(query, told)

    async def list_slices(self, query: SliceQuery) -> tuple[Slice, ...]:
        """See `KubeApi`."""
        with self._request("list", _SLICES):
            return await self._server.list_slices(query)

    async def watch_slices(
        self, query: SliceQuery, report: Callable[[SliceEvent], None]
    ) -> NoReturn:
        """See `KubeApi`."""

        def told(event: SliceEvent) -> None:
            if isinstance(event, WatchInterrupted):
                self._traffic.watch_restarts.add(_SLICES)
            report(event)

        await self._server.watch_slices(query, told)

    async def list_taint_rules(self) -> tuple[TaintRule, ...]:
        """See `KubeApi`."""
        with self._request("list", _TAINT_RULES):
            return await self._server.list_taint_rules()

    async def create_slice(self, wanted: Slice) -> Slice:
        """See `KubeApi`."""
        with self._slice_write("create"):
            return await self._server.create_slice(wanted)

    async def try_slice(self, wanted: Slice) -> Slice:
        """See `KubeApi`."""
        with self._request("try", _SLICES):
            return await self._server.try_slice(wanted)

    async def update_slice(self, wanted: Slice) -> Slice:
        """See `KubeApi`."""
        with self._slice_write("update"):
            return await self._server.update_slice(wanted)

    async def delete_slice(self, gone: Slice) -> None:
        """See `KubeApi`."""
        with self._slice_write("delete"):
            await self._server.delete_slice(gone)

    async def apply_claim_status(
        self, ref: ClaimRef, devices: Sequence[DeviceStatus], *, driver: str, manager: str
    ) -> None:
        """See `KubeApi`."""
        with self._written(self._traffic.status_writes.add), self._request("apply", _CLAIMS):
            await self._server.apply_claim_status(ref, devices, driver=driver, manager=manager)

    async def read_claim_status(self, ref: ClaimRef, *, driver: str) -> tuple[DeviceStatus, ...]:
        """See `KubeApi`."""
        with self._request("get", _CLAIMS):
            return await self._server.read_claim_status(ref, driver=driver)

    async def get_node(self, name: str) -> Node:
        """See `KubeApi`."""
        with self._request("get", "nodes"):
            return await self._server.get_node(name)

    async def pod_is_ending(self, namespace: str, name: str, *, uid: str) -> bool:
        """See `KubeApi`."""
        with self._request("get", "pods"):
            return await self._server.pod_is_ending(namespace, name, uid=uid)

    async def pod_claims(self, namespace: str, name: str, *, uid: str) -> PodClaims | None:
        """See `KubeApi`."""
        with self._request("get", "pods"):
            return await self._server.pod_claims(namespace, name, uid=uid)

    async def server_version(self) -> ServerVersion:
        """See `KubeApi`."""
        with self._request("get", "version"):
            return await self._server.server_version()

    def local_endpoints(self) -> tuple[str, ...]:
        """See `KubeApi`."""
        return self._server.local_endpoints()

    @contextlib.contextmanager
    def _request(self, verb: str, resource: str) -> Iterator[None]:
        """Count one request; what was cut off by us has no answer."""
        began, code = trio.current_time(), "0"
        try:
            yield
            code = _DONE.get(verb, "200")
        except KubeError as error:
            code = str(error.status)
            raise
        except ClaimError:
            # The server has answered, by a claim that is of no use.
            code = "200"
            raise
        finally:
            self._traffic.requests.add(verb, resource, code)
            self._traffic.seconds.observe(trio.current_time() - began, verb, resource)

    @contextlib.contextmanager
    def _slice_write(self, verb: str) -> Iterator[None]:
        began = trio.current_time()

        def wrote(result: str) -> None:
            self._traffic.slice_writes.observe(trio.current_time() - began, verb, result)

        with self._written(wrote), self._request(verb, _SLICES):
            yield

    @contextlib.contextmanager
    def _written(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Tell how a write ended."""
        try:
            yield
        except KubeError as error:
            tell(result_of_write(error))
            raise
        else:
            tell(result_of_write(None))
