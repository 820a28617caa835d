"""The DRA service: each claim its own outcome, side by side, within kubelet's time."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from berth.config.schema import DraVersion
from berth.dra.messages import CLAIMS_LIMIT
from berth.dra.service import ACTIVE_LIMIT, LIMIT_S, VERSIONS, DraService
from berth.errors import ClaimError, HostError
from berth.model.claim import ClaimRef, PreparedClaim, PreparedDevice
from berth.pb import dra_v1_pb2
from berth.runtime.methods import Call, Method, RpcError, Status


async def refuse(ref: ClaimRef) -> None:
    """Be a claim that cannot be prepared."""
    await trio.lowlevel.checkpoint()
    raise ClaimError(str(ref), "device nic-1 is gone", mend="delete the pod")


async def break_down(ref: ClaimRef) -> None:
    """Be a claim that meets a defect."""
    await trio.lowlevel.checkpoint()
    raise LookupError(ref.uid)


async def hang(_ref: ClaimRef) -> None:
    """Be a claim that never ends."""
    await trio.sleep_forever()


async def succeed(_ref: ClaimRef) -> None:
    """Be a claim like any other."""
    await trio.lowlevel.checkpoint()


class Claims:
    """Does with each claim what its UID was told to; else it is prepared in 100 ms."""

    def __init__(self, **acts: Callable[[ClaimRef], Awaitable[None]]) -> None:
        self.acts: Mapping[str, Callable[[ClaimRef], Awaitable[None]]] = acts
        self.seen: list[str] = []
        self.beside: dict[str, list[str]] = {}

    async def prepare(self, ref: ClaimRef, *, beside: Sequence[ClaimRef] = ()) -> PreparedClaim:
        """Prepare by order."""
        self.beside[ref.uid] = [each.uid for each in beside]
        await self.unprepare(ref)
        device = PreparedDevice(requests=("r",), pool="p", device=f"nic-{ref.uid}", cdi_ids=("i",))
        return PreparedClaim(ref=ref, devices=(device,))

    async def unprepare(self, ref: ClaimRef) -> None:
        """Unprepare by order."""
        self.seen.append(ref.uid)
        await trio.sleep(0.1)
        await self.acts.get(ref.uid, succeed)(ref)


async def call(
    service: DraService, name: str, *uids: str, timeout_s: float | None = 45.0
) -> Mapping[str, Any]:
    """Call a method of the newest version; gives the entries."""
    table = service.services()[0]
    method = table.find(name)
    assert isinstance(method, Method)
    request = method.request(
        claims=[dra_v1_pb2.Claim(namespace="ns", name=f"c-{uid}", uid=uid) for uid in uids]
    )
    reply = await method.handler(request, Call(method=name, timeout_s=timeout_s))
    return dict(reply.claims)


def test_versions_are_those_that_the_settings_know() -> None:
    """What an operator can leave out is what would be offered."""

    assert [version.value for version in DraVersion] == [*VERSIONS]


async def test_prepare_works_on_all_claims_at_a_time(autojump_clock: MockClock) -> None:
    """Twenty claims take as long as one, and each is answered with its own device."""

    began = trio.current_time()
    service = DraService(Claims())
    uids = [f"u{number}" for number in range(20)]
    entries = await call(service, "NodePrepareResources", *uids)

    assert trio.current_time() - began == pytest.approx(0.1)
    assert {uid: entry.devices[0].device_name for uid, entry in entries.items()} == {
        uid: f"nic-{uid}" for uid in uids
    }
    assert service.statistics().prepared == 20
    assert service.statistics().active == 0


async def test_prepare_tells_each_claim_which_ones_are_prepared_with_it(
    autojump_clock: MockClock,
) -> None:
    """Kubelet sends the claims of one pod together; their order is kept."""

    claims = Claims()
    await call(DraService(claims), "NodePrepareResources", "b", "a", "c")

    assert claims.beside == {uid: ["b", "a", "c"] for uid in "abc"}


@pytest.mark.parametrize("name", ["NodePrepareResources", "NodeUnprepareResources"])
async def test_one_bad_claim_leaves_the_others_alone(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """A refusal and a defect are texts in their own entries; a defect is logged with traceback."""

    service = DraService(Claims(bad=refuse, worse=break_down))
    entries = await call(service, name, "good", "bad", "worse", "../x")

    assert entries["good"].error == ""
    assert entries["bad"].error == "ns/c-bad: device nic-1 is gone; delete the pod"
    assert "defect in berthd: LookupError('worse')" in entries["worse"].error
    assert bool(entries["../x"].error) is (name == "NodePrepareResources")
    assert [r.levelno for r in caplog.records if r.exc_info] == [logging.ERROR]
    assert service.statistics().failed == 2


async def test_prepare_ends_before_kubelet_gives_up(autojump_clock: MockClock) -> None:
    """A claim that hangs is answered after 40 s of kubelet's 45, the others are in the answer."""

    began = trio.current_time()
    entries = await call(DraService(Claims(slow=hang)), "NodePrepareResources", "slow", "good")

    assert trio.current_time() - began == pytest.approx(LIMIT_S)
    assert "not done within 40 s" in entries["slow"].error
    assert entries["good"].error == ""


async def test_claim_under_way_is_answered_by_the_end_of_a_drain(autojump_clock: MockClock) -> None:
    """It is told why; a claim of the next run has its full time again."""

    service = DraService(Claims(a=hang))
    texts: list[str] = []

    async def prepare() -> None:
        texts.append((await call(service, "NodePrepareResources", "a"))["a"].error)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(prepare)
        await trio.sleep(1)
        service.end_by(began + 14)
        await trio.sleep(14)
        await prepare()

    assert trio.current_time() - began == pytest.approx(15 + LIMIT_S)
    assert texts == [
        "claim ns/c-a: berthd is stopping; kubelet asks again",
        "claim ns/c-a: not done within 40 s; kubelet asks again",
    ]


@pytest.mark.parametrize(("timeout_s", "took_s"), [(None, 40), (9.0, 8), (600.0, 40)])
async def test_prepare_keeps_to_the_time_of_its_caller(
    autojump_clock: MockClock, timeout_s: float | None, took_s: float
) -> None:
    """A caller with less time gets its answer in time, too."""

    began = trio.current_time()
    await call(DraService(Claims(a=hang)), "NodePrepareResources", "a", timeout_s=timeout_s)

    assert trio.current_time() - began == pytest.approx(took_s)


async def test_request_that_names_a_claim_twice_is_worked_on_once(
    autojump_clock: MockClock,
) -> None:
    """Two tasks for one claim in one request would wait for each other."""

    claims = Claims()
    entries = await call(DraService(claims), "NodeUnprepareResources", "a", "a", "b")

    assert sorted(claims.seen) == ["a", "b"]
    assert set(entries) == {"a", "b"}


@pytest.mark.parametrize("name", ["NodePrepareResources", "NodeUnprepareResources"])
async def test_claims_at_a_time_are_bounded_over_all_requests(
    autojump_clock: MockClock, name: str
) -> None:
    """Who sends ever more requests is refused; what is worked on goes on, and makes room."""

    service = DraService(Claims())
    uids = [f"u{number}" for number in range(CLAIMS_LIMIT)]
    refused: list[RpcError] = []

    async def ask() -> None:
        try:
            await call(service, name, *uids)
        except RpcError as error:
            refused.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(ACTIVE_LIMIT // CLAIMS_LIMIT + 3):
            nursery.start_soon(ask)
    await ask()

    assert [error.code for error in refused] == [Status.RESOURCE_EXHAUSTED] * 3
    assert service.statistics().active == 0


async def test_prepare_of_nothing_is_answered(autojump_clock: MockClock) -> None:
    """An empty request gets an empty answer."""

    assert await call(DraService(Claims()), "NodePrepareResources") == {}


async def test_state_errors_are_told_by_their_text(autojump_clock: MockClock) -> None:
    """A full disk fails the claim with path and reason."""

    async def full(_ref: ClaimRef) -> None:
        await trio.lowlevel.checkpoint()
        raise HostError("/var/lib/berth", "cannot write: No space left on device")

    entries = await call(DraService(Claims(a=full)), "NodePrepareResources", "a")

    assert entries["a"].error == "/var/lib/berth: cannot write: No space left on device"


@pytest.mark.parametrize(
    ("versions", "tokens"),
    [
        (("v1", "v1beta1"), ("v1.DRAPlugin", "v1beta1.DRAPlugin")),
        (("v1beta1", "v1"), ("v1.DRAPlugin", "v1beta1.DRAPlugin")),
        (("v1beta1",), ("v1beta1.DRAPlugin",)),
    ],
)
def test_tokens_name_exactly_what_is_served(
    versions: tuple[str, ...], tokens: tuple[str, ...]
) -> None:
    """Kubelet takes the first token it knows, so the newest version comes first."""

    service = DraService(Claims(), versions=versions)

    assert service.tokens == tokens
    assert [table.name for table in service.services()] == [
        f"k8s.io.kubelet.pkg.apis.dra.{token}" for token in tokens
    ]
