"""Where every NIC of the node should be now: from the inventory, the records and the settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.health.finding import Severity
from berth.model.device import Nic, NicKind, NicMode
from berth.model.inventory import Inventory
from berth.nic.health.post import Place, Post
from berth.nic.record import NicRecord, Stage
from berth.node.holders.holding import Holding, holdings
from berth.node.records.given import Given
from berth.node.records.record import ClaimRecord
from berth.vfio.binding import VFIO, Binding
from berth.vfio.binding import Stage as BindingStage

_LINKLESS: Final = "link-elsewhere"
# Why a NIC is not offered whose driver makes links, and whose link is nowhere.

_PLACES: Final = {
    Stage.RESERVED: Place.MOVING,
    Stage.STAGED: Place.STAGED,
    Stage.HOME: Place.STAGED,
    Stage.ATTACHING: Place.MOVING,
    Stage.ATTACHED: Place.POD,
    Stage.RETURNING: Place.RETURNING,
    Stage.LOST: Place.GONE,
    Stage.LENT: Place.ELSEWHERE,
}
_SETTLED: Final = frozenset({BindingStage.RESERVED, BindingStage.BOUND})


def posts(
    inventory: Inventory,
    table: NicTable,
    *,
    records: Sequence[ClaimRecord],
    given: Iterable[Given] = (),
    busy: Iterable[str] = (),
) -> Mapping[str, Post]:
    """The post of each NIC that is offered or held, or may be, by its identity.

    Args:
        busy: Addresses of functions whose drivers do not let go of them.
    """
    held = holdings(records, given)
    bindings = {binding.address: binding for record in records for _, binding in record.bindings}
    groups = {group.name: group for group in table.groups}
    stuck = frozenset(busy)
    found = {}
    for nic in inventory.nics:
        # What no group takes, or nobody is offered at all, is no business of ours while it is free.
        if nic.group and (table.enabled or nic.held_by):
            post = _post(nic, held.get(nic.identity), bindings.get(nic.pci))
            found[nic.identity] = _as_set(post, groups.get(nic.group), busy=nic.pci in stuck)
    return found


def physical_links(inventory: Inventory) -> Mapping[str, int]:
    """Interface index at home of the link of each PF, by its address; of several the first."""
    found: dict[str, int] = {}
    for nic in sorted(inventory.nics, key=lambda nic: nic.identity):
        if nic.kind is NicKind.PF and nic.ifindex and _is_port(nic):
            found.setdefault(nic.pci, nic.ifindex)
    return found


def _is_port(nic: Nic) -> bool:
    """Whether it is the function's own link, not a port of its switch toward others."""
    port = nic.identity.partition("/")[2]
    return not port or port.isdigit()


def _post(nic: Nic, holding: Holding | None, binding: Binding | None) -> Post:
    bare = Post(
        identity=nic.identity,
        place=Place.FREE,
        kind=nic.kind,
        index=nic.ifindex,
        address=nic.pci,
        linkless=nic.exclusion is not None and nic.exclusion.reason == _LINKLESS,
        holder=", ".join(holding.holders) if holding is not None else "",
    )
    if holding is None:
        return _free(bare, nic)
    if holding.is_parent:
        return attrs.evolve(bare, place=Place.PARENT, children=tuple(_children(holding)))
    if holding.is_function:
        return _function(bare, holding, binding)
    return _moved(bare, holding)


def _free(bare: Post, nic: Nic) -> Post:
    if nic.mode is NicMode.SHARED:
        return attrs.evolve(bare, place=Place.PARENT)
    if nic.mode is NicMode.VFIO and not nic.ifindex:
        return attrs.evolve(bare, place=Place.ELSEWHERE)
    return bare


def _children(holding: Holding) -> Iterator[NicRecord]:
    """Links over a parent that are in pods."""
    for entry in holding.entries:
        if entry.nic is not None and entry.nic.stage is Stage.ATTACHED:
            yield entry.nic


def _function(bare: Post, holding: Holding, binding: Binding | None) -> Post:
    """What is given as a function: its link, if it has one, is nobody's now."""
    if binding is None:
        # The device plugin gives only what vfio-pci has already.
        return attrs.evolve(bare, place=Place.ELSEWHERE, driver=VFIO)
    if binding.stage is BindingStage.RETURNING:
        place, fault = Place.RETURNING, holding.fault
        return attrs.evolve(bare, place=place, fault=fault, driverless=True)
    settled = binding.stage in _SETTLED
    return attrs.evolve(
        bare, place=Place.ELSEWHERE, driver=VFIO if settled else "", driverless=not settled
    )


def _moved(bare: Post, holding: Holding) -> Post:
    record = holding.first.nic
    if record is None:
        return attrs.evolve(bare, place=Place.ELSEWHERE)
    place = _PLACES[record.stage]
    if place is Place.STAGED and not holding.is_living:
        place = Place.MOVING
    fault = record.fault if place is Place.RETURNING else ""
    driver = str(holding.first.attributes.get("driver", "")) if bare.address else ""
    return attrs.evolve(
        bare, place=place, record=record, fault=fault, driver=_function_driver(driver)
    )


def _function_driver(driver: str) -> str:
    """Driver of the function below; virtio's makes the link and has no function."""
    return "virtio-pci" if driver.startswith("virtio") else driver


def _as_set(post: Post, group: NicGroup | None, *, busy: bool) -> Post:
    """The post with what its group says; a group that is gone leaves a lost carrier a remark."""
    if group is None:
        return attrs.evolve(post, busy=busy)
    return attrs.evolve(
        post,
        busy=busy,
        carrier=Severity[group.health.carrier.name],
        carrier_when_free=group.health.carrier_when_free,
    )
