"""What the scheduler gave to claims, as far as it is told beyond what a prepare needs.

A prepare reads a claim once, and its record keeps what undoing needs (`berth.model.claim`). This is
the other view: all claims that have devices of ours now, whether they were prepared or not.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from berth.model.claim import ClaimRef, Consumer


@attrs.frozen(kw_only=True)
class AllocatedDevice:
    """One device of ours that a claim was given.

    Attributes:
        request: ``request`` or ``request/subrequest`` of a prioritized list.
        share_id: Set when the device may be allocated several times.
        consumed: Consumed capacity, quantities as the server wrote them.
        tolerations: Keys of the taints that the claim tolerates; ``""`` tolerates all.
        admin_access: The claim only looks at the device.
        skips: ``skipNodeOperations`` of its slice when it was allocated; words that we do not know
            are kept.
        binding_conditions: What must hold of it before the pod is bound.
        failure_conditions: What gives up this allocation, should it come to hold before that.
    """

    request: str
    pool: str
    device: str
    share_id: str | None = None
    consumed: Mapping[str, str] = attrs.field(factory=dict)
    tolerations: tuple[str, ...] = ()
    admin_access: bool = False
    skips: tuple[str, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    failure_conditions: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class AllocatedClaim:
    """One claim that has devices of ours.

    Attributes:
        devices: In the order of the allocation.
        consumers: ``status.reservedFor``; empty while no pod uses the claim.
        allocated_at: When, by the scheduler's clock (RFC 3339); empty where it does not say. It
            tells an allocation from the one before.
    """

    ref: ClaimRef
    devices: tuple[AllocatedDevice, ...]
    consumers: tuple[Consumer, ...] = ()
    allocated_at: str = ""
