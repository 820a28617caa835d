"""Whether each extended resource is of one sort: a pod that asks for it cannot say which it means.

Names may be written or follow from a group's or a GPU's form, so two groups can come to one name
without saying so. A table that is switched off offers nothing.

Contract: GH §5.1; network.md §9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from berth.config.doors import Door
from berth.config.finding import Cursor, Steps
from berth.config.generic import GenericGroup
from berth.config.gpu import GpuGroup, GpuTable, usual_resource
from berth.config.gpumatch import GpuMatch, GpuType
from berth.config.nic import NicTable
from berth.model.device import NicMode

_WHOLE: Final = (GpuType.GPU, GpuType.VFIO)
_BY_PROFILE: Final = {"full": GpuType.GPU, "vfio": GpuType.VFIO}


@attrs.frozen(kw_only=True)
class _Offer:
    """What one group gives under a resource.

    Attributes:
        steps: The group's place.
        sort: What its devices are, in words.
        written: Whether the name stands in the group.
    """

    resource: str
    steps: Steps
    title: str
    sort: str
    written: bool


def check_resources(
    nics: NicTable,
    generic: Iterable[GenericGroup],
    gpus: GpuTable,
    cursor: Cursor,
    *,
    driver: str,
) -> None:
    """Note each resource under which groups give what a pod has to tell apart.

    Args:
        driver: Our driver's name, of which resources are made that no group names.
    """
    first: dict[str, _Offer] = {}
    offers = (*_usual(gpus), *_nics(nics, driver), *_generic(generic, driver), *_gpus(gpus))
    for offer in offers:
        known = first.setdefault(offer.resource, offer)
        if known.sort != offer.sort:
            place = cursor.at(*offer.steps, "resource" if offer.written else "name")
            place.say(
                f'makes the resource "{offer.resource}", as does {known.title}',
                rule=f"it would be of {known.sort} and of {offer.sort}",
                mend="choose another resource",
            )


def _nics(table: NicTable, driver: str) -> Iterator[_Offer]:
    for number, group in enumerate(table.groups if table.enabled else ()):
        if group.door is not Door.DRA and group.name:
            sort = f'NICs of mode "{group.mode.value}"'
            if group.mode is NicMode.EXCLUSIVE:
                sort += f' with attach "{group.attach.value}"'
            yield _Offer(
                resource=group.resource or f"{driver}/{group.name}",
                steps=("nic", "group", number),
                title=f'[[nic.group]] "{group.name}"',
                sort=sort,
                written=bool(group.resource),
            )


def _generic(groups: Iterable[GenericGroup], driver: str) -> Iterator[_Offer]:
    for number, group in enumerate(groups):
        if group.door is not Door.DRA and group.name:
            yield _Offer(
                resource=group.resource or f"{driver}/{group.name}",
                steps=("generic", number),
                title=f'[[generic]] "{group.name}"',
                sort="generic devices",
                written=bool(group.resource),
            )


def _gpus(table: GpuTable) -> Iterator[_Offer]:
    for number, group in enumerate(table.groups if table.enabled else ()):
        if group.resource and (group.door or table.door) is not Door.DRA:
            yield _Offer(
                resource=group.resource,
                steps=("gpu", "group", number),
                title=_title(group),
                sort=_sort(group.match.types),
                written=True,
            )


def _usual(table: GpuTable) -> Iterator[_Offer]:
    """What GPUs are under names that nobody wrote; where a group of GPUs wrote one, it is meant.

    Of what groups select only in part it is not certain that anything is left over to the table.
    """
    if not table.enabled:
        return
    written = {group.resource for group in table.groups}
    selected = {form for group in table.groups for form in group.match.types}
    rest = GpuMatch(type=tuple(form for form in _WHOLE if form not in selected))
    sources = [("[gpu]", table.door, rest, False)] if rest.type else []
    for group in table.groups:
        if not group.resource:
            shared = group.share.slots > 1
            sources.append((_title(group), group.door or table.door, group.match, shared))
    for title, door, match, shared in sources:
        for form, profile in _forms(match) if door is not Door.DRA else ():
            name = usual_resource(form, profile, shared=shared and form is not GpuType.VFIO)
            if name not in written:
                sort = _sort((form,))
                yield _Offer(resource=name, steps=("gpu",), title=title, sort=sort, written=False)


def _forms(match: GpuMatch) -> Iterator[tuple[GpuType, str]]:
    """Forms that are selected, with their profiles; parts only where a profile names them."""
    if not match.profile:
        yield from ((form, "") for form in _WHOLE if form in match.types)
    for profile in match.profile:
        form = _BY_PROFILE.get(profile, GpuType.MIG)
        if form in match.types:
            yield form, profile


def _title(group: GpuGroup) -> str:
    return f'[[gpu.group]] "{group.name}"'


def _sort(types: tuple[GpuType, ...]) -> str:
    """Whole GPUs and parts may be mixed by intent; functions of vfio-pci are no such GPUs."""
    return "GPUs of vfio-pci" if types == (GpuType.VFIO,) else "GPUs of NVIDIA's driver"
