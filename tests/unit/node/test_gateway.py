"""The API server for those who cannot wait for it to be there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import ClaimError, KubeError
from berth.kube.api import ClaimQuery, SliceQuery
from berth.kube.slices import Slice
from berth.model.claim import Claim, ClaimRef
from berth.node.gateway import WAIT_S, Gateway
from tests.unit.node.claimserver import ClaimServer, refused

REF = ClaimRef(namespace="default", name="net", uid="11111111")
CLAIM = Claim(ref=REF, results=())
SLICE = Slice(driver="berth.dev", pool="p", generation=1, slice_count=1, node_name="n", devices=())
QUERY = SliceQuery(driver="berth.dev", node_name="n")


@pytest.fixture
def server() -> ClaimServer:
    """A server that has the claim."""
    return ClaimServer(CLAIM)


@pytest.fixture
def gateway(server: ClaimServer) -> Gateway:
    """Connected to it."""
    made = Gateway()
    made.connect(server)
    return made


async def read(gateway: Gateway) -> Claim:
    """Read the claim."""
    return await gateway.get_claim(REF, driver="berth.dev")


@pytest.mark.parametrize("status", [0, 429, 500, 503])
async def test_claim_is_read_again_when_the_server_is_not_well(
    gateway: Gateway, server: ClaimServer, autojump_clock: MockClock, status: int
) -> None:
    """A moment's absence of the server costs a moment, not the minute of a failed prepare."""

    server.answers["get_claim"] = [refused(status), refused(status)]

    assert await read(gateway) == CLAIM
    assert trio.current_time() == pytest.approx(0.2 + 0.4)


@pytest.mark.parametrize("status", [401, 403, 404, 409])
async def test_judged_request_is_not_repeated(
    gateway: Gateway, server: ClaimServer, autojump_clock: MockClock, status: int
) -> None:
    """What the server decided is told at once."""

    server.answers["get_claim"] = [refused(status)]

    with pytest.raises(KubeError) as error:
        await read(gateway)

    assert (error.value.status, trio.current_time()) == (status, 0)


async def test_replaced_claim_is_told_at_once(
    gateway: Gateway, server: ClaimServer, autojump_clock: MockClock
) -> None:
    """Another claim has the name now, and that will not change."""

    other = ClaimRef(namespace="default", name="net", uid="22222222")

    with pytest.raises(ClaimError, match="another one"):
        await gateway.get_claim(other, driver="berth.dev")

    assert trio.current_time() == 0


async def test_last_words_of_a_server_that_stays_away(
    gateway: Gateway, server: ClaimServer, autojump_clock: MockClock
) -> None:
    """Within the limit the caller is told why nobody answered."""

    server.answers["get_claim"] = [refused(0, found="connection refused")] * 100

    with pytest.raises(KubeError, match="connection refused"):
        await read(gateway)

    assert trio.current_time() == WAIT_S


async def test_hanging_server_is_left_at_the_limit(
    gateway: Gateway, server: ClaimServer, autojump_clock: MockClock
) -> None:
    """A server that takes the call and says nothing holds nobody for ever."""

    server.gate = trio.Event()

    with pytest.raises(KubeError, match=r"default/net.*no answer within 20 s"):
        await read(gateway)

    assert trio.current_time() == WAIT_S


async def test_claim_waits_for_the_first_connection(
    server: ClaimServer, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Credentials that come while a prepare waits are used at once."""

    gateway = Gateway()
    got: list[Claim] = []

    async def ask() -> None:
        got.append(await read(gateway))

    nursery.start_soon(ask)
    await trio.sleep(15.05)
    gateway.connect(server)
    await wait_all_tasks_blocked()

    assert (got, trio.current_time()) == ([CLAIM], 15.05)


async def test_reason_for_no_connection_is_told_at_the_limit(autojump_clock: MockClock) -> None:
    """Whoever waited in vain learns what is missing, and where to look."""

    gateway = Gateway()
    gateway.disconnect("no kubeconfig found")

    with pytest.raises(KubeError, match=r"no kubeconfig found.*berth status"):
        await read(gateway)


CLAIM_QUERY = ClaimQuery(driver="berth.dev", pools=frozenset({"n"}))
Call = Callable[[Gateway], Awaitable[object]]
CALLS: dict[str, Call] = {
    "list_slices": lambda g: g.list_slices(QUERY),
    "list_taint_rules": lambda g: g.list_taint_rules(),
    "watch_slices": lambda g: g.watch_slices(QUERY, lambda _: None),
    "watch_claims": lambda g: g.watch_claims(CLAIM_QUERY, lambda _: None),
    "create_slice": lambda g: g.create_slice(SLICE),
    "update_slice": lambda g: g.update_slice(SLICE),
    "delete_slice": lambda g: g.delete_slice(SLICE),
    "apply_claim_status": lambda g: g.apply_claim_status(REF, (), driver="d", manager="m"),
    "get_node": lambda g: g.get_node("n"),
    "pod_is_ending": lambda g: g.pod_is_ending("default", "p", uid="u"),
    "pod_claims": lambda g: g.pod_claims("default", "p", uid="u"),
    "server_version": lambda g: g.server_version(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_other_calls_fail_at_once_without_a_connection(
    call: Call, autojump_clock: MockClock
) -> None:
    """Their callers have their own way to try again."""

    with pytest.raises(KubeError, match="not connected yet"):
        await call(Gateway())

    assert trio.current_time() == 0


async def test_calls_reach_the_connection_of_now(gateway: Gateway, server: ClaimServer) -> None:
    """Whatever the agent asks, the server of now is asked; after it is gone, nobody is."""

    server.ended.add("u")
    made = await gateway.create_slice(SLICE)
    updated = await gateway.update_slice(made)
    assert await gateway.list_slices(QUERY) == (updated,)
    assert await gateway.list_taint_rules() == ()
    await gateway.delete_slice(updated)
    assert server.slices == {}
    assert await gateway.pod_is_ending("default", "p", uid="u")
    assert await gateway.pod_claims("default", "p", uid="u") is None
    assert (await gateway.server_version()).text == "v1.37.2"
    assert (gateway.identity, gateway.local_endpoints()) == (server.identity, ())

    gateway.disconnect("closed")

    assert (gateway.identity.kind, gateway.identity.source) == ("none", "closed")
    with pytest.raises(KubeError, match="closed"):
        await gateway.server_version()
