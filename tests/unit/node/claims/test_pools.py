"""Whether a claim's devices are this node's."""

from __future__ import annotations

import attrs
import pytest

from berth.errors import ClaimError
from berth.node.claims.pools import require_pools
from tests.unit.node.machine import FAST, OTHER, claim, result

OWN = frozenset({"node", "node/nic"})


def test_claim_of_own_pools_passes() -> None:
    """Devices may be in each of them."""

    require_pools(claim(result(FAST), result(OTHER)), OWN)


@pytest.mark.parametrize("admin_access", [False, True])
def test_namesake_of_another_node_is_refused(*, admin_access: bool) -> None:
    """Its name says nothing, since places are called alike in each machine; not even a look."""

    other = attrs.evolve(result(OTHER, admin_access=admin_access), pool="node9/nic")
    foreign = claim(result(FAST), other)

    with pytest.raises(ClaimError) as caught:
        require_pools(foreign, OWN)

    assert str(caught.value) == (
        f"{OTHER} of pool node9/nic: is no device of this node: "
        "the pools of this node are node and node/nic; "
        "delete the pod and its claim, so that one of its own node is allocated"
    )


def test_node_that_does_not_know_itself_refuses_nobody() -> None:
    """Then nothing is published by it either, and what was given before stays."""

    require_pools(claim(result(FAST)), frozenset())
