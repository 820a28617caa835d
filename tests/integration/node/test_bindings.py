"""Claims on GPUs for virtual machines: taken from their driver, given back, whatever happens."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.config.gpu import GpuTable
from berth.errors import BerthError, ClaimError, HostError
from berth.host.nvml.session import SessionState
from berth.host.nvml.values import NoAnswer
from berth.node.gpus import grip
from berth.node.vfio import functions
from berth.node.vfio.bindings import BUSY
from berth.rehearsal.drivercore import VFIO
from berth.vfio.binding import Stage
from tests.integration.node.bindingbeds import (
    CLAIM,
    FUNCTION,
    SECOND,
    WHOLE,
    BindingNode,
    asking,
)
from tests.sysfs_tree import SysfsTree
from tests.unit.node.machine import claim, result
from tests.vfio_tree import AUDIO, AWAY, GPU, GROUP, HOME, OTHER, VfioMachine

pytestmark = pytest.mark.root

NATIVE = claim(result(WHOLE, "gpu"), name="native")


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> VfioMachine:
    return VfioMachine(tmp_path / "machine")


@pytest.fixture(name="node")
async def _node(machine: VfioMachine, tmp_path: Path) -> BindingNode:
    node = BindingNode(machine, tmp_path / "state")
    await node.start()
    return node


async def test_claim_has_its_gpu_bound_and_given_back(
    machine: VfioMachine, node: BindingNode
) -> None:
    """Nodes of the group for the container; afterwards the driver has it, and nothing is left."""

    answer = await node.prepare()

    assert [device.device for device in answer.devices] == [FUNCTION]
    assert machine.state() == AWAY
    assert node.device_nodes() == ["/dev/vfio/vfio", f"/dev/vfio/{GROUP}"]
    assert "NVIDIA_VISIBLE_DEVICES=void" in node.cdi()["env"]
    assert (node.binding().stage, node.record().prepared) == (Stage.BOUND, True)
    assert node.bindings.lent() == {GPU: ""}

    await node.unprepare()

    assert machine.state() == HOME
    assert node.traces() == {}
    assert node.bindings.lent() == {}


async def test_session_is_let_go_of_and_taken_up_again(node: BindingNode) -> None:
    """Twice: berth has the GPU open, and a session sees only what is there when it is opened."""

    await node.prepare()
    assert (node.nvml.is_open, node.nvml.opened) == (True, 2)

    await node.unprepare()
    assert (node.nvml.is_open, node.nvml.opened) == (True, 3)


async def test_repeated_prepare_gives_the_same_and_does_nothing(
    machine: VfioMachine, node: BindingNode
) -> None:
    """A new sandbox of the pod gets what stands."""

    first = await node.prepare()
    written = list(machine.core.written)

    assert await node.prepare() == first
    assert machine.core.written == written


@pytest.mark.parametrize(
    ("wish", "nodes"),
    [
        ({"apiDevice": False}, [f"/dev/vfio/{GROUP}"]),
        ({"iommufd": True}, ["/dev/iommu", f"/dev/vfio/devices/vfio{GROUP}"]),
    ],
)
async def test_claim_says_by_which_nodes_it_comes(
    tmp_path: Path, wish: dict[str, bool], nodes: list[str]
) -> None:
    """By the group's node alone, or by iommufd; and again at the next prepare."""

    node = BindingNode(VfioMachine(tmp_path / "machine", iommufd=True), tmp_path / "state")
    await node.start()
    wanted = asking("wish", FUNCTION, **wish)

    for _ in range(2):
        await node.prepare(wanted)
        assert node.device_nodes(wanted) == nodes


async def test_iommufd_without_its_nodes_is_refused_and_undone(
    machine: VfioMachine, node: BindingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both nodes are there, or the claim is told which is not."""

    monkeypatch.setattr(functions, "NODES_S", 0.2)
    wanted = asking("wish", FUNCTION, iommufd=True)

    with pytest.raises(HostError, match=r"/dev/iommu, /dev/vfio/devices/\? did not come"):
        await node.prepare(wanted)

    assert machine.state() == HOME
    assert node.traces() == {}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"iommufd": "yes"}, "iommufd: is 'yes'"),
        ({"vhost": True}, "vhost: is unknown"),
        ({"kind": "GpuConfig"}, "kind: is 'GpuConfig'"),
    ],
)
async def test_odd_configuration_is_refused_before_anything_is_done(
    machine: VfioMachine, node: BindingNode, parameters: dict[str, object], said: str
) -> None:
    """Strictly, with the field's place."""

    with pytest.raises(ClaimError, match=said):
        await node.prepare(asking("odd", FUNCTION, **parameters))

    assert machine.core.written == []
    assert node.traces() == {}


async def test_two_functions_of_one_group_are_refused_to_one_claim_at_once(
    machine: VfioMachine, node: BindingNode, autojump_clock: MockClock
) -> None:
    """By the names of both and of what they share; no waiting would part them."""

    machine.remove(OTHER)
    SysfsTree.at(machine.root / "sys").function(
        OTHER, class_code=0x030200, vendor="10de", driver=VFIO, iommu_group=GROUP
    )
    machine.drivers.set_override(GPU, VFIO)
    machine.drivers.unbind(GPU, "nvidia")
    machine.drivers.probe(GPU)
    pair = claim(result(FUNCTION, "a"), result(SECOND, "b"), name="pair")

    with pytest.raises(ClaimError, match=rf"{FUNCTION} and {SECOND}, which share iommu:{GROUP}"):
        await node.prepare(pair)

    assert (trio.current_time(), node.traces()) == (0, {})


async def test_configuration_for_a_whole_gpu_is_refused(node: BindingNode) -> None:
    """Nobody would heed it."""

    with pytest.raises(ClaimError, match="applies to no GPU for virtual machines"):
        await node.prepare(asking("odd", WHOLE, iommufd=True))


async def test_busy_gpu_is_refused_with_its_processes(
    machine: VfioMachine, node: BindingNode
) -> None:
    """Before anything is done, and at once."""

    node.nvml.running[GPU] = (4711, 4712)

    with pytest.raises(ClaimError, match="is in use by process 4711, 4712"):
        await node.prepare()

    assert machine.core.written == []
    assert node.traces() == {}
    assert node.nvml.opened == 1


async def test_gpu_of_which_the_driver_says_nothing_is_refused(
    machine: VfioMachine, node: BindingNode
) -> None:
    """Taken all the same, somebody's work would be lost or the unbind never end."""

    node.nvml.running[GPU] = NoAnswer(purpose="processes", open_s=4)

    with pytest.raises(ClaimError, match="is not known to be free"):
        await node.prepare()

    assert machine.core.written == []


async def test_release_by_an_operator_is_not_ended(
    machine: VfioMachine, node: BindingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He works on the driver; what is not known to be free is not taken either."""

    monkeypatch.setattr(grip, "SESSION_S", 0.2)
    await node.grip.release(600)

    with pytest.raises(ClaimError, match=r"\(session released\)"):
        await node.prepare()

    assert node.nvml.session.state is SessionState.RELEASED
    assert machine.state() == HOME


async def test_member_of_the_group_that_the_host_uses_is_named(
    machine: VfioMachine, node: BindingNode, autojump_clock: MockClock
) -> None:
    """The GPU's own sound function is one."""

    machine.add_audio("snd_hda_intel")

    with pytest.raises(ClaimError, match=f"{AUDIO} of the same group is bound to snd_hda_intel"):
        await node.prepare()

    assert machine.core.written == []
    assert node.traces() == {}


async def test_member_that_came_after_the_look_is_named(
    machine: VfioMachine, node: BindingNode
) -> None:
    """The group is read anew before anything is done."""

    node.server.claims[CLAIM.ref.uid] = CLAIM
    seen = node.eyes.look_nowait()

    async def look() -> object:
        await trio.lowlevel.checkpoint()
        return seen

    node.eyes.look = look  # type: ignore[method-assign,assignment]  # eyes that are late
    machine.add_audio("snd_hda_intel")

    with pytest.raises(ClaimError, match=f"cannot be bound to vfio-pci: {AUDIO}"):
        await node.claims.prepare(CLAIM.ref)

    assert machine.core.written == []


async def test_driver_that_is_not_loaded_is_told(machine: VfioMachine, node: BindingNode) -> None:
    """The kernel does not load vfio-pci for us."""

    (machine.root / "sys/bus/pci/drivers" / VFIO).rmdir()

    with pytest.raises(ClaimError, match="vfio-pci is not loaded; modprobe vfio-pci"):
        await node.prepare()

    assert machine.core.written == []


async def test_bind_that_fails_half_way_is_undone(machine: VfioMachine, node: BindingNode) -> None:
    """vfio-pci does not take it: the former driver has it again, and the claim holds nothing."""

    machine.core.refused.add((VFIO, GPU))

    with pytest.raises(HostError, match="is bound to no driver after a probe for vfio-pci"):
        await node.prepare()

    assert machine.state() == HOME
    async with node.running():
        await node.until(lambda: not node.records.all())
    assert node.traces() == {}


async def test_second_of_two_that_fails_undoes_the_first(
    machine: VfioMachine, node: BindingNode
) -> None:
    """A claim has all of its GPUs, or none."""

    machine.core.refused.add((VFIO, OTHER))
    both = asking("both", FUNCTION, SECOND)

    with pytest.raises(HostError, match=OTHER):
        await node.prepare(both)

    assert (machine.state(GPU), machine.state(OTHER)) == (HOME, HOME)


async def test_two_gpus_of_a_claim_are_bound_in_one_letting_go(
    machine: VfioMachine, node: BindingNode
) -> None:
    """The session is opened anew once, and each GPU has its nodes."""

    both = asking("both", FUNCTION, SECOND)
    await node.prepare(both)

    assert (machine.state(GPU), machine.state(OTHER)) == (AWAY, AWAY)
    assert node.nvml.opened == 2
    await node.unprepare(both)
    assert (machine.state(GPU), machine.state(OTHER)) == (HOME, HOME)


@pytest.mark.slow
async def test_driver_that_does_not_let_go_is_left_alone(
    machine: VfioMachine, tmp_path: Path
) -> None:
    """The claim is refused and keeps its hold; when the kernel comes back all is as it was."""

    node = BindingNode(machine, tmp_path / "state", limit_s=1.0)
    await node.start()
    machine.core.open(GPU)
    async with node.running():
        with pytest.raises(HostError, match=r"its unbind has not returned .* not undone yet"):
            await node.prepare()
        assert node.binding().stage is Stage.RETURNING
        assert node.bindings.lent() == {GPU: BUSY}
        shown = node.eyes.look_nowait().inventory.peripheral_by_name
        assert {shown[name].unhealthy for name in (WHOLE, FUNCTION)} == {BUSY}
        with pytest.raises(BerthError):
            await node.prepare(NATIVE, limit_s=3)

        machine.core.close(GPU)
        await node.until(lambda: not node.records.all())

    assert machine.state() == HOME
    assert node.traces() == {}


async def test_unprepare_succeeds_while_the_machine_has_the_device_open(
    machine: VfioMachine, tmp_path: Path
) -> None:
    """Kubelet is answered, the hold stays until the kernel has it back, then all is home."""

    node = BindingNode(machine, tmp_path / "state", limit_s=1.0)
    await node.start()
    async with node.running():
        await node.prepare()
        machine.core.open(GPU)

        await node.unprepare()

        assert node.binding().stage is Stage.RETURNING
        assert "busy" in node.binding().fault
        assert FUNCTION in {hold.device for hold in node.ledger.holds()}
        unbinds = [text for name, text in machine.core.written if name == "unbind"]
        assert unbinds == [GPU, GPU]

        machine.core.close(GPU)
        await node.until(lambda: not node.records.all())

    assert machine.state() == HOME
    assert node.traces() == {}


async def test_driver_that_does_not_take_it_back_is_asked_again(
    machine: VfioMachine, node: BindingNode
) -> None:
    """Its module may be loaded anew just now; the hold stays, and the fault is told."""

    await node.prepare()
    machine.core.refused.add(("nvidia", GPU))
    async with node.running():
        await node.unprepare()
        assert node.binding().fault == "nvidia does not take it: no driver has it"
        assert node.ledger.holds()

        machine.core.refused.clear()
        await node.until(lambda: not node.records.all())

    assert machine.state() == HOME


async def test_gpu_that_was_pulled_out_ends_its_claim(
    machine: VfioMachine, node: BindingNode
) -> None:
    """There is nothing to give back."""

    await node.prepare()
    machine.remove(GPU)

    await node.unprepare()

    assert node.traces() == {}


async def test_both_forms_are_offered_and_one_is_given(
    machine: VfioMachine, node: BindingNode
) -> None:
    """Counters tell the scheduler; where it is late, the second claim is refused by name."""

    inventory = node.eyes.look_nowait().inventory
    assert {WHOLE, FUNCTION} <= inventory.device_by_name.keys()
    await node.prepare()
    during = node.eyes.look_nowait().inventory
    assert during.device_by_name.keys() == inventory.device_by_name.keys()

    with pytest.raises(ClaimError, match="is held by claim default/machine"):
        await node.prepare(NATIVE)
    await node.unprepare()
    await node.prepare(NATIVE)
    with pytest.raises(ClaimError, match="is held by claim default/native"):
        await node.prepare()

    assert machine.state() == HOME


async def test_race_for_both_forms_has_one_winner(machine: VfioMachine, node: BindingNode) -> None:
    """Whoever is first has the GPU, in its form; the other is told who."""

    node.server.claims |= {CLAIM.ref.uid: CLAIM, NATIVE.ref.uid: NATIVE}
    node.eyes.look_nowait()
    outcomes: dict[str, str] = {}

    async def prepare(name: str) -> None:
        wanted = CLAIM if name == "machine" else NATIVE
        try:
            await node.claims.prepare(wanted.ref)
        except ClaimError as error:
            outcomes[name] = str(error)
        else:
            outcomes[name] = "has it"

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(prepare, "machine")
            nursery.start_soon(prepare, "native")

    assert sorted(word == "has it" for word in outcomes.values()) == [False, True]
    assert machine.state() == (AWAY if outcomes["machine"] == "has it" else HOME)


async def test_gpu_that_an_operator_bound_is_given_and_left_as_it_is(
    machine: VfioMachine, tmp_path: Path
) -> None:
    """He did it, so he undoes it."""

    for step in ("set_override", "unbind", "probe"):
        words = {"set_override": (GPU, VFIO), "unbind": (GPU, "nvidia"), "probe": (GPU,)}[step]
        getattr(machine.drivers, step)(*words)
    node = BindingNode(machine, tmp_path / "state", table=GpuTable())
    await node.start()
    written = list(machine.core.written)

    await node.prepare()
    assert node.device_nodes() == ["/dev/vfio/vfio", f"/dev/vfio/{GROUP}"]
    assert WHOLE not in node.eyes.look_nowait().inventory.device_by_name
    await node.unprepare()

    assert machine.state() == AWAY
    assert machine.core.written == written
    assert node.traces() == {}


async def test_restart_finds_a_bound_gpu_as_it_was(
    machine: VfioMachine, node: BindingNode, tmp_path: Path
) -> None:
    """Its claim stands, its hold too, nothing is written; its end is served by the new life."""

    await node.prepare()
    written = list(machine.core.written)

    second = BindingNode(machine, tmp_path / "state", server=node.server)
    await second.start()

    assert machine.core.written == written
    assert FUNCTION in {hold.device for hold in second.ledger.holds()}
    assert second.bindings.lent() == {GPU: ""}
    await second.unprepare()
    assert machine.state() == HOME


async def test_reboot_brings_it_home_and_prepare_binds_anew(
    machine: VfioMachine, node: BindingNode, tmp_path: Path
) -> None:
    """Drivers have found their functions again; what is remembered of former ones is void."""

    await node.prepare()
    await node.records.put(attrs.evolve(node.record(), boot_id="boot-0"))
    for step in (("set_override", GPU, ""), ("unbind", GPU, VFIO), ("probe", GPU)):
        getattr(machine.drivers, step[0])(*step[1:])

    second = BindingNode(machine, tmp_path / "state", server=node.server)
    await second.start()
    assert second.binding().stage is Stage.HOME
    await second.prepare()

    assert machine.state() == AWAY
    await second.unprepare()
    assert machine.state() == HOME


async def test_full_disk_binds_nothing_and_keeps_nothing_away(
    machine: VfioMachine, node: BindingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be written down is not done; the way home needs no disk."""

    await node.prepare()
    folder = node.folder / "claims"
    (folder / "aside").mkdir()
    monkeypatch.setattr(node.records, "put", _refuse)

    await node.bindings.bring(node.record())
    assert machine.state() == HOME

    monkeypatch.setattr(node.records, "_records", {})
    with pytest.raises(HostError, match="no space"):
        await node.prepare(asking("late", SECOND))
    assert machine.state(OTHER) == HOME


async def _refuse(_record: object) -> None:
    await trio.lowlevel.checkpoint()
    raise HostError("claims", "no space left")
