"""Which costs the stand-in takes; `test_node_costs.py` asks the real server the same."""

from __future__ import annotations

import pytest

from berth.rehearsal.apiserver.costrules import check_costs
from tests.cluster.costcases import CAPACITIES, COST_CASES


@pytest.mark.parametrize("name", COST_CASES)
def test_cost_is_judged_as_the_server_does(name: str) -> None:
    """By the places that it names."""

    cost, places = COST_CASES[name]

    assert {each.path for each in check_costs(cost, CAPACITIES, "c")} == {f"c{p}" for p in places}
