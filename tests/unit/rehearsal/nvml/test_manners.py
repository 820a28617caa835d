"""The stand-in keeps the manners of NVML, each once, as pynvml sees them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pynvml

from berth.rehearsal.nvml.world import CallFault, Event, Field, World, read_counts
from tests.nvml import cards
from tests.unit.rehearsal.nvml.conftest import FULL, PARTED

Show = Callable[[World], None]


def code_of(function: Callable[..., Any], *arguments: Any) -> int:
    """Give the error of a call; 0 when it went well."""
    try:
        function(*arguments)
    except pynvml.NVMLError as error:
        return int(error.value)
    return 0


def device(index: int = 0) -> Any:
    """Give a handle."""
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def mig(slot: int = 0) -> Any:
    """Give a MIG handle of the second GPU."""
    return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(device(1), slot)


def test_call_before_init_is_refused(show: Show) -> None:
    """Init is counted: after as many shutdowns nothing answers, and one more is an error."""

    pynvml.nvmlInitWithFlags(1)
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 2
    pynvml.nvmlShutdown()

    assert code_of(pynvml.nvmlDeviceGetCount) == 1
    assert code_of(pynvml.nvmlShutdown) == 1
    pynvml.nvmlInitWithFlags(1)


def test_init_without_a_gpu_needs_the_flag(show: Show) -> None:
    """Flag 1 is what makes an empty machine no error."""

    show(World())

    assert code_of(pynvml.nvmlInitWithFlags, 0) != 0
    assert code_of(pynvml.nvmlInitWithFlags, 1) == 0
    pynvml.nvmlShutdown()


def test_bus_id_has_eight_capital_digits(show: Show) -> None:
    """The address comes in NVML's form, and the ids in one number."""

    info = pynvml.nvmlDeviceGetPciInfo(device())

    assert (info.busId, info.busIdLegacy) == ("00000000:3B:00.0", "0000:3B:00.0")
    assert (info.pciDeviceId >> 16, info.pciDeviceId & 0xFFFF) == (0x2330, 0x10DE)


def test_wrong_version_word_is_told(show: Show) -> None:
    """A struct of another version is error 25."""

    assert code_of(pynvml.nvmlDeviceGetMemoryInfo, device(), 0x01000028) == 25
    assert code_of(pynvml.nvmlDeviceGetMemoryInfo, device(), pynvml.nvmlMemory_v2) == 0


def test_short_buffer_is_told(show: Show) -> None:
    """Text that does not fit is error 7, never cut."""

    function = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetUUID")
    assert function(device(), ctypes.create_string_buffer(8), ctypes.c_uint(8)) == 7


def test_empty_slots_are_not_found(show: Show) -> None:
    """Slots without an instance are error 6, and one beyond the last is error 2."""

    codes = [code_of(mig, slot) for slot in range(8)]

    assert codes == [0, 0, 6, 6, 6, 6, 6, 2]


def test_handles_of_the_wrong_kind_are_not_supported(show: Show) -> None:
    """What speaks of parts is refused on a GPU, and the reverse."""

    assert code_of(pynvml.nvmlDeviceGetGpuInstanceId, device(1)) == 3
    assert code_of(pynvml.nvmlDeviceGetMinorNumber, mig()) == 3
    assert code_of(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, device(0), 0) == 3
    assert pynvml.nvmlDeviceIsMigDeviceHandle(mig()).value == 1


def test_instances_have_ids_placements_and_profiles(show: Show) -> None:
    """Ids are not 0…n, and the profile is the id that placements are asked by."""

    part = mig()
    gi = pynvml.nvmlDeviceGetGpuInstanceId(part)
    instance = pynvml.nvmlDeviceGetGpuInstanceById(device(1), gi)
    info = pynvml.nvmlGpuInstanceGetInfo(instance)
    compute = pynvml.nvmlComputeInstanceGetInfo(
        pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)
    )

    assert (gi, info.profileId, info.placement.start, info.placement.size) == (7, 9, 4, 4)
    assert (compute.id, compute.placement.start, compute.placement.size) == (0, 0, 3)
    assert pynvml.nvmlDeviceGetAttributes(part).memorySizeMB == 20096
    assert pynvml.nvmlDeviceGetName(part).endswith("MIG 3g.20gb")


def test_instances_are_for_root_alone(show: Show) -> None:
    """Without the right the ids are told and the placements are not."""

    assert PARTED.mig is not None
    without = attrs.evolve(PARTED, mig=attrs.evolve(PARTED.mig, rights=False))
    show(cards(FULL, without))

    assert code_of(pynvml.nvmlDeviceGetGpuInstanceById, device(1), 7) == 4
    assert code_of(pynvml.nvmlDeviceGetGpuInstanceId, mig()) == 0


def test_profiles_have_ids_of_their_own(show: Show) -> None:
    """The enum 0 is the profile 19, whose placements are asked by 19; unknown enums are refused."""

    info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(device(1), 0)
    count = ctypes.c_uint(2)
    places = (pynvml.c_nvmlGpuInstancePlacement_t * 2)()

    assert (info.id, info.name, info.instanceCount) == (19, "MIG 1g.5gb", 7)
    ask = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    assert code_of(ask, device(1), 19, places, ctypes.byref(count)) == 7
    assert code_of(ask, device(1), 9, places, ctypes.byref(count)) == 0
    assert [(place.start, place.size) for place in places] == [(0, 4), (4, 4)]
    assert code_of(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, device(1), 5) == 3
    assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(device(1), 9) == 1


def test_mig_handle_is_used_again_for_the_next_instance(show: Show) -> None:
    """A handle that outlived its instance speaks of the one that took its slot."""

    kept = mig()
    before = pynvml.nvmlDeviceGetUUID(kept)
    assert PARTED.mig is not None
    other = attrs.evolve(PARTED.mig.parts[1], slot=0)
    show(cards(FULL, attrs.evolve(PARTED, mig=attrs.evolve(PARTED.mig, parts=(other,)))))

    assert before != pynvml.nvmlDeviceGetUUID(kept) == other.uuid


def test_fields_fail_one_by_one(show: Show) -> None:
    """The call goes well as a whole, and each item has its own result."""

    fields = {230: Field(value=1), 145: Field(result=999)}
    show(cards(attrs.evolve(FULL, fields=fields)))
    values = pynvml.nvmlDeviceGetFieldValues(device(), [230, 145, 307])

    assert [(one.nvmlReturn, one.value.uiVal) for one in values] == [(0, 1), (999, 0), (3, 0)]


def test_lost_gpu_fails_what_looks_at_all(show: Show) -> None:
    """Its own calls and its handle fail, the others' do not, but a search by UUID does."""

    show(cards(attrs.evolve(FULL, error=15), PARTED))

    assert pynvml.nvmlDeviceGetCount() == 2
    assert [code_of(device, index) for index in (0, 1, 2)] == [15, 0, 2]
    assert code_of(pynvml.nvmlDeviceGetHandleByUUID, PARTED.uuid) == 15
    assert code_of(pynvml.nvmlDeviceGetHandleByPciBusId, PARTED.address) == 0


def test_absent_gpu_is_not_listed(show: Show) -> None:
    """The next one has its index, and a handle from before answers that it is lost."""

    kept = device(0)
    show(cards(attrs.evolve(FULL, absent=True), PARTED))

    assert pynvml.nvmlDeviceGetCount() == 1
    assert pynvml.nvmlDeviceGetUUID(device(0)) == PARTED.uuid
    assert pynvml.nvmlDeviceGetIndex(device(0)) == 0
    assert code_of(pynvml.nvmlDeviceGetUUID, kept) == 15


def test_one_call_may_fail_alone(show: Show) -> None:
    """A fault of one symbol leaves all others as they are."""

    show(cards(attrs.evolve(FULL, faults=(CallFault(call="nvmlDeviceGetName", result=999),))))

    assert code_of(pynvml.nvmlDeviceGetName, device()) == 999
    assert code_of(pynvml.nvmlDeviceGetUUID, device()) == 0


def test_unsupported_bit_refuses_all_events(show: Show) -> None:
    """So does a MIG handle."""

    show(cards(attrs.evolve(FULL, supported_events=8), PARTED))
    events = pynvml.nvmlEventSetCreate()

    assert code_of(pynvml.nvmlDeviceRegisterEvents, device(), 9, events) == 3
    assert code_of(pynvml.nvmlDeviceRegisterEvents, device(), 8, events) == 0
    assert code_of(pynvml.nvmlDeviceRegisterEvents, mig(), 8, events) == 3
    pynvml.nvmlEventSetFree(events)
    assert code_of(pynvml.nvmlEventSetWait, events, 0) == 2


def test_events_come_once_and_in_order(show: Show) -> None:
    """What lay there at registration is lost; what comes later is given once."""

    first = Event(sequence=1, type=8, data=79)
    show(cards(attrs.evolve(FULL, events=(first,))))
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(device(), 8, events)
    later = (first, Event(sequence=2, type=8, data=31, gi=7, ci=0), Event(sequence=3, type=8))
    show(cards(attrs.evolve(FULL, events=later)))
    seen = [pynvml.nvmlEventSetWait(events, 1000) for _ in range(2)]

    assert [(one.eventData, one.gpuInstanceId) for one in seen] == [(31, 7), (0, 0xFFFFFFFF)]
    assert pynvml.nvmlDeviceGetUUID(seen[0].device) == FULL.uuid
    assert code_of(pynvml.nvmlEventSetWait, events, 10) == 10


def test_wait_with_a_lost_gpu_names_none(show: Show) -> None:
    """Every wait of the set is error 15 from then on."""

    events = pynvml.nvmlEventSetCreate()
    for index in (0, 1):
        pynvml.nvmlDeviceRegisterEvents(device(index), 8, events)
    show(cards(attrs.evolve(FULL, error=15), PARTED))

    assert [code_of(pynvml.nvmlEventSetWait, events, 1000) for _ in range(2)] == [15, 15]


def test_storm_ends_waits_at_once(show: Show) -> None:
    """The early TIMEOUTs of some drivers."""

    show(attrs.evolve(cards(FULL), storm=True))
    events = pynvml.nvmlEventSetCreate()

    assert code_of(pynvml.nvmlEventSetWait, events, 600_000) == 10


def test_hang_takes_its_time_and_is_counted(show: Show, tmp_path: Path) -> None:
    """Calls are counted for each GPU, with how many were inside at once."""

    show(cards(attrs.evolve(FULL, hang_ms=20), PARTED))
    kept = device()
    pynvml.nvmlDeviceGetUUID(kept)
    pynvml.nvmlDeviceGetUUID(device(1))
    counts = read_counts(tmp_path / "world")

    assert (counts[FULL.address].open, counts[FULL.address].most) == (0, 1)
    assert counts[FULL.address].calls >= 2
    assert counts["library"].calls > 0


def test_links_and_neighbours_are_told(show: Show) -> None:
    """An NVLink has a state and, when it is up, the address of its other end."""

    show(cards(attrs.evolve(FULL, links={3: PARTED.address, 5: ""}), PARTED))

    assert pynvml.nvmlDeviceGetNvLinkState(device(), 3) == 1
    assert pynvml.nvmlDeviceGetNvLinkRemotePciInfo(device(), 3).busId == "00000000:AF:00.0"
    assert pynvml.nvmlDeviceGetNvLinkState(device(), 5) == 0
    assert code_of(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, device(), 5) == 3
    assert code_of(pynvml.nvmlDeviceGetNvLinkState, device(), 4) == 3
    assert code_of(pynvml.nvmlDeviceGetNvLinkState, device(), 18) == 2
    assert pynvml.nvmlDeviceGetTopologyCommonAncestor(device(0), device(1)) == 30
