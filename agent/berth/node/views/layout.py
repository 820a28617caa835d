"""What is known of where things are: kubelet's lists, our inventory and the machine together.

A machine with one NUMA node has nothing anywhere else, so there everything is on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

import attrs

from berth.host.hardware import PciFunction
from berth.model.inventory import Inventory
from berth.model.names import is_pci_address
from berth.model.numa import NumaNode
from berth.model.provision import PodProvision

_STANDARD: Final = "resource.kubernetes.io"


@attrs.frozen(kw_only=True)
class Place:
    """Where a device is, as far as anybody says."""

    pci: str = ""
    numa: tuple[int, ...] = ()
    root: str = ""


@attrs.frozen(kw_only=True, slots=False)
class Layout:
    """What the answer is made of.

    Attributes:
        node: Name of the Node object; empty when it is not known.
        driver: Our driver's name.
        numa: The machine's NUMA nodes.
        functions: PCI functions by address: those of `addresses`, where they are there.
        pods: What kubelet says; empty when it says nothing.
        warnings: What keeps the answer from being whole.
    """

    node: str
    driver: str
    inventory: Inventory
    numa: tuple[NumaNode, ...] = ()
    functions: Mapping[str, PciFunction] = attrs.field(factory=dict)
    pods: tuple[PodProvision, ...] = ()
    warnings: tuple[str, ...] = ()

    @cached_property
    def device_by_unit(self) -> Mapping[tuple[str, str], str]:
        """Slice names of devices, by resource and id."""
        return {
            (one.resource, id_): one.name for one in self.inventory.pluggable for id_ in one.ids
        }

    def place_of(self, name: str) -> Place:
        """Where a device of ours is: by the machine, else as its slice says."""
        peripheral = self.inventory.peripheral_by_name.get(name)
        nic = self.inventory.nic_by_name.get(name)
        if peripheral is not None:
            pci = str(peripheral.attributes.get(f"{_STANDARD}/pciBusID", ""))
            return self._settled(Place(pci=pci, numa=peripheral.numa, root=peripheral.pcie_root))
        if nic is not None and nic.pci in self.functions:
            return self.place_at(nic.pci)
        published = self.inventory.device_by_name.get(name)
        told = published.attributes if published is not None else {}
        numa = told.get(f"{_STANDARD}/numaNode")
        return self._settled(
            Place(
                pci=nic.pci if nic is not None else "",
                # Devices of one kind carry the same keys: a place that is not known is -1.
                numa=(numa,) if isinstance(numa, int) and numa >= 0 else (),
                root=str(told.get(f"{_STANDARD}/pcieRoot", "")),
            )
        )

    def place_at(self, address: str, *, numa: tuple[int, ...] = ()) -> Place:
        """Where a PCI function is.

        Args:
            address: That is none for what is no function.
            numa: What its plugin says, for when the machine says nothing.
        """
        function = self.functions.get(address)
        if function is None:
            return self._settled(Place(numa=numa))
        known = (function.numa_node,) if function.numa_node is not None else numa
        return self._settled(Place(pci=address, numa=known, root=function.pcie_root))

    def _settled(self, place: Place) -> Place:
        if place.numa or len(self.numa) != 1:
            return place
        return attrs.evolve(place, numa=(self.numa[0].id,))


def addresses(inventory: Inventory, pods: Iterable[PodProvision]) -> frozenset[str]:
    """PCI functions whose place is asked for: our NICs', and what other plugins call by address."""
    ids = (
        id_
        for pod in pods
        for container in pod.containers
        for block in container.units
        for id_ in block.ids
    )
    return frozenset(
        {nic.pci for nic in inventory.nics if nic.pci} | {id_ for id_ in ids if is_pci_address(id_)}
    )
