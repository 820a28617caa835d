"""Which taints the publisher sends, by what the server's version and answers say of them."""

from __future__ import annotations

import logging

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.kube.api import Node, ServerVersion
from berth.kube.slices import Slice
from berth.model.device import Device, Taint
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.dra.shelf import nic, nics
from tests.unit.dra.test_publisher import NODE, Open, Scene, scene, warnings

__all__ = ["scene"]

FAULT = Taint(key="berth.dev/fault", value="xid-79", effect="NoSchedule")
NOTE = Taint(key="berth.dev/degraded", value="xid-63", effect="None")


def sick(number: int, *taints: Taint) -> Device:
    """A device with taints."""
    return attrs.evolve(nic(number), taints=taints or (FAULT,))


def old_server(minor: int) -> FakeApi:
    """A server of an older version whose gate for taints was opened."""
    api = FakeApi(Node(name=NODE, uid="node-uid"))
    api.version = ServerVersion(major=1, minor=minor, text=f"v1.{minor}.4")
    api.opened |= {"device-taints"}
    return api


def told(it: Scene) -> dict[str, list[str]]:
    """Keys of the taints on the server, by device."""
    return {
        device["name"]: [taint["key"] for taint in device["taints"]]
        for item in it.api.owned()
        for device in item.devices
        if device.get("taints")
    }


def without_taints(item: Slice) -> Slice:
    """What a server makes of a slice whose gate for taints is off."""
    devices = tuple(
        {key: value for key, value in one.items() if key != "taints"} for one in item.devices
    )
    return attrs.evolve(item, devices=devices)


@pytest.mark.parametrize(
    ("minor", "keys"), [(34, ["berth.dev/fault"]), (35, ["berth.dev/fault", "berth.dev/degraded"])]
)
async def test_notes_are_sent_to_servers_that_know_them(
    autojump_clock: MockClock, scene: Open, minor: int, keys: list[str]
) -> None:
    """A 1.34 server refuses the whole slice for one; the version is asked once."""

    async with scene(nic(1), api=old_server(minor)) as it:
        it.show(sick(0, FAULT, NOTE), nic(1))
        await trio.sleep(1)
        it.show(sick(0, FAULT, NOTE), sick(1))
        await trio.sleep(1)

        assert told(it) == {"nic-0000": keys, "nic-0001": ["berth.dev/fault"]}
        assert it.api.versions_asked == 1


async def test_note_alone_is_no_write_for_an_old_server(
    autojump_clock: MockClock, scene: Open
) -> None:
    """What it does not take changes nothing that it has."""

    async with scene(*nics(2), api=old_server(34)) as it:
        it.show(sick(0, NOTE), nic(1))
        await trio.sleep(60)

        assert it.verbs() == ["create"]


async def test_dropped_taints_are_sent_once(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """With the gate off a sick device leaves the slices, unless a claim has it; one warning."""

    async with scene(*nics(2)) as it:
        it.api.store = without_taints
        it.show(sick(0), nic(1))
        await trio.sleep(60)
        assert (it.api.devices(), len(it.verbs())) == (["nic-0001"], 3)

        it.show(nic(0), sick(1, NOTE))
        await trio.sleep(60)
        it.show(nic(0), attrs.evolve(sick(1), claimed=True))
        await trio.sleep(60)
        assert (it.api.devices(), len(it.verbs())) == (["nic-0000", "nic-0001"], 4)
        assert (it.state, told(it)) == ("published", {})
        (remark,) = it.publisher.statistics().remarks
        assert "DRADeviceTaints" in remark
        assert len([text for text in warnings(caplog) if "taints are not published" in text]) == 1


async def test_taints_are_tried_again_with_another_server(
    autojump_clock: MockClock, scene: Open
) -> None:
    """An upgrade of the cluster turns the gate on; the watch breaks with the server's restart."""

    async with scene(*nics(2)) as it:
        it.api.version = ServerVersion(major=1, minor=35, text="v1.35.0")
        it.api.store = without_taints
        it.show(sick(0), nic(1))
        await trio.sleep(10)
        assert it.api.devices() == ["nic-0001"]

        it.api.cut_watches()
        it.api.store = lambda item: item
        it.api.version = ServerVersion(major=1, minor=36, text="v1.36.0")
        it.api.mend_watches()
        await trio.sleep(10)

        assert list(told(it)) == ["nic-0000"]


async def test_one_sick_device_of_129_rewrites_its_slice_alone(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Slices have 64 devices at most from the first, as many as one with a taint may have."""

    async with scene(*nics(129)) as it:
        it.show(*nics(129)[:70], sick(70), *nics(129)[71:])
        await trio.sleep(1)

        assert it.verbs() == ["create"] * 3 + ["update"]
        assert told(it) == {"nic-0070": ["berth.dev/fault"]}
        assert it.state == "published"


async def test_every_device_sick_at_once_is_one_round(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Each slice is written once, however many verdicts come in the moment."""

    caplog.set_level(logging.INFO)
    devices = nics(129)
    async with scene(*devices) as it:
        for end in range(0, 129, 10):
            it.show(*(sick(n) for n in range(end)), *devices[end:])
        it.show(*map(sick, range(129)))
        await trio.sleep(10)

        assert it.verbs() == ["create"] * 3 + ["update"] * 3
        assert len(told(it)) == 129


async def test_flapping_device_keeps_to_the_allowance_and_ends_right(
    autojump_clock: MockClock, scene: Open
) -> None:
    """At most 20 writes in any minute; the last state is published."""

    async with scene(nic(0)) as it:
        for turn in range(121):
            it.show(nic(0) if turn % 2 else sick(0))
            await trio.sleep(0.5)
        await trio.sleep(20)

        times = [at for _, at in it.api.requests]
        assert max(sum(begin <= at < begin + 60 for at in times) for begin in times) <= 20
        assert list(told(it)) == ["nic-0000"]
