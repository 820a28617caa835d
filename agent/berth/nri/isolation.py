"""What a pod that runs in a virtual machine of its own can have.

Its runtime (Kata Containers and the like) makes the machine together with the sandbox, and gives it
what it can hand through: functions that vfio-pci has, and block devices. An interface that is moved
into the sandbox's namespace afterwards stays outside, and so does what a container reaches by any
other device node of the host. So such a pod is refused rather than started without its device.

A NIC that a CNI plugin moves is left to that: it comes before the machine is made.

Source: network.md §4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from berth.errors import ClaimError
from berth.model.edits import DeviceNode, NodeType
from berth.model.pod import Sandbox
from berth.nic.record import Stage
from berth.node.holders.nicholders import NicHolder
from berth.node.records.record import HeldDevice

_THROUGH: Final = ("/dev/vfio/", "/dev/iommu", "/dev/infiniband/")
# Character devices that a runtime is expected to know what to do with.


class Isolation:
    """Knows which pods run in machines of their own.

    Args:
        handlers: Gives the runtime handlers, as the runtime calls them.
    """

    def __init__(self, handlers: Callable[[], Collection[str]]) -> None:
        self._handlers = handlers

    def require_reach(self, sandbox: Sandbox, holders: Iterable[NicHolder]) -> None:
        """Refuse a pod in a machine that cannot be given what the pod has.

        Raises:
            ClaimError: It cannot; every such device is named.
        """
        if sandbox.runtime_handler not in self._handlers():
            return
        outside = sorted({name for one in holders for name in _outside(one)})
        if outside:
            raise ClaimError(
                f"pod {sandbox}",
                f"runs in a virtual machine (runtime handler {sandbox.runtime_handler}), into which"
                f" {', '.join(outside)} cannot be brought",
                rule="it takes functions that vfio-pci has, and block devices",
                mend="ask for a device of that form, or use a runtime class without a machine",
            )


def _outside(holder: NicHolder) -> Iterator[str]:
    """Slice names of devices that would stay outside."""
    for device in holder.devices:
        nic = device.nic
        if nic is not None and nic.stage is Stage.LENT:
            continue
        if isinstance(device, HeldDevice):
            name, edits = device.result.device, device.edits
        else:
            name, edits = device.peripheral.name, device.peripheral.edits
        # Beside a function there may be nodes that help with it, such as the host's packet queue.
        if nic is not None or (edits.nodes and not any(map(_goes_through, edits.nodes))):
            yield name


def _goes_through(node: DeviceNode) -> bool:
    return node.type is NodeType.BLOCK or node.host_path.startswith(_THROUGH)
