"""Which group a device belongs to, and what that makes of it.

A device that no group selects is offered as the table says. One that several select is offered to
nobody: which of them was meant cannot be guessed.

Source: GH §5.1.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from berth.config.doors import Inject, settled
from berth.config.gpu import GpuGroup, GpuShare, GpuTable, usual_resource
from berth.config.gpumatch import GpuMatch, GpuType
from berth.model.device import Exclusion
from berth.model.peripheral import Door


@attrs.frozen(kw_only=True)
class Features:
    """What conditions can be about.

    Attributes:
        products: Names of the product: the part's own and its GPU's.
        uuids: The part's own and its GPU's.
    """

    type: GpuType
    address: str
    profile: str = ""
    products: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    numa: int | None = None


@attrs.frozen(kw_only=True)
class Terms:
    """How a device is offered.

    Attributes:
        group: Name of its group; empty when it is in none.
        door: As decided, so never ``auto``.
        resource: Name of its resource; empty when the plugin's door is closed.
        inject: How a container gets it by the plugin's door.
        rebind: A claim may have it bound to vfio-pci.
        iommufd: By the plugin's door a function comes by its own node.
        exclusion: Why it is not offered at all.
    """

    group: str = ""
    door: Door = Door.DRA
    resource: str = ""
    share: GpuShare = GpuShare()
    inject: Inject = Inject.AUTO
    rebind: bool = False
    iommufd: bool = False
    exclusion: Exclusion | None = None


def terms_of(features: Features, table: GpuTable, *, auto: Door) -> Terms:
    """The terms of a device.

    Args:
        auto: What ``auto`` came to on this node.
    """
    groups = [group for group in table.groups if _fits(features, group.match)]
    if len(groups) > 1:
        names = ", ".join(f'"{group.name}"' for group in groups)
        detail = f"groups {names} all select it"
        return Terms(exclusion=Exclusion(reason="overlap", detail=detail))
    group = groups[0] if groups else None
    written = (group.door if group is not None else None) or table.door
    door = settled(written, auto)
    share = _share(features, group)
    usual = usual_resource(features.type, features.profile, shared=share.slots > 1)
    resource = (group.resource if group is not None else "") or usual
    return Terms(
        group=group.name if group is not None else "",
        door=door,
        resource=resource if door.opens_plugin else "",
        share=share,
        inject=group.inject if group is not None else Inject.AUTO,
        rebind=group is not None and group.vfio.rebind,
        iommufd=group is not None and group.vfio.iommufd,
    )


def resources_of(groups: Sequence[GpuGroup]) -> frozenset[str]:
    """Resources that stay registered though no device is there, since groups name them."""
    return frozenset(group.resource for group in groups if group.resource)


def _share(features: Features, group: GpuGroup | None) -> GpuShare:
    if group is None or features.type is GpuType.VFIO:
        return GpuShare()
    return group.share


def _fits(features: Features, match: GpuMatch) -> bool:
    products = (pattern.fits(name) for pattern in match.product for name in features.products)
    return all(
        (
            not match.product or any(products),
            not match.uuid or not {*features.uuids}.isdisjoint(match.uuid),
            not match.pci or any(pattern.fits(features.address) for pattern in match.pci),
            _among(features.numa, match.numa),
            _among(features.profile, match.profile),
            _among(features.type, match.type),
        )
    )


def _among(value: object, allowed: Collection[object]) -> bool:
    return not allowed or value in allowed
