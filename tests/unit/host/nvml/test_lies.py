"""A library that lies about anything or lacks anything: what it says is bounded, never raised."""

from __future__ import annotations

import random

import attrs
import pytest
import trio

from berth.config.gpu import GpuTable
from berth.gpu.survey import survey
from berth.host.hardware import PciFunction
from berth.host.nvidiafiles import NodeFacts
from berth.host.nvml import calls
from berth.host.nvml.library import Library
from berth.host.nvml.owner import Nvml
from berth.host.nvml.values import NoAnswer, Probe, Refusal, Walk
from berth.kube.slices import device_json
from berth.model.device import Device
from berth.rehearsal.apiserver.slicerules import check_slice
from berth.rehearsal.nvml.world import Process
from tests import nvml
from tests.nvml import cards
from tests.unit.host.nvml.conftest import FULL, OTHER, PARTED, Opened, Show, settled
from tests.unit.host.nvml.lies import Fill, lacking, lying

FULL_WITH_PROCESS = attrs.evolve(FULL, processes=(Process(pid=7),))

OF_THE_LIBRARY = ("nvmlInit", "nvmlShutdown", "nvmlSystem", "nvmlDeviceGetCount", "nvmlEventSet")
"""Beginnings of what speaks of no single GPU."""


WITHOUT_WHICH_NOTHING_IS_FOUND = {
    "nvmlInitWithFlags",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo_v3",
}


def filled(byte: int) -> Fill:
    """Answers of one byte over and over."""
    return lambda size: bytes([byte]) * size


def by_chance(seed: int) -> Fill:
    """Answers of any bytes."""
    return random.Random(seed).randbytes  # noqa: S311 - any bytes, no secret


FILLS = {
    "ones": filled(0xFF),
    "sign bits": filled(0x80),
    "text without end": filled(ord("A")),
    "chance": by_chance(1),
}


async def ask_all(owner: Nvml) -> Walk:
    """Ask all that is ever asked, and require an answer of each."""
    with trio.fail_after(60):
        found = await owner.walk()
        for card in (FULL, PARTED, OTHER):
            answer = await owner.probe(card.address)
            assert isinstance(answer, Probe | Refusal | NoAnswer)
            told = await owner.processes(card.address)
            assert isinstance(told, tuple | Refusal | NoAnswer)
    return found


def require_publishable(found: Walk) -> None:
    """What it said may be published, and no node has a number that no node can have."""
    functions = [
        PciFunction(address=card.address, class_code=0x030200, vendor="10de", driver="nvidia")
        for card in (FULL, PARTED, OTHER)
    ]
    made = survey(
        found.gpus,
        functions,
        driver=found.driver,
        state="up",
        table=GpuTable(),
        memory=(),
        nodes=NodeFacts(majors={"nvidia": 195, "nvidia-uvm": 511}),
    )
    offered = [one for one in made.peripherals if one.exclusion is None]
    devices = [
        Device(
            name=one.name,
            identity=one.identity,
            type=one.type,
            group=one.group,
            attributes=one.attributes,
            capacity=one.capacity,
        )
        for one in offered
    ]
    spec = {
        "driver": "berth.dev",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [device_json(device) for device in devices],
    }
    assert check_slice(spec, None) == []
    amounts = [one.value for device in devices for one in device.capacity.values()]
    amounts += [value for one in made.counter_sets for value in one.counters.values()]
    assert max(amounts, default=0) < 2**63
    assert {node.minor for one in offered for node in one.edits.nodes} <= {*range(248)}


@pytest.mark.parametrize("how", sorted(FILLS))
async def test_lie_of_a_gpu_is_its_own(opened: Opened, show: Show, how: str) -> None:
    """Whatever one function says of one GPU, nothing is raised and the others are as they were."""

    show(cards(FULL_WITH_PROCESS, PARTED, OTHER))
    async with opened() as owner:
        before = (await owner.walk()).gpus[2]
        handles = owner._sight.handles()
        for symbol in calls.SYMBOLS:
            if symbol.startswith(OF_THE_LIBRARY):
                continue
            for card in (FULL, PARTED):
                about = calls.pointer(handles[card.address])
                with lying(FILLS[how], symbol, about=about):
                    found = await ask_all(owner)
                require_publishable(found)
                assert before in found.gpus, symbol


@pytest.mark.parametrize("how", sorted(FILLS))
async def test_lie_of_the_library_is_borne(opened: Opened, show: Show, how: str) -> None:
    """An absurd count of GPUs makes no endless walk, and a version of no sense no version."""

    async with opened(hold=False) as owner:
        for symbol in calls.SYMBOLS:
            with lying(FILLS[how], symbol):
                require_publishable(await ask_all(owner))
        with lying(FILLS[how], *calls.SYMBOLS):
            require_publishable(await ask_all(owner))
        assert len((await owner.walk()).gpus) == 3


@pytest.mark.parametrize("symbol", calls.SYMBOLS)
async def test_library_that_lacks_a_function_gives_what_it_has(show: Show, symbol: str) -> None:
    """Each one may be missing: the session says so, or the GPUs are there without what it tells."""

    path = str(nvml.library())
    Library(path).open()
    owner = Nvml(library=path, hold=False)
    with lacking(symbol):
        async with trio.open_nursery() as nursery:
            await nursery.start(owner.run)
            owner.notice(functions=3)
            await settled(owner)
            found = await ask_all(owner)
            session = owner.session
            nursery.cancel_scope.cancel()

    require_publishable(found)
    if symbol in WITHOUT_WHICH_NOTHING_IS_FOUND:
        assert "no such function" in f"{session.detail}{found.nameless}"
    else:
        assert len(found.gpus) == 3
