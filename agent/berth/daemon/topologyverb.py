"""What the operator's command may ask of the node's topology, put together when it asks.

Source: daemon.md §2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import attrs
import trio

from berth.control import Event, Verb
from berth.daemon.parts import Parts
from berth.errors import ConfigError, HostError
from berth.host.hardware import PciFunction
from berth.host.numanodes import read_numa_nodes
from berth.host.sysfs import Sysfs
from berth.model.numa import NumaNode
from berth.model.provision import PodProvision
from berth.node.views import Layout, addresses, topology_view


class Asks(Protocol):
    """Kubelet's PodResources."""

    async def provisions(self) -> tuple[PodProvision, ...]:
        """What all active pods have."""
        ...


class TopologyVerb:
    """Answers ``topology``.

    Args:
        kubelet: Who knows what pods have.
    """

    def __init__(self, parts: Parts, *, kubelet: Asks) -> None:
        self._parts = parts
        self._kubelet = kubelet

    def verbs(self) -> Mapping[str, Verb]:
        """What may be asked."""
        return {"topology": self._topology}

    async def _topology(self, request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        """Tell of the node, and of all pods or the one that is asked about.

        Raises:
            ConfigError: The request is odd, or there is no such pod.
            HostError: Kubelet does not say what that pod has.
        """
        pod = request.get("pod", "")
        if not isinstance(pod, str):
            raise ConfigError("POD", f"is {pod!r}", rule="it is a name, or namespace/name")
        layout = await self._layout(must_know=bool(pod))
        numa, functions = await trio.to_thread.run_sync(
            _look, addresses(layout.inventory, layout.pods)
        )
        return topology_view(attrs.evolve(layout, numa=numa, functions=functions), pod)

    async def _layout(self, *, must_know: bool) -> Layout:
        """What is known without a look at the machine; what kubelet does not say is a warning."""
        pods: tuple[PodProvision, ...] = ()
        warnings = []
        try:
            pods = await self._kubelet.provisions()
        except HostError as error:
            if must_know:
                raise
            warnings.append(f"nobody says what containers have: {error}")
        publisher = self._parts.publisher.get()
        return Layout(
            node=publisher.choice.name if publisher is not None else "",
            driver=self._parts.config.dra.driver,
            inventory=self._parts.held.discovery.inventory.get(),
            pods=pods,
            warnings=tuple(warnings),
        )


def _look(wanted: Collection[str]) -> tuple[tuple[NumaNode, ...], Mapping[str, PciFunction]]:
    """The machine's NUMA nodes, and those PCI functions that are there; blocks."""
    sysfs = Sysfs()
    found = {address: sysfs.function(address) for address in wanted}
    return read_numa_nodes(), {key: one for key, one in found.items() if one is not None}
