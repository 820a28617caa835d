"""The sources of health as the daemon wires them: real nodes, real programs, one verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.config.health import DeviceTimes
from berth.config.xid import XidTable
from berth.daemon.healthwork import REMARK_S
from berth.daemon.parts import Parts
from berth.health.verdict import UNASKED, Status, Verdict
from berth.host.nvml.values import EventKind, NvmlEvent
from berth.model.edits import DeviceNode, Edits, NodeType
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from tests.unit.node.peripherals import modem

NULL = DeviceNode(
    path="/dev/null", host_path="/dev/null", type=NodeType.CHAR, major=1, minor=3, permissions="rw"
)
DEVICE = attrs.evolve(modem(), edits=Edits(nodes=(NULL,)))


def see(parts: Parts, device: Peripheral) -> None:
    """The machine shows this device and no other."""
    parts.held.discovery.inventory.set(Inventory(peripherals=(device,)))


async def wait_verdict(parts: Parts, is_so: Callable[[Verdict], bool]) -> Verdict:
    """The verdict on the device, once it is so."""
    with trio.fail_after(60):
        state = await parts.care.health.state.wait_value(lambda now: is_so(now.of(DEVICE.name)))
    return state.of(DEVICE.name)


async def test_device_nodes_are_looked_at(parts: Parts, nursery: trio.Nursery) -> None:
    """Well while they are what they were; another device under the same name is none of ours."""
    see(parts, DEVICE)
    await nursery.start(parts.care.run)
    await wait_verdict(parts, lambda now: now.status is Status.HEALTHY)

    see(parts, attrs.evolve(DEVICE, edits=Edits(nodes=(attrs.evolve(NULL, minor=5),))))

    found = await wait_verdict(parts, lambda now: now.status is Status.UNHEALTHY)
    assert found.reason == "absent"
    assert found.message.startswith("/dev/null is character device 1:3 now, and was 1:5: ")


async def test_commands_are_asked(parts: Parts, nursery: trio.Nursery, tmp_path: Path) -> None:
    """Unknown before it has answered, then as it says; whoever needs to know has it asked now."""
    says = tmp_path / "says"
    parts.held.stock.commands.set({DEVICE.identity: ("/bin/sh", str(says))})
    says.write_text("sleep 0.2; exit 0\n")
    see(parts, DEVICE)
    await nursery.start(parts.care.run)
    early = await wait_verdict(parts, lambda now: now.message == UNASKED.message)
    assert early.status is Status.UNKNOWN
    await wait_verdict(parts, lambda now: now.status is Status.HEALTHY)

    says.write_text("echo no carrier; exit 1\n")
    await parts.care.health.probe_now(DEVICE.name)

    found = parts.care.health.verdict(DEVICE.name)
    assert (found.status, found.reason) == (Status.UNHEALTHY, "probe-failed")
    assert found.message.startswith("no carrier (since ")


async def test_name_that_no_device_has_is_told_once(
    parts: Parts, nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A minute after the start, since drivers bring their devices late; a reload tells no more."""
    names = (DEVICE.name, "modem-9")
    health = attrs.evolve(
        parts.config.health, devices=tuple(DeviceTimes(name=name) for name in names)
    )
    see(parts, DEVICE)
    parts.reload(attrs.evolve(parts.config, health=health))
    await nursery.start(parts.care.run)
    await trio.sleep(REMARK_S - 1)
    assert "modem-9" not in caplog.text
    await trio.sleep(2)
    parts.reload(attrs.evolve(parts.config, health=attrs.evolve(health, recover_after_s=9)))
    await trio.sleep(2 * REMARK_S)

    (remark,) = parts.care.remarks()
    assert remark.startswith("[[health.device]] names modem-9, and no device here is so called")
    assert [each.getMessage() for each in caplog.records if remark in str(vars(each))] == [
        "configuration"
    ]


async def test_times_and_what_verdicts_do_follow_a_reload(parts: Parts) -> None:
    """Whoever publishes is woken by it, though no device has changed."""
    before = parts.config.health
    times = attrs.evolve(before.generic, interval_s=7)
    health = attrs.evolve(before, generic=times, evict=("lost",))

    parts.reload(attrs.evolve(parts.config, health=health))

    assert parts.care.terms.get().of_peripheral(DEVICE).interval_s == 7
    assert parts.config.health == health
    assert parts.inquiry.rules.evict == frozenset({"lost"})
    assert parts.inquiry.settings.version == 1


async def test_other_classes_of_xids_count_from_the_reload_on(
    parts: Parts, nursery: trio.Nursery
) -> None:
    """The operator is told that they are in effect now."""
    await nursery.start(parts.care.run)
    gpus = parts.care.gpus
    assert gpus is not None
    health = attrs.evolve(parts.config.health, xid=XidTable(ignore=(48,)))

    parts.reload(attrs.evolve(parts.config, health=health))
    gpus.hear(NvmlEvent(kind=EventKind.XID, address="0000:1b:00.0", type=8, data=48))

    assert [xid.xid_class for xid in gpus.journal.xids] == [XidTable(ignore=(48,)).class_of(48)]
    assert XidTable().class_of(48) is not XidTable(ignore=(48,)).class_of(48)
