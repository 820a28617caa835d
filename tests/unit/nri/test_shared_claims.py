"""Claims that do not name the pod which has them: no container has to refer to one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import ClaimError
from berth.model.claim import Consumer
from berth.model.pod import PodClaims, Sandbox
from berth.nic import execute
from berth.nic.record import Stage
from berth.node.claims.sharers import Sharers
from berth.node.views.troubles import Troubles
from berth.nri.hooks import LATE_ATTACH_S, PodHooks
from berth.nri.shares import LATE_QUESTIONS, LEARN_PART
from tests.unit.node.claims.test_sharers import ABSENT, GROUP, USES, OwnKubelet
from tests.unit.node.claimserver import ClaimServer, refused
from tests.unit.node.views.scenes import CLAIM, POD, SANDBOX, claim_record, nic_record
from tests.unit.nri.test_hooks import (
    LEAKY,
    NETNS,
    Ending,
    FakeClaims,
    container,
    turn,
    wait_until,
)

PODS = {"one": "u1", "two": "u2"}
BARE = container(env={"PATH": "/bin"})


@pytest.fixture(autouse=True)
def _another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rights there is no second network: so the tests' own is the pods', not the host's."""
    monkeypatch.setattr(execute, "HOME", "/proc/self/ns/uts")


@pytest.fixture
def sandbox() -> Sandbox:
    """A sandbox of a pod of the group, with a namespace."""
    return Sandbox(id="s1", name="one", namespace="default", uid="u1", netns_path=str(NETNS))


@pytest.fixture
def claims() -> FakeClaims:
    """A group's claim, prepared."""
    return FakeClaims(claim_record(nic_record(Stage.STAGED), consumers=(GROUP,)))


class Telling:
    """Who tells of pods: a kubelet whose pods have the claim, and an API server."""

    def __init__(self) -> None:
        self.kubelet = OwnKubelet()
        self.kubelet.answer = USES
        self.server = ClaimServer()

    def fall_silent(self) -> None:
        """Let neither tell anything."""
        self.kubelet.answer = ABSENT
        self.server.answers["pod_claims"] = [refused(0)] * 2


@pytest.fixture
def telling() -> Telling:
    """Both tell."""
    return Telling()


@pytest.fixture
def troubles() -> Troubles:
    """What `berth why` would find."""
    return Troubles()


@pytest.fixture
async def hooks(
    claims: FakeClaims,
    telling: Telling,
    troubles: Troubles,
    nursery: trio.Nursery,
) -> AsyncIterator[PodHooks]:
    """Hooks whose tasks run."""
    made = PodHooks(
        claims,
        arrivals=claims,
        troubles=troubles,
        is_ending=Ending(),
        sharers=Sharers(claims.records.values, kubelet=telling.kubelet, server=telling.server),
    )
    await nursery.start(made.run)
    yield made
    nursery.cancel_scope.cancel()


def other_of(sandbox: Sandbox) -> Sandbox:
    """A sandbox of the next pod."""
    return attrs.evolve(sandbox, id="s2", name="two", uid="u2")


async def test_pod_of_a_group_has_its_nic_before_its_first_container(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """None of its containers refers to the claim."""

    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.create_container(sandbox, BARE, turn())

    assert [(uids, where) for uids, where, _ in claims.attached] == [((CLAIM.uid,), "s1")]


async def test_next_sandbox_of_the_pod_has_the_nic_again(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """The first one died; the NIC is home."""

    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.stop_pod_sandbox(sandbox)
    claims.put(CLAIM.uid, nic_record(Stage.HOME))
    await hooks.run_pod_sandbox(attrs.evolve(sandbox, id="s2"), turn())

    assert [where for _, where, _ in claims.attached] == ["s1", "s2"]


async def test_second_pod_of_the_group_is_refused_by_the_first_ones_name(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, troubles: Troubles
) -> None:
    """Before any container of it is made."""

    claims.answer = claims.records[CLAIM.uid]
    await hooks.run_pod_sandbox(sandbox, turn())
    claims.answer = claims.records[CLAIM.uid]

    with pytest.raises(ClaimError, match="is used by pod default/one: its NIC can be in one pod"):
        await hooks.run_pod_sandbox(other_of(sandbox), turn())

    assert len(claims.attached) == 1
    assert [trouble.pod for trouble in troubles.all()] == ["default/two"]


async def test_pod_beside_the_one_that_a_claim_names_is_refused(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """No group is needed for it: kubelet prepares a claim once for all its pods."""

    claims.records[CLAIM.uid] = attrs.evolve(claims.records[CLAIM.uid], consumers=(POD,))
    claims.answer = claims.records[CLAIM.uid]

    with pytest.raises(ClaimError, match="is used by pod web"):
        await hooks.run_pod_sandbox(sandbox, turn())


async def test_pod_that_a_claim_names_by_now_gets_the_nic(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """The first pod was deleted by force, and kubelet prepared nothing anew."""

    record = claims.records[CLAIM.uid]
    claims.records[CLAIM.uid] = attrs.evolve(record, consumers=(POD,))
    heir = Consumer(resource="pods", name="one", uid="u1")
    claims.answer = attrs.evolve(record, consumers=(heir,))

    await hooks.run_pod_sandbox(sandbox, turn())

    assert [where for _, where, _ in claims.attached] == ["s1"]


async def test_claim_that_names_several_pods_is_the_first_ones_until_it_ends(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """Two were reserved when it was prepared, or came after its former pod had ended."""

    users = [Consumer(resource="pods", name=name, uid=uid) for name, uid in PODS.items()]
    record = attrs.evolve(claims.records[CLAIM.uid], consumers=tuple(users))
    claims.records[CLAIM.uid] = record
    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.create_container(sandbox, container(), turn())
    claims.answer = claims.records[CLAIM.uid]

    for _ in range(2):
        with pytest.raises(ClaimError, match="is used by pod one: its NIC can be in one pod"):
            await hooks.create_container(other_of(sandbox), container(), turn())
    assert [where for _, where, _ in claims.attached] == ["s1"]

    claims.put(CLAIM.uid, nic_record(Stage.HOME))
    await hooks.create_container(other_of(sandbox), container(), turn())
    assert [where for _, where, _ in claims.attached] == ["s1", "s2"]
    claims.answer = claims.records[CLAIM.uid]
    with pytest.raises(ClaimError, match="is used by pod two: its NIC can be in one pod"):
        await hooks.create_container(sandbox, container(), turn())


async def test_pod_that_came_after_those_that_may_have_the_nic_is_told_their_names(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox
) -> None:
    """None of them has it yet; then the one that has."""

    users = [Consumer(resource="pods", name=name, uid=uid) for name, uid in PODS.items()]
    record = attrs.evolve(claims.records[CLAIM.uid], consumers=tuple(users))
    claims.records[CLAIM.uid] = claims.answer = record
    third = attrs.evolve(sandbox, id="s3", name="three", uid="u3")
    with pytest.raises(ClaimError, match="is used by pod one, two:"):
        await hooks.run_pod_sandbox(third, turn())

    await hooks.run_pod_sandbox(other_of(sandbox), turn())
    claims.answer = claims.records[CLAIM.uid]
    with pytest.raises(ClaimError, match="is used by pod two:"):
        await hooks.run_pod_sandbox(third, turn())


async def test_stranger_starts_whatever_network_it_has(
    hooks: PodHooks, claims: FakeClaims, telling: Telling, sandbox: Sandbox
) -> None:
    """Kubelet is asked once for all its containers."""

    telling.kubelet.answer = PodClaims()
    stranger = attrs.evolve(sandbox, netns_path=None)

    await hooks.run_pod_sandbox(stranger, turn())
    for number in range(3):
        await hooks.create_container(stranger, attrs.evolve(BARE, id=f"c{number}"), turn())

    assert (claims.attached, telling.kubelet.asked) == ([], 1)


async def test_stranger_that_waited_leaves_no_trouble(
    hooks: PodHooks, telling: Telling, sandbox: Sandbox, troubles: Troubles
) -> None:
    """It was refused while nobody told of it."""

    telling.fall_silent()
    with pytest.raises(ClaimError, match="nobody says whether"):
        await hooks.run_pod_sandbox(sandbox, turn())
    assert [trouble.pod for trouble in troubles.all()] == ["default/one"]
    telling.kubelet.answer = PodClaims()

    await hooks.run_pod_sandbox(sandbox, turn())

    assert troubles.all() == ()


async def test_removal_of_a_strangers_old_sandbox_does_not_concern_its_next_one(
    hooks: PodHooks, telling: Telling, sandbox: Sandbox
) -> None:
    """Its containers are made, though nobody tells any more."""

    telling.kubelet.answer = PodClaims()
    following = attrs.evolve(sandbox, id="s9")
    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.stop_pod_sandbox(sandbox)
    await hooks.run_pod_sandbox(following, turn())
    await hooks.remove_pod_sandbox(sandbox)
    telling.fall_silent()

    await hooks.create_container(following, BARE, turn())


async def test_stranger_with_the_marker_gets_nothing(
    hooks: PodHooks, claims: FakeClaims, telling: Telling, sandbox: Sandbox
) -> None:
    """It wrote it into its own environment, in a namespace of its own."""

    telling.kubelet.answer = PodClaims()
    away = attrs.evolve(sandbox, namespace="another")

    for stranger in (sandbox, away):
        with pytest.raises(ClaimError, match=r"reserved for a PodGroup, and pod .*/one does not"):
            await hooks.create_container(stranger, container(), turn())

    assert claims.attached == []


@pytest.mark.parametrize("leaky", [False, True])
async def test_pod_of_which_nobody_tells_is_refused_until_somebody_does(
    hooks: PodHooks,
    claims: FakeClaims,
    telling: Telling,
    sandbox: Sandbox,
    *,
    leaky: bool,
) -> None:
    """As a sandbox; where the runtime would leave that running, as its containers."""

    telling.fall_silent()

    if leaky:
        await hooks.run_pod_sandbox(sandbox, turn(LEAKY))
        with pytest.raises(ClaimError, match="nobody says whether"):
            await hooks.create_container(sandbox, BARE, turn(LEAKY))
    else:
        with pytest.raises(ClaimError, match="nobody says whether"):
            await hooks.run_pod_sandbox(sandbox, turn())
    assert claims.attached == []
    telling.kubelet.answer = USES
    await hooks.create_container(sandbox, BARE, turn())
    assert [where for _, where, _ in claims.attached] == ["s1"]


async def test_pod_that_may_have_a_claim_of_another_starts_with_a_trouble(
    hooks: PodHooks, claims: FakeClaims, telling: Telling, sandbox: Sandbox, troubles: Troubles
) -> None:
    """Until somebody tells: it has the claim, and its next container is refused by name."""

    claims.records[CLAIM.uid] = attrs.evolve(claims.records[CLAIM.uid], consumers=(POD,))
    claims.answer = claims.records[CLAIM.uid]
    telling.fall_silent()

    await hooks.run_pod_sandbox(sandbox, turn())
    await hooks.create_container(sandbox, BARE, turn())
    (trouble,) = troubles.all()
    assert (trouble.pod, trouble.count) == ("default/one", 2)
    assert "may have claim default/net, which names another" in trouble.text
    telling.kubelet.answer = USES
    with pytest.raises(ClaimError, match="is used by pod web"):
        await hooks.create_container(sandbox, attrs.evolve(BARE, id="c2"), turn())


async def test_questions_of_one_hook_share_its_time(
    hooks: PodHooks,
    claims: FakeClaims,
    telling: Telling,
    sandbox: Sandbox,
    *,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
) -> None:
    """Whatever is slow, the pod is refused by the reason, before the runtime goes on without us."""

    async def answer_late() -> None:
        await trio.sleep(0.55)
        telling.server.gate.set()

    where = attrs.evolve(SANDBOX, pod_uid="uid-of-first", pod="default/first")
    claims.put(CLAIM.uid, nic_record(Stage.ATTACHED, sandbox=where))
    telling.kubelet.answer = 60.0
    telling.server.pods["u1"] = USES
    telling.server.gate = trio.Event()
    nursery.start_soon(answer_late)

    # Kubelet's PodResources may have had 0.3 s before.
    with trio.fail_after(1.5 - 0.3), pytest.raises(ClaimError, match="is used by pod default/fir"):
        await hooks.run_pod_sandbox(sandbox, turn())


async def test_pod_of_a_group_that_started_while_we_were_away_is_completed(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """By a task of its own, and told."""

    caplog.set_level("INFO")
    await hooks.synchronize([sandbox], [])
    await wait_until(lambda: bool(claims.attached))

    assert claims.attached == [((CLAIM.uid,), "s1", LATE_ATTACH_S)]
    assert "sandbox was made without the pod's NICs" in caplog.text


async def test_pods_that_run_and_of_which_nobody_tells_keep_their_own_nics(
    hooks: PodHooks,
    claims: FakeClaims,
    telling: Telling,
    sandbox: Sandbox,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What they may have beside is told, and asked again with the next container."""

    own = attrs.evolve(CLAIM, name="own", uid="uid-of-own")
    user = Consumer(resource="pods", name="one", uid="u1")
    record = claim_record(nic_record(Stage.STAGED), claim=own, consumers=(user,))
    claims.records[own.uid] = record
    telling.fall_silent()

    await hooks.synchronize([sandbox], [])
    await wait_until(lambda: bool(claims.attached))

    assert [uids for uids, _, _ in claims.attached] == [(own.uid,)]
    assert "perhaps without a NIC that others share" in caplog.text


async def test_own_nic_of_a_pod_that_runs_waits_for_no_answer_about_others(
    hooks: PodHooks, claims: FakeClaims, telling: Telling, sandbox: Sandbox
) -> None:
    """The API server hangs, and a few are asked about at a time: the last would wait minutes."""

    own = attrs.evolve(CLAIM, name="own", uid="uid-of-own")
    user = Consumer(resource="pods", name="one", uid="u1")
    claims.records[own.uid] = claim_record(nic_record(Stage.STAGED), claim=own, consumers=(user,))
    telling.kubelet.answer = ABSENT
    telling.server.hangs.add("pod_claims")

    await hooks.synchronize([other_of(sandbox), sandbox], [])
    with trio.fail_after(LATE_ATTACH_S * LEARN_PART / 2):
        await wait_until(lambda: bool(claims.attached))

    assert [(uids, where) for uids, where, _ in claims.attached] == [((own.uid,), "s1")]


async def test_own_nic_of_a_pod_that_runs_comes_whoever_has_the_one_that_others_share(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, troubles: Troubles
) -> None:
    """Of two pods of a group that started while we were away, one has that; both have their own."""

    for name, uid in PODS.items():
        own = attrs.evolve(CLAIM, name=f"own-{name}", uid=f"uid-of-{name}")
        user = Consumer(resource="pods", name=name, uid=uid)
        record = claim_record(nic_record(Stage.STAGED), claim=own, consumers=(user,))
        claims.records[own.uid] = record
    claims.answer = refused(0)

    await hooks.synchronize([sandbox, other_of(sandbox)], [])
    await wait_until(lambda: troubles.all() != ())
    brought = {(uid, where) for uids, where, _ in claims.attached for uid in uids}

    assert {("uid-of-one", "s1"), ("uid-of-two", "s2")} < brought
    assert len([uid for uid, _ in brought if uid == CLAIM.uid]) == 1


async def test_nic_stays_with_the_first_of_two_pods_that_started_while_we_were_away(
    hooks: PodHooks, claims: FakeClaims, sandbox: Sandbox, troubles: Troubles
) -> None:
    """Both are asked about before either has it."""

    claims.answer = refused(0)

    await hooks.synchronize([sandbox, other_of(sandbox)], [])
    await wait_until(lambda: troubles.all() != ())

    ((_, where, _),) = claims.attached
    (trouble,) = troubles.all()
    assert (where, trouble.pod) in {("s1", "default/two"), ("s2", "default/one")}
    assert "is used by pod default/" in trouble.text


async def test_nic_stays_with_the_pod_that_came_while_a_late_one_was_asked_about(
    hooks: PodHooks,
    claims: FakeClaims,
    telling: Telling,
    sandbox: Sandbox,
    troubles: Troubles,
) -> None:
    """What is refused to the late one is not attached to it; its own NICs are."""

    heard = telling.kubelet.heard["u2"] = trio.Event()
    own = attrs.evolve(CLAIM, name="own", uid="uid-of-own")
    user = Consumer(resource="pods", name="two", uid="u2")
    claims.records[own.uid] = claim_record(nic_record(Stage.STAGED), claim=own, consumers=(user,))
    await hooks.synchronize([other_of(sandbox)], [])
    await wait_all_tasks_blocked()
    await hooks.run_pod_sandbox(sandbox, turn())
    claims.answer = claims.records[CLAIM.uid]
    heard.set()
    await wait_until(lambda: troubles.all() != ())

    assert sorted((where, uids) for uids, where, _ in claims.attached) == [
        ("s1", (CLAIM.uid,)),
        ("s2", (own.uid,)),
    ]
    (trouble,) = troubles.all()
    assert (trouble.pod, "is used by pod default/one" in trouble.text) == ("default/two", True)


async def test_pods_that_run_are_asked_about_a_few_at_a_time(
    hooks: PodHooks, telling: Telling, autojump_clock: MockClock
) -> None:
    """A restart finds all pods of a node, and kubelet answers a hundred questions a second."""

    telling.kubelet.answer = 0.005
    many = [
        Sandbox(id=f"s{n}", name=f"p{n}", namespace="default", uid=f"u{n}", netns_path=str(NETNS))
        for n in range(50)
    ]
    await hooks.synchronize(many, [])
    await trio.sleep(10)

    assert (telling.kubelet.asked, telling.kubelet.most) == (50, LATE_QUESTIONS)


async def test_trouble_of_a_stranger_is_over_when_its_container_is_made(
    hooks: PodHooks, telling: Telling, sandbox: Sandbox, troubles: Troubles
) -> None:
    """Its sandbox is from before; nobody told of it, and then somebody does."""

    telling.fall_silent()
    with pytest.raises(ClaimError, match="nobody says whether"):
        await hooks.create_container(sandbox, BARE, turn())
    assert [trouble.pod for trouble in troubles.all()] == ["default/one"]
    telling.kubelet.answer = PodClaims()

    await hooks.create_container(sandbox, BARE, turn())

    assert troubles.all() == ()


async def test_trouble_of_a_running_stranger_is_over_when_it_is_known(
    hooks: PodHooks, telling: Telling, sandbox: Sandbox, troubles: Troubles
) -> None:
    """By the next connection to the runtime: no container of it may come any more."""

    telling.fall_silent()
    await hooks.synchronize([sandbox], [])
    await wait_until(lambda: troubles.all() != ())
    telling.kubelet.answer = PodClaims()

    await hooks.synchronize([sandbox], [])
    await wait_until(lambda: troubles.all() == ())
