"""What kubelet's device plugin interface gave to one container, as it is kept on disk.

Kubelet keeps such an answer over its own restarts and over reboots and does not ask again; so what
was given stands until kubelet's lists show that nobody has it any more.

A NIC that was given is remembered as a claim's is: how it was at home, and where it is.

Source: gpu-and-health.md §5.2 to §5.4; network.md §9.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from berth.model.peripheral import Peripheral
from berth.nic.record import NicRecord, Stage
from berth.node.ledger import Hold, PluginHolder


@attrs.frozen(kw_only=True)
class GivenDevice:
    """One id that was given, and what stands behind it.

    Attributes:
        peripheral: As it was when it was given.
        nic: What is done to a NIC; ``None`` for what is no NIC, or has no link that is moved.
    """

    id: str
    peripheral: Peripheral
    nic: NicRecord | None = None

    @property
    def share(self) -> str | None:
        """The id if the device has others beside it, ``None`` if it is given alone."""
        return self.id if self.peripheral.slots > 1 else None

    @property
    def is_told(self) -> bool:
        """Its NIC is in a pod; of one that was asked for as a resource containers read no more."""
        return self.nic is not None and self.nic.stage is Stage.ATTACHED


@attrs.frozen(kw_only=True)
class Given:
    """One answer of the device plugin.

    Attributes:
        boot_id: The boot in which it was given.
        bound: Whether kubelet's lists have shown it since, so that its container is known.
        prepared: Everything was done and kubelet was, or may have been, told so.
        revoked: Nobody has it any more; what is left is to bring NICs home.
        pod_uid: The pod whose sandbox its NICs go into; empty before one asked for them.
        ran: The runtime has told of a container with it, in this boot; so it would tell of its end.
    """

    holder: PluginHolder
    devices: tuple[GivenDevice, ...]
    boot_id: str
    bound: bool = False
    prepared: bool = True
    revoked: bool = False
    pod_uid: str = ""
    ran: bool = False

    @property
    def uid(self) -> str:
        """Our own name for it."""
        return self.holder.uid

    @property
    def nics(self) -> tuple[NicRecord | None, ...]:
        """What is done to the NIC of each device; ``None`` for one without."""
        return tuple(device.nic for device in self.devices)

    @property
    def links(self) -> tuple[NicRecord | None, ...]:
        """The same: the device plugin binds no function, so no link goes with its driver."""
        return self.nics

    @property
    def told_as(self) -> Mapping[str, object]:
        """Who it is, for the log."""
        return {"holder": self.holder}

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

    @property
    def has_nics(self) -> bool:
        """Whether berth brings any of its devices into a pod."""
        return any(d.nic is not None and d.nic.stage is not Stage.LENT for d in self.devices)

    @property
    def is_home(self) -> bool:
        """Nothing that was done to any of its NICs is left to be undone."""
        return not any(d.nic is not None and d.nic.is_touched for d in self.devices)

    def serves_pod(self, pod_uid: str) -> bool:
        """Whether its NICs are for the pod; what waits for its pod is for none of an empty UID."""
        return bool(pod_uid) and self.pod_uid == pod_uid

    def with_nic(self, index: int, nic: NicRecord) -> Given:
        """It with another state of the NIC at ``index`` of `devices`.

        A virtual link that has another index now is another key in the ledger too.
        """
        device = self.devices[index]
        listing = device.peripheral
        if nic.identity != listing.identity:
            listing = attrs.evolve(listing, identity=nic.identity, keys=(nic.identity,))
        changed = attrs.evolve(device, nic=nic, peripheral=listing)
        return attrs.evolve(
            self, devices=(*self.devices[:index], changed, *self.devices[index + 1 :])
        )

    def with_originals(self, index: int, nic: NicRecord) -> Given:
        """It with how a link was at home."""
        return self.with_nic(index, nic)

    def after_reboot(self, boot_id: str) -> Given:
        """What still holds in another boot: kubelet keeps its books, numbers are dealt anew."""
        devices = tuple(
            attrs.evolve(device, peripheral=device.peripheral.after_reboot())
            for device in self.devices
        )
        return attrs.evolve(self, devices=devices, boot_id=boot_id, ran=False)

    def without(self, ids: frozenset[str]) -> Given:
        """The rest of it when somebody else has some of its ids."""
        kept = tuple(device for device in self.devices if device.id not in ids)
        holder = attrs.evolve(self.holder, ids=tuple(device.id for device in kept))
        return attrs.evolve(self, holder=holder, devices=kept)
