"""Extended resources: what the device plugin lists, is asked for and is told.

Source: KC §2 (device plugin v1beta1), §10 (PodResources v1).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from berth.model.edits import Edits


@attrs.frozen(kw_only=True)
class Unit:
    """One id of a resource: a device, or one share of it.

    Attributes:
        id: At most 63 bytes, unique in its resource, the same over reboots.
        device: Slice name of the device, the same for all of its shares.
        healthy: Whether a new pod may get it.
        held: Somebody has it, at whichever door.
        numa: NUMA nodes that it is near to.
        pcie_root: PCIe root complex; empty when it is none's.
        links: Direct links that its device has with others (NVLink), by the names of those.
        bearer: What its load is counted by: the PF of a VF; empty for the device itself.
        bundle: What it is given with as a whole, such as its IOMMU group; empty for the device
            itself.
    """

    id: str
    device: str
    healthy: bool = True
    held: bool = False
    numa: tuple[int, ...] = ()
    pcie_root: str = ""
    links: Mapping[str, int] = attrs.field(factory=dict)
    bearer: str = ""
    bundle: str = ""


@attrs.frozen(kw_only=True)
class Resource:
    """One extended resource with all of its units, in their order.

    Attributes:
        name: ``domain/name``.
        pack: Shares of one device are given before those of the next.
        many: A container may have several shares of one device.
    """

    name: str
    units: tuple[Unit, ...]
    pack: bool = False
    many: bool = False


@attrs.frozen(kw_only=True)
class Grant:
    """What a container gets for the ids it was given.

    Attributes:
        edits: What kubelet tells the runtime itself.
        cdi_ids: Qualified names of what the runtime takes from CDI files besides.
    """

    edits: Edits
    cdi_ids: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, order=True)
class ContainerRef:
    """A container as kubelet's PodResources names it: it tells no UID of the pod."""

    namespace: str
    pod: str
    container: str

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.pod}, container {self.container}"


@attrs.frozen(kw_only=True)
class Usage:
    """Ids of one resource that a container has, as PodResources lists them."""

    container: ContainerRef
    resource: str
    ids: tuple[str, ...]


@attrs.frozen(kw_only=True)
class ClaimUsage:
    """A device of a claim that a container has, as PodResources lists it (KC §10).

    Attributes:
        namespace: Of the claim, which is its pods' too.
        name: Of the claim; PodResources tells no UID of it.
        share_id: Which share; empty where the device is not shared.
    """

    container: ContainerRef
    namespace: str
    name: str
    driver: str
    pool: str
    device: str
    share_id: str = ""


@attrs.frozen(kw_only=True)
class PodUsages:
    """What the node's active pods have, through both doors.

    Attributes:
        usages: Ids of extended resources, one entry for a container and resource.
        claims: Devices of claims.
    """

    usages: tuple[Usage, ...] = ()
    claims: tuple[ClaimUsage, ...] = ()
