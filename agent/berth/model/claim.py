"""Claims as the API server allocates them, and what a prepared claim gives to kubelet.

Only devices and configuration of our own driver appear here; what belongs to others is dropped
where the claim is read (``kube/objects.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class ClaimRef:
    """Which ResourceClaim: kubelet sends exactly these three.

    The UID is the identity; a claim of the same name may follow one that is gone.
    """

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@attrs.frozen(kw_only=True)
class Consumer:
    """One entry of ``status.reservedFor``: who may use the claim.

    Attributes:
        resource: ``pods``, or another resource such as ``podgroups``.
    """

    resource: str
    name: str
    uid: str

    @property
    def is_pod(self) -> bool:
        """Whether the consumer is a pod itself, so that its UID is the sandbox's."""
        return self.resource == "pods"


class ConfigSource(Enum):
    """Who wrote a configuration: a claim's author is a tenant, a class's an administrator."""

    CLASS = "FromClass"
    CLAIM = "FromClaim"


@attrs.frozen(kw_only=True)
class OpaqueConfig:
    """One configuration entry for our driver.

    Attributes:
        index: Place in ``status.allocation.devices.config``, for messages.
        requests: Requests it applies to; empty means all.
        parameters: The JSON as it was read (`berth.model.jsontext`), not yet checked.
    """

    index: int
    source: ConfigSource
    requests: tuple[str, ...]
    parameters: Any = attrs.field(eq=False)

    def applies_to(self, result: DeviceResult) -> bool:
        """Whether this entry speaks of ``result``: by no name, its full name or its base name."""
        return (
            not self.requests
            or result.request in self.requests
            or result.base_request in self.requests
        )


@attrs.frozen(kw_only=True)
class DeviceResult:
    """One allocated device of ours.

    Attributes:
        request: ``request`` or ``request/subrequest`` of a prioritized list.
        share_id: Set when the device may be allocated several times.
        consumed: Consumed capacity, quantities as the server wrote them.
        tolerations: Keys of the taints that the claim tolerates; ``""`` tolerates all.
        admin_access: The claim may look at the device, and must not take it from its user.
    """

    request: str
    pool: str
    device: str
    share_id: str | None = None
    consumed: Mapping[str, str] = attrs.field(factory=dict)
    tolerations: tuple[str, ...] = ()
    admin_access: bool = False

    @property
    def base_request(self) -> str:
        """The request's name in the claim's spec, which kubelet and file paths use."""
        return self.request.partition("/")[0]


@attrs.frozen(kw_only=True)
class Claim:
    """A ResourceClaim with an allocation, reduced to our driver.

    Attributes:
        results: Our devices, in the order of the allocation.
        configs: Our opaque configuration, class entries first, in the order of the allocation.
        consumers: ``status.reservedFor``.
        pod_claim_name: The pod's own name for a claim made from a template, else ``None``; decides
            the metadata path in the container.
        nodes: Node names that the allocation is bound to; empty when it is not bound by name.
        awaited: Names of our devices that the scheduler has waited for before it bound the pod.
    """

    ref: ClaimRef
    results: tuple[DeviceResult, ...]
    configs: tuple[OpaqueConfig, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    pod_claim_name: str | None = None
    nodes: tuple[str, ...] = ()
    awaited: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True)
class NetworkData:
    """What a NIC looks like in its pod, as metadata and claim status tell it.

    Attributes:
        ips: Canonical CIDR, at most 16.
        hardware_address: Lower case with colons.
    """

    interface_name: str
    ips: tuple[str, ...]
    hardware_address: str


@attrs.frozen(kw_only=True)
class PreparedDevice:
    """One device of a prepared claim, as kubelet is told.

    Attributes:
        requests: Base request names; never empty here, since empty would mean every request.
        cdi_ids: Fully qualified CDI names; the device's own before that of its metadata, because
            kubelet shows the first one as the device's id.
    """

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share_id: str | None = None


@attrs.frozen(kw_only=True)
class PreparedClaim:
    """The answer to one prepared claim; repeated calls give an equal one."""

    ref: ClaimRef
    devices: tuple[PreparedDevice, ...]
