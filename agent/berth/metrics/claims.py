"""Stands before whoever prepares claims, and counts what becomes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import trio

from berth.dra.service import ClaimService
from berth.metrics.words import ERROR, LATE, OK, UNKNOWN, kind_of_type, one_kind, reason_of
from berth.model.claim import ClaimRef, PreparedClaim
from berth.model.meter import Tally, Timing
from berth.node.records.record import ClaimRecord


def kind_of(record: ClaimRecord | None) -> str:
    """The kind of a claim's devices."""
    if record is None:
        return UNKNOWN
    return one_kind(kind_of_type(device.type) for device in record.devices)


class MeteredClaims:
    """A `ClaimService` that counts.

    Args:
        claims: Who does the work.
        record_of: The record of a claim by its UID, if there is one.

    Attributes:
        prepares: How long prepares took, by kind and result.
        unprepares: The same of unprepares.
        errors: Prepares that failed, by kind and reason.
    """

    def __init__(
        self, claims: ClaimService, record_of: Callable[[str], ClaimRecord | None]
    ) -> None:
        self.prepares = Timing("kind", "result")
        self.unprepares = Timing("kind", "result")
        self.errors = Tally("kind", "reason")
        self._claims = claims
        self._record_of = record_of

    async def prepare(self, ref: ClaimRef, *, beside: Sequence[ClaimRef] = ()) -> PreparedClaim:
        """See `ClaimService`."""
        try:
            with self._timed(self.prepares, ref):
                return await self._claims.prepare(ref, beside=beside)
        except Exception as error:
            self.errors.add(self._kind(ref), reason_of(error))
            raise
        except BaseException:
            # Cut off; a nursery gives several of these as a group.
            self.errors.add(self._kind(ref), LATE)
            raise

    async def unprepare(self, ref: ClaimRef) -> None:
        """See `ClaimService`."""
        with self._timed(self.unprepares, ref):
            await self._claims.unprepare(ref)

    def _kind(self, ref: ClaimRef) -> str:
        return kind_of(self._record_of(ref.uid))

    @contextlib.contextmanager
    def _timed(self, figure: Timing, ref: ClaimRef) -> Iterator[None]:
        """Enter how long the block takes, and how it ends.

        What is prepared has its record after it, and what is undone had it before.
        """
        began, kind, result = trio.current_time(), self._kind(ref), LATE
        try:
            yield
            result = OK
        except Exception:
            result = ERROR
            raise
        finally:
            kind = kind if kind != UNKNOWN else self._kind(ref)
            figure.observe(trio.current_time() - began, kind, result)
