"""Brings a NIC home from wherever it is, and puts it back as it was; blocks, for worker threads.

With the pod's namespace alive the link gets its own address and name back inside the pod and is
then moved without a name, so that the host sees one clean arrival, and so that the link is known
there by more than its index if this process dies in between. When the namespace is gone the kernel
has sent the link home by itself, or destroyed it: links with a kind of their own die there.

Nothing here raises for what the kernel refuses: a NIC that is not home is at ``returning`` with the
reason, for another try.

Source: network.md §4.5; ``default_device_exit_net`` in Linux ``net/core/dev.c``.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Sequence
from typing import Final

import attrs

from berth.errors import BerthError, HostError
from berth.host.netlink.link import IFF_UP, Link
from berth.host.netlink.linkrequest import LinkChange
from berth.host.netlink.namespace import HOME, netns_descriptor
from berth.host.netlink.socket import Sender, send_now
from berth.nic import plan
from berth.nic.execute import Namespaces, do, inode_of, open_namespaces
from berth.nic.identity import find_home, find_in_pod, is_record_home
from berth.nic.look import find_taken, look_home
from berth.nic.record import NicRecord, Originals, SandboxRef, Stage
from berth.nic.restore import differences, free_name, restore
from berth.nic.steps import Altnames, Change, Place, RemoveLink, SetLink, Step
from berth.nic.view import KEPT_FLAGS, View, take_originals
from berth.nic.vrf import leave

_ROUNDS: Final = 3
"""How often the restoring steps are done: again for what the ones before uncovered."""


@attrs.frozen(kw_only=True)
class Homecoming:
    """What became of a try to bring a NIC home.

    Attributes:
        record: At ``home``; at ``lost`` when the link exists no more; or at ``returning`` with the
            fault that keeps it from being as it was.
        seen: Its link was found somewhere, so a further try is worth while only after a pause. One
            that was not found may come with any event.
    """

    record: NicRecord
    seen: bool = True


def bring_home(record: NicRecord, *, send: Sender = send_now) -> Homecoming:
    """Bring one NIC home, whatever was or was not done to it before."""
    try:
        return _from_pod(record, send) or _at_home(record, send)
    except BerthError as error:
        return _still_away(record, error)


def find_ended(records: Sequence[NicRecord], *, send: Sender = send_now) -> tuple[bool, ...]:
    """Of each NIC, whether it was in a pod and is there no more: the pod ended, or it came home.

    Somebody in the pod may have sent it back, or its driver was bound anew.

    Raises:
        BerthError: The host's own links could not be read.
    """
    in_pods = [r for r in records if r.stage in {Stage.ATTACHING, Stage.ATTACHED}]
    with open_namespaces(send=send) as spaces:
        # Of a host's many links all are read only for the sake of those that no index tells.
        of_device = any(r.parent_device and r.stage is Stage.ATTACHED for r in in_pods)
        links = spaces.home.links() if of_device else ()
        return tuple(
            record in in_pods and (_has_no_pod(record) or _came_home(spaces, record, links))
            for record in records
        )


def _has_no_pod(record: NicRecord) -> bool:
    return record.sandbox is None or not is_alive(record.sandbox)


def _came_home(spaces: Namespaces, record: NicRecord, links: Sequence[Link]) -> bool:
    originals = record.originals
    if record.stage is not Stage.ATTACHED or record.is_child or originals is None:
        return False
    if record.parent_device:
        return find_home(record, links) is not None
    link = spaces.home.link(index=originals.index)
    return link is not None and is_record_home(record, link)


def is_alive(sandbox: SandboxRef) -> bool:
    """Whether the sandbox's namespace may still be the one at its path; in doubt it is."""
    try:
        return inode_of(sandbox.netns_path) == sandbox.netns_inode
    except HostError as error:
        return error.errno != errno.ENOENT


def take_name(record: NicRecord, *, send: Sender = send_now) -> Homecoming:
    """Give a NIC at home its own name back if that is free now; all else stays as it is.

    Returns:
        The record at ``home``, with its `NicRecord.home_name` of now.
    """
    try:
        with open_namespaces(send=send) as spaces:
            link = link_at_home(spaces, record)
            originals = record.originals
            if link is None or originals is None:
                return _nowhere(record)
            wanted = attrs.evolve(take_originals(look_home(spaces, link)), name=originals.name)
            if not find_taken(spaces.home, [wanted.name], but=link.index):
                with contextlib.suppress(HostError):
                    # Linux renames a link that is up from 6.2 on; else it goes down for it.
                    do(
                        spaces,
                        _step(Place.HOME, SetLink(change=LinkChange(name=wanted.name))),
                        link,
                    )
            return _put_back(spaces, record, wanted, link.index)
    except BerthError as error:
        return _still_away(record, error)


def _from_pod(record: NicRecord, send: Sender) -> Homecoming | None:
    """Bring it home out of its sandbox; ``None`` when it is not there."""
    sandbox = record.sandbox
    if sandbox is None:
        return None
    try:
        with open_namespaces(sandbox.netns_path, inode=sandbox.netns_inode, send=send) as spaces:
            link = find_in_pod(record, spaces.pod.links())
            if link is None:
                return None
            if record.is_child:
                _drop_own(spaces, record, link)
                do(spaces, _step(Place.POD, RemoveLink()), link)
                return None
            if record.originals is None:
                return None
            _drop_own(spaces, record, link)
            index = _move_home(spaces, record, record.originals, link)
            return _put_back(spaces, record, record.originals, index)
    except HostError as error:
        if error.errno != errno.ENOENT:
            raise
    return None


def _drop_own(spaces: Namespaces, record: NicRecord, link: Link) -> None:
    """Take out of the pod what does not go with the link; a pod that lives on goes without it."""
    undone = [change for step in plan.settle(record.config, None) for change in step.undo]
    for change in (*undone, *leave(record.config)):
        with contextlib.suppress(HostError):
            do(spaces, _step(Place.POD, change), link)


def _at_home(record: NicRecord, send: Sender) -> Homecoming:
    """Put it back as it was, if it is at home."""
    if record.is_child or record.originals is None:
        return Homecoming(record=_home(record))
    with open_namespaces(send=send) as spaces:
        link = link_at_home(spaces, record)
        if link is None:
            return _nowhere(record)
        return _put_back(spaces, record, record.originals, link.index)


def _put_back(
    spaces: Namespaces, record: NicRecord, originals: Originals, index: int
) -> Homecoming:
    """Do what is due until the link at home is as ``originals`` say."""
    for _ in range(_ROUNDS):
        link, view, taken = _seen(spaces, record, originals, index)
        steps = restore(originals, view, taken, seat=record.seat)
        if not steps:
            break
        for step in steps:
            do(spaces, step, link)
            link = _after(link, step)
    link, view, taken = _seen(spaces, record, originals, index)
    left = differences(originals, view, taken, seat=record.seat)
    if left:
        return _still_away(record, "; ".join(left))
    record = _renumbered(_home(record), index)
    return Homecoming(
        record=attrs.evolve(record, home_name="" if link.name == originals.name else link.name)
    )


def _seen(
    spaces: Namespaces, record: NicRecord, originals: Originals, index: int
) -> tuple[Link, View, frozenset[str]]:
    """The link at home now, all that hangs on it, and which of its names are taken."""
    link = spaces.home.link(index=index)
    if link is None:
        raise HostError("host", f"link {index} has vanished", errno=errno.ENODEV)
    names = (*_names(originals, index), *originals.altnames)
    taken = find_taken(spaces.home, names, but=index)
    seat = record.seat if originals.vf is not None else None
    return link, look_home(spaces, link, seat), taken


def _after(link: Link, step: Step) -> Link:
    """The link under the name that a step gave it, by which its settings are found."""
    change = step.change
    name = change.change.name if isinstance(change, SetLink) else None
    return link if name is None else attrs.evolve(link, name=name)


def _move_home(spaces: Namespaces, record: NicRecord, originals: Originals, link: Link) -> int:
    """Move a link out of the pod; gives its index at home."""
    # A virtual link asks for the index that it had; the kernel keeps the present one if it can.
    wanted = 0 if record.parent_device else originals.index
    if wanted and spaces.home.link(index=wanted) is not None:
        wanted = 0
    names = _names(originals, wanted or link.index)
    taken = find_taken(spaces.home, (*names, link.name, *link.altnames))
    # Some settings that a link gets on arrival follow from its flags.
    flags = originals.flags & KEPT_FLAGS & ~IFF_UP
    if link.flags & KEPT_FLAGS != flags:
        change = LinkChange(flags_on=flags, flags_off=KEPT_FLAGS & ~flags)
        do(spaces, _step(Place.POD, SetLink(change=change)), link)
    link = _made_known(spaces, originals, link, free_name(originals, wanted or link.index, taken))
    clashing = tuple(name for name in link.altnames if name in taken)
    if clashing:
        do(spaces, _step(Place.POD, Altnames(remove=clashing)), link)
    # Its name is in use at home only if it could not be renamed in the pod.
    name = free_name(originals, link.index, taken) if link.name in taken else None
    with netns_descriptor(HOME) as home:
        change = LinkChange(netns_fd=home, new_index=wanted or None, name=name)
        do(spaces, _step(Place.POD, SetLink(change=change)), link)
    return _arrived(spaces, record, link, name or link.name)


def _made_known(spaces: Namespaces, originals: Originals, link: Link, name: str) -> Link:
    """Give a link in the pod its own address and name where the pod lets it have them."""
    if link.mac != originals.mac:
        with contextlib.suppress(HostError):
            change = LinkChange(mac=originals.mac)
            do(spaces, _step(Place.POD, SetLink(change=change)), link)
    if link.name != name and not find_taken(spaces.pod, [name], but=link.index):
        if name in link.altnames:
            do(spaces, _step(Place.POD, Altnames(remove=(name,))), link)
        do(spaces, _step(Place.POD, SetLink(change=LinkChange(name=name))), link)
    return spaces.pod.link(index=link.index) or link


def _arrived(spaces: Namespaces, record: NicRecord, moved: Link, name: str) -> int:
    link = spaces.home.link(name=name)
    if link is None or (link.kind, link.mac) != (moved.kind, moved.mac):
        # udev was quicker, and has renamed it.
        link = find_home(record, spaces.home.links())
    if link is None:
        raise HostError("host", f"link {name} was moved home and is not seen there")
    return link.index


def link_at_home(spaces: Namespaces, record: NicRecord) -> Link | None:
    """The record's link at home; by its index where that suffices, since hosts have many links."""
    originals = record.originals
    if record.is_child or originals is None:
        return None
    link = spaces.home.link(index=originals.index)
    if link is not None and is_record_home(record, link):
        return link
    return find_home(record, spaces.home.links())


def _nowhere(record: NicRecord) -> Homecoming:
    """Not at home and not in its pod: a virtual link died there, a device may yet appear."""
    if record.parent_device:
        fault = "its link is not seen at home yet"
        return Homecoming(
            record=attrs.evolve(record, stage=Stage.RETURNING, fault=fault), seen=False
        )
    return Homecoming(
        record=attrs.evolve(record, stage=Stage.LOST, fault="its link exists no more"), seen=False
    )


def _still_away(record: NicRecord, reason: object) -> Homecoming:
    return Homecoming(record=attrs.evolve(record, stage=Stage.RETURNING, fault=str(reason)))


def _home(record: NicRecord) -> NicRecord:
    return attrs.evolve(
        record,
        stage=Stage.HOME,
        sandbox=None,
        pod_index=0,
        network=None,
        carrier=False,
        announced=False,
        vrf_table=0,
        duplicates=(),
        fault="",
        home_name="",
    )


def _renumbered(record: NicRecord, index: int) -> NicRecord:
    """The record of a link under the index that it has now."""
    originals = record.originals
    if originals is None or originals.index == index:
        return record
    record = attrs.evolve(record, originals=attrs.evolve(originals, index=index))
    if record.parent_device:
        return record
    return attrs.evolve(record, identity=f"link:{record.boot_id}:{index}")


def _names(originals: Originals, index: int) -> tuple[str, ...]:
    """The names that `free_name` may choose, as far as anybody will ever need them."""
    return originals.name, f"berth{index}", f"berth{index}x0", f"berth{index}x1"


def _step(place: Place, change: Change) -> Step:
    return Step(place=place, field="return", change=change)
