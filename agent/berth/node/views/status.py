"""The answer to ``status``: how the daemon fares, part by part, and what is wrong.

The parts above this layer come in by protocols that name what is read of them: what the NRI plugin,
the publisher and the choice of the node's name tell of themselves fits as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs

from berth.features.states import FeatureStates
from berth.kube.api import Identity
from berth.model.inventory import Inventory
from berth.node.holders.nicholders import NicHolder, nics_of
from berth.node.records.given import Given
from berth.node.records.record import ClaimRecord
from berth.node.views.devices import nics_summary, peripherals_summary
from berth.node.views.features import features_view
from berth.node.views.holds import claim_state
from berth.runtime.supervisor import Phase, SupervisorStatistics

PUBLISHED = "published"
"""The publisher's word when all is as it should be."""


class NriState(Protocol):
    """What the NRI plugin tells of itself."""

    @property
    def synchronized(self) -> bool:
        """Whether every pod that starts from now on is told."""

    @property
    def runtime(self) -> object | None:
        """Who is on the other side, or was last."""

    @property
    def reason(self) -> str:
        """Why the plugin is not in place; empty when it is."""


class Pool(Protocol):
    """One pool as it stands on the API server."""

    @property
    def generation(self) -> int:
        """Of all its slices."""

    @property
    def slices(self) -> int:
        """How many there are."""

    @property
    def devices(self) -> int:
        """How many are in them."""


class Publication(Protocol):
    """What the publisher of slices tells of itself."""

    @property
    def state(self) -> str:
        """One phrase; `PUBLISHED` when all is as it should be."""

    @property
    def node(self) -> str:
        """The Node object that is published for; empty while there is none."""

    @property
    def pools(self) -> Mapping[str, Pool]:
        """What stands on the server."""

    @property
    def refused(self) -> Sequence[str]:
        """Devices that the server does not take."""

    @property
    def features(self) -> FeatureStates:
        """How far the cluster has each feature."""


class NodeName(Protocol):
    """How the node's name was found."""

    @property
    def name(self) -> str:
        """Empty when nothing may be published."""

    @property
    def source(self) -> str:
        """Where it comes from, as words in a sentence."""

    @property
    def conflict(self) -> str:
        """Why there is no name; empty when there is one."""


@attrs.frozen(kw_only=True)
class Kubelet:
    """What kubelet last said.

    Attributes:
        state: One phrase: ``registered``, or why not and what is waited for.
    """

    registered: bool
    state: str


@attrs.frozen(kw_only=True)
class ResourceState:
    """How one extended resource fares.

    Attributes:
        units: Ids that are listed.
        healthy: How many of them a new pod may get.
        registered: Whether kubelet took it.
        reason: Why not; empty when it did.
        rivals: Sockets of other plugins that may have taken its name.
    """

    name: str
    units: int
    healthy: int
    registered: bool
    reason: str = ""
    rivals: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class GpuSession:
    """The session with the GPUs' driver.

    Attributes:
        state: Such as ``up``, ``driver-absent``, ``released``.
        functions: How many GPUs the PCI bus has.
    """

    state: str
    detail: str = ""
    driver: str = ""
    functions: int = 0


@attrs.frozen(kw_only=True)
class Status:
    """Everything that is told; a part that is switched off, or not there yet, is ``None``.

    Attributes:
        config: The file in force.
        uptime_s: Since the daemon started.
        warnings: What the configuration in force is worth a word for.
    """

    version: str
    pid: int
    uptime_s: float
    config: Path
    state_dir: Path
    driver: str
    plugins: SupervisorStatistics
    inventory: Inventory
    records: Sequence[ClaimRecord]
    given: Sequence[Given] = ()
    node: NodeName | None = None
    nri: NriState | None = None
    nri_socket: Path | None = None
    kubelet: Kubelet | None = None
    api: Identity | None = None
    publication: Publication | None = None
    resources: Sequence[ResourceState] = ()
    gpu: GpuSession | None = None
    warnings: Sequence[str] = ()


def status_view(status: Status) -> dict[str, Any]:
    """How the daemon fares; ``troubles`` is empty when all is well."""
    troubles = list(_troubles(status))
    return {
        "well": not troubles,
        "troubles": troubles,
        "version": status.version,
        "pid": status.pid,
        "uptime_s": round(status.uptime_s),
        "config": str(status.config),
        "state_dir": str(status.state_dir),
        "driver": status.driver,
        "node": _node(status.node),
        "plugins": _plugins(status.plugins),
        "nri": _nri(status.nri, status.nri_socket),
        "kubelet": attrs.asdict(status.kubelet) if status.kubelet else None,
        "api": attrs.asdict(status.api) if status.api else None,
        "publication": _publication(status.publication),
        "features": features_view(status.publication.features) if status.publication else [],
        "gpu": attrs.asdict(status.gpu) if status.gpu else None,
        "resources": [attrs.asdict(resource) for resource in status.resources],
        "nics": nics_summary(status.inventory),
        "peripherals": peripherals_summary(status.inventory),
        "claims": _claims(status.records, status.given),
        "warnings": [*status.warnings, *status.inventory.warnings],
    }


def _troubles(status: Status) -> Iterator[str]:
    if status.node is not None and status.node.conflict:
        yield status.node.conflict
    for plugin in status.plugins.plugins:
        if plugin.phase is not Phase.SERVING:
            yield f"plugin {plugin}"
    yield from connection_troubles(status.nri, status.publication, status.api)
    if status.kubelet is not None and not status.kubelet.registered:
        yield f"kubelet: {status.kubelet.state}"
    if status.gpu is not None and status.gpu.functions and status.gpu.state != "up":
        yield f"GPUs: the session with the driver is {status.gpu.state}: {status.gpu.detail}"
    for resource in status.resources:
        if not resource.registered:
            yield f"resource {resource.name}: not registered with kubelet: {resource.reason}"
        if resource.rivals:
            rivals = ", ".join(resource.rivals)
            yield f"resource {resource.name}: another plugin may serve it: {rivals}"
    yield from _nic_troubles((*status.records, *status.given))


def connection_troubles(
    nri: NriState | None, publication: Publication | None, api: Identity | None
) -> Iterator[str]:
    """What keeps every free NIC of the node from being given to a pod."""
    if api is not None and not api.server:
        yield f"API server: not connected, so nothing is published: {api.source}"
    if nri is not None and not nri.synchronized:
        yield f"NRI is not connected, so no NIC that berth moves is offered: {nri.reason}"
    if publication is not None and publication.state != PUBLISHED:
        yield f"slices: {publication.state}"
    if publication is not None and publication.refused:
        yield f"slices: the API server does not take {', '.join(publication.refused)}"


def _nic_troubles(records: Iterable[NicHolder]) -> Iterator[str]:
    for record in records:
        whose = f"claim {record.claim}" if isinstance(record, ClaimRecord) else str(record.holder)
        yield from (f"{name} of {whose}: {fault}" for name, fault in _faults(record) if fault)


def _faults(record: NicHolder) -> Iterator[tuple[str, str]]:
    if isinstance(record, ClaimRecord):
        yield from ((device.result.device, device.fault) for device in record.devices)
    else:
        yield from ((nic.device, nic.fault) for _, nic in nics_of(record))


def _node(node: NodeName | None) -> dict[str, str] | None:
    if node is None:
        return None
    return {"name": node.name, "source": node.source, "conflict": node.conflict}


def _plugins(plugins: SupervisorStatistics) -> list[dict[str, Any]]:
    return [{**attrs.asdict(plugin), "phase": plugin.phase.value} for plugin in plugins.plugins]


def _nri(nri: NriState | None, socket: Path | None) -> dict[str, Any] | None:
    if nri is None:
        return None
    return {
        "synchronized": nri.synchronized,
        "runtime": str(nri.runtime or ""),
        "reason": nri.reason,
        "socket": str(socket or ""),
    }


def _publication(publication: Publication | None) -> dict[str, Any] | None:
    if publication is None:
        return None
    return {
        "state": publication.state,
        "node": publication.node,
        "pools": {name: _pool(pool) for name, pool in sorted(publication.pools.items())},
        "refused": list(publication.refused),
    }


def _pool(pool: Pool) -> dict[str, int]:
    return {"generation": pool.generation, "slices": pool.slices, "devices": pool.devices}


def _claims(records: Sequence[ClaimRecord], given: Sequence[Given]) -> dict[str, int]:
    """How many claims there are, by their state, and NICs of whoever has them."""
    holders: tuple[NicHolder, ...] = (*records, *given)
    nics = [nic for holder in holders for _, nic in nics_of(holder)]
    states = [claim_state(record) for record in records]
    return {
        **{state: states.count(state) for state in ("preparing", "prepared", "undoing")},
        "nics_away": sum(nic.is_away for nic in nics),
        "nics_at_fault": sum(bool(nic.fault) for nic in nics),
    }
