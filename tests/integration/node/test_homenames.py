"""A NIC whose name was taken gets it back when it is free: after its claim and a restart too."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.nic.record import NicRecord, Stage
from tests.integration.nic.beds import Bed
from tests.integration.node.nodebeds import Node, links_until

pytestmark = pytest.mark.root


async def came_home_under_another_name(bed: Bed, node: Node) -> NicRecord:
    """Have v0 come home while another link has its name."""
    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    await node.attach(pod, "u1")
    bed.home.ip("link", "add", "v0", "type", "veth", "peer", "name", "foreign")
    assert await node.nics.give_back("u1")
    nic = node.nic("u1")
    assert nic.home_name.startswith("berth")
    assert node.nics.moves.series() == {("pod", "ok"): 1, ("home", "ok"): 1}
    assert node.nics.move_seconds.counts() == {("pod",): 1, ("home",): 1}
    return nic


async def wait_named(bed: Bed, index: int, name: str) -> None:
    """Wait until a link at home has a name."""
    await links_until(
        lambda: any((r["ifindex"], r["ifname"]) == (index, name) for r in bed.home.ip_json("link"))
    )


async def test_name_that_becomes_free_while_the_claim_lives(bed: Bed, node: Node) -> None:
    """The link is renamed and the claim's record says so."""

    async with node.running():
        nic = await came_home_under_another_name(bed, node)
        assert nic.originals is not None
        bed.home.ip("link", "del", "v0")
        await wait_named(bed, nic.originals.index, "v0")
        await node.until(lambda: not node.nic("u1").home_name)

    assert list((node.folder / "names").iterdir()) == []


async def test_name_that_is_given_up_by_a_rename(bed: Bed, node: Node) -> None:
    """The claim is gone, and the holder is renamed rather than removed."""

    async with node.running():
        nic = await came_home_under_another_name(bed, node)
        assert nic.originals is not None
        await node.records.delete("u1")
        bed.home.ip("link", "set", "v0", "name", "other0")
        await wait_named(bed, nic.originals.index, "v0")


async def test_name_that_becomes_free_while_no_daemon_runs(bed: Bed, node: Node) -> None:
    """What is owed is on disk; the next life of the daemon gives it at its start."""

    nic = await came_home_under_another_name(bed, node)
    assert nic.originals is not None
    await node.records.delete("u1")
    bed.home.ip("link", "del", "v0")
    again = Node(bed, node.folder)
    await again.records.load()
    async with again.running():
        await wait_named(bed, nic.originals.index, "v0")


async def test_next_claim_before_the_name_is_free(bed: Bed, node: Node) -> None:
    """The next holder's return gives the link its own name, not the one in between."""

    async with node.running():
        nic = await came_home_under_another_name(bed, node)
        assert nic.originals is not None
        await node.records.delete("u1")
        pod = bed.pod()
        await node.prepared("u2", pod, nic.home_name)
        originals = node.nic("u2").originals
        assert originals is not None
        assert originals.name == "v0"
        await node.attach(pod, "u2")
        bed.home.ip("link", "del", "v0")
        assert await node.nics.give_back("u2")

    assert node.nic("u2").home_name == ""
    assert bed.link("v0").index == nic.originals.index


async def test_held_link_keeps_its_name_for_now(bed: Bed, node: Node) -> None:
    """A link that is staged for a pod is not renamed under its claim's hands."""

    async with node.running():
        nic = await came_home_under_another_name(bed, node)
        await node.records.delete("u1")
        await node.prepared("u2", bed.pod(), nic.home_name)
        bed.home.ip("link", "del", "v0")
        bed.veth("another")
        assert nic.home_name in bed.names()
        assert node.stages("u2") == [Stage.STAGED]
        assert await node.nics.give_back("u2")

    assert "v0" in bed.names()


async def test_damaged_note_of_a_name(bed: Bed, tmp_path: Path) -> None:
    """A file that cannot be read costs a name, not the start."""

    (tmp_path / "claims").mkdir()
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "bad.json").write_bytes(b"\xff")
    node = Node(bed, tmp_path)
    async with node.running():
        nic = await came_home_under_another_name(bed, node)
        assert nic.originals is not None
        bed.home.ip("link", "del", "v0")
        await wait_named(bed, nic.originals.index, "v0")
