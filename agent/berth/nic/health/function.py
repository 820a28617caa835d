"""From what was seen of a NIC's PCI function, and before, to what speaks against the NIC.

Source: network.md §4.5 and §7, for the rules and their times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from berth.health.finding import Finding, Severity
from berth.host.pcihealth import FunctionSight
from berth.nic.health.post import Place, Post
from berth.nic.health.suspicion import finding_of
from berth.vfio.binding import VFIO

ERRORS_A_MINUTE: Final = 10
"""More errors than so many in a minute are too many, though the link survives each."""

MINUTE_S: Final = 60.0
"""See `ERRORS_A_MINUTE`."""

QUIET_S: Final = 3600.0
"""How long a link must be without errors before it counts as sound again."""

FATAL: Final = "aer-fatal"
NONFATAL: Final = "aer"
REBOUND: Final = "driver-rebound"
RDMA_LOST: Final = "rdma-lost"

_ACTIVE: Final = frozenset({"ACTIVE", ""})
# A device whose ports tell no state is not judged by them.
_ON_ITS_WAY: Final = frozenset({Place.MOVING, Place.RETURNING})


@attrs.frozen(kw_only=True)
class Errors:
    """What is remembered of one counter of errors.

    Attributes:
        counts: Moments of the last minute and what the counter said then, and one before.
        bad_s: When it was beyond what is allowed last, or, since then, rose last; ``None`` while
            that is long ago.
    """

    counts: tuple[tuple[float, int], ...] = ()
    bad_s: float | None = None


@attrs.frozen(kw_only=True)
class FunctionMemory:
    """What is remembered of a NIC's function from one look to the next.

    Attributes:
        binding: See `FunctionSight.binding`; of the last driver, while there is none.
        was_in_pod: It was in a pod at the last look.
        holder: Whose it was.
        rebound: Its driver was bound anew while it was in that holder's pod.
        fatal: Errors that broke its link.
        nonfatal: Errors that it survived.
        rdma: How many RDMA devices were seen on it since its driver was bound.
    """

    binding: int = 0
    was_in_pod: bool = False
    holder: str = ""
    rebound: bool = False
    fatal: Errors = attrs.field(factory=Errors)
    nonfatal: Errors = attrs.field(factory=Errors)
    rdma: int = 0


@attrs.frozen(kw_only=True)
class FunctionVerdict:
    """What one look comes to."""

    findings: tuple[Finding, ...]
    memory: FunctionMemory


def resumed(standing: Iterable[Finding], post: Post, *, at_s: float) -> FunctionMemory:
    """What a new life of the daemon remembers by what the last one has told."""
    codes = {finding.code for finding in standing}
    return FunctionMemory(
        holder=post.holder,
        rebound=REBOUND in codes,
        fatal=Errors(bad_s=at_s if FATAL in codes else None),
        nonfatal=Errors(bad_s=at_s if NONFATAL in codes else None),
        # One more than there are, as far as is known.
        rdma=1 if RDMA_LOST in codes else 0,
    )


def let_stand(memory: FunctionMemory, standing: Iterable[Finding]) -> FunctionMemory:
    """The memory when a person may have cleared something: what stands no more is over."""
    codes = {finding.code for finding in standing}
    return attrs.evolve(
        memory,
        rebound=memory.rebound and REBOUND in codes,
        fatal=memory.fatal if memory.fatal.bad_s is None or FATAL in codes else Errors(),
        nonfatal=memory.nonfatal
        if memory.nonfatal.bad_s is None or NONFATAL in codes
        else Errors(),
    )


def judge_function(
    post: Post,
    sight: FunctionSight,
    before: FunctionMemory,
    *,
    pf: FunctionSight | None = None,
    at_s: float,
) -> FunctionVerdict:
    """Judge one look.

    Args:
        pf: How the PF of a VF is; ``None`` for others.
    """
    memory = _after(post, sight, before, at_s)
    findings = tuple(_findings(post, sight, memory, pf))
    return FunctionVerdict(findings=findings, memory=memory)


def _after(post: Post, sight: FunctionSight, before: FunctionMemory, at_s: float) -> FunctionMemory:
    """The memory after a look: what a driver's bind ends, and what counters say."""
    same_holder, in_pod = post.holder == before.holder, post.place is Place.POD
    was_in_pod = same_holder and before.was_in_pod
    anew = 0 not in {before.binding, sight.binding} and sight.binding != before.binding
    # It is seen anew before its record says that it came home, or after; what ends it is that it
    # is brought into a pod again.
    rebound = (same_holder and before.rebound) or (anew and was_in_pod)
    fatal, nonfatal = (Errors(), Errors()) if anew else (before.fatal, before.nonfatal)
    seen = len(sight.rdma)
    return FunctionMemory(
        binding=sight.binding or before.binding,
        was_in_pod=in_pod or (was_in_pod and post.place in _ON_ITS_WAY),
        holder=post.holder,
        rebound=rebound and (was_in_pod or not in_pod),
        fatal=_counted(sight.fatal, fatal, at_s, allowed=0),
        nonfatal=_counted(sight.nonfatal, nonfatal, at_s, allowed=ERRORS_A_MINUTE),
        rdma=seen if anew else max(seen, before.rdma),
    )


def _counted(count: int | None, before: Errors, at_s: float, *, allowed: int) -> Errors:
    """The memory of a counter with what it says now."""
    quiet = before.bad_s is None or at_s - before.bad_s >= QUIET_S
    bad_s = None if quiet else before.bad_s
    if count is None:
        return Errors(bad_s=bad_s)
    last = before.counts[-1][1] if before.counts else count
    if count < last:
        # The function appeared anew, and its counters with it.
        return Errors(counts=((at_s, count),))
    recent = tuple(one for one in before.counts if at_s - one[0] <= MINUTE_S)
    older = tuple(one for one in before.counts if at_s - one[0] > MINUTE_S)[-1:]
    base = (*older, *recent, (at_s, count))
    span_s = max(at_s - base[0][0], MINUTE_S)
    if (count - base[0][1]) * MINUTE_S > allowed * span_s or (bad_s is not None and count > last):
        bad_s = at_s
    return Errors(counts=(*older, *recent, (at_s, count)), bad_s=bad_s)


def _findings(
    post: Post, sight: FunctionSight, memory: FunctionMemory, pf: FunctionSight | None
) -> Iterator[Finding]:
    if not sight.present:
        yield finding_of("lost", Severity.LOST, f"{post.address} is not in the machine any more")
        return
    if not sight.answers:
        message = f"{post.address} does not answer: its configuration space reads ff"
        yield finding_of("lost", Severity.LOST, f"{message}; a new boot or a new card may help")
    elif pf is not None and not (pf.present and pf.answers):
        state = "does not answer" if pf.present else "is not in the machine any more"
        yield finding_of("lost", Severity.LOST, f"its PF {sight.physfn} {state}")
    if not post.driverless:
        yield from _of_driver(post, sight)
    if memory.rebound:
        message = (
            f"the driver {sight.driver} was bound anew while it was in a pod of {post.holder}, "
            "so it came home: delete the pod, its successor gets it"
        )
        yield finding_of(REBOUND, Severity.FAULT, message)
    yield from _of_errors(memory)
    if sight.driver and sight.driver != VFIO:
        yield from _of_rdma(post, sight, memory)


def _of_driver(post: Post, sight: FunctionSight) -> Iterator[Finding]:
    wanted = post.driver or "its driver"
    if not sight.driver:
        message = f"no driver has {post.address}: bind {wanted} to it"
        yield finding_of("no-driver", Severity.FAULT, message)
    elif post.driver and sight.driver != post.driver:
        message = f"{sight.driver} has {post.address}, which had {wanted}: bind that again"
        yield finding_of("no-driver", Severity.FAULT, message)


def _of_errors(memory: FunctionMemory) -> Iterator[Finding]:
    if memory.fatal.bad_s is not None:
        message = (
            "its PCI link broke by an error that the kernel counts as fatal (aer_dev_fatal): look "
            "at the kernel's log, at the slot and the card"
        )
        yield finding_of(FATAL, Severity.FAULT, message)
    if memory.nonfatal.bad_s is not None:
        message = (
            f"its PCI link had more than {ERRORS_A_MINUTE} errors in a minute that it survived "
            "(aer_dev_nonfatal): look at the slot and the card"
        )
        yield finding_of(NONFATAL, Severity.DEGRADED, message)


def _of_rdma(post: Post, sight: FunctionSight, memory: FunctionMemory) -> Iterator[Finding]:
    if len(sight.rdma) < memory.rdma:
        message = "its RDMA device is gone, though its driver is the same: bind the driver anew"
        yield finding_of(RDMA_LOST, Severity.FAULT, message)
    if not post.is_watched_for_carrier:
        return
    bad = [f"{port} is {state}" for port, state in sight.ports.items() if state not in _ACTIVE]
    if bad:
        message = f"RDMA port {', '.join(bad)}: check its cable, or the fabric's subnet manager"
        yield finding_of("rdma-port", Severity.DEGRADED, message)
