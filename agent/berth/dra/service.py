"""Kubelet's DRA service: claims of a request are worked on side by side, each with its own outcome.

An RPC error would fail every claim of the pod, a missing entry likewise; so each UID gets an entry,
and whatever goes wrong with a claim is a text in it. A failed prepare costs the pod 60 to 90 s,
hence `ClaimService.prepare` may wait for what comes soon, up to `LIMIT_S`. Only a request that no
kubelet makes is refused as a whole, so that none can hold up the daemon.

Source: KC §3.2, §3.3, §3.5.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import attrs
import trio

from berth.dra.messages import (
    DIALECTS,
    Dialect,
    Outcome,
    Requested,
    read_claims,
    read_ended_claims,
)
from berth.errors import BerthError
from berth.model.claim import ClaimRef, PreparedClaim
from berth.runtime.logs import get_log
from berth.runtime.methods import Call, Message, Method, RpcError, Service, Status

LIMIT_S: Final = 40.0
"""Longest that a claim may take, in seconds; kubelet waits for 45."""

LIMIT_PART: Final = LIMIT_S / 45.0
"""Part of a caller's deadline that a claim may take, so that the answer still arrives."""

ACTIVE_LIMIT: Final = 4096
"""Claims that are worked on at a time, over all requests; a node has some hundred pods."""

VERSIONS: Final = tuple(dialect.version for dialect in DIALECTS)
"""Every version of the service that can be offered."""

_log = get_log(__name__)


class ClaimService(Protocol):
    """Who prepares claims. Every method may be called for several claims at a time.

    A repeated call gives the same result, whatever happened between. The caller's scope says how
    long a call may take; a cancel leaves nothing that a later call could not go on from.
    """

    async def prepare(self, ref: ClaimRef, *, beside: Sequence[ClaimRef] = ()) -> PreparedClaim:
        """Make a claim's devices ready for its pod.

        Args:
            beside: All claims of the request, which are those of one pod, in its order.

        Raises:
            ClaimError: This claim cannot be prepared now; kubelet asks again in 60 to 90 s.
            BerthError: Likewise, for a reason outside the claim.
        """
        ...

    async def unprepare(self, ref: ClaimRef) -> None:
        """Undo `prepare`; a claim that was never prepared is undone already.

        Raises:
            BerthError: It could not be undone; kubelet asks again in 10 to 15 s.
        """
        ...


@attrs.frozen(kw_only=True)
class DraStatistics:
    """What the service did since it was made; claims, not requests.

    Attributes:
        prepared: Claims prepared, repeated ones included.
        unprepared: Claims undone, repeated and unknown ones included.
        failed: Claims that were answered by an error.
        active: Claims being worked on now.
    """

    prepared: int = 0
    unprepared: int = 0
    failed: int = 0
    active: int = 0


Work: TypeAlias = "Callable[[ClaimRef], Awaitable[Outcome]]"


class DraService:
    """Answers kubelet's calls by a `ClaimService`.

    Args:
        claims: Who does the work.
        versions: Which versions of the service are offered; the newest comes first, whatever
            order they are given in.
    """

    def __init__(self, claims: ClaimService, *, versions: Sequence[str] = VERSIONS) -> None:
        self._claims = claims
        self._dialects = tuple(dialect for dialect in DIALECTS if dialect.version in versions)
        self._statistics = DraStatistics()
        self._scopes: set[trio.CancelScope] = set()

    @property
    def tokens(self) -> tuple[str, ...]:
        """What is told to kubelet's registration: exactly what is served, the newest first."""
        return tuple(f"{dialect.version}.DRAPlugin" for dialect in self._dialects)

    def services(self) -> tuple[Service, ...]:
        """The method tables of the versions offered."""
        return tuple(self._service(dialect) for dialect in self._dialects)

    def end_by(self, deadline: float) -> None:
        """Have every claim under way answered by then, on trio's clock, if need be by an error."""
        for scope in self._scopes:
            scope.deadline = min(scope.deadline, deadline)

    def statistics(self) -> DraStatistics:
        """Give figures for tests and for the operator."""
        return self._statistics

    def _service(self, dialect: Dialect) -> Service:
        async def prepare(request: Any, call: Call) -> Message:
            requested = read_claims(request.claims)
            prepare_one = partial(self._claims.prepare, beside=requested.claims)
            outcomes = await self._work("prepare", requested, call, prepare_one)
            return dialect.prepare_answer(outcomes)

        async def unprepare(request: Any, call: Call) -> Message:
            requested = read_ended_claims(request.claims)
            outcomes = await self._work("unprepare", requested, call, self._claims.unprepare)
            return dialect.unprepare_answer(outcomes)

        return Service(
            name=dialect.service,
            methods=(
                Method(
                    name="NodePrepareResources",
                    request=dialect.prepare_request,
                    reply=dialect.prepare_reply,
                    handler=prepare,
                ),
                Method(
                    name="NodeUnprepareResources",
                    request=dialect.unprepare_request,
                    reply=dialect.unprepare_reply,
                    handler=unprepare,
                ),
            ),
        )

    async def _work(
        self, verb: str, requested: Requested, call: Call, work: Work
    ) -> Mapping[str, Outcome]:
        """Work on all claims at a time; the outcome of each by its UID.

        Raises:
            RpcError: Too many are worked on already.
        """
        active = self._statistics.active
        if active + len(requested.claims) > ACTIVE_LIMIT:
            raise RpcError(
                verb,
                f"{active} claims are worked on already",
                rule=f"at most {ACTIVE_LIMIT} at a time",
                code=Status.RESOURCE_EXHAUSTED,
            )
        outcomes = dict(requested.settled)
        for uid, outcome in outcomes.items():
            _log.warning("claim is refused unread", verb=verb, uid=uid, reason=outcome)
        limit_s = LIMIT_S
        if call.timeout_s is not None:
            limit_s = min(LIMIT_S, call.timeout_s * LIMIT_PART)

        async def settle(ref: ClaimRef) -> None:
            outcomes[ref.uid] = await self._settle(verb, ref, limit_s, work)

        self._count(active=len(requested.claims))
        async with trio.open_nursery() as nursery:
            for ref in requested.claims:
                nursery.start_soon(settle, ref, name=f"{verb} {ref}")
        return outcomes

    async def _settle(self, verb: str, ref: ClaimRef, limit_s: float, work: Work) -> Outcome:
        began = trio.current_time()
        try:
            outcome = await self._outcome(verb, ref, limit_s, work)
        finally:
            self._count(active=-1)
        took_s = trio.current_time() - began
        if isinstance(outcome, str):
            self._count(failed=1)
            _log.warning(
                f"claim {verb} failed", claim=ref, uid=ref.uid, reason=outcome, took_s=took_s
            )
        elif outcome is not None:
            self._count(prepared=1)
            devices = ",".join(device.device for device in outcome.devices)
            _log.info("claim prepared", claim=ref, uid=ref.uid, devices=devices, took_s=took_s)
        else:
            self._count(unprepared=1)
            _log.info("claim unprepared", claim=ref, uid=ref.uid, took_s=took_s)
        return outcome

    def _count(self, **more: int) -> None:
        old = attrs.asdict(self._statistics)
        self._statistics = DraStatistics(**{k: old[k] + more.get(k, 0) for k in old})

    async def _outcome(self, verb: str, ref: ClaimRef, limit_s: float, work: Work) -> Outcome:
        ends_at = trio.current_time() + limit_s
        scope = trio.CancelScope(deadline=ends_at)
        self._scopes.add(scope)
        try:
            with scope:
                return await _outcome(verb, ref, work)
        finally:
            self._scopes.discard(scope)
        stopping = scope.deadline < ends_at
        why = "berthd is stopping" if stopping else f"not done within {limit_s:.0f} s"
        return f"claim {ref}: {why}; kubelet asks again"


async def _outcome(verb: str, ref: ClaimRef, work: Work) -> Outcome:
    await trio.lowlevel.checkpoint()
    try:
        return await work(ref)
    except BerthError as error:
        return str(error) or repr(error)
    except Exception as error:  # noqa: BLE001 - a defect met by one claim must not fail others
        _log.exception(f"claim {verb} met a defect", claim=ref, uid=ref.uid)
        return f"defect in berthd: {error!r}; its log has the traceback"
