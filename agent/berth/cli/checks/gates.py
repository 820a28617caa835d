"""Versions and feature gates of kubelet and of the API server, as far as they are seen.

A gate counts as its version has it unless somebody wrote otherwise: for kubelet its own settings,
for the server its figures where they may be read, and what it keeps of a slice. What it dropped of
a write is told by the running daemon.

Source: KC §9.10 (which version has which gate on).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from berth.cli.checks.kubeletsettings import gates
from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import ApiLook, Machine
from berth.config.doors import Door
from berth.features.feature import number
from berth.features.registry import FEATURES
from berth.features.states import Fate
from berth.model.device import NicMode

KUBELET: Final = "kubelet"
SERVER: Final = "API server"

OLDEST: Final = 34
"""Minor number of the first Kubernetes 1 whose claims berth speaks; it has their own gate on."""

_STAGES: Final = {feature.gate: feature.stages for feature in FEATURES}


@attrs.frozen(kw_only=True)
class Gate:
    """A feature gate that matters here.

    Attributes:
        wanted: Whether these settings need it.
        loss: What is lacking without it.
    """

    name: str
    wanted: Callable[[Machine], bool]
    loss: str
    level: Level = Level.WARNING

    @property
    def on_since(self) -> int | None:
        """Minor number of the first Kubernetes 1 that has it on; ``None``: none yet."""
        stages = _STAGES.get(self.name, {})
        open_ = (number(version)[1] for version, stage in stages.items() if stage.is_on)
        return min(open_, default=None if stages else OLDEST)


def _claims(machine: Machine) -> bool:
    return machine.config.dra.enabled


def _shares(machine: Machine) -> bool:
    nics = any(group.mode is NicMode.SHARED for group in machine.config.nic.groups)
    return _claims(machine) and (nics or any(g.share.slots > 1 for g in machine.config.gpu.groups))


def _moves(machine: Machine) -> bool:
    return _claims(machine) and any(g.door is not Door.PLUGIN for g in machine.config.nic.groups)


KUBELETS: Final = (
    Gate(
        name="DynamicResourceAllocation",
        wanted=_claims,
        loss="no claim is prepared",
        level=Level.FAULT,
    ),
    Gate(
        name="ResourceHealthStatus",
        wanted=_claims,
        loss="pods do not show in their status how their devices are",
    ),
    Gate(
        name="KubeletPodResourcesGet",
        wanted=lambda machine: any(g.door is not Door.DRA for g in machine.config.nic.groups),
        loss="NICs that were asked for as a resource are found by a list of all pods",
    ),
    Gate(
        name="PodsAPI",
        # Older ones have no say in it, and the API server is asked there.
        wanted=lambda machine: _moves(machine) and _minor(_kubelet_version(machine)) >= 37,
        loss="the API server has to tell which pods have a claim that names others or a PodGroup",
    ),
)
SERVERS: Final = (
    Gate(
        name="DynamicResourceAllocation",
        wanted=_claims,
        loss="nothing can be published",
        level=Level.FAULT,
    ),
    Gate(
        name="DRADeviceTaints",
        wanted=_claims,
        loss="new pods are kept from a sick device only by taking it out of the slices",
    ),
    Gate(
        name="DRAConsumableCapacity",
        wanted=_shares,
        loss="nothing that is shared is offered",
    ),
    Gate(
        name="DRAPartitionableDevices",
        wanted=lambda machine: any(g.vfio.rebind for g in machine.config.gpu.groups),
        loss="no GPU is offered both whole and to be bound to vfio-pci",
    ),
    Gate(
        name="DRAListTypeAttributes",
        wanted=lambda machine: machine.config.dra.lists,
        loss="[dra] lists = true has every slice refused",
        level=Level.FAULT,
    ),
)


def check_kubelet_version(machine: Machine) -> Iterator[Line]:
    """Whether kubelet is new enough to know claims."""
    version = _kubelet_version(machine)
    if not version:
        return
    if machine.config.dra.enabled and _minor(version) < OLDEST:
        text = (
            f"kubelet {version} knows no claims of resource.k8s.io/v1, which came with 1.{OLDEST}"
        )
        mend = 'take a newer one, or offer devices as resources (door = "plugin")'
        yield Line(topic=KUBELET, level=Level.FAULT, text=text, mend=mend)
    else:
        yield Line(topic=KUBELET, level=Level.OK, text=f"version {version}")


def check_gates(machine: Machine) -> Iterator[Line]:
    """Which feature gates are off that these settings need."""
    own = gates(machine)
    version = _kubelet_version(machine)
    for gate in KUBELETS:
        if not gate.wanted(machine):
            continue
        if own.states.get(gate.name) is False:
            text = f"{own.places[gate.name]} has {gate.name} off: {gate.loss}"
            mend = "take it out there, and restart kubelet"
            yield Line(topic=KUBELET, level=gate.level, text=text, mend=mend)
        elif version and gate.name not in own.states and not _on_by_default(gate, version):
            yield _default_line(KUBELET, gate, version, "in kubelet's configuration")
    yield from _server_lines(machine)


def _server_lines(machine: Machine) -> Iterator[Line]:
    look = machine.api
    if look is None or not look.version:
        return
    for gate in SERVERS:
        if not gate.wanted(machine):
            continue
        state = _server_has(gate.name, look)
        if state is False:
            text = f"its feature gate {gate.name} is off: {gate.loss}"
            mend = f"give kube-apiserver --feature-gates={gate.name}=true"
            yield Line(topic=SERVER, level=gate.level, text=text, mend=mend)
        elif state is None and not _on_by_default(gate, look.version):
            yield _default_line(SERVER, gate, look.version, "by kube-apiserver's --feature-gates")
    for text in (machine.status or {}).get("warnings") or ():
        if "feature gate" in str(text):
            yield Line(topic=SERVER, level=Level.WARNING, text=str(text))


def _server_has(gate: str, look: ApiLook) -> bool | None:
    """Whether the server's figures, or what it keeps of a slice, show a gate open."""
    told = (look.features or {}).get(gate)
    if told is not None:
        return told
    fields = (feature.proof for feature in FEATURES if feature.gate == gate)
    fates = {fate for proof in fields for name in proof if (fate := (look.fates or {}).get(name))}
    return fates == {Fate.KEPT} if fates else None


def _default_line(topic: str, gate: Gate, version: str, where: str) -> Line:
    since = f", and on since 1.{gate.on_since}" if gate.on_since else ""
    return Line(
        topic=topic,
        level=gate.level if topic == KUBELET and gate.level is Level.FAULT else Level.WARNING,
        text=f"feature gate {gate.name} is off in {version} unless somebody switched it on{since}: "
        f"without it {gate.loss}",
        mend=f"write {gate.name}: true {where}, or take a newer version"
        if gate.on_since
        else f"write {gate.name}: true {where}",
    )


def _on_by_default(gate: Gate, version: str) -> bool:
    return gate.on_since is not None and _minor(version) >= gate.on_since


def _kubelet_version(machine: Machine) -> str:
    told = machine.api.kubelet_version if machine.api is not None else ""
    found = re.search(r"v?(\d+\.\d+\.\d+\S*)", told or machine.kubelet_version)
    return found[1] if found else ""


def _minor(version: str) -> int:
    """The minor number of Kubernetes 1; what is not understood counts as new."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return int(found[2]) if found and found[1] == "1" else 10_000
