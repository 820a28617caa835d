"""From what was seen of a NIC's link, and before, to what speaks against the NIC.

Source: network.md §4.4, §4.5 and §7, for the rules and their times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from berth.health.finding import Finding, Severity
from berth.host.netlink.link import Link
from berth.model.device import RESTORE_FAILED
from berth.nic.health.post import Place, Post
from berth.nic.health.sight import LinkSight, has_carrier
from berth.nic.health.suspicion import Suspicion, found, weigh
from berth.nic.record import NicRecord, SandboxRef

CARRIER_S: Final = 5.0
"""How long carrier must be away."""

ATTACH_S: Final = 30.0
"""For how long after the attach it may not have come yet; once it came it can only be lost."""

SETTLE_S: Final = 5.0
"""How long a link may be nowhere that nobody took: a driver makes its link some time later."""

RETURN_S: Final = 5.0
"""How long a NIC may take to be as it was."""

LEFT_S: Final = 30.0
"""How long a sandbox may outlive its NIC: it is torn down after its NICs have left it."""

FLAPS: Final = 4
"""So many losses of carrier within `FLAP_S` are too many."""

FLAP_S: Final = 300.0
"""See `FLAPS`."""

QUIET_S: Final = 1800.0
"""How long carrier must stay before a link counts as steady again."""

FLAPPING: Final = "flapping"

_COUNTED: Final = frozenset({Place.FREE, Place.PARENT, Place.POD})
_SHOWN: Final = 5
# Items of a list that a message names.

Key: TypeAlias = "tuple[str, int]"


@attrs.frozen(kw_only=True)
class LinkMemory:
    """What is remembered of a NIC's link from one look to the next.

    Attributes:
        since_s: See `berth.nic.health.suspicion.weigh`.
        key: Which link its count is of: its sandbox, empty at home, and its index there.
        down_count: How often it has lost carrier, as the kernel counts; ``None`` before it told.
        downs_s: When it did lately.
        flapped_s: When it did last, while it does so too often; ``None`` while it does not.
        sandbox: That it was attached to last, for the same holder.
        holder: Whose NIC it was then.
        moved_s: When it was seen there first; minus infinity once it had carrier there.
    """

    since_s: Mapping[str, float] = attrs.field(factory=dict)
    key: Key = ("", 0)
    down_count: int | None = None
    downs_s: tuple[float, ...] = ()
    flapped_s: float | None = None
    sandbox: SandboxRef | None = None
    holder: str = ""
    moved_s: float = -math.inf


@attrs.frozen(kw_only=True)
class LinkVerdict:
    """What one look comes to.

    Attributes:
        due_s: When something would be told that is not yet; infinite where nothing waits.
    """

    findings: tuple[Finding, ...]
    memory: LinkMemory
    due_s: float


def resumed(standing: Iterable[Finding], *, at_s: float) -> LinkMemory:
    """What a new life of the daemon remembers by what the last one has told."""
    codes = {finding.code for finding in standing}
    return LinkMemory(
        since_s=dict.fromkeys(codes - {FLAPPING}, -math.inf),
        flapped_s=at_s if FLAPPING in codes else None,
    )


def let_stand(memory: LinkMemory, standing: Iterable[Finding]) -> LinkMemory:
    """The memory when a person may have cleared something: what stands no more is over."""
    if memory.flapped_s is None or FLAPPING in {finding.code for finding in standing}:
        return memory
    return attrs.evolve(memory, flapped_s=None, downs_s=())


def judge_link(post: Post, sight: LinkSight, before: LinkMemory, *, at_s: float) -> LinkVerdict:
    """Judge one look at a NIC that is not on its way."""
    memory = _followed(post, before, at_s)
    if sight.link is not None and has_carrier(sight.link):
        memory = attrs.evolve(memory, moved_s=-math.inf)
    memory = _counted(post, sight.link, memory, at_s)
    weighed = weigh(_suspicions(post, sight, memory), memory.since_s, at_s=at_s)
    return LinkVerdict(
        findings=weighed.findings,
        memory=attrs.evolve(memory, since_s=weighed.since_s),
        due_s=weighed.due_s,
    )


def _followed(post: Post, before: LinkMemory, at_s: float) -> LinkMemory:
    """The memory with the sandbox that the NIC is in, or was in last for the same holder."""
    sandbox = _sandbox(post)
    if sandbox is None and post.holder == before.holder:
        return before
    if (sandbox, post.holder) == (before.sandbox, before.holder):
        return before
    return attrs.evolve(before, sandbox=sandbox, holder=post.holder, moved_s=at_s)


def _sandbox(post: Post) -> SandboxRef | None:
    return post.record.sandbox if post.record is not None and post.place is Place.POD else None


def _counted(post: Post, link: Link | None, before: LinkMemory, at_s: float) -> LinkMemory:
    """The memory with what the kernel's count says of lost carrier.

    What berth does to a link on its way counts there, too: so a count is compared only with one of
    the same link in the same place, and one that somebody has at home is not counted at all.
    """
    quiet = before.flapped_s is not None and at_s - before.flapped_s >= QUIET_S
    flapped_s = None if quiet else before.flapped_s
    downs_s = tuple(at for at in before.downs_s if at_s - at < FLAP_S)
    sandbox = _sandbox(post)
    place = sandbox.id if sandbox is not None else ""
    if link is None or post.place not in _COUNTED:
        return attrs.evolve(before, downs_s=downs_s, flapped_s=flapped_s, down_count=None)
    count, key = link.carrier_down_count, (place, link.index)
    if before.down_count is not None and before.key == key:
        fresh = min(max(count - before.down_count, 0), FLAPS)
        downs_s = (*downs_s, *([at_s] * fresh))[-FLAPS:]
        if fresh and (flapped_s is not None or len(downs_s) >= FLAPS):
            flapped_s = at_s
    return attrs.evolve(before, key=key, down_count=count, downs_s=downs_s, flapped_s=flapped_s)


def _suspicions(post: Post, sight: LinkSight, memory: LinkMemory) -> Iterator[Suspicion]:
    if post.busy:
        yield found(
            "busy",
            Severity.FAULT,
            "its driver does not let go of it, since a program has it open: end that program",
        )
    elif post.fault and post.place is Place.RETURNING:
        yield found(RESTORE_FAILED, Severity.FAULT, _unrestored(post), after_s=RETURN_S)
    if post.place is Place.GONE:
        yield found("lost", Severity.LOST, f"its link exists no more; it was with {post.holder}")
    if sight.pf:
        yield from _of_pf(post, sight)
    yield from _BY_PLACE.get(post.place, _nothing)(post, sight, memory)
    if memory.flapped_s is not None:
        message = (
            f"its carrier went at least {FLAPS} times within {FLAP_S / 60:.0f} minutes: check its "
            "cable, and the port at its other end"
        )
        yield found(FLAPPING, Severity.DEGRADED, message)


def _unrestored(post: Post) -> str:
    return (
        f"it cannot be put back as it was before {post.holder} had it: {post.fault}; "
        "berth tries again by itself, and nobody gets it before"
    )


def _of_pf(post: Post, sight: LinkSight) -> Iterator[Suspicion]:
    """A virtual function's driver may tell carrier that its physical function has not."""
    link = sight.pf_link
    if link is None or has_carrier(link):
        return
    state = "has no carrier: check its cable" if link.up else f"is down: set {link.name} up"
    yield found("pf-down", post.carrier, f"its PF {sight.pf} {state}", after_s=CARRIER_S)


def _nothing(_: Post, __: LinkSight, ___: LinkMemory) -> Iterator[Suspicion]:
    yield from ()


def _free(post: Post, sight: LinkSight, _: LinkMemory) -> Iterator[Suspicion]:
    if sight.link is None:
        if post.index or post.linkless:
            # What else has no link has a reason for it, which keeps it from being offered.
            message = "it has a driver, and its link is in no namespace that berth knows of"
            yield found("lost", Severity.LOST, message, after_s=SETTLE_S)
    elif sight.link.up and not has_carrier(sight.link) and post.is_watched_for_carrier:
        yield _without_carrier(post, sight.link, "at home")


def _parent(post: Post, sight: LinkSight, memory: LinkMemory) -> Iterator[Suspicion]:
    link = sight.link
    if link is None and post.holder:
        yield found("missing", Severity.FAULT, f"the parent's link is gone{_whereabouts(sight)}")
    elif link is None:
        yield from _free(post, sight, memory)
    elif not link.up:
        message = f"the parent {link.name} is down, so no link over it has carrier: set it up"
        yield found("parent-down", Severity.FAULT, message)
    elif not has_carrier(link) and post.is_watched_for_carrier:
        yield _without_carrier(post, link, "at home")
    yield from _of_children(post, sight)


def _of_children(post: Post, sight: LinkSight) -> Iterator[Suspicion]:
    """What one pod did to its own link is no fault of the parent, which others share."""
    pairs = [pair for pair in zip(post.children, sight.children, strict=True) if not pair[1].ended]
    gone = [_pod(record) for record, one in pairs if one.link is None]
    if gone:
        message = f"the link over it is gone from pod {_some(gone)}: delete the pod to get another"
        yield found("missing", Severity.DEGRADED, message)
    ips = [f"{ip} in pod {_pod(record)}" for record, one in pairs for ip in one.duplicates]
    if ips:
        yield _duplicate(ips)
    fields = [f"{f} in pod {_pod(record)}" for record, one in pairs for f in one.lacking]
    if fields:
        yield _drifted(fields)


def _staged(post: Post, sight: LinkSight, memory: LinkMemory) -> Iterator[Suspicion]:
    if sight.link is None:
        message = f"its link is not at home, where {post.holder} left it{_whereabouts(sight)}"
        yield found("missing", Severity.FAULT, message, after_s=SETTLE_S)
    elif post.record is not None and post.record.fault:
        message = f"the pod of {post.holder} has it not: {post.record.fault}"
        yield found("missing", Severity.FAULT, message)
    elif sight.in_former and memory.sandbox is not None:
        message = (
            f"it came home, and pod {memory.sandbox.pod} goes on without it: "
            "delete the pod, its successor gets it"
        )
        yield found("missing", Severity.FAULT, message, after_s=LEFT_S)


def _in_pod(post: Post, sight: LinkSight, memory: LinkMemory) -> Iterator[Suspicion]:
    record, link = post.record, sight.link
    if record is None or sight.ended:
        return
    pod = _pod(record)
    if link is None:
        message = f"its link is not in pod {pod} any more{_whereabouts(sight)}; delete the pod"
        yield found("missing", Severity.FAULT, message)
        return
    if record.config.interface.up and not has_carrier(link):
        late_s = memory.moved_s + ATTACH_S
        yield attrs.evolve(_without_carrier(post, link, f"in pod {pod}"), not_before_s=late_s)
    if sight.duplicates:
        yield _duplicate([f"{ip} in pod {pod}" for ip in sight.duplicates])
    if sight.lacking and link.up:
        yield _drifted([f"{field} in pod {pod}" for field in sight.lacking])


_BY_PLACE: Final = {
    Place.FREE: _free,
    Place.PARENT: _parent,
    Place.STAGED: _staged,
    Place.POD: _in_pod,
}


def _without_carrier(post: Post, link: Link, where: str) -> Suspicion:
    message = f"{link.name} {where} has no carrier ({link.operstate}): check its cable"
    if not link.up:
        message = f"{link.name} {where} is down, though its holder wants it up"
    return found("no-carrier", post.carrier, message, after_s=CARRIER_S)


def _duplicate(ips: list[str]) -> Suspicion:
    message = f"another station has {_some(ips)}: give each its own address"
    return found("duplicate-address", Severity.DEGRADED, message)


def _drifted(fields: list[str]) -> Suspicion:
    message = (
        f"what is wanted is not there any more: {_some(fields)}; "
        "berth does not set again what a pod may have taken away on purpose"
    )
    return found("drifted", Severity.DEGRADED, message)


def _whereabouts(sight: LinkSight) -> str:
    return f": it is {sight.where}" if sight.where else ", and it was found nowhere else"


def _pod(record: NicRecord) -> str:
    return record.sandbox.pod if record.sandbox is not None else ""


def _some(items: list[str]) -> str:
    rest = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return f"{', '.join(items[:_SHOWN])}{rest}"
