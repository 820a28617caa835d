"""Claims that have devices of ours, known for as long as somebody wants to know."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.errors import KubeError
from berth.kube.api import (
    ClaimEvent,
    ClaimGone,
    ClaimQuery,
    ClaimSeen,
    ClaimsListed,
    WatchInterrupted,
    WatchResumed,
)
from berth.model.allocation import AllocatedClaim, AllocatedDevice
from berth.model.claim import ClaimRef, Consumer
from berth.node.claims.allocations import AllocatedClaims, Allocations, after
from tests.unit.dra.fakeapi import FakeApi

QUERY = ClaimQuery(driver="berth.dev", pools=frozenset({"n", "n/nic"}))
DEVICE = AllocatedDevice(request="r", pool="n", device="tpm-1", skips=("*",))


def claim(uid: str) -> AllocatedClaim:
    """A claim with a device of ours."""
    ref = ClaimRef(namespace="default", name=f"claim-{uid}", uid=uid)
    return AllocatedClaim(ref=ref, devices=(DEVICE,))


ONE, TWO = claim("1"), claim("2")
USED = attrs.evolve(ONE, consumers=(Consumer(resource="pods", name="p", uid="u"),))


@pytest.mark.parametrize(
    ("event", "known"),
    [
        (ClaimsListed(claims=(TWO,)), {"2": TWO}),
        (ClaimSeen(claim=TWO), {"1": ONE, "2": TWO}),
        (ClaimSeen(claim=USED), {"1": USED}),
        (ClaimGone(uid="1"), {}),
        (ClaimGone(uid="another's"), {"1": ONE}),
        (WatchResumed(attempts=2), {"1": ONE}),
    ],
)
def test_what_is_known_follows_the_events(event: ClaimEvent, known: AllocatedClaims) -> None:
    """A list replaces all; of others nothing is kept."""

    assert after({"1": ONE}, event) == known


def test_claims_of_others_cost_nothing() -> None:
    """Whoever reads is not woken, and nothing is copied, by what every node hears."""

    known = {"1": ONE}

    assert after(known, ClaimGone(uid="another's")) is known


async def test_claims_are_watched_only_while_somebody_wants_it(nursery: trio.Nursery) -> None:
    """The watch is of the whole cluster, so nobody pays for it who did not ask."""

    api = FakeApi()
    api.allocations = (ONE,)
    allocations = Allocations(api)
    nursery.start_soon(allocations.run, QUERY)
    await wait_all_tasks_blocked()
    assert (allocations.claims.get(), api.claim_reports) == (None, [])
    assert allocations.unseen.get() == "the API server has not listed them yet"

    allocations.want("skipped", True)
    allocations.want("conditions", True)
    await wait_all_tasks_blocked()
    assert allocations.claims.get() == {"1": ONE}
    allocations.want("skipped", False)
    await wait_all_tasks_blocked()
    assert len(api.claim_reports) == 1
    allocations.want("conditions", False)
    await wait_all_tasks_blocked()

    assert (allocations.claims.get(), api.claim_reports) == (None, [])


async def test_interruption_is_told_and_forgets_nothing(nursery: trio.Nursery) -> None:
    """What was known holds until the server says otherwise."""

    api = FakeApi()
    api.allocations = (ONE,)
    allocations = Allocations(api)
    allocations.want("skipped", True)
    nursery.start_soon(allocations.run, QUERY)
    await wait_all_tasks_blocked()
    report = api.claim_reports[0]

    error = KubeError("API server", "may not list", status=403)
    report(WatchInterrupted(error=error, retry_s=1.0, attempts=1))
    assert "may not list" in allocations.trouble.get()
    assert allocations.denied.get()
    report(WatchInterrupted(error=KubeError("API server", "no answer"), retry_s=1.0, attempts=2))
    assert not allocations.denied.get()
    assert allocations.unseen.get() is None
    assert allocations.claims.get() == {"1": ONE}
    report(WatchResumed(attempts=1))
    report(ClaimGone(uid="1"))

    assert (allocations.trouble.get(), allocations.claims.get()) == ("", {})
