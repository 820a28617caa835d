"""What kubelet's device plugin interface gave to one container, as it is kept on disk.

Kubelet keeps such an answer over its own restarts and over reboots and does not ask again; so what
was given stands until kubelet's lists show that nobody has it any more.

Source: gpu-and-health.md §5.2 to §5.4.
"""

from __future__ import annotations

import attrs

from berth.model.peripheral import Peripheral
from berth.node.ledger import Hold, PluginHolder


@attrs.frozen(kw_only=True)
class GivenDevice:
    """One id that was given, and what stands behind it.

    Attributes:
        peripheral: As it was when it was given.
    """

    id: str
    peripheral: Peripheral

    @property
    def share(self) -> str | None:
        """The id if the device has others beside it, ``None`` if it is given alone."""
        return self.id if self.peripheral.slots > 1 else None


@attrs.frozen(kw_only=True)
class Given:
    """One answer of the device plugin.

    Attributes:
        boot_id: The boot in which it was given.
        bound: Whether kubelet's lists have shown it since, so that its container is known.
    """

    holder: PluginHolder
    devices: tuple[GivenDevice, ...]
    boot_id: str
    bound: bool = False

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The ledger's entries that it stands for."""
        return tuple(
            Hold(
                key=key,
                device=device.peripheral.name,
                holder=self.holder,
                share=device.share,
                limit=device.peripheral.slots,
            )
            for device in self.devices
            for key in device.peripheral.keys
        )

    def after_reboot(self, boot_id: str) -> Given:
        """What still holds in another boot: kubelet keeps its books, numbers are dealt anew."""
        devices = tuple(
            attrs.evolve(device, peripheral=device.peripheral.after_reboot())
            for device in self.devices
        )
        return attrs.evolve(self, devices=devices, boot_id=boot_id)

    def without(self, ids: frozenset[str]) -> Given:
        """The rest of it when somebody else has some of its ids."""
        kept = tuple(device for device in self.devices if device.id not in ids)
        holder = attrs.evolve(self.holder, ids=tuple(device.id for device in kept))
        return attrs.evolve(self, holder=holder, devices=kept)
