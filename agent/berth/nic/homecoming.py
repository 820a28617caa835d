"""Brings a NIC home from wherever it is, and puts it back as it was; blocks, for worker threads.

With the pod's namespace alive the link is renamed inside the pod and then moved without a name, so
that the host sees one clean arrival under the right name. When the namespace is gone the kernel has
sent the link home by itself, or destroyed it: links with a kind of their own die there.

Source: network.md §4.5; ``default_device_exit_net`` in Linux ``net/core/dev.c``.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

import attrs

from berth.errors import HostError
from berth.host.netlink.link import Link
from berth.host.netlink.linkrequest import DOWN, LinkChange
from berth.host.netlink.namespace import HOME, netns_descriptor
from berth.host.netlink.socket import Sender, send_now
from berth.nic.execute import Namespaces, do, look_home, names_taken, open_namespaces
from berth.nic.identity import find_home, find_in_pod
from berth.nic.record import NicRecord, Stage
from berth.nic.restore import differences, home_name, restore
from berth.nic.steps import Altnames, Change, Place, RemoveLink, SetLink, Step

_ROUNDS: Final = 2
"""How often the restoring steps are done: a second time for what the first one uncovered."""


def bring_home(record: NicRecord, *, send: Sender = send_now) -> NicRecord:
    """Bring one NIC home, whatever was or was not done to it before.

    Returns:
        The record at ``home``, at ``lost`` when the link exists no more, or at ``returning`` with
        the fault that keeps it from being as it was; that one is to be tried again.

    Raises:
        HostError: The host's own tables could not be read; nothing is known then.
    """
    sandbox = record.sandbox
    if sandbox is not None:
        try:
            with open_namespaces(
                sandbox.netns_path, inode=sandbox.netns_inode, send=send
            ) as spaces:
                return leave_pod(spaces, record)
        except HostError as error:
            if error.errno != errno.ENOENT:
                return _still_away(record, error)
    with open_namespaces(send=send) as spaces:
        return settle_home(spaces, record)


def leave_pod(spaces: Namespaces, record: NicRecord) -> NicRecord:
    """The same with the pod's namespace open; a NIC that is not in it is looked for at home."""
    link = find_in_pod(record, spaces.pod.links())
    if link is None:
        return _gone_or_home(spaces, record)
    try:
        if record.is_child:
            do(spaces, _step(Place.POD, RemoveLink()), link)
            return _at_home(record)
        index = _move_home(spaces, record, link)
    except HostError as error:
        return _still_away(record, error)
    return settle_home(spaces, record, index=index)


def settle_home(spaces: Namespaces, record: NicRecord, *, index: int = 0) -> NicRecord:
    """Put a NIC that is at home back as it was.

    Args:
        index: Its index at home where that is known; 0 looks for it.
    """
    if record.is_child:
        return _at_home(record)
    links = spaces.home.links()
    link = _by_index(links, index) if index else find_home(record, links)
    if link is None:
        return _nowhere(record)
    originals = record.originals
    if originals is None:
        return _at_home(record)
    try:
        for _ in range(_ROUNDS):
            taken = names_taken(spaces.home.links(), but=link.index).keys()
            view = look_home(spaces.home, link)
            steps = restore(originals, view, taken)
            if not steps:
                break
            for step in steps:
                do(spaces, step, link)
                link = _again(spaces, link)
        taken = names_taken(spaces.home.links(), but=link.index).keys()
        view = look_home(spaces.home, _again(spaces, link))
    except HostError as error:
        return _still_away(record, error)
    left = differences(originals, view, taken)
    if left:
        return attrs.evolve(record, stage=Stage.RETURNING, fault="; ".join(left))
    name = home_name(originals, view, taken)
    return _at_home(
        _renumbered(record, link.index), home_name=name if name != originals.name else ""
    )


def _move_home(spaces: Namespaces, record: NicRecord, link: Link) -> int:
    """Move a link out of the pod; gives its index at home."""
    before = spaces.home.links()
    taken = names_taken(before)
    wanted = record.originals.name if record.originals else link.name
    if wanted in taken:
        wanted = f"berth{link.index}"
    if link.up:
        do(spaces, _step(Place.POD, SetLink(change=DOWN)), link)
    link = _rename_in_pod(spaces, link, wanted)
    clashing = tuple(name for name in link.altnames if name in taken)
    if clashing:
        do(spaces, _step(Place.POD, Altnames(remove=clashing)), link)
    index = record.originals.index if record.originals and not record.parent_device else 0
    with netns_descriptor(HOME) as home:
        try:
            # A virtual link is known by its index, so it asks for the one that it had.
            change = LinkChange(netns_fd=home, new_index=index or None)
            do(spaces, _step(Place.POD, SetLink(change=change)), link)
        except HostError as error:
            if not index or error.errno != errno.EBUSY:
                raise
            do(spaces, _step(Place.POD, SetLink(change=LinkChange(netns_fd=home))), link)
    return _arrived(before, spaces.home.links(), link)


def _rename_in_pod(spaces: Namespaces, link: Link, wanted: str) -> Link:
    if link.name == wanted:
        return link
    if wanted in names_taken(spaces.pod.links(), but=link.index):
        # Home shows the in-pod name for a moment then; the link is renamed there.
        return link
    if wanted in link.altnames:
        do(spaces, _step(Place.POD, Altnames(remove=(wanted,))), link)
    do(spaces, _step(Place.POD, SetLink(change=LinkChange(name=wanted))), link)
    return spaces.pod.link(index=link.index) or link


def _arrived(before: Sequence[Link], after: Sequence[Link], moved: Link) -> int:
    known = {link.index for link in before}
    fresh = [link for link in after if link.index not in known and link.kind == moved.kind]
    for link in fresh:
        if link.mac == moved.mac:
            return link.index
    raise HostError("host", f"link {moved.name} was moved home and is not seen there")


def _gone_or_home(spaces: Namespaces, record: NicRecord) -> NicRecord:
    if record.is_child:
        return _at_home(record)
    return settle_home(spaces, record)


def _nowhere(record: NicRecord) -> NicRecord:
    """Not at home and not in its pod: a virtual link died there, a device may yet appear."""
    if not record.parent_device:
        return attrs.evolve(record, stage=Stage.LOST, fault="destroyed with its namespace")
    return attrs.evolve(record, stage=Stage.RETURNING, fault="its link is not seen at home yet")


def _still_away(record: NicRecord, error: HostError) -> NicRecord:
    return attrs.evolve(record, stage=Stage.RETURNING, fault=str(error))


def _at_home(record: NicRecord, *, home_name: str = "") -> NicRecord:
    return attrs.evolve(
        record,
        stage=Stage.HOME,
        sandbox=None,
        pod_index=0,
        network=None,
        carrier=False,
        fault="",
        home_name=home_name,
    )


def _renumbered(record: NicRecord, index: int) -> NicRecord:
    """The record of a virtual link under the index that it has now."""
    originals = record.originals
    if originals is None or originals.index == index:
        return record
    record = attrs.evolve(record, originals=attrs.evolve(originals, index=index))
    if record.parent_device:
        return record
    return attrs.evolve(record, identity=f"link:{record.boot_id}:{index}")


def _again(spaces: Namespaces, link: Link) -> Link:
    seen = spaces.home.link(index=link.index)
    if seen is None:
        raise HostError("host", f"link {link.name} has vanished", errno=errno.ENODEV)
    return seen


def _by_index(links: Sequence[Link], index: int) -> Link | None:
    return next((link for link in links if link.index == index), None)


def _step(place: Place, change: Change) -> Step:
    return Step(place=place, field="return", change=change)
