"""NICs on their way into sandboxes and home, and what is told of them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.errors import ClaimError, HostError
from berth.nic.record import NicRecord, Stage
from berth.node.records.record import ClaimRecord
from tests.unit.node.conftest import Node, sandbox_of
from tests.unit.node.machine import FAST, claim

NET = claim()


def first_nic(record: ClaimRecord, **changes: Any) -> NicRecord:
    """The record's first NIC, changed."""
    nic = record.devices[0].nic
    assert nic is not None
    return attrs.evolve(nic, **changes)


async def test_attach_tells_containers_and_the_claim(node: Node) -> None:
    """Generation 2 of the metadata says how the NIC looks; a second attach says nothing new."""

    await node.prepare(NET)
    await node.attach(NET, sandbox_of("web"))

    assert node.papers.files[NET.ref.uid, "metadata"] == 2
    record = node.record(NET)
    assert (record.generation, record.devices[0].told) == (2, first_nic(record).network)
    assert node.told.records[NET.ref.uid][-1] == record

    await node.attach(NET, sandbox_of("web"))
    assert node.papers.files[NET.ref.uid, "metadata"] == 2


async def test_attach_that_cannot_be_told_is_taken_back(node: Node) -> None:
    """A container must not read of a NIC that it has: the disk is full, so it has none."""

    await node.prepare(NET)
    node.disk.room = 1

    with pytest.raises(HostError, match="No space"):
        await node.attach(NET, sandbox_of("web"))

    assert node.stages(NET.ref) == [Stage.HOME]


async def test_failed_attach_is_told(node: Node) -> None:
    """The claim's status says so at once."""

    await node.prepare(NET)
    node.nics.faults[FAST] = ClaimError(FAST, "name is taken")

    with pytest.raises(ClaimError, match="name is taken"):
        await node.attach(NET, sandbox_of("web"))

    assert len(node.told.records[NET.ref.uid]) == 2


async def test_detach_of_an_old_sandbox_touches_nothing(node: Node) -> None:
    """Its events may come long after the pod got a new one."""

    await node.prepare(NET)
    await node.attach(NET, sandbox_of("web", 2))

    await node.arrivals.detach("sandbox-web-1")
    assert node.stages(NET.ref) == [Stage.ATTACHED]
    await node.arrivals.detach("sandbox-web-2")
    assert node.stages(NET.ref) == [Stage.HOME]
    assert node.told.records[NET.ref.uid][-1] == node.record(NET)


async def test_missing_tells_what_containers_cannot_read_yet(node: Node) -> None:
    """A NIC that is there and not recorded or told of yet is missing as one that is not there."""

    await node.prepare(NET)
    here = sandbox_of("web")
    assert await node.arrivals.missing([NET.ref.uid], here) == (FAST,)
    await node.attach(NET, here)
    assert await node.arrivals.missing([NET.ref.uid, "unknown"], here) == ()

    node.nics.hidden.add(FAST)
    assert await node.arrivals.missing([NET.ref.uid], here) == (FAST,)
    node.nics.hidden.clear()
    done = node.record(NET)
    for begun in (
        attrs.evolve(done, devices=(attrs.evolve(done.devices[0], told=None),)),
        done.with_nic(0, first_nic(done, stage=Stage.ATTACHING, network=None)),
    ):
        await node.records.put(begun)
        assert await node.arrivals.missing([NET.ref.uid], here) == (FAST,)


async def test_tell_status_tells_what_is_known_now(node: Node) -> None:
    """A late carrier is told of a living claim, and of no other."""

    await node.prepare(NET)
    node.arrivals.tell_status(NET.ref.uid)
    node.arrivals.tell_status("unknown")

    assert node.told.records[NET.ref.uid] == [node.record(NET)] * 2
