"""The moment at which a claim can have its devices: waited for by event, bounded, and explained."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import ClaimError, HostError, KubeError
from berth.kube.api import NOT_RELATED
from berth.model.claim import Claim, Consumer
from berth.nic.record import Stage
from berth.node.claims.admission import CLOSED
from berth.node.ledger import UNKNOWN, Hold
from tests.unit.node.claimserver import refused
from tests.unit.node.conftest import LIMIT_S, Node, sandbox_of
from tests.unit.node.machine import FAST, OTHER, claim, identity_of, look, pod, result

OLD = claim(name="old")
NEW = claim(name="new", consumers=[pod("next")])


class Asked:
    """A prepare under way.

    Attributes:
        ended_at: When it was answered; minus 1 while it is not.
        error: What it was refused with.
    """

    def __init__(self) -> None:
        self.ended_at = -1.0
        self.error = ""

    @property
    def done(self) -> bool:
        """Whether it succeeded."""
        return self.ended_at >= 0 and not self.error

    async def run(self, node: Node, wanted: Claim) -> None:
        """Ask, and remember the answer."""
        try:
            await node.prepare(wanted)
        except ClaimError as error:
            self.error = str(error)
        self.ended_at = trio.current_time()


async def ask(node: Node, nursery: trio.Nursery, wanted: Claim = NEW) -> Asked:
    """Begin a prepare, and let it go as far as it gets."""
    asked = Asked()
    node.add(wanted)
    nursery.start_soon(asked.run, node, wanted)
    await wait_all_tasks_blocked()
    return asked


async def run_old_pod(node: Node) -> None:
    """Have the old claim's NIC in its pod."""
    await node.prepare(OLD)
    await node.attach(OLD, sandbox_of("web"))


def delete_by_force(node: Node) -> None:
    """Pod and claim are gone from the API server, as it looks to a node's credentials."""
    del node.server.claims[OLD.ref.uid]
    node.server.ended.add(pod().uid)


async def test_successor_gets_the_nic_when_the_old_sandbox_ends(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The claim is gone, its NIC still in the pod: the end of the sandbox lets the next one in."""

    await run_old_pod(node)
    delete_by_force(node)
    asked = await ask(node, nursery)
    await trio.sleep(12)
    assert asked.ended_at < 0

    await node.arrivals.detach("sandbox-web-1")
    await wait_all_tasks_blocked()

    assert asked.done
    assert asked.ended_at == 12
    assert [hold.holder for hold in node.ledger.holds()] == [NEW.ref]
    await node.claims.unprepare(OLD.ref)
    assert node.stages(NEW.ref) == [Stage.STAGED]


async def test_holder_that_is_home_is_ended_at_once(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Nothing has to happen any more: the claim is gone and its NIC never went into a pod."""

    await node.prepare(OLD)
    delete_by_force(node)

    asked = await ask(node, nursery)

    assert (asked.done, asked.ended_at) == (True, 0)
    assert node.records.get(OLD.ref.uid) is None


@pytest.mark.parametrize("status", [404, 403])
async def test_claim_of_which_nothing_is_told_is_judged_by_its_pods(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery, status: int
) -> None:
    """The node's own credentials are told the same of a claim that is gone and of a foreign one."""

    await node.prepare(OLD)
    node.server.ended.add(pod().uid)
    node.server.answers["get_claim"] = [None, refused(status, reason=NOT_RELATED)]

    asked = await ask(node, nursery)

    assert asked.done


async def test_living_holder_is_named_at_once(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Its claim and its pod live: somebody gave one device to two claims."""

    await run_old_pod(node)

    asked = await ask(node, nursery)

    assert asked.ended_at == 0
    assert asked.error == (
        f"{FAST}: is held by claim default/old (uid-of-old), which is in use; "
        "it is free when pod web ends"
    )
    assert node.stages(OLD.ref) == [Stage.ATTACHED]


async def test_holder_whose_claim_has_another_device_now_is_ended(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Its claim lives, and has no use for this device."""

    await node.prepare(OLD)
    node.add(attrs.evolve(OLD, results=(result(OTHER),)))

    asked = await ask(node, nursery)

    assert asked.done


async def test_holder_whose_name_another_claim_has_is_ended(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The claim was deleted and made anew under its name."""

    await node.prepare(OLD)
    del node.server.claims[OLD.ref.uid]
    again = attrs.evolve(OLD, ref=attrs.evolve(OLD.ref, uid="uid-of-old-again"))

    asked = await ask(node, nursery, again)

    assert asked.done


async def test_holder_that_nobody_can_tell_of_is_waited_for(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The API server is away: no hold is ended on a guess, and unprepare lets the next one in."""

    await node.prepare(OLD)
    node.add(NEW)
    node.server.answers["get_claim"] = [None, *[refused(0)] * 100]
    node.server.answers["pod_is_ending"] = [refused(0)] * 100
    asked = await ask(node, nursery)
    await trio.sleep(8)
    assert asked.ended_at < 0
    assert node.record(OLD).prepared

    await node.claims.unprepare(OLD.ref)
    await wait_all_tasks_blocked()

    assert asked.done


async def test_hanging_server_does_not_hide_the_return(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Who asks about a holder looks up from that soon enough to see it go."""

    await run_old_pod(node)
    node.server.hangs.add("pod_is_ending")
    asked = await ask(node, nursery)
    await trio.sleep(10)
    assert asked.ended_at < 0

    await node.claims.unprepare(OLD.ref)
    await trio.sleep(2)

    assert asked.done


async def test_holder_is_asked_about_again(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A claim that goes away tells nobody here, so it is looked at every few seconds."""

    await node.prepare(OLD)
    node.server.answers["get_claim"] = [None, refused(0)]
    node.server.answers["pod_is_ending"] = [refused(0)]
    asked = await ask(node, nursery)
    assert asked.ended_at < 0
    delete_by_force(node)
    await trio.sleep(6)

    assert asked.done


async def test_hold_without_a_record_waits_for_unprepare(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A record was lost: only kubelet's word ends what its files speak of."""

    lost = attrs.evolve(OLD.ref, namespace=UNKNOWN)
    node.ledger.restore([Hold(key=identity_of(FAST), device=FAST, holder=lost)])
    asked = await ask(node, nursery)
    await trio.sleep(30)
    assert asked.ended_at < 0

    await node.claims.unprepare(lost)
    await wait_all_tasks_blocked()

    assert asked.done


async def test_holder_without_pods_by_name_is_judged_by_its_claim(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A group of pods that ends cannot be asked for; the claim can."""

    group = Consumer(resource="podgroups", name="gang", uid="uid-of-gang")
    await node.prepare(attrs.evolve(OLD, consumers=(group,)))

    asked = await ask(node, nursery)

    assert asked.error.endswith("it is free when pod gang ends")


@pytest.mark.parametrize("reason", [CLOSED, "restore-failed"])
async def test_passing_reason_is_waited_out(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery, reason: str
) -> None:
    """As soon as the device is offered again the claim has it."""

    node.eyes.show(look(excluded={FAST: reason}))
    asked = await ask(node, nursery)
    (trouble,) = node.troubles.all()
    assert (trouble.claim, trouble.waiting) == ("default/new", True)
    await trio.sleep(31)
    assert asked.ended_at < 0

    node.eyes.show(look())
    await wait_all_tasks_blocked()

    assert (asked.done, asked.ended_at) == (True, 31)


async def test_link_is_waited_for_until_the_deadline(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The answer comes in the caller's time, and says for what it waited and for how long."""

    node.eyes.show(look(without_link=[FAST]))

    asked = await ask(node, nursery)
    await trio.sleep(LIMIT_S)

    assert asked.error == (
        f"claim default/new: waited 39 s: the link of {FAST} is not seen; "
        "kubelet asks again by itself"
    )
    assert asked.ended_at == LIMIT_S - 1
    assert node.traces() == {}


async def test_nri_is_waited_for(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """No claim is prepared while no hook would move its NIC; nothing is held meanwhile."""

    node.closed.set("connection refused")
    asked = await ask(node, nursery)
    await trio.sleep(20)
    assert asked.ended_at < 0
    assert node.traces() == {}

    node.closed.set("")
    await wait_all_tasks_blocked()

    assert asked.done


async def test_nri_that_does_not_come_is_told(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The message names the connection and what is wrong with it."""

    node.closed.set("connection refused")

    asked = await ask(node, nursery)
    await trio.sleep(LIMIT_S)

    assert "waited 39 s: the runtime's NRI is not connected: connection refused" in asked.error


async def test_repeated_prepare_waits_for_nri_too(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A new sandbox of the pod would start without its NIC as well."""

    await node.prepare(NEW)
    node.closed.set("connection refused")
    again = await ask(node, nursery)
    await trio.sleep(20)
    assert again.ended_at < 0
    node.closed.set("")
    await wait_all_tasks_blocked()
    assert again.done

    node.closed.set("gone")
    with pytest.raises(ClaimError, match=r"waited 39 s: the runtime's NRI is not connected: gone"):
        await node.prepare(NEW)


async def test_observer_does_not_wait_for_nri(node: Node, autojump_clock: MockClock) -> None:
    """Nothing of it is moved."""

    node.closed.set("connection refused")
    admin = claim(result(FAST, admin_access=True), name="admin")

    await node.prepare(admin)
    await node.prepare(admin)

    assert trio.current_time() == 0


async def test_refusal_does_not_wait(node: Node, autojump_clock: MockClock) -> None:
    """What needs a human is told at once."""

    node.eyes.show(look(excluded={FAST: "uplink"}))

    with pytest.raises(ClaimError, match="uplink"):
        await node.prepare(NEW)

    assert (trio.current_time(), node.traces()) == (0, {})


async def test_two_requests_for_one_device_are_refused_at_once(
    node: Node, autojump_clock: MockClock
) -> None:
    """A claim stands in its own way, and no waiting helps; nothing of it is held."""

    twice = claim(result(FAST, "a"), result(FAST, "b"), name="twice")

    with pytest.raises(ClaimError, match="two of its requests name one device"):
        await node.prepare(twice)

    assert (trio.current_time(), node.traces()) == (0, {})


async def test_machine_that_cannot_be_read_fails_the_prepare(node: Node) -> None:
    """The kernel's words are told."""

    node.eyes.fault = HostError("rtnetlink", "no buffer space")

    with pytest.raises(HostError, match="no buffer space"):
        await node.prepare(NEW)

    assert node.traces() == {}


async def test_server_that_refuses_fails_the_prepare(node: Node) -> None:
    """The server's words are told."""

    node.server.answers["get_claim"] = [refused(403, found="forbidden by the authorizer")]

    with pytest.raises(KubeError, match="forbidden by the authorizer"):
        await node.prepare(NEW)

    assert node.traces() == {}
