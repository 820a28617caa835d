"""Whether what a claim was given is a device of this node.

A device is called by the place that it has in its machine, so that its twin in another machine has
the same name: the pool alone tells them apart. Kubelet asks for every claim that a pod of its node
has, wherever it was allocated, and whoever binds a pod past the scheduler looks at no claim.

Source: KC §3.2 for what kubelet looks at before it asks.
"""

from __future__ import annotations

from collections.abc import Collection

from berth.errors import ClaimError
from berth.model.claim import Claim


def require_pools(claim: Claim, pools: Collection[str]) -> None:
    """Refuse a claim with a device of a pool that is not this node's.

    Args:
        pools: Of this node; none while nobody knows which node it is, and then all pass.

    Raises:
        ClaimError: It has one.
    """
    for result in claim.results:
        if pools and result.pool not in pools:
            raise ClaimError(
                f"{result.device} of pool {result.pool}",
                "is no device of this node",
                rule=f"the pools of this node are {' and '.join(sorted(pools))}",
                mend="delete the pod and its claim, so that one of its own node is allocated",
            )
