"""A full or read-only disk: a NIC is where its record says, or at home."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from berth.errors import HostError
from berth.nic.record import Stage
from tests.integration.nic.beds import Bed, config_of
from tests.integration.nic.senders import Before
from tests.integration.node.disks import SmallDisk, small_disk
from tests.integration.node.nodebeds import Node, drafted

pytestmark = pytest.mark.root

REASONS = {"full": errno.ENOSPC, "read_only": errno.EROFS}


@pytest.fixture(name="disk")
def _disk(bed: Bed, tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "state") as disk:
        (disk.path / "claims").mkdir()
        yield disk


@pytest.fixture(name="trouble", params=sorted(REASONS))
def _trouble(request: pytest.FixtureRequest, disk: SmallDisk) -> tuple[int, object]:
    """The errno of a trouble, and what makes it for a block."""
    return REASONS[request.param], getattr(disk, request.param)


def in_trouble(trouble: tuple[int, object]) -> AbstractContextManager[None]:
    """Have the disk refuse for the block."""
    make = trouble[1]
    assert callable(make)
    made: AbstractContextManager[None] = make()
    return made


async def test_prepare(bed: Bed, disk: SmallDisk, trouble: tuple[int, object]) -> None:
    """Nothing is staged that no record tells of; it works when the disk takes it again."""

    node = Node(bed, disk.path)
    pod = bed.pod()
    link = bed.veth("v0")
    before = bed.seen("v0")
    record = drafted("u1", [(link, config_of(interface={"mtu": 1300}))], pod=pod)
    with in_trouble(trouble), pytest.raises(HostError, match="cannot write") as caught:
        await node.prepare(record)

    assert caught.value.errno == trouble[0]
    assert (bed.seen("v0"), node.records.all()) == (before, ())
    await node.prepare(record)
    assert bed.link("v0").mtu == 1300


async def test_attach_when_it_cannot_be_announced(
    bed: Bed, disk: SmallDisk, trouble: tuple[int, object]
) -> None:
    """No record, no move; the pod gets its NIC when the disk takes the record again."""

    node = Node(bed, disk.path)
    pod = bed.pod()
    for uid, name in (("u1", "v0"), ("u2", "v1")):
        await node.prepared(uid, pod, name)
    with in_trouble(trouble), pytest.raises(HostError) as caught:
        await node.attach(pod, "u1", "u2")

    assert (caught.value.errno, pod.names()) == (trouble[0], set())
    await node.attach(pod, "u1", "u2")
    assert pod.names() == {"net-v0", "net-v1"}


async def test_attach_when_it_cannot_be_recorded(
    bed: Bed, disk: SmallDisk, trouble: tuple[int, object]
) -> None:
    """A NIC in the pod that no record tells of is brought home again, as it was."""

    pod = bed.pod()
    bed.veth("v0")
    before = bed.seen("v0")
    scope = in_trouble(trouble)
    node = Node(bed, disk.path, send=Before(lambda m: m.moves, scope.__enter__))
    await node.prepared("u1", pod, "v0")
    try:
        with pytest.raises(HostError) as caught:
            await node.attach(pod, "u1")
    finally:
        scope.__exit__(None, None, None)

    assert caught.value.errno == trouble[0]
    assert (pod.names(), bed.seen("v0")) == (set(), before)
    assert node.stages("u1") == [Stage.HOME]
    await node.attach(pod, "u1")
    assert pod.names() == {"net-v0"}


async def test_return(bed: Bed, disk: SmallDisk, trouble: tuple[int, object]) -> None:
    """Hardware is freed on any disk; the next start finds it at home."""

    node = Node(bed, disk.path)
    pod = bed.pod()
    bed.veth("v0")
    before = bed.seen("v0")
    await node.prepared("u1", pod, "v0")
    await node.attach(pod, "u1")
    with in_trouble(trouble):
        assert await node.nics.give_back("u1")

    assert (pod.names(), bed.seen("v0")) == (set(), before)
    assert node.stages("u1") == [Stage.HOME]
    again = Node(bed, disk.path)
    assert await again.records.load() == ()
    assert again.stages("u1") == [Stage.ATTACHED]
    assert await again.nics.give_back("u1")
    assert bed.seen("v0") == before


async def test_start(bed: Bed, disk: SmallDisk, trouble: tuple[int, object]) -> None:
    """What is on the disk is read; a bad file that cannot be set aside is told and left."""

    node = Node(bed, disk.path)
    await node.prepared("u1", bed.pod(), "v0")
    (disk.path / "claims" / "bad.json").write_bytes(b"{")
    (disk.path / "claims" / ".berth-0.tmp").touch()
    with in_trouble(trouble):
        again = Node(bed, disk.path)
        told = await again.records.load()

    assert [record.claim.uid for record in again.records.all()] == ["u1"]
    assert len(told) == 1
    assert "bad.json: is no JSON" in told[0]
