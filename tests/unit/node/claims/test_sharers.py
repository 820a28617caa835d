"""Pods that have a claim which does not name them: who is asked, and what is made of silence."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.errors import BerthError, ClaimError, HostError, KubeError
from berth.model.claim import Consumer
from berth.model.pod import PodClaims, Sandbox
from berth.nic.record import Stage
from berth.node.claims.sharers import BUSY, BUSY_PAUSE_S, KUBELET_S, SOURCE, Sharers
from berth.node.records.record import ClaimRecord
from tests.unit.node.claimserver import ClaimServer, refused
from tests.unit.node.views.scenes import CLAIM, POD, claim_record, nic_record
from tests.unit.node.views.scenes import SANDBOX as IN_SANDBOX

LIMIT_S = 0.6
GROUP = Consumer(resource="podgroups", name="team", uid="uid-of-team")
GROUPS_CLAIM = claim_record(nic_record(Stage.STAGED), consumers=(GROUP,))
MADE = attrs.evolve(GROUPS_CLAIM, pod_claim_name="nic")
USES = PodClaims(group="team", names=frozenset({CLAIM.name}))
UNTOLD = PodClaims(group="team", unresolved=frozenset({"nic"}))
SANDBOX = Sandbox(id="s1", name="one", namespace="default", uid="uid-of-one")


class OwnKubelet:
    """A kubelet that tells what it is told to.

    Attributes:
        answer: What it says of every pod; it hangs on a number of seconds.
        heard: By a pod's UID, what is waited for before it says it.
        busy: To how many of the next questions it says that it is asked too much.
        most: How many questions it had at once.
    """

    def __init__(self) -> None:
        self.answer: PodClaims | BerthError | float | None = PodClaims()
        self.heard: dict[str, trio.Event] = {}
        self.asked = 0
        self.busy = 0
        self.most = 0
        self._now = 0

    async def claims_of(self, sandbox: Sandbox) -> PodClaims | None:
        """Tell it."""
        assert sandbox.uid
        self.asked += 1
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            if sandbox.uid in self.heard:
                await self.heard[sandbox.uid].wait()
            return await self._tell()
        finally:
            self._now -= 1

    async def _tell(self) -> PodClaims | None:
        await trio.lowlevel.checkpoint()
        if self.busy:
            self.busy -= 1
            raise HostError("pods-api.sock", "rejected by rate limit", rule=BUSY)
        if isinstance(self.answer, float):
            await trio.sleep(self.answer)
            return PodClaims()
        if isinstance(self.answer, BerthError):
            raise self.answer
        return self.answer


ABSENT = HostError("/var/lib/kubelet/pods-api/pods-api.sock", "kubelet does not tell of its pods")


class Bed:
    """A node with records, a kubelet and an API server."""

    def __init__(self, *records: ClaimRecord) -> None:
        self.records = list(records)
        self.kubelet = OwnKubelet()
        self.server = ClaimServer()
        self.sharers = Sharers(lambda: self.records, kubelet=self.kubelet, server=self.server)

    async def learn(self, sandbox: Sandbox = SANDBOX) -> tuple[str, ...]:
        """Give the claims that the pod turns out to have."""
        await self.sharers.learn(sandbox, limit_s=LIMIT_S)
        return tuple(one.claim.name for one in self.sharers.of_pod(sandbox))

    @property
    def asked(self) -> tuple[int, int]:
        """How often kubelet and the API server were asked."""
        return self.kubelet.asked, len(self.server.asked)


async def test_pod_of_a_group_has_the_claim_that_it_names() -> None:
    """Kubelet alone tells it, once, whatever the API server does."""

    bed = Bed(GROUPS_CLAIM)
    bed.kubelet.answer = USES

    assert await bed.learn() == ("net",)
    assert await bed.learn() == ("net",)
    assert bed.asked == (1, 0)


async def test_stranger_of_the_namespace_costs_one_question() -> None:
    """To kubelet, on the node."""

    bed = Bed(GROUPS_CLAIM)

    assert await bed.learn() == ()
    assert await bed.learn() == ()
    assert bed.asked == (1, 0)


@pytest.mark.parametrize(
    ("changes", "sandbox"),
    [
        ({}, attrs.evolve(SANDBOX, namespace="another")),
        ({}, attrs.evolve(SANDBOX, annotations={SOURCE: "file"})),
        ({"prepared": False}, SANDBOX),
        ({"revoked": True}, SANDBOX),
        ({"devices": ()}, SANDBOX),
        ({"consumers": (POD,)}, attrs.evolve(SANDBOX, uid=POD.uid)),
    ],
    ids=["elsewhere", "static", "unprepared", "revoked", "no NIC", "its own"],
)
async def test_nobody_is_asked_where_nothing_can_come_of_it(
    changes: dict[str, Any], sandbox: Sandbox
) -> None:
    """Most pods of a node are such."""

    bed = Bed(attrs.evolve(GROUPS_CLAIM, **changes))

    assert await bed.learn(sandbox) == ()
    assert bed.asked == (0, 0)


@pytest.mark.parametrize("stage", [Stage.ATTACHED, Stage.HOME])
async def test_pod_that_had_the_nic_last_has_the_claim(stage: Stage) -> None:
    """In its next sandbox, and after a restart of the daemon: nobody needs to be asked."""

    nic = nic_record(stage, sandbox=attrs.evolve(IN_SANDBOX, pod_uid=SANDBOX.uid))
    bed = Bed(claim_record(nic, consumers=(GROUP,)))

    assert await bed.learn() == ("net",)
    assert bed.asked == (0, 0)
    assert await bed.learn(attrs.evolve(SANDBOX, id="s2", uid="stranger")) == ()
    assert bed.asked == (1, 0)


async def test_claim_that_names_another_pod_may_be_this_ones_too() -> None:
    """Kubelet asked for it once, with the first pod."""

    bed = Bed(attrs.evolve(GROUPS_CLAIM, consumers=(POD,)))
    bed.kubelet.answer = attrs.evolve(USES, group="")

    assert await bed.learn() == ("net",)


async def test_claim_that_was_made_for_another_pod_may_be_this_ones_too() -> None:
    """It names the claim itself."""

    bed = Bed(attrs.evolve(MADE, consumers=(POD,)))
    bed.kubelet.answer = attrs.evolve(USES, group="")

    assert await bed.learn() == ("net",)


async def test_of_a_claim_that_was_made_for_another_pod_kubelet_alone_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Most claims of a node are such, and before 1.37 kubelet tells of none: no pod waits."""

    bed = Bed(attrs.evolve(MADE, consumers=(POD,)))
    bed.kubelet.answer = attrs.evolve(UNTOLD, group="")
    assert await bed.learn() == ()
    assert bed.asked == (1, 0)
    bed.kubelet.answer = ABSENT

    for number in range(2):
        stranger = attrs.evolve(SANDBOX, id=f"s{number}", uid=f"uid-of-stranger-{number}")
        assert await bed.sharers.learn(stranger, limit_s=LIMIT_S) is None

    assert bed.asked == (3, 0)
    assert caplog.text.count("not told which claims a pod has") == 1


async def test_what_a_template_made_the_api_server_tells() -> None:
    """Kubelet knows the template; the pod may have given its name to another one."""

    bed = Bed(MADE)
    bed.kubelet.answer = UNTOLD
    bed.server.pods[SANDBOX.uid] = USES
    other = attrs.evolve(SANDBOX, id="s2", name="two", uid="uid-of-two")
    bed.server.pods[other.uid] = attrs.evolve(USES, names=frozenset({"two-nic-x7"}))

    assert await bed.learn() == ("net",)
    assert await bed.learn(other) == ()
    assert bed.asked == (2, 2)


async def test_templates_of_a_pod_of_no_group_are_its_own() -> None:
    """The API server is not asked about them."""

    bed = Bed(MADE)
    bed.kubelet.answer = attrs.evolve(UNTOLD, group="")

    assert await bed.learn() == ()
    assert bed.asked == (1, 0)


@pytest.mark.parametrize("answer", [ABSENT, None, 60.0], ids=["old", "unknown", "hangs"])
async def test_api_server_tells_what_kubelet_does_not(
    autojump_clock: MockClock, answer: BerthError | float | None
) -> None:
    """Before 1.37, for a moment after its start, and when it hangs."""

    bed = Bed(GROUPS_CLAIM)
    bed.kubelet.answer = answer
    bed.server.pods[SANDBOX.uid] = USES

    assert await bed.learn() == ("net",)
    assert trio.current_time() <= KUBELET_S


async def test_kubelet_that_is_asked_too_much_is_asked_again(autojump_clock: MockClock) -> None:
    """Else all that ask at once would go to the API server at once."""

    bed = Bed(GROUPS_CLAIM)
    bed.kubelet.answer = USES
    bed.kubelet.busy = 2

    assert await bed.learn() == ("net",)
    assert bed.asked == (3, 0)
    assert trio.current_time() == pytest.approx(2 * BUSY_PAUSE_S)


async def test_kubelet_that_is_asked_too_much_all_the_time_is_given_up(
    autojump_clock: MockClock,
) -> None:
    """In the time that it has anyway; then the API server tells."""

    bed = Bed(GROUPS_CLAIM)
    bed.kubelet.busy = 100
    bed.server.answers["pod_claims"] = [refused(0, found="no answer")]

    with pytest.raises(ClaimError, match=r"within 0\.3 s: rejected by rate limit; .*no answer"):
        await bed.learn()
    assert trio.current_time() == pytest.approx(KUBELET_S)


async def test_pod_that_the_api_server_does_not_know_has_no_claim() -> None:
    """It is going; or it is the pod of a file, whose copy there has another UID."""

    bed = Bed(GROUPS_CLAIM)
    bed.kubelet.answer = ABSENT

    assert await bed.learn() == ()


@pytest.mark.parametrize("hangs", [True, False])
async def test_pod_of_which_nobody_tells_is_refused(
    autojump_clock: MockClock, *, hangs: bool
) -> None:
    """In its hook's time, by the claim's name, with both reasons; and asked about again later."""

    bed = Bed(GROUPS_CLAIM)
    bed.kubelet.answer = ABSENT
    if hangs:
        bed.server.hangs.add("pod_claims")
    else:
        bed.server.answers["pod_claims"] = [refused(0, found="no answer")]

    with pytest.raises(ClaimError, match="pod default/one: may have claim default/net") as found:
        await bed.learn()

    assert "kubelet does not tell of its pods" in str(found.value)
    assert ("did not tell in time" if hangs else "no answer") in str(found.value)
    assert trio.current_time() == (LIMIT_S if hangs else 0)
    bed.kubelet.answer = USES
    assert await bed.learn() == ("net",)


async def test_template_that_nobody_resolves_refuses_the_groups_pods_alone() -> None:
    """A stranger of the namespace starts without the API server."""

    bed = Bed(MADE)
    bed.server.answers["pod_claims"] = [refused(0), refused(0)]

    assert await bed.learn(attrs.evolve(SANDBOX, id="s2", uid="stranger")) == ()
    bed.kubelet.answer = UNTOLD
    with pytest.raises(ClaimError, match="which claim its template for nic made is not told"):
        await bed.learn()


async def test_claim_of_pods_by_name_lets_go_on_whom_nobody_tells_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An old kubelet and no API server: the pod is asked about again with its next container."""

    bed = Bed(attrs.evolve(GROUPS_CLAIM, consumers=(POD,)))
    bed.kubelet.answer = ABSENT
    bed.server.answers["pod_claims"] = [KubeError("API server", "no answer")] * 2

    for _ in range(2):
        untold = await bed.sharers.learn(SANDBOX, limit_s=LIMIT_S)
        assert "may have claim default/net, which names another" in str(untold)
        assert "no answer: it starts all the same" in str(untold)
    assert caplog.text.count("not told which claims a pod has") == 1
    bed.server.pods[SANDBOX.uid] = USES
    assert await bed.sharers.learn(SANDBOX, limit_s=LIMIT_S) is None
    assert await bed.learn() == ("net",)
    assert bed.asked == (3, 3)


async def test_pods_that_ended_are_forgotten() -> None:
    """By the end of the sandbox, and by a list of those that are there."""

    bed = Bed(GROUPS_CLAIM)
    bed.kubelet.answer = USES
    await bed.learn()
    bed.sharers.keep({SANDBOX.uid})
    assert not bed.sharers.asks_about(SANDBOX)
    bed.sharers.keep(())
    assert bed.sharers.asks_about(SANDBOX)
    await bed.learn()
    bed.sharers.forget(SANDBOX)
    assert bed.sharers.asks_about(SANDBOX)


async def test_end_of_an_older_sandbox_forgets_nothing() -> None:
    """Kubelet removes it some time after its pod has the next one, of which was told."""

    bed = Bed(GROUPS_CLAIM)
    await bed.learn()
    bed.sharers.forget(SANDBOX)
    await bed.learn(attrs.evolve(SANDBOX, id="s9"))
    bed.sharers.forget(SANDBOX)

    assert not bed.sharers.asks_about(SANDBOX)


async def test_marker_of_a_groups_claim_needs_the_claim_too() -> None:
    """Anybody can write it into a container's environment, in any namespace."""

    bed = Bed(GROUPS_CLAIM)
    assert bed.sharers.is_foreign(attrs.evolve(SANDBOX, namespace="another"), GROUPS_CLAIM)
    await bed.learn()
    assert bed.sharers.is_foreign(SANDBOX, GROUPS_CLAIM)
    bed.sharers.forget(SANDBOX)
    bed.kubelet.answer = USES
    await bed.learn()
    assert not bed.sharers.is_foreign(SANDBOX, GROUPS_CLAIM)
    assert not bed.sharers.is_foreign(SANDBOX, attrs.evolve(GROUPS_CLAIM, consumers=(POD,)))
    assert not bed.sharers.is_foreign(SANDBOX, claim_record(None, consumers=(GROUP,)))
