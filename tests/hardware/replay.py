"""What the driver said, as a world of the stand-in: a machine's GPUs on a machine without.

The stand-in shows what a world can say: the levels of common ancestors are kept as far as two of
them go, and a call that failed for one argument alone is a thing that is not there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from berth.host.nvml.words import pci_address
from berth.model.gpu import Engines, Placement
from berth.rehearsal.nvml.world import (
    CallFault,
    Card,
    Field,
    Instance,
    Mig,
    Part,
    Profile,
    World,
)
from tests.hardware.nvmltrace import Call

_SYMBOLS: Final = {
    "nvmlDeviceGetComputeRunningProcesses": "nvmlDeviceGetComputeRunningProcesses_v3",
}
"""Symbols of the library where pynvml's name is another."""

_TOLD_OTHERWISE: Final = frozenset(
    {
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetAttributes",
    }
)
"""Calls whose refusal follows from the world itself."""

_SAME_NODE: Final = 40
"""Greatest level of a common ancestor of two GPUs at one NUMA node (NVML_TOPOLOGY_NODE)."""


class _Answers:
    """What was said of one GPU or part."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self.calls = tuple(calls)
        self._by_key = {(call.symbol, call.arguments): call for call in self.calls}

    def value(self, symbol: str, *arguments: int | str, default: Any = None) -> Any:
        """Give what a call gave."""
        call = self._by_key.get((f"nvmlDeviceGet{symbol}", arguments))
        return default if call is None or call.error else call.value

    def all(self, symbol: str) -> tuple[Call, ...]:
        """Give the calls of one symbol that went well."""
        return tuple(call for call in self.calls if call.symbol == symbol and not call.error)

    def faults(self) -> tuple[CallFault, ...]:
        """Give the calls that were refused, of those that have no arguments."""
        return tuple(
            CallFault(call=_SYMBOLS.get(call.symbol, call.symbol), result=call.error)
            for call in self.calls
            if call.error and not call.arguments and call.symbol not in _TOLD_OTHERWISE
        )


def world_of(calls: Iterable[Call]) -> World:
    """Give a world that answers as was answered."""
    of: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        of[call.of].append(call)
    library = {call.symbol: call.value for call in of[""]}
    infos = [call.value for call in of[""] if call.symbol == "nvmlDeviceGetPciInfo" and call.value]
    nodes = _nodes(of)
    return World(
        driver=library.get("nvmlSystemGetDriverVersion") or "",
        nvml=library.get("nvmlSystemGetNVMLVersion") or "",
        cuda=library.get("nvmlSystemGetCudaDriverVersion_v2") or 0,
        cards=tuple(_card(info, of, nodes) for info in infos),
    )


def _nodes(of: Mapping[str, Iterable[Call]]) -> Mapping[str, int]:
    """A NUMA node for each GPU, the same for those that are said to be at one."""
    nodes: dict[str, int] = {}
    for address in sorted(of):
        nodes.setdefault(address, len(nodes))
        for call in of[address]:
            if call.symbol == "nvmlDeviceGetTopologyCommonAncestor" and not call.error:
                (other,) = call.arguments
                if call.value <= _SAME_NODE:
                    nodes[str(other)] = nodes[address]
    return nodes


def _card(
    info: Mapping[str, Any], of: Mapping[str, Iterable[Call]], nodes: Mapping[str, int]
) -> Card:
    address = pci_address(info["busId"])
    told = _Answers(of.get(address, ()))
    engines = told.value("Attributes")
    capability = told.value("CudaComputeCapability", default=(0, 0))
    return Card(
        address=address,
        uuid=told.value("UUID", default="GPU-untold"),
        minor=told.value("MinorNumber", default=0),
        name=told.value("Name", default="untold"),
        device_id=info["pciDeviceId"],
        subsystem=info["pciSubSystemId"],
        brand=told.value("Brand", default=0),
        architecture=told.value("Architecture", default=0),
        capability=(capability[0], capability[1]),
        memory_bytes=told.value("MemoryInfo", default={"total": 0})["total"],
        addressing=told.value("AddressingMode", default=0),
        virtualization=told.value("VirtualizationMode", default=0),
        persistence=told.value("PersistenceMode", default=0),
        compute_mode=told.value("ComputeMode", default=0),
        numa=nodes[address],
        supported_events=told.value("SupportedEventTypes", default=0),
        engines=None if engines is None else _attributes(engines),
        mig=_mig(told, address, of),
        fields=_fields(told),
        faults=told.faults(),
        links=_links(told),
    )


def _fields(told: _Answers) -> Mapping[int, Field]:
    answers = {int(call.arguments[0]): call.value for call in told.all("nvmlDeviceGetFieldValues")}
    return {number: Field(result=found[0], value=found[1]) for number, found in answers.items()}


def _links(told: _Answers) -> Mapping[int, str]:
    remotes = {
        call.arguments[0]: pci_address(call.value["busId"])
        for call in told.all("nvmlDeviceGetNvLinkRemotePciInfo")
    }
    states = told.all("nvmlDeviceGetNvLinkState")
    return {int(call.arguments[0]): remotes.get(call.arguments[0], "") for call in states}


def _mig(told: _Answers, address: str, of: Mapping[str, Iterable[Call]]) -> Mig | None:
    modes = told.value("MigMode")
    if modes is None:
        return None
    parts = {
        slot: _Answers(of[f"{address}/{slot}"])
        for slot in range(told.value("MaxMigDeviceCount", default=0))
        if f"{address}/{slot}" in of
    }
    refused = any(
        call.error == 4
        for part in parts.values()
        for call in part.calls
        if call.symbol == "nvmlDeviceGetGpuInstanceById"
    )
    return Mig(
        current=bool(modes[0]),
        pending=bool(modes[1]),
        slots=told.value("MaxMigDeviceCount", default=0),
        rights=not refused,
        profiles=tuple(
            _profile(int(call.arguments[0]), call.value, told)
            for call in told.all("nvmlDeviceGetGpuInstanceProfileInfo")
        ),
        instances=_instances(parts.values()),
        parts=tuple(_part(slot, part) for slot, part in parts.items()),
    )


def _profile(number: int, info: Mapping[str, Any], told: _Answers) -> Profile:
    places = told.value("GpuInstancePossiblePlacements", info["id"], "filled", default=())
    return Profile(
        number=number,
        id=info["id"],
        name=info["name"],
        slices=info["sliceCount"],
        instances=info["instanceCount"],
        engines=_engines(info, ""),
        placements=tuple(Placement(start=start, size=size) for start, size in places),
    )


def _instances(parts: Iterable[_Answers]) -> tuple[Instance, ...]:
    infos = [call.value for part in parts for call in part.all("nvmlGpuInstanceGetInfo")]
    found = {
        info["id"]: Instance(id=info["id"], profile=info["profile"], placement=_place(info))
        for info in infos
    }
    return tuple(found.values())


def _part(slot: int, told: _Answers) -> Part:
    computes = told.all("nvmlComputeInstanceGetInfo")
    info: Mapping[str, Any] = computes[0].value if computes else {"profile": 0, "place": [0, 1]}
    return Part(
        slot=slot,
        gi=told.value("GpuInstanceId", default=0),
        id=told.value("ComputeInstanceId", default=0),
        uuid=told.value("UUID", default="MIG-untold"),
        name=told.value("Name", default="untold"),
        engines=_attributes(told.value("Attributes")),
        profile=info["profile"],
        placement=_place(info),
    )


def _place(info: Mapping[str, Any]) -> Placement:
    return Placement(start=info["place"][0], size=info["place"][1])


def _attributes(info: Mapping[str, Any] | None) -> Engines:
    return _engines(info or defaultdict(int), "shared")


def _engines(info: Mapping[str, Any], prefix: str) -> Engines:
    def count(name: str) -> int:
        return int(info[f"{prefix}{name}Count" if prefix else f"{name[0].lower()}{name[1:]}Count"])

    return Engines(
        multiprocessors=info["multiprocessorCount"],
        copy_engines=count("CopyEngine"),
        decoders=count("Decoder"),
        encoders=count("Encoder"),
        jpeg_engines=count("Jpeg"),
        ofa_engines=count("Ofa"),
        memory_mib=info["memorySizeMB"],
    )
