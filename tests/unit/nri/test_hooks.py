"""What each event of the runtime does to the NICs of prepared claims."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.errors import BerthError, ClaimError, HostError, KubeError
from berth.model.claim import Consumer
from berth.model.pod import Container, ContainerState, Sandbox
from berth.nic import execute
from berth.nic.record import NicRecord, SandboxRef, Stage
from berth.node.plugin.running import mark, units_of
from berth.node.records.given import Given
from berth.node.records.record import ClaimRecord
from berth.node.views.troubles import Troubles
from berth.nri.handlers import Turn
from berth.nri.hooks import LATE_ATTACH_S, RESERVE_S, PodHooks
from berth.nri.isolation import Isolation
from berth.nri.versions import Runtime
from berth.runtime.threads import Decision
from tests.unit.node.peripherals import RESOURCE, given, modem
from tests.unit.node.views.scenes import CLAIM, POD, SANDBOX, claim_record, nic_record

SOUND = Runtime(name="containerd", version="v2.4.2")
LEAKY = Runtime(name="containerd", version="v2.1.6")
MARKER = "BERTH_CLAIM_11111111222233334444555555555555"
MARKED = {MARKER: "nic-0000-41-00-0", "PATH": "/bin"}
OTHER_POD = Consumer(resource="pods", name="other", uid="uid-of-other")


class FakeClaims:
    """Claims that move by word.

    Attributes:
        records: By claim UID.
        fault: What attaching ends with.
        answer: What the API server says of a claim, or how it fails.
        attached: Claims, sandbox and limit of each attach.
        detached: Sandboxes whose NICs went home.
    """

    def __init__(self, *records: ClaimRecord) -> None:
        self.records = {record.claim.uid: record for record in records}
        self.fault: BerthError | None = None
        self.answer: ClaimRecord | BerthError | None = None
        self.asked = 0
        self.attached: list[tuple[tuple[str, ...], str, float]] = []
        self.detached: list[str] = []

    def put(self, uid: str, nic: NicRecord, *, told: bool = True) -> None:
        """Have a claim's NIC be so from now on.

        Args:
            told: Whether containers can read of it.
        """
        record = self.records[uid].with_nic(0, nic)
        device = attrs.evolve(record.devices[0], told=nic.network if told else None)
        self.records[uid] = attrs.evolve(record, devices=(device,))

    def of_pod(self, pod_uid: str) -> tuple[ClaimRecord, ...]:
        """As the records say."""
        return tuple(record for record in self.records.values() if record.serves_pod(pod_uid))

    def by_marker(self, uids: Sequence[str]) -> tuple[ClaimRecord | None, ...]:
        """As the records say."""
        known = {uid.replace("-", ""): record for uid, record in self.records.items()}
        return tuple(known.get(uid) for uid in uids)

    async def reread(self, uid: str) -> ClaimRecord | None:
        """Give the answer that was ordered; without one the server hangs."""
        self.asked += 1
        if self.answer is None:
            await trio.sleep_forever()
        if isinstance(self.answer, BerthError):
            raise self.answer
        assert self.answer is not None
        self.records[uid] = self.answer
        return self.answer

    async def missing(self, uids: Collection[str], sandbox: SandboxRef) -> tuple[str, ...]:
        """Devices whose record does not name the sandbox."""
        await trio.lowlevel.checkpoint()
        return tuple(
            nic.device
            for uid in uids
            if (nic := self.records[uid].devices[0].nic) is not None
            and (nic.sandbox is None or nic.sandbox.id != sandbox.id)
        )

    async def attach(
        self, uids: Collection[str], sandbox: SandboxRef, *, limit_s: float, decision: Decision
    ) -> None:
        """Say that it is done; what another pod has is refused, as it is under the true lock."""
        await trio.lowlevel.checkpoint()
        if self.fault is not None:
            raise self.fault
        known = (self.records[uid] for uid in uids if uid in self.records)
        for ref in (nic.sandbox for record in known for nic in record.nics if nic and nic.is_away):
            if ref is not None and ref.pod_uid != sandbox.pod_uid:
                raise ClaimError("nic-a", f"is used by pod {ref.pod}")
        self.attached.append((tuple(uids), sandbox.id, limit_s))
        for uid in uids:
            if uid in self.records:
                self.put(uid, nic_record(Stage.ATTACHED, sandbox=sandbox))
        decision.claim_done()

    async def detach(self, sandbox_id: str) -> None:
        """Remember it."""
        await trio.lowlevel.checkpoint()
        self.detached.append(sandbox_id)


NETNS = Path("/proc/self/ns/net")
INODE = NETNS.stat().st_ino


@pytest.fixture(autouse=True)
def _another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rights there is no second network: so the tests' own is the pods', not the host's."""
    monkeypatch.setattr(execute, "HOME", "/proc/self/ns/uts")


@pytest.fixture
def sandbox() -> Sandbox:
    """A sandbox of the claim's pod, with a namespace."""
    return Sandbox(id="s1", name=POD.name, namespace="default", uid=POD.uid, netns_path=str(NETNS))


@pytest.fixture
def claims() -> FakeClaims:
    """The pod's one claim, prepared."""
    return FakeClaims(claim_record(nic_record(Stage.STAGED)))


class Ending:
    """Which pods are ending; asked by sandbox."""

    def __init__(self) -> None:
        self.pods: set[str] = set()
        self.fault: BerthError | None = None

    async def __call__(self, sandbox: Sandbox) -> bool:
        """Tell it."""
        await trio.lowlevel.checkpoint()
        if self.fault is not None:
            raise self.fault
        return sandbox.uid in self.pods


@pytest.fixture
def ending() -> Ending:
    """No pod is ending."""
    return Ending()


@pytest.fixture
def troubles() -> Troubles:
    """What `berth why` would find."""
    return Troubles()


@pytest.fixture
async def hooks(
    claims: FakeClaims, ending: Ending, troubles: Troubles, nursery: trio.Nursery
) -> AsyncIterator[PodHooks]:
    """Hooks whose tasks run."""
    made = PodHooks(
        claims,
        arrivals=claims,
        isolation=Isolation(lambda: ["kata"]),
        troubles=troubles,
        is_ending=ending,
    )
    await nursery.start(made.run)
    yield made
    nursery.cancel_scope.cancel()


def turn(runtime: Runtime = SOUND) -> Turn:
    """The runtime's time for one event."""
    return Turn(limit_s=1.5, decision=Decision(), runtime=runtime)


def container(**changes: Any) -> Container:
    """A container of the sandbox that uses the claim."""
    made = Container(id="c1", sandbox_id="s1", name="main", env=MARKED)
    return attrs.evolve(made, **changes)


async def test_sandbox_gets_its_nic(hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox) -> None:
    """The pod's claims are attached to its namespace, within the runtime's time less a reserve."""

    at = turn()
    await hooks.run_pod_sandbox(sandbox, at)

    ((uids, sandbox_id, limit_s),) = claims.attached
    assert (uids, sandbox_id) == ((CLAIM.uid,), "s1")
    assert 0 < limit_s <= 1.5 - RESERVE_S
    nic = claims.records[CLAIM.uid].devices[0].nic
    assert nic is not None
    assert nic.sandbox == SandboxRef(
        id="s1",
        pod_uid=POD.uid,
        pod="default/web",
        netns_path=str(NETNS),
        netns_inode=INODE,
    )


async def test_foreign_pod_costs_nothing(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """A pod without claims of ours is let through, whatever network it has."""

    stranger = attrs.evolve(sandbox, uid="stranger", netns_path=None)
    bare = container(env={"PATH": "/bin"})

    await hooks.run_pod_sandbox(stranger, turn())
    assert await hooks.create_container(stranger, bare, turn()) is None
    await hooks.start_container(stranger, bare, turn())
    await hooks.stop_container(stranger, bare)
    await hooks.remove_container(stranger, bare)

    assert (claims.attached, claims.asked) == ([], 0)


async def test_repeated_event_attaches_once(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """What is in this sandbox already is left alone."""

    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.create_container(sandbox, container(), turn())
    await hooks.start_container(sandbox, container(), turn())

    assert len(claims.attached) == 1


async def test_new_sandbox_of_a_pod_gets_the_nic(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """A pod keeps its claims over sandboxes."""

    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.run_pod_sandbox(attrs.evolve(sandbox, id="s2"), turn())

    assert [where for _, where, _ in claims.attached] == ["s1", "s2"]


async def test_host_network_is_refused(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, troubles: Troubles
) -> None:
    """There is nowhere to move the NIC to, and the message says how to mend it."""

    host = attrs.evolve(sandbox, netns_path=None)

    with pytest.raises(ClaimError, match=r"pod default/web: uses the host's network.*drop hostNet"):
        await hooks.run_pod_sandbox(host, turn())
    with pytest.raises(ClaimError, match="uses the host's network"):
        await hooks.create_container(host, container(), turn())

    assert claims.attached == []
    (trouble,) = troubles.all()
    assert (trouble.pod, "host's network" in trouble.text) == ("default/web", True)


async def test_virtual_machine_is_refused(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """No link enters it: not as the sandbox is made, nor for a container, nor late."""

    vm = attrs.evolve(sandbox, runtime_handler="kata")

    with pytest.raises(ClaimError, match=r"runs in a virtual machine \(runtime handler kata\)"):
        await hooks.run_pod_sandbox(vm, turn())
    with pytest.raises(ClaimError, match=r"into which nic-0000-41-00-0 cannot be brought"):
        await hooks.create_container(vm, container(), turn())
    await hooks.synchronize([vm], [])
    await wait_all_tasks_blocked()

    assert claims.attached == []


async def test_namespace_that_is_gone_is_refused(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """The path leads nowhere; nothing is attached to whatever may come there."""

    with pytest.raises(HostError, match="/nowhere"):
        await hooks.run_pod_sandbox(attrs.evolve(sandbox, netns_path="/nowhere"), turn())

    assert claims.attached == []


async def test_failed_attach_refuses_the_sandbox(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, troubles: Troubles
) -> None:
    """The runtime is told why, and so is the operator, also after the runtime cleaned up."""

    claims.fault = ClaimError("nic-a", "name net1 is taken")

    with pytest.raises(ClaimError, match="name net1 is taken"):
        await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.stop_pod_sandbox(sandbox)
    await hooks.remove_pod_sandbox(sandbox)

    (trouble,) = troubles.all()
    assert "net1" in trouble.text


async def test_leaky_runtime_is_refused_the_container_instead(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, troubles: Troubles
) -> None:
    """It would leave the sandbox running; its containers are tried again in the same sandbox."""

    claims.fault = ClaimError("nic-a", "busy")

    await hooks.run_pod_sandbox(sandbox, turn(LEAKY))
    with pytest.raises(ClaimError, match="busy"):
        await hooks.create_container(sandbox, container(), turn(LEAKY))
    assert troubles.all() != ()
    claims.fault = None
    await hooks.create_container(sandbox, container(), turn(LEAKY))

    assert [where for _, where, _ in claims.attached] == ["s1"]
    assert troubles.all() == ()


async def test_container_without_its_nic_gets_it_or_is_refused(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """A sandbox that started while we were away is completed before its container is made."""

    await hooks.create_container(sandbox, container(), turn())
    assert [where for _, where, _ in claims.attached] == ["s1"]

    claims.records[CLAIM.uid] = claim_record(nic_record(Stage.STAGED))
    claims.fault = ClaimError("nic-a", "gone")
    with pytest.raises(ClaimError, match="gone"):
        await hooks.start_container(sandbox, container(), turn())


async def test_container_without_a_reference_needs_the_pods_nics(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """A NIC is the whole pod's: a side-car that names no claim is not made before it is there."""

    claims.fault = ClaimError("nic-a", "busy")

    with pytest.raises(ClaimError, match="busy"):
        await hooks.create_container(sandbox, container(env={}), turn())


@pytest.mark.parametrize("changes", [{"prepared": False}, {"revoked": True}, None])
async def test_marker_of_what_is_not_prepared_is_refused(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, changes: dict[str, bool] | None
) -> None:
    """CDI promised a device that nobody holds for the pod."""

    claims.records = {}
    if changes is not None:
        record = claim_record(nic_record(Stage.STAGED), **changes)
        claims.records[CLAIM.uid] = attrs.evolve(record, consumers=())

    with pytest.raises(ClaimError, match=r"pod default/web: uses claim 1{8}.*not prepared"):
        await hooks.create_container(sandbox, container(), turn())

    assert claims.attached == []


async def test_second_pod_is_refused_by_the_first_ones_name(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, troubles: Troubles
) -> None:
    """The claim's NIC is another pod's, and the API server says that this one lives."""

    claims.answer = claims.records[CLAIM.uid]
    second = attrs.evolve(sandbox, name="second", uid="uid-of-second")

    await hooks.run_pod_sandbox(second, turn())
    with pytest.raises(ClaimError, match=r"claim default/net: is used by pod web: .*one pod only"):
        await hooks.create_container(second, container(), turn())

    assert claims.attached == []
    assert [trouble.pod for trouble in troubles.all()] == ["default/second"]


async def test_what_is_not_moved_may_serve_several_pods(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """A claim without a NIC keeps no pod out, and asks nobody."""

    record = claims.records[CLAIM.uid]
    devices = tuple(attrs.evolve(device, nic=None) for device in record.devices)
    claims.records[CLAIM.uid] = attrs.evolve(record, devices=devices)
    second = attrs.evolve(sandbox, name="second", uid="uid-of-second")

    await hooks.create_container(second, container(), turn())

    assert (claims.attached, claims.asked) == ([], 0)


async def test_successor_with_the_same_claim_gets_the_nic(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """The first pod was deleted by force, and kubelet prepared nothing anew."""

    heir = Consumer(resource="pods", name="heir", uid="uid-of-heir")
    claims.answer = attrs.evolve(claims.records[CLAIM.uid], consumers=(heir,))

    await hooks.create_container(
        attrs.evolve(sandbox, name="heir", uid=heir.uid), container(), turn()
    )

    assert [uids for uids, _, _ in claims.attached] == [(CLAIM.uid,)]


@pytest.mark.parametrize("answer", [None, KubeError("API server", "no answer")])
async def test_server_that_does_not_answer_lets_no_second_pod_in(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, answer: BerthError | None
) -> None:
    """Half of the hook's time is enough to ask; then what is known counts."""

    claims.answer = answer
    began = trio.current_time()

    with pytest.raises(ClaimError, match="is used by pod web"):
        await hooks.create_container(
            attrs.evolve(sandbox, uid="uid-of-second"),
            container(),
            Turn(limit_s=0.02, decision=Decision(), runtime=SOUND),
        )

    assert claims.asked == 1
    assert trio.current_time() - began < 1


async def test_claim_that_was_allocated_anew_is_refused(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """What the API server says against the claim is told as it is."""

    claims.answer = ClaimError("claim default/net", "has other devices now")

    with pytest.raises(ClaimError, match="has other devices now"):
        await hooks.create_container(
            attrs.evolve(sandbox, uid="uid-of-second"), container(), turn()
        )


async def test_claim_of_a_group_goes_to_the_pod_that_comes_first(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """Nobody names its pods beforehand: the marker does, and the second one is refused."""

    group = Consumer(resource="podgroups", name="gang", uid="uid-of-gang")
    claims.records[CLAIM.uid] = attrs.evolve(claims.records[CLAIM.uid], consumers=(group,))

    await hooks.create_container(sandbox, container(), turn())
    assert [uids for uids, _, _ in claims.attached] == [(CLAIM.uid,)]
    await hooks.create_container(sandbox, container(id="c2"), turn())

    claims.answer = claims.records[CLAIM.uid]
    with pytest.raises(ClaimError, match="is used by pod default/web"):
        await hooks.create_container(
            attrs.evolve(sandbox, id="s2", name="two", uid="uid-of-two"), container(), turn()
        )
    assert len(claims.attached) == 1


async def test_observers_container_is_let_through(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """A claim with admin access has no NIC to be missed."""

    claims.records[CLAIM.uid] = claim_record(None)

    await hooks.run_pod_sandbox(attrs.evolve(sandbox, netns_path=None), turn())
    await hooks.create_container(attrs.evolve(sandbox, netns_path=None), container(env={}), turn())

    assert claims.attached == []


async def test_stop_and_remove_send_home_what_is_in_that_sandbox(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """By the sandbox's id, whatever the event says of its namespace."""

    await hooks.stop_pod_sandbox(attrs.evolve(sandbox, netns_path=None))
    await hooks.remove_pod_sandbox(Sandbox(id="s0"))

    assert claims.detached == ["s1", "s0"]


async def test_synchronize_attaches_late(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """A pod that started without us is completed by a task of its own, and told."""

    await hooks.synchronize([sandbox], [container(**RUNNING)])
    assert claims.attached == []
    await wait_until(lambda: bool(claims.attached))

    assert claims.attached == [((CLAIM.uid,), "s1", LATE_ATTACH_S)]
    assert "pod had started without its NICs" in caplog.text


async def test_synchronize_attaches_before_the_first_container(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """Whose sandbox alone was made without us is completed too, and missed nothing."""

    caplog.set_level("INFO")
    await hooks.synchronize([sandbox], [])
    await wait_until(lambda: bool(claims.attached))

    assert claims.attached == [((CLAIM.uid,), "s1", LATE_ATTACH_S)]
    assert "sandbox was made without the pod's NICs" in caplog.text
    assert "pod had started" not in caplog.text


async def wait_until(condition: Any) -> None:
    """Let the others work until something holds."""
    with trio.fail_after(5):
        while not condition():
            await wait_all_tasks_blocked(0.001)


async def test_synchronize_that_cannot_attach_tells_it(
    hooks: PodHooks,
    claims: FakeClaims,
    sandbox: Sandbox,
    troubles: Troubles,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The pod is never silently without its NIC."""

    claims.fault = ClaimError("nic-a", "device is gone")

    await hooks.synchronize([sandbox], [])
    await wait_until(lambda: troubles.all() != ())

    assert "its next container is refused" in caplog.text


async def test_synchronize_leaves_dead_and_complete_sandboxes_alone(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """A sandbox without a namespace is dead; one with its NICs needs nothing."""

    await hooks.synchronize([attrs.evolve(sandbox, netns_path=None)], [])
    await wait_all_tasks_blocked()
    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.synchronize([sandbox], [])
    await wait_all_tasks_blocked()

    assert len(claims.attached) == 1


@pytest.mark.parametrize(
    ("nic", "attached"),
    [
        (nic_record(Stage.ATTACHED), True),
        (nic_record(Stage.ATTACHING), True),
        (nic_record(Stage.HOME, sandbox=SANDBOX, fault="name is taken"), True),
        (nic_record(Stage.HOME, sandbox=SANDBOX), False),
        (nic_record(Stage.RETURNING), False),
    ],
    ids=["untold", "late", "failed", "sent home", "on its way home"],
)
async def test_synchronize_completes_what_was_left_half_done(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, nic: NicRecord, attached: bool
) -> None:
    """A NIC that its pod has or should have; never one that the sandbox's end sent home."""

    claims.put(CLAIM.uid, nic, told=False)

    await hooks.synchronize([attrs.evolve(sandbox, id=SANDBOX.id)], [])
    if attached:
        await wait_until(lambda: bool(claims.attached))
    else:
        await wait_all_tasks_blocked(0.01)

    assert bool(claims.attached) == attached


async def test_synchronize_takes_no_nic_from_another_living_sandbox(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """A pod may have two sandboxes for a moment: the one with the NIC keeps it."""

    await hooks.run_pod_sandbox(sandbox, turn())

    await hooks.synchronize([sandbox, attrs.evolve(sandbox, id="s0")], [])
    await wait_all_tasks_blocked()

    assert [where for _, where, _ in claims.attached] == ["s1"]


async def test_synchronize_moves_on_from_a_dead_sandbox(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """The NIC is recorded in a sandbox that the runtime does not know any more."""

    await hooks.run_pod_sandbox(sandbox, turn())

    await hooks.synchronize([attrs.evolve(sandbox, id="s2")], [])
    await wait_until(lambda: len(claims.attached) == 2)

    assert claims.attached[-1][1] == "s2"


async def test_late_attach_is_dropped_when_the_sandbox_stopped(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """The stop came first: nothing is moved into a sandbox that ends."""

    await hooks.synchronize([sandbox], [])
    await hooks.stop_pod_sandbox(sandbox)
    await wait_all_tasks_blocked(0.01)

    assert claims.attached == []


async def test_synchronize_before_the_tasks_run_is_made_up_for(
    claims: FakeClaims, ending: Ending, troubles: Troubles, sandbox: Sandbox, nursery: trio.Nursery
) -> None:
    """While the node's own tasks restart, the runtime may connect."""

    hooks = PodHooks(claims, arrivals=claims, troubles=troubles, is_ending=ending)
    await hooks.synchronize([sandbox], [])
    async with trio.open_nursery() as first:
        await first.start(hooks.run)
        await wait_until(lambda: bool(claims.attached))
        first.cancel_scope.cancel()

    claims.records[CLAIM.uid] = claim_record(nic_record(Stage.STAGED))
    await hooks.synchronize([sandbox], [])
    await nursery.start(hooks.run)
    await wait_until(lambda: len(claims.attached) == 2)
    nursery.cancel_scope.cancel()


RUNNING = {"state": ContainerState.RUNNING}


async def test_end_of_an_older_pod_is_its_last_containers(
    hooks: PodHooks, claims: FakeClaims, ending: Ending, sandbox: Sandbox
) -> None:
    """A restarted runtime tells no stop of sandboxes from before: containers do, and the API."""

    await hooks.run_pod_sandbox(sandbox, turn())
    there = [container(id=f"c{number}", **RUNNING) for number in (1, 2)]
    late = container(id="c3", **RUNNING)
    await hooks.synchronize([sandbox], [*there, container(id="c0", state=ContainerState.STOPPED)])
    await hooks.create_container(sandbox, late, turn())
    ending.pods.add(POD.uid)

    for each in (*there, late):
        assert claims.detached == []
        # The runtime takes the namespace away when this returns.
        await hooks.stop_container(sandbox, each)

    assert claims.detached == ["s1"]


async def test_end_of_an_older_pod_is_answered_when_its_nic_is_home(
    hooks: PodHooks, claims: FakeClaims, ending: Ending, sandbox: Sandbox
) -> None:
    """With the answer the runtime goes on to take the namespace away."""

    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.synchronize([sandbox], [container(**RUNNING)])
    ending.pods.add(POD.uid)

    await hooks.stop_container(sandbox, container())

    assert claims.detached == ["s1"]


async def test_restarting_container_of_an_older_pod_keeps_the_nic(
    hooks: PodHooks, claims: FakeClaims, ending: Ending, sandbox: Sandbox
) -> None:
    """Its last container ended, and the pod goes on; the next end is asked about anew."""

    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.synchronize([sandbox], [container(**RUNNING)])
    await hooks.stop_container(sandbox, container())
    await wait_all_tasks_blocked()
    assert claims.detached == []

    ending.pods.add(POD.uid)
    await hooks.stop_container(sandbox, container())
    await wait_all_tasks_blocked()
    await hooks.stop_container(sandbox, container())
    await wait_all_tasks_blocked()

    assert claims.detached == ["s1"]


async def test_end_of_an_older_pod_that_nobody_can_tell_is_left(
    hooks: PodHooks,
    claims: FakeClaims,
    ending: Ending,
    sandbox: Sandbox,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The API server is away: kubelet's unprepare will end it."""

    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.synchronize([sandbox], [container(**RUNNING)])
    ending.fault = KubeError("API server", "no answer")

    await hooks.stop_container(sandbox, container())
    await wait_all_tasks_blocked()

    assert claims.detached == []
    assert "end of an older pod not settled" in caplog.text


async def test_container_of_a_newer_sandbox_ends_nothing(
    hooks: PodHooks, claims: FakeClaims, ending: Ending, sandbox: Sandbox
) -> None:
    """Its sandbox's own stop will be told."""

    ending.pods.add(POD.uid)
    await hooks.run_pod_sandbox(sandbox, turn())

    await hooks.stop_container(sandbox, container())
    await wait_all_tasks_blocked()

    assert claims.detached == []


class Resources:
    """A pod that asked for a NIC as a resource, as it turns out when its sandbox is made.

    Attributes:
        fault: What it ends with to find that out.
    """

    def __init__(self, one: Given) -> None:
        self.one = one
        self.fault: BerthError | None = None
        self.learnt: list[str] = []

    def of_pod(self, pod_uid: str) -> tuple[Given, ...]:
        """What was learnt."""
        return (self.one,) if self.one.serves_pod(pod_uid) else ()

    async def learn(self, sandbox: Sandbox) -> None:
        """Find it out."""
        await trio.lowlevel.checkpoint()
        if self.fault is not None:
            raise self.fault
        self.learnt.append(sandbox.id)
        if self.one.has_nics:
            self.one = attrs.evolve(self.one, pod_uid=sandbox.uid)

    async def mark(
        self,
        sandbox: Sandbox,
        containers: Iterable[Container],
        *,
        limit_s: float = 0.7,  # noqa: ARG002 - it needs no time
    ) -> None:
        """Find it out by containers with our mark."""
        if any(units_of(container.env) for container in containers):
            await self.learn(sandbox)

    def asked_by(self, container: Container) -> tuple[Given, ...]:
        """The one answer, to every container with a mark."""
        return (self.one,) if {*units_of(container.env)} else ()


@pytest.fixture
def resources(claims: FakeClaims) -> Resources:
    """A pod without claims, with one NIC."""
    claims.records.clear()
    return Resources(given(modem(), uid="g1").with_nic(0, nic_record(Stage.STAGED)))


async def test_pod_that_asked_for_a_resource_gets_its_nic(
    claims: FakeClaims, resources: Resources, sandbox: Sandbox, troubles: Troubles, ending: Ending
) -> None:
    """As one with a claim does, by the same steps."""

    hooks = PodHooks(
        claims, arrivals=claims, troubles=troubles, is_ending=ending, resources=resources
    )
    await hooks.run_pod_sandbox(sandbox, turn())

    ((uids, sandbox_id, _),) = claims.attached
    assert (uids, sandbox_id) == (("g1",), "s1")


async def test_pod_whose_nic_cannot_be_named_is_refused(
    claims: FakeClaims, resources: Resources, sandbox: Sandbox, troubles: Troubles, ending: Ending
) -> None:
    """And the operator finds out why."""

    resources.fault = ClaimError("modem-0", "is to be net1 in the pod, as another NIC of it is")
    hooks = PodHooks(
        claims, arrivals=claims, troubles=troubles, is_ending=ending, resources=resources
    )

    with pytest.raises(ClaimError, match="as another NIC of it is"):
        await hooks.run_pod_sandbox(sandbox, turn())
    assert claims.attached == []
    assert [trouble.pod for trouble in troubles.all()] == [str(sandbox)]


async def test_container_in_a_machine_is_refused_what_it_asked_for_as_a_resource(
    claims: FakeClaims, sandbox: Sandbox, troubles: Troubles, ending: Ending
) -> None:
    """Only the container's own mark tells of a device that is not moved."""

    claims.records.clear()
    resources = Resources(given(modem()))
    hooks = PodHooks(
        claims,
        arrivals=claims,
        isolation=Isolation(lambda: ["kata"]),
        troubles=troubles,
        is_ending=ending,
        resources=resources,
    )
    vm = attrs.evolve(sandbox, runtime_handler="kata")
    marked = container(env=dict([mark(RESOURCE, ["modem-0"]).split("=", 1)]))

    await hooks.run_pod_sandbox(vm, turn())
    await hooks.create_container(vm, container(env={}), turn())
    with pytest.raises(ClaimError, match=r"into which modem-0 cannot be brought"):
        await hooks.create_container(vm, marked, turn())
    await hooks.create_container(sandbox, marked, turn())
