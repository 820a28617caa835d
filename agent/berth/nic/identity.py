"""Which link of a namespace is the one that a record speaks of.

A name proves nothing: the pod may change it, and so does every driver bind. A NIC of a bus is found
by the device that carries it, which each namespace tells alike; a virtual link by its index, with
kind and hardware address as witnesses, since the kernel keeps an index over a move when it is free.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.host.netlink.kinds import Macvlan
from berth.host.netlink.link import Link
from berth.nic.record import NicRecord


def find_home(record: NicRecord, links: Iterable[Link]) -> Link | None:
    """The link of a record among those at home; never a child, which is nowhere at home."""
    if record.is_child:
        return None
    if record.parent_device:
        return _of_device(record, links)
    originals = record.originals
    candidates = [link for link in links if _alike(record, link)]
    if originals is not None:
        for link in candidates:
            if link.index == originals.index:
                return link
    return _single(candidates)


def find_in_pod(record: NicRecord, links: Iterable[Link]) -> Link | None:
    """The link of a record among those of a pod."""
    if record.is_child:
        return _child(record, links)
    if record.parent_device:
        return _of_device(record, links)
    candidates = [link for link in links if _alike(record, link)]
    for index in (record.pod_index, record.originals.index if record.originals else 0):
        for link in candidates:
            if index and link.index == index:
                return link
    return _single(candidates)


def _of_device(record: NicRecord, links: Iterable[Link]) -> Link | None:
    candidates = [link for link in links if link.parent_device == record.parent_device]
    if len(candidates) > 1 and record.originals is not None:
        # A function with several ports: the burnt-in address tells them apart.
        wanted = record.originals.mac
        candidates = [link for link in candidates if wanted in (link.perm_mac, link.mac)]
    return _single(candidates)


def _child(record: NicRecord, links: Iterable[Link]) -> Link | None:
    mac = record.config.interface.hardware_addr
    candidates = [
        link
        for link in links
        if isinstance(link.kind_data, Macvlan)
        and link.parent == record.parent_index
        and link.parent_netnsid is not None
    ]
    for link in candidates:
        if record.pod_index and link.index == record.pod_index:
            return link
    return _single([link for link in candidates if mac is None or link.mac == mac])


def _alike(record: NicRecord, link: Link) -> bool:
    """Whether a virtual link may be the record's: kind and one of the addresses it can have."""
    originals = record.originals
    if originals is None:
        return False
    macs = {originals.mac, record.config.interface.hardware_addr}
    known = record.pod_index and link.index == record.pod_index
    return link.kind == originals.kind and (link.mac in macs or bool(known))


def _single(candidates: list[Link]) -> Link | None:
    return candidates[0] if len(candidates) == 1 else None
