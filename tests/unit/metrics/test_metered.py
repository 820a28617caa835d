"""What stands before claims, hooks and the API server: it counts, and changes nothing."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
from trio.testing import MockClock

from berth.dra.service import ClaimService
from berth.errors import (
    BerthError,
    ClaimError,
    ConfigError,
    Faults,
    HostError,
    KubeError,
    RemoteProtocolError,
    StateError,
)
from berth.kube.api import (
    ClaimEvent,
    ClaimQuery,
    ClaimsListed,
    KubeApi,
    Node,
    SliceQuery,
    WatchInterrupted,
)
from berth.kube.slices import Slice
from berth.metrics.api import MeteredApi, Traffic
from berth.metrics.claims import MeteredClaims
from berth.metrics.hooks import MeteredHooks
from berth.metrics.words import kind_of_type, one_kind, reason_of
from berth.model.claim import ClaimRef, PreparedClaim
from berth.model.pod import Adjustment, Container, Sandbox
from berth.node.records.record import ClaimRecord
from berth.nri.handlers import Hooks, Turn
from berth.runtime.threads import Decision
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.node.claimrecords import RECORD
from tests.unit.node.claimserver import ClaimServer, refused
from tests.unit.node.machine import claim
from tests.unit.nri.scripted import RUNTIME, ScriptedHooks

REF = RECORD.claim
SLICE = Slice(
    driver="berth.dev", pool="n/nic", generation=1, slice_count=1, node_name="n", devices=()
)


class OneClaim:
    """Prepares one claim, unless something else is ordered.

    Attributes:
        records: What is known of it.
        fault: What the next call ends with.
        takes_s: How long a call takes.
    """

    def __init__(self, *, takes_s: float = 0.2) -> None:
        self.records: dict[str, ClaimRecord] = {}
        self.fault: Exception | None = None
        self.takes_s = takes_s

    async def prepare(self, ref: ClaimRef, *, beside: Sequence[ClaimRef] = ()) -> PreparedClaim:
        """Make its record, then answer."""
        assert beside in {(), (ref,)}
        await self._work()
        self.records[ref.uid] = RECORD
        return PreparedClaim(ref=ref, devices=())

    async def unprepare(self, ref: ClaimRef) -> None:
        """Forget it."""
        await self._work()
        self.records.pop(ref.uid, None)

    async def _work(self) -> None:
        await trio.sleep(self.takes_s)
        if self.fault is not None:
            raise self.fault


async def test_prepare_and_unprepare_are_timed_by_kind(autojump_clock: MockClock) -> None:
    """The kind is known after the first, and was known before the second."""
    one = OneClaim()
    metered = MeteredClaims(one, one.records.get)
    answer = await metered.prepare(REF, beside=(REF,))
    await metered.unprepare(REF)
    await metered.unprepare(REF)

    assert answer == PreparedClaim(ref=REF, devices=())
    assert metered.prepares.counts() == {("nic", "ok"): 1}
    assert metered.prepares.series()["nic", "ok"].sum_s == pytest.approx(0.2)
    assert metered.unprepares.counts() == {("nic", "ok"): 1, ("unknown", "ok"): 1}
    assert metered.errors.series() == {}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (ClaimError("claim", "is refused"), "claim"),
        (Faults("claim", (ConfigError("mtu", "is odd"),)), "claim"),
        (KubeError("API server", "is away"), "api"),
        (HostError("/var/lib/berth", "is full"), "host"),
        (StateError("record", "is newer"), "state"),
        (RemoteProtocolError("kernel", "sent an odd answer"), "peer"),
        (ConfigError("[nic]", "is odd"), "config"),
        (ZeroDivisionError(), "defect"),
    ],
)
async def test_prepare_that_fails_is_told_by_whose_fault_it_was(
    fault: Exception, reason: str
) -> None:
    """And fails as it did before."""
    one = OneClaim(takes_s=0)
    one.fault = fault
    metered = MeteredClaims(one, one.records.get)
    with pytest.raises(type(fault)):
        await metered.prepare(REF)

    assert metered.prepares.counts() == {("unknown", "error"): 1}
    assert metered.errors.series() == {("unknown", reason): 1}
    assert reason_of(fault) == reason


async def test_prepare_that_is_cut_off_in_several_tasks_is_late(
    autojump_clock: MockClock,
) -> None:
    """A nursery gives the ends of its tasks as a group."""

    class Several(OneClaim):
        """Works in several tasks."""

        async def _work(self) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                nursery.start_soon(trio.sleep_forever)

    one = Several()
    metered = MeteredClaims(one, one.records.get)
    with trio.move_on_after(40):
        await metered.prepare(REF)
    with trio.move_on_after(40):
        await metered.unprepare(REF)

    assert metered.errors.series() == {("unknown", "late"): 1}
    assert metered.prepares.counts() == metered.unprepares.counts() == {("unknown", "late"): 1}


async def test_prepare_that_is_cut_off_is_late(autojump_clock: MockClock) -> None:
    """Kubelet's time was over."""
    one = OneClaim(takes_s=60)
    metered = MeteredClaims(one, one.records.get)
    with trio.move_on_after(40):
        await metered.prepare(REF)

    assert metered.prepares.counts() == {("unknown", "late"): 1}
    assert metered.errors.series() == {("unknown", "late"): 1}


async def test_every_hook_is_timed_and_refusals_are_counted(autojump_clock: MockClock) -> None:
    """Only what keeps a pod from starting is a refusal; all are passed on with what they gave."""
    hooks = ScriptedHooks()
    metered = MeteredHooks(hooks)
    turn = Turn(limit_s=1, decision=Decision(), runtime=RUNTIME)
    pod, container = Sandbox(id="s"), Container(id="c", sandbox_id="s")
    calls: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: metered.synchronize((pod,), (container,)),
        lambda: metered.run_pod_sandbox(pod, turn),
        lambda: metered.stop_pod_sandbox(pod),
        lambda: metered.remove_pod_sandbox(pod),
        lambda: metered.create_container(pod, container, turn),
        lambda: metered.start_container(pod, container, turn),
        lambda: metered.stop_container(pod, container),
        lambda: metered.remove_container(pod, container),
    )
    for call in calls:
        await call()
    names = [str(told[0]) for told in hooks.told]
    assert len(set(names)) == len(calls) == len(_methods(Hooks))
    assert metered.seconds.counts() == {(name, "ok"): 1 for name in names}
    assert metered.refusals.series() == {}

    async def refuse(_turn: Turn | None) -> Adjustment | None:
        await trio.sleep(0.1)
        raise ClaimError("nic", "is away")

    hooks.act = refuse
    for call in calls:
        with pytest.raises(BerthError):
            await call()
    with trio.move_on_after(0.05):
        await calls[1]()
    assert metered.refusals.series() == {("claim",): 3, ("late",): 1}
    assert metered.seconds.counts()["run_pod_sandbox", "late"] == 1
    assert metered.seconds.counts()["stop_container", "error"] == 1


async def test_requests_are_counted_by_the_status_of_their_answers() -> None:
    """A claim that is another one by now was answered all the same; no answer is a zero."""
    known = claim()
    server = ClaimServer(known)
    traffic = Traffic()
    api = MeteredApi(server, traffic)
    assert await api.get_claim(known.ref, driver="berth.dev") == known
    with pytest.raises(ClaimError):
        await api.get_claim(_other(known.ref), driver="berth.dev")
    server.answers["get_claim"] = [refused(503), KubeError("API server", "no answer")]
    for _ in range(2):
        with pytest.raises(KubeError):
            await api.get_claim(known.ref, driver="berth.dev")
    server.hangs.add("pod_is_ending")
    with trio.move_on_after(0):
        await api.pod_is_ending("team", "pod", uid="u")

    assert traffic.requests.series() == {
        ("get", "resourceclaims", "200"): 2,
        ("get", "resourceclaims", "503"): 1,
        ("get", "resourceclaims", "0"): 1,
        ("get", "pods", "0"): 1,
    }
    assert traffic.seconds.counts() == {("get", "resourceclaims"): 4, ("get", "pods"): 1}


async def test_writes_are_counted_by_how_they_ended() -> None:
    """As a conflict, which is no fault, as a refusal, or as an error."""
    server = ClaimServer()
    traffic = Traffic()
    api = MeteredApi(server, traffic)
    made = await api.create_slice(SLICE)
    with pytest.raises(KubeError):
        await api.update_slice(SLICE)
    server.fail = refused(422)
    with pytest.raises(KubeError):
        await api.update_slice(made)
    server.fail = None
    await api.delete_slice(server.slices[made.name])
    server.answers["apply_claim_status"] = [refused(403), refused(409), refused(500), None]
    for _ in range(3):
        with pytest.raises(KubeError):
            await api.apply_claim_status(REF, (), driver="berth.dev", manager="berthd-node")
    await api.apply_claim_status(REF, (), driver="berth.dev", manager="berthd-node")

    assert traffic.slice_writes.counts() == {
        ("create", "ok"): 1,
        ("update", "conflict"): 1,
        ("update", "refused"): 1,
        ("delete", "ok"): 1,
    }
    assert traffic.requests.series()["create", "resourceslices", "201"] == 1
    assert traffic.status_writes.series() == {
        ("refused",): 1,
        ("conflict",): 1,
        ("error",): 1,
        ("ok",): 1,
    }


async def test_watch_that_breaks_is_counted_and_told_on() -> None:
    """Whoever watches hears all of it."""
    server = FakeApi(Node(name="n", uid="u"))
    traffic = Traffic()
    api = MeteredApi(server, traffic)
    told: list[str] = []
    heard: list[ClaimEvent] = []
    query = SliceQuery(driver="berth.dev", node_name="n")
    claims = ClaimQuery(driver="berth.dev", pools=frozenset({"n"}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(api.watch_slices, query, lambda event: told.append(type(event).__name__))
        await trio.testing.wait_all_tasks_blocked()
        server.cut_watches()
        server.mend_watches()
        nursery.start_soon(api.watch_claims, claims, heard.append)
        await trio.testing.wait_all_tasks_blocked()
        broken = WatchInterrupted(error=refused(403), retry_s=1.0, attempts=1)
        server.claim_reports[0](broken)
        nursery.cancel_scope.cancel()

    assert heard == [ClaimsListed(claims=()), broken]
    assert told == ["SlicesListed", "WatchInterrupted", "SlicesListed"]
    assert traffic.watch_restarts.series() == {("resourceslices",): 1, ("resourceclaims",): 1}
    assert (await api.get_node("n"), api.identity) == (server.nodes["n"], server.identity)
    assert await api.list_slices(query) == ()
    assert await api.list_taint_rules() == ()
    assert await api.server_version() == server.version
    assert api.local_endpoints() == ()


@pytest.mark.parametrize(
    ("metered", "protocol"),
    [(MeteredClaims, ClaimService), (MeteredHooks, Hooks), (MeteredApi, KubeApi)],
)
def test_whoever_stands_before_another_has_all_of_its_methods(
    metered: type, protocol: type
) -> None:
    """With the same arguments."""
    for name, method in _methods(protocol).items():
        assert inspect.signature(getattr(metered, name)) == inspect.signature(method)


@pytest.mark.parametrize(
    ("types", "kind"),
    [
        ((), "unknown"),
        (("nic", "nic-shared", "rdma", "nic-vfio"), "nic"),
        (("gpu", "gpu"), "gpu"),
        (("gpu", "nic"), "mixed"),
        (("vfio",), "vfio"),
    ],
)
def test_kind_of_several_devices(types: Sequence[str], kind: str) -> None:
    """One word, whatever a claim has."""

    assert one_kind(map(kind_of_type, types)) == kind


def _methods(protocol: type) -> dict[str, Callable[..., object]]:
    return {
        name: method
        for name, method in vars(protocol).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }


def _other(ref: ClaimRef) -> ClaimRef:
    return ClaimRef(namespace=ref.namespace, name=ref.name, uid="another")
