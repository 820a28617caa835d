"""Which link of a namespace is the one that a record speaks of.

A name proves nothing: the pod may change it, and so does every driver bind. A NIC of a bus is found
by the device that carries it, which each namespace tells alike. A virtual link is found by kind and
hardware address, and by its index where several fit. An index alone proves nothing at home: the
kernel gives a free one to the next link that asks.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.host.netlink.kinds import Vlan
from berth.host.netlink.link import Link
from berth.nic.config.values import AttachMode
from berth.nic.record import NicRecord


def is_record_home(record: NicRecord, link: Link) -> bool:
    """Whether a link at home, looked up by the index that the record knows, is the record's."""
    originals = record.originals
    if originals is None or link.index != originals.index:
        return False
    if record.parent_device:
        return link.parent_device == record.parent_device and _is_port(record, link)
    return _is_alike(record, link)


def find_home(record: NicRecord, links: Iterable[Link]) -> Link | None:
    """The link of a record among those at home; never a child, which is nowhere at home."""
    if record.is_child:
        return None
    if record.parent_device:
        return _of_device(record, links)
    candidates = [link for link in links if _is_alike(record, link)]
    index = record.originals.index if record.originals else 0
    return _with_index(candidates, index) or _single(candidates)


def find_in_pod(record: NicRecord, links: Iterable[Link]) -> Link | None:
    """The link of a record among those of a pod.

    Once it was seen there its index counts: the application may give it another address.
    """
    if record.is_child:
        return _child(record, links)
    if record.parent_device:
        return _of_device(record, links)
    originals = record.originals
    if originals is None:
        return None
    of_kind = [link for link in links if link.kind == originals.kind]
    candidates = [link for link in of_kind if _is_alike(record, link)]
    return (
        _with_index(of_kind, record.pod_index)
        or _with_index(candidates, originals.index)
        or _single(candidates)
    )


def _of_device(record: NicRecord, links: Iterable[Link]) -> Link | None:
    candidates = [link for link in links if link.parent_device == record.parent_device]
    if len(candidates) > 1:
        candidates = [link for link in candidates if _is_port(record, link)]
    return _single(candidates)


def _is_port(record: NicRecord, link: Link) -> bool:
    """Whether a link of the right function is the right port of it."""
    originals = record.originals
    if originals is None or link.port_name != originals.port_name:
        return False
    # The address of a virtual function follows what is set, so either may be the changed one.
    return not originals.perm_mac or bool(
        {link.perm_mac, link.mac} & {originals.perm_mac, originals.mac, _wanted_mac(record)}
    )


def _child(record: NicRecord, links: Iterable[Link]) -> Link | None:
    candidates = [
        link
        for link in links
        if link.kind == record.config.mode.value
        and _is_sort(record, link)
        and link.parent == record.parent_index
        and link.parent_netnsid is not None
    ]
    mac, name = _wanted_mac(record), record.config.interface.name
    alike = [link for link in candidates if not mac or link.mac == mac]
    if record.config.mode is AttachMode.IPVLAN:
        # Children of one parent have nothing else of their own.
        alike = [link for link in alike if link.name == name]
    return _with_index(candidates, record.pod_index) or _single(alike)


def _is_sort(record: NicRecord, link: Link) -> bool:
    """Whether a link of the right kind is of the right VLAN, where it is of one."""
    data, wish = link.kind_data, record.config.vlan
    if not isinstance(data, Vlan):
        return True
    return (data.id, data.protocol.lower()) == (wish.id, wish.protocol.value.lower())


def _is_alike(record: NicRecord, link: Link) -> bool:
    """Whether a virtual link may be the record's, by its kind and the addresses it can have."""
    originals = record.originals
    return (
        originals is not None
        and link.kind == originals.kind
        and link.mac in {originals.mac, _wanted_mac(record)}
    )


def _wanted_mac(record: NicRecord) -> str:
    return record.config.interface.hardware_addr or ""


def _with_index(candidates: Iterable[Link], index: int) -> Link | None:
    return next((link for link in candidates if index and link.index == index), None)


def _single(candidates: list[Link]) -> Link | None:
    return candidates[0] if len(candidates) == 1 else None
