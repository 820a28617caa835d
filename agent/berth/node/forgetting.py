"""What an operator has the node forget: a device that is lost and that nobody holds.

A GPU that NVML has listed in this boot stays listed when it is lost, under its names and ids, so
that its holder and the scheduler are told; of device nodes their number in their group stays. That
ends by itself at a reboot, or never; this ends it sooner. What spoke against the device goes too.

Source: gpu-and-health.md §1.2, §4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from berth.errors import ConfigError, HostError
from berth.gpu.naming import gpu_identity, gpu_name
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.gpus.gpus import Gpus
from berth.node.inventory.stock import Stock
from berth.node.ledger import Ledger

_KINDS: Final = frozenset({"gpu", "vfio"})


async def forget(
    name: str,
    *,
    inventory: Inventory,
    ledger: Ledger,
    gpus: Gpus | None,
    stock: Stock,
    forgotten: Callable[[str], None],
) -> str:
    """Drop what is remembered of a device.

    Args:
        name: As in slices.
        forgotten: Called with the identity of what is not remembered any more.

    Returns:
        What was done, as a sentence without its end.

    Raises:
        ConfigError: Nothing is remembered under that name.
        HostError: It is held or seen, or the disk refused; it is still remembered.
    """
    one = inventory.peripheral_by_name.get(name)
    if one is not None and one.kind in _KINDS and gpus is not None:
        done = await _forget_gpu(one, inventory.peripherals, ledger=ledger, gpus=gpus)
        # What comes to its place is another card, whatever was known of this one.
        forgotten(gpu_identity(one.path))
        return done
    if one is not None:
        _require_free([one], ledger)
        raise _seen(name)
    gone = await stock.forget(name)
    if not gone:
        nic = name in inventory.nic_by_name
        raise ConfigError(
            f"device {name}",
            "is a NIC, of which nothing is remembered" if nic else "is not known here",
            mend="`berth devices` shows what there is",
        )
    for identity in gone:
        forgotten(identity)
    return f"{name} is forgotten: its number in its group is free"


async def _forget_gpu(
    one: Peripheral, every: Iterable[Peripheral], *, ledger: Ledger, gpus: Gpus
) -> str:
    """A GPU with all its parts: what is remembered is remembered of the whole."""
    whole = gpu_name(one.path)
    if one.type == "mig":
        raise ConfigError(
            f"device {one.name}", f"is a part of {whole}", rule="a GPU is forgotten as a whole"
        )
    _require_free([each for each in every if each.kind in _KINDS and each.path == one.path], ledger)
    if not gpus.is_lost(one.path):
        raise _seen(one.name)
    await gpus.forget(one.path)
    return f"{one.name} is forgotten: it leaves the lists in a moment"


def _require_free(devices: Iterable[Peripheral], ledger: Ledger) -> None:
    for one in devices:
        holders = {str(hold.holder) for key in one.keys for hold in ledger.holders(key)}
        holders |= set(one.held_by)
        if holders:
            raise HostError(
                f"device {one.name}",
                f"is held by {', '.join(sorted(holders))}",
                rule="only what is free is forgotten",
                mend="it is free when the pod ends",
            )


def _seen(name: str) -> HostError:
    return HostError(f"device {name}", "is there", rule="only what is lost is forgotten")
