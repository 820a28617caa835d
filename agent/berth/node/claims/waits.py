"""Waits for devices of claims whose pods are not bound yet, and has it told how they fare.

The scheduler gives a claim its devices, and then waits with the pod for two conditions of each in
the claim's status (KC §9.2). Here a claim is heard of by the watch of claims, its devices are
asked, and what comes of it goes three ways: into the claim's status; into the slices, where a
device that was given up is kept from claims for a while, since the scheduler would choose it again;
and to those who ask why a pod does not start.

What a restart needs of claims is in them: their devices, and when they were given them. Those that
were given up and still rest are noted on disk, or the scheduler would choose them again.

Where claims are not heard of, or their statuses not written, nobody would ever bind such a pod.
Then devices are offered without conditions, and the node waits when it prepares them, or they are
not offered, as their group says.
"""

from __future__ import annotations

import calendar
import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs
import trio

from berth.config.bind import Bind
from berth.model.allocation import AllocatedClaim, AllocatedDevice
from berth.model.inventory import Inventory
from berth.model.readiness import UNASKED, Answer, ready_type
from berth.node.claims.allocations import Allocations
from berth.node.claims.conditions import binding_conditions
from berth.node.claims.marking import left_out, marked
from berth.node.claims.resting import RestFile, Resting
from berth.node.claims.standing import Standing, standing
from berth.node.claims.status import ClaimStatus, Key, now_text
from berth.node.claims.unwaited import Asks
from berth.node.health.inquiry import Inquiry
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.node.views.troubles import Trouble, Troubles
from berth.readiness.course import PREPARED, Course, advanced, begun, waited_for
from berth.readiness.demands import Demands
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

WHO: Final = "bind"
"""Who wants to know of claims, and waits for devices."""

DECIDE_S: Final = 60.0
"""How long the first list of claims is waited for, before devices are published: a large cluster
has many, and whoever publishes without conditions first writes every slice twice."""

_AT_ONCE: Final = Answer(ready=True, reason="NothingAwaited", message="its group waits for nothing")
_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class _Case:
    """One claim that is waited for.

    Attributes:
        devices: Those that conditions are told of.
        courses: How each fares.
    """

    claim: AllocatedClaim
    devices: Mapping[Key, AllocatedDevice]
    courses: Mapping[Key, Course]

    def told(self, driver: str, now_s: float) -> Mapping[Key, tuple[Any, ...]]:
        """The conditions of each."""
        at = now_text(lambda: now_s)
        return {
            key: binding_conditions(course, driver=driver, at=at, now_s=now_s)
            for key, course in self.courses.items()
        }

    @property
    def waited_for(self) -> str:
        """What is waited for, in words; empty when it is for nothing."""
        return waited_for([(key[1], course) for key, course in self.courses.items()])


class Waits:
    """Waits for devices, and has it told.

    Args:
        demands: What is waited for, by group.
        kept: Keeps devices that rest over a restart.
        clock: Gives seconds since 1970.

    Attributes:
        rests: Devices that are kept from claims, as they were given up.
        able: Whether somebody would tell the scheduler; ``None`` while that is not decided.
    """

    def __init__(
        self,
        *,
        driver: str,
        allocations: Allocations,
        status: ClaimStatus,
        asks: Asks,
        inventory: Latest[Inventory],
        inquiry: Inquiry,
        records: Records,
        demands: Latest[Demands],
        troubles: Troubles,
        kept: RestFile,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._resting = Resting(kept)
        self.rests = self._resting.names
        self.able: Latest[bool | None] = Latest(None)
        self._driver = driver
        self._allocations = allocations
        self._status = status
        self._asks = asks
        self._inventory = inventory
        self._inquiry = inquiry
        self._records = records
        self._demands = demands
        self._troubles = troubles
        self._clock = clock
        self._cases: dict[str, _Case] = {}
        self._noted: dict[str, str] = {}
        self._listed = False
        self._asked = trio.Event()
        self._stirred = trio.Event()

    @property
    def news(self) -> tuple[Latest[Any], ...]:
        """What changes how devices are offered."""
        return self.rests, self.able, self._demands

    def mark(self, inventory: Inventory) -> Inventory:
        """The inventory as it is to be offered; see `berth.node.claims.marking`."""
        return marked(
            inventory,
            self._demands.get(),
            rests=self.rests.get(),
            able=bool(self.able.get()),
            driver=self._driver,
            out=self.left_out(inventory),
        )

    def remarks(self) -> tuple[str, ...]:
        """What an operator should know of devices that were given up, one sentence each."""
        return tuple(
            f"{name} was given up by a claim, since it was not ready: others are kept from it "
            "until it is, or for rest_s of its group"
            for name in sorted(self.rests.get())
        )

    def left_out(self, inventory: Inventory) -> Mapping[str, str]:
        """Devices that are not to be offered now, by name, and why."""
        return left_out(inventory, self._demands.get()) if self.able.get() is False else {}

    async def load(self) -> None:
        """Take up what rested in the last life; nothing may be offered before."""
        await self._resting.load(self._clock())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait for devices until cancelled; started at once."""
        async with trio.open_nursery() as nursery:
            for news in (
                self._allocations.claims,
                self._asks.answers,
                self._inventory,
                self._inquiry.state,
                self._records.changes,
                self._demands,
                self._status.able,
                self._allocations.denied,
            ):
                nursery.start_soon(self._follow, news)
            nursery.start_soon(self._decide)
            nursery.start_soon(self._resting.run)
            task_status.started()
            while True:
                due_s = self._step()
                with trio.move_on_after(max(0.0, due_s - self._clock())):
                    await self._stirred.wait()
                self._stirred = trio.Event()

    async def wait_decided(self) -> None:
        """Wait until it is known whether the scheduler can be told, where it is to be."""
        self._asked.set()
        if self._demands.get().groups:
            await self.able.wait_value(lambda able: able is not None)

    async def _follow(self, news: Latest[Any]) -> None:
        async for _ in news.changes():
            self._stirred.set()

    async def _decide(self) -> None:
        """Do without claims when they are not to be had: with kubelet's rights for instance."""
        await self._demands.wait_value(lambda demands: bool(demands.groups))
        await self._asked.wait()
        with trio.move_on_after(DECIDE_S):
            await self.able.wait_value(lambda able: able is not None)
        if not self.able.get():
            _log.warning(
                "pods cannot be made to wait for devices before they are bound",
                reason=self._allocations.trouble.get() or "claims were not listed yet",
                mend="let the service account list and watch claims, see "
                "configs/kubernetes/rbac.yaml",
            )
            self.able.set(False)

    def _step(self) -> float:
        """Bring everything up to date; gives when to do it again though nothing is heard."""
        self._allocations.want(WHO, bool(self._demands.get().groups) or bool(self._cases))
        claims, now_s = self._allocations.claims.get(), self._clock()
        denied = self._allocations.denied.get()
        if claims is None:
            if denied:
                self.able.set(False)
            return self._rest(now_s)
        self.able.set(self._status.able.get() and not denied)
        cases = {}
        for uid, claim in claims.items():
            case = self._case(claim, now_s)
            if case is not None:
                cases[uid] = case
        self._listed = True
        for uid in self._cases.keys() - cases.keys():
            self._status.forget_awaited(uid)
            self._note(uid, None)
        self._cases = cases
        rested_s = self._rest(now_s)
        self._asks.want(WHO, [*self._names_awaited(), *self.rests.get()])
        for uid, case in cases.items():
            self._status.tell_awaited(
                case.claim.ref,
                case.told(self._driver, now_s),
                allocation=case.claim.allocated_at,
            )
            self._note(uid, case)
        return min(self._due_s(now_s), rested_s)

    def _case(self, claim: AllocatedClaim, now_s: float) -> _Case | None:
        """A claim as it stands now; ``None`` for one whose pod waits for nothing of ours."""
        devices = {
            (one.pool, one.device, one.share_id): one
            for one in claim.devices
            if ready_type(self._driver) in one.binding_conditions
        }
        if not devices:
            return None
        before = self._cases.get(claim.ref.uid)
        known = (
            before.courses
            if before is not None and before.claim.allocated_at == claim.allocated_at
            else {}
        )
        # Of what was given before this process began, the claim tells when that was.
        since_s = now_s if self._listed else min(now_s, _seconds(claim.allocated_at, now_s))
        record = self._records.get(claim.ref.uid)
        return _Case(
            claim=claim,
            devices=devices,
            courses={
                key: self._advanced(one, known.get(key) or begun(since_s), record, now_s)
                for key, one in devices.items()
            },
        )

    def _advanced(
        self, device: AllocatedDevice, course: Course, record: ClaimRecord | None, now_s: float
    ) -> Course:
        if record is not None and record.prepared and not record.revoked:
            return Course(answer=PREPARED, unready_s=None)
        inventory = self._inventory.get()
        stands = standing(
            device,
            self._answer(device, inventory),
            inventory=inventory,
            health=self._inquiry.state.get(),
            driver=self._driver,
        )
        within_s = self._within_s(device, inventory)
        after = advanced(
            course,
            _steady(stands, course.answer),
            obstacle=stands.obstacle,
            within_s=within_s,
            now_s=now_s,
        )
        if after.given_up is not None and course.given_up is None:
            _log.warning("device is given up", device=device.device, reason=after.given_up.message)
            self._resting.begin(device.device, now_s + self._rest_s(device, inventory))
        return after

    def _answer(self, device: AllocatedDevice, inventory: Inventory) -> Answer | None:
        """What the device says, or that nothing is waited for any more."""
        if self._bind_of(device.device, inventory) is None:
            return _AT_ONCE
        return self._asks.answers.get().get(device.device)

    def _within_s(self, device: AllocatedDevice, inventory: Inventory) -> float:
        bind = self._bind_of(device.device, inventory)
        return bind.within_s if bind is not None else math.inf

    def _rest_s(self, device: AllocatedDevice, inventory: Inventory) -> float:
        bind = self._bind_of(device.device, inventory)
        return bind.rest_s if bind is not None else 0.0

    def _bind_of(self, name: str, inventory: Inventory) -> Bind | None:
        one = inventory.seen(name)
        return self._demands.get().of_seen(one) if one is not None else None

    def _names_awaited(self) -> Iterator[str]:
        for uid, case in self._cases.items():
            record = self._records.get(uid)
            if record is None or not record.prepared:
                yield from (one.device for one in case.devices.values())

    def _due_s(self, now_s: float) -> float:
        """When the first course changes by time alone."""
        inventory = self._inventory.get()
        times = [
            course.due_s(self._within_s(case.devices[key], inventory))
            for case in self._cases.values()
            for key, course in case.courses.items()
        ]
        return min((at_s for at_s in times if at_s > now_s), default=math.inf)

    def _rest(self, now_s: float) -> float:
        """Let devices be offered again that are ready, or have rested; gives the next moment."""
        inventory, answers = self._inventory.get(), self._asks.answers.get()

        def is_ready(name: str) -> bool:
            unasked = inventory.seen(name) is not None and self._bind_of(name, inventory) is None
            return unasked or answers.get(name, UNASKED).ready is True

        return self._resting.settle(now_s, is_ready=is_ready)

    def _note(self, uid: str, case: _Case | None) -> None:
        """Have it known what a claim waits for."""
        text = case.waited_for if case is not None else ""
        if case is not None and text and not self._status.able.get():
            text = f"{text}; its claim's status cannot be written, so the scheduler is not told"
        if text == self._noted.get(uid, ""):
            return
        if not text or case is None:
            del self._noted[uid]
            self._troubles.forget(uid)
            return
        self._noted[uid] = text
        pods = [one.name for one in case.claim.consumers if one.is_pod]
        ref = case.claim.ref
        self._troubles.note(
            uid,
            Trouble(
                claim=str(ref),
                pod=f"{ref.namespace}/{pods[0]}" if pods else "",
                text=f"its pod is bound when its devices are ready: {text}",
                waiting=True,
                at=now_text(),
            ),
        )


def _steady(stands: Standing, before: Answer) -> Answer:
    """The answer as it was told, if it means the same: words may count the seconds."""
    now = stands.answer
    return before if (now.ready, now.reason) == (before.ready, before.reason) else now


def _seconds(text: str, otherwise: float) -> float:
    """A time of RFC 3339 in whole seconds."""
    with contextlib.suppress(ValueError):
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    return otherwise
