"""Stages a NIC at home, and brings all NICs of a pod into it or none; blocks, for worker threads.

One thread does the whole plan of one pod. Whether it counts as done or as late is settled once, by
a `Decision`: the runtime goes on without us after its limit, so late work is undone by the thread
itself as soon as its call returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs

from berth.errors import BerthError, ClaimError, HostError
from berth.host.netlink.link import Link
from berth.host.netlink.socket import Sender, send_now
from berth.nic import plan, staging
from berth.nic.announce import announce, can_be_heard, waits_for_announcement
from berth.nic.execute import Namespaces, do, open_namespaces
from berth.nic.homecoming import bring_home, link_at_home
from berth.nic.identity import find_in_pod
from berth.nic.look import (
    driver_of,
    has_made_up_address,
    look_home,
    look_in_pod,
    names_taken,
)
from berth.nic.record import NicRecord, SandboxRef, Stage
from berth.nic.vf import NO_MAC
from berth.nic.view import View, take_originals
from berth.nic.vrf import join, table_for
from berth.runtime.threads import Decision


class NotAttached(ClaimError):
    """The pod has none of its NICs; what was begun is undone as far as the kernel let us.

    Args:
        records: All NICs of the pod, in the order they were given, as they are now.
    """

    def __init__(self, found: str, records: tuple[NicRecord, ...]) -> None:
        super().__init__("", found)
        self.records = records


@attrs.frozen(kw_only=True)
class Budget:
    """Time that the hook has.

    Attributes:
        ends_at: When it is over, on the clock.
        clock: Monotonic seconds.
    """

    ends_at: float
    clock: Callable[[], float] = time.monotonic

    @property
    def left_s(self) -> float:
        """Seconds that are left; negative when it is over."""
        return self.ends_at - self.clock()


def read_originals(
    record: NicRecord,
    index: int,
    *,
    name: str = "",
    driver: str = "",
    send: Sender = send_now,
) -> NicRecord:
    """The record with how its link is at home now; to be on disk before anything is touched.

    Args:
        index: Interface index at home.
        name: Its own name, where it has another one now for want of it.

    Raises:
        HostError: There is no such link any more.
    """
    with open_namespaces(send=send) as spaces:
        link = spaces.home.link(index=index)
        if link is None:
            raise HostError(record.device, f"its link (index {index}) has vanished")
        view = look_home(spaces, link, record.seat)
        originals = take_originals(
            view,
            driver=driver or driver_of(link.name),
            name=name,
            made_up=has_made_up_address(link.name),
        )
        return attrs.evolve(record, originals=originals)


def stage(record: NicRecord, *, send: Sender = send_now) -> NicRecord:
    """Give a link at home what survives the move; a child's parent is only looked at.

    Raises:
        HostError: The kernel or the driver refused; what was changed is for the caller to undo.
    """
    with open_namespaces(send=send) as spaces:
        if record.is_child:
            _require_parent(spaces, record)
        else:
            _stage_link(spaces, record)
    return attrs.evolve(record, stage=Stage.STAGED, fault="")


def begun(record: NicRecord, sandbox: SandboxRef) -> NicRecord:
    """The record before its NIC is brought into a sandbox, or looked after there."""
    known = record.sandbox == sandbox
    if known and record.stage is Stage.ATTACHED:
        return record
    return attrs.evolve(
        record,
        stage=Stage.ATTACHING,
        sandbox=sandbox,
        # Another namespace has other links under the same numbers.
        pod_index=record.pod_index if known else 0,
        fault="",
    )


def attach(
    records: Sequence[NicRecord],
    sandbox: SandboxRef,
    *,
    budget: Budget,
    decision: Decision,
    send: Sender = send_now,
) -> tuple[NicRecord, ...]:
    """Bring every NIC into the sandbox; each that is there already is looked through and mended.

    Returns:
        The records at ``attached``, with what containers are told.

    Raises:
        NotAttached: One could not be, or the time was over: none of them is there.
    """
    current = [begun(record, sandbox) for record in records]
    try:
        with open_namespaces(sandbox.netns_path, inode=sandbox.netns_inode, send=send) as spaces:
            # Only of a namespace with an id does the kernel tell the end.
            spaces.home.ensure_nsid(spaces.pod_fd)
            _attach_all(spaces, current, budget)
            if not decision.claim_done():
                raise _late(current[-1], budget)
            # What may still be taken back is not to be told of.
            return tuple(_told(spaces, record) for record in current)
    except BerthError as error:
        undone = tuple(bring_home(record, send=send).record for record in current)
        raise _failed(undone, error) from error


def _attach_all(spaces: Namespaces, current: list[NicRecord], budget: Budget) -> None:
    """Attach one after the other while there is time; ``current`` tells how far it came.

    It has each index in the pod as soon as there is one: by it a link is found again for the way
    home, whatever else somebody changed.
    """
    longest_s = 0.0
    for index, record in enumerate(current):
        if budget.left_s < 3 * longest_s:
            raise _late(record, budget)
        began = budget.clock()
        current[index], view = _brought(spaces, record)
        current[index] = _settled(spaces, current[index], view)
        longest_s = max(longest_s, budget.clock() - began)


def verify(records: Sequence[NicRecord], *, send: Sender = send_now) -> tuple[NicRecord, ...]:
    """Those of the records whose link is not in their sandbox: a look by identity, no more.

    The application may have renamed it or changed its addresses; that is its own affair.
    """
    missing: list[NicRecord] = []
    for sandbox in dict.fromkeys(record.sandbox for record in records):
        there = [record for record in records if record.sandbox == sandbox]
        links = _links_in(sandbox, send) if sandbox is not None else ()
        missing.extend(record for record in there if find_in_pod(record, links) is None)
    return tuple(missing)


def _links_in(sandbox: SandboxRef, send: Sender) -> tuple[Link, ...]:
    try:
        with open_namespaces(sandbox.netns_path, inode=sandbox.netns_inode, send=send) as spaces:
            return spaces.pod.links()
    except BerthError:
        # What cannot be looked at is not known to be there.
        return ()


def _brought(spaces: Namespaces, record: NicRecord) -> tuple[NicRecord, View | None]:
    """Have the link in the pod; gives how it looked there, None when it has just arrived."""
    links = spaces.pod.links()
    present = find_in_pod(record, links)
    if present is None:
        taken = names_taken(links)
        where = record.sandbox.pod if record.sandbox else ""
        plan.require_free_names(record.config, pod=where, taken=taken)
    record = _with_table(spaces, record, links)
    if present is None:
        present, view = _enter(spaces, record, taken), None
    else:
        view = look_in_pod(spaces, present, plan.settings_of(record.config_there))
    # What was said of it before it came was said of another stay.
    announced = record.announced and view is not None
    return attrs.evolve(record, pod_index=present.index, announced=announced), view


def _settled(spaces: Namespaces, record: NicRecord, view: View | None) -> NicRecord:
    """Give the link in the pod what it lacks there."""
    config = record.config_there
    rules = spaces.pod.rules() if config.rules else ()
    present = _in_pod(spaces, record)
    joining = join(config, view)
    for step in joining:
        do(spaces, step, present)
    if joining and view is not None:
        # The kernel set it down and up for that, and took its IPv6 addresses.
        view = look_in_pod(spaces, present, plan.settings_of(config))
    for step in plan.settle(config, view, rules):
        do(spaces, step, present)
    return _read_back(spaces, record, found=view is not None)


def _told(spaces: Namespaces, record: NicRecord) -> NicRecord:
    """The record once the network knows of its addresses; what cannot be said now is said later."""
    if not waits_for_announcement(record):
        return record
    try:
        link = spaces.pod.link(index=record.pod_index)
        if link is None or not can_be_heard(link):
            return record
        announce(spaces, record, link, spaces.pod.addresses(index=link.index))
    except BerthError:
        return record
    return attrs.evolve(record, carrier=True, announced=True)


def _with_table(spaces: Namespaces, record: NicRecord, links: Sequence[Link]) -> NicRecord:
    """The record with the table of its VRF in the pod, if it is to have one."""
    if not record.config.vrf.name:
        return record
    table = table_for(record.config, links, spaces.pod.routes())
    return attrs.evolve(record, vrf_table=table)


def _enter(spaces: Namespaces, record: NicRecord, taken: dict[str, str]) -> Link:
    """Bring the link into the pod; gives it as it is there."""
    home = _home_link(spaces, record)
    config = record.config
    steps = plan.make(config) if record.is_child else plan.enter(config, home, taken=taken.keys())
    for step in steps:
        do(spaces, step, home)
    link = spaces.pod.link(name=config.interface.name)
    if link is None:
        raise HostError(record.device, f"is not in the pod as {config.interface.name}")
    return link


def _home_link(spaces: Namespaces, record: NicRecord) -> Link:
    if record.is_child:
        link = spaces.home.link(index=record.parent_index)
    else:
        link = link_at_home(spaces, record)
    if link is None:
        raise HostError(record.device, "its link is not at home")
    return link


def _in_pod(spaces: Namespaces, record: NicRecord) -> Link:
    link = spaces.pod.link(index=record.pod_index)
    if link is None:
        raise HostError(record.device, "vanished from the pod")
    return link


def _read_back(spaces: Namespaces, record: NicRecord, *, found: bool) -> NicRecord:
    """The proof: an acknowledgement says that a message was taken, not how things are.

    Args:
        found: It was in the pod before this attach; the daemon may have died before its record
            said so, and the pod have gone on with it.
    """
    config = record.config_there
    link = _in_pod(spaces, record)
    view = look_in_pod(spaces, link, plan.settings_of(config))
    rules = spaces.pod.rules() if config.rules else ()
    missing = plan.lacking(config, view, rules, known=found)
    if missing:
        raise HostError(record.device, f"the pod does not show {', '.join(missing)}")
    return attrs.evolve(
        record,
        stage=Stage.ATTACHED,
        network=plan.network_data(config, view),
        carrier=link.carrier,
        fault="",
    )


def _stage_link(spaces: Namespaces, record: NicRecord) -> None:
    link = _home_link(spaces, record)
    view = look_home(spaces, link, record.seat)
    staging.require_switches(record.config, view.switches)
    was = record.originals.vf if record.originals is not None else None
    held = was is not None and was.mac != NO_MAC
    for step in staging.stage(record.config, view, record.seat, held=held):
        do(spaces, step, link)
    seen = spaces.home.link(index=link.index)
    if seen is None:
        raise HostError(record.device, "vanished while it was set")
    view = look_home(spaces, seen, record.seat)
    left = staging.stage(record.config, view, record.seat, held=held)
    if left:
        fields = ", ".join(step.field for step in left)
        raise HostError(record.device, f"does not show {fields} after it was set")


def _require_parent(spaces: Namespaces, record: NicRecord) -> None:
    parent = spaces.home.link(index=record.parent_index)
    if parent is None:
        raise HostError(record.device, "the parent's link has vanished")
    if not parent.up:
        raise HostError(
            record.device,
            f"the parent {parent.name} is down",
            rule="a child has carrier only while its parent is up",
            mend=f"set {parent.name} up",
        )
    if parent.master:
        raise HostError(record.device, f"the parent {parent.name} belongs to another link")


def _late(record: NicRecord, budget: Budget) -> ClaimError:
    return ClaimError(
        record.device,
        f"{budget.left_s:.2f} s of the hook's time are left",
        rule="that is too little for another NIC",
    )


def _failed(undone: tuple[NicRecord, ...], error: Exception) -> NotAttached:
    away = [record.device for record in undone if record.is_away]
    told = f"not home yet: {', '.join(away)}" if away else "every NIC of the pod is home"
    return NotAttached(f"{error}; {told}", undone)
