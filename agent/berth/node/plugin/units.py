"""What the device plugin lists of the inventory, and what stands behind the ids it is asked for.

Source: gpu-and-health.md §5.1, L9; network.md §9.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import attrs

from berth.config.nicgroup import Attach, NicGroup
from berth.errors import ClaimError
from berth.model.claim import ClaimRef
from berth.model.edits import clash
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.model.resource import Resource, Unit
from berth.node.health.fitness import Fitness
from berth.node.holders.equipment import of_resource
from berth.node.ledger import Ledger, PluginHolder
from berth.node.records.given import GivenDevice


def resources(
    inventory: Inventory,
    ledger: Ledger,
    known: Iterable[str] = (),
    *,
    closed: Container[str] = (),
) -> tuple[Resource, ...]:
    """Every resource with its units, by name.

    Args:
        known: Names that were listed before; one that became empty stays, with no units.
        closed: Names of devices whose verdict keeps new pods from all of their units.
    """
    names = {*known, *(one.resource for one in inventory.pluggable if one.door.opens_plugin)}
    return tuple(_resource(inventory, ledger, name, closed) for name in sorted(filter(None, names)))


def moved(inventory: Inventory, groups: Iterable[NicGroup]) -> frozenset[tuple[str, str]]:
    """Resource and id of each NIC that is asked for by resource and that berth moves itself."""
    names = {group.name for group in groups if group.attach is Attach.NRI}
    return frozenset(
        (one.resource, id_) for one in inventory.listings if one.group in names for id_ in one.ids
    )


def named(inventory: Inventory, resource: str, ids: Iterable[str]) -> tuple[Peripheral, ...]:
    """The devices of those ids that are known."""
    wanted = {*ids}
    return tuple(one for one in _of(inventory, resource) if not wanted.isdisjoint(one.ids))


def find(
    inventory: Inventory, resource: str, ids: Sequence[str], *, fitness: Fitness | None = None
) -> tuple[GivenDevice, ...]:
    """What a container is to have for the ids that it was given.

    Args:
        fitness: How devices are; ``None`` where nobody judges them.

    Raises:
        ClaimError: An id is not known or cannot be used now, or two do not go together.
    """
    units = {id_: one for one in _of(inventory, resource) for id_ in one.ids}
    for number, id_ in enumerate(ids):
        if id_ not in units:
            raise ClaimError(
                f"{resource}: id {id_}",
                "is not known here",
                rule="kubelet must ask for what was listed",
                mend="`berth devices` shows what there is; the list is sent again on change",
            )
        if id_ in ids[:number]:
            raise ClaimError(f"{resource}: id {id_}", "is asked for twice")
        if fitness is not None:
            fitness.require(units[id_].name)
        if units[id_].obstacle:
            raise ClaimError(
                f"{resource}: id {id_}",
                units[id_].obstacle,
                mend="the list tells kubelet so; `berth devices` shows when it is back",
            )
    chosen = tuple(
        GivenDevice(id=id_, peripheral=attrs.evolve(units[id_], held_by=())) for id_ in ids
    )
    _require_different(resource, chosen)
    _require_disjoint(resource, chosen)
    _require_apart(resource, chosen)
    return chosen


def _of(inventory: Inventory, resource: str) -> Iterator[Peripheral]:
    for one in inventory.pluggable:
        if one.resource == resource and one.door.opens_plugin:
            yield one


def _resource(inventory: Inventory, ledger: Ledger, name: str, closed: Container[str]) -> Resource:
    listed = of_resource(inventory.pluggable, name)
    return Resource(
        name=name,
        units=tuple(unit for one in listed for unit in _units(one, ledger, closed)),
        pack=any(one.pack for one in listed),
        many=any(one.many for one in listed),
    )


def _units(one: Peripheral, ledger: Ledger, sick: Container[str]) -> Iterator[Unit]:
    """A device's ids; as many of them are unhealthy as claims have slots of it."""
    holds = {hold for key in one.keys for hold in ledger.holders(key)}
    by_claims = [hold for hold in holds if isinstance(hold.holder, ClaimRef)]
    taken = sum({(h.holder.uid, h.share): h.slots for h in by_claims}.values())
    if any(hold.share is None for hold in by_claims):
        taken = len(one.ids)
    given = {id_ for h in holds if isinstance(h.holder, PluginHolder) for id_ in h.holder.ids}
    free = [id_ for id_ in one.ids if id_ not in given]
    closed = set(free[len(free) - min(taken, len(free)) :])
    for id_ in one.ids:
        yield Unit(
            id=id_,
            device=one.name,
            healthy=not one.unhealthy and one.name not in sick and id_ not in closed,
            held=id_ in closed or id_ in given,
            numa=one.numa,
            pcie_root=one.pcie_root,
            bearer=one.bearer,
            bundle=one.bundle,
            links=one.links,
        )


def _require_different(resource: str, chosen: Sequence[GivenDevice]) -> None:
    """Two shares of one device give a container nothing that one does not give."""
    names = [device.peripheral.name for device in chosen]
    for device in chosen:
        name = device.peripheral.name
        if names.count(name) > 1 and not device.peripheral.many:
            raise ClaimError(
                f"{resource}: {name}",
                "is asked for in several shares by one container",
                rule="a container takes one share of a device",
                mend=f"ask for one of {resource}, or for devices of another group",
            )


def _require_disjoint(resource: str, chosen: Sequence[GivenDevice]) -> None:
    """What shares hardware, such as an IOMMU group, is held once, and not by two ids."""
    owners: dict[str, str] = {}
    for device in chosen:
        name = device.peripheral.name
        for key in device.peripheral.keys:
            if owners.setdefault(key, name) != name:
                raise ClaimError(
                    f"{resource}: {name}",
                    f"shares {key} with {owners[key]}, which the same container asks for",
                    rule="what shares hardware is given once",
                    mend=f"ask for one of {resource}, or keep one of both out of its group",
                )


def _require_apart(resource: str, chosen: Sequence[GivenDevice]) -> None:
    path = clash(device.peripheral.edits for device in chosen)
    if path:
        raise ClaimError(
            resource,
            f"two of the devices would both be {path} in the container",
            mend="put {index} into the group's rename, or ask for one device in each container",
        )
