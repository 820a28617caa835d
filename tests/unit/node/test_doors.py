"""Both doors at one device: one winner, whoever asks first, and the loser is told by whom.

Case 20 of the field: a cluster moves from the device plugin to claims pod by pod.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
import trio

from berth.errors import ClaimError
from berth.model.claim import Claim
from berth.node.ledger import PluginHolder
from berth.node.plugin.allotments import Allotments, given_shelf
from tests.unit.node.conftest import Node
from tests.unit.node.machine import BOOT, claim, look, result
from tests.unit.node.peripherals import RESOURCE, modem
from tests.unit.node.plugin.test_allotments import Named

RACES = 100
WON = "won"
DEVICES = 8


@pytest.fixture
async def door(node: Node, tmp_path: Path) -> Allotments:
    """The plugin's side of the node."""
    made = Allotments(
        given_shelf(tmp_path / "ledger"),
        ledger=node.ledger,
        inventory=node.eyes.inventory,
        files=Named(),
        boot_id=BOOT,
    )
    await made.load()
    node.eyes.show(look(peripherals=[modem(number) for number in range(DEVICES)]))
    return made


async def _by_claim(node: Node, wish: Claim, outcomes: dict[str, str]) -> None:
    try:
        await node.prepare(wish, limit_s=0.3)
    except ClaimError as error:
        outcomes["claim"] = str(error)
    else:
        outcomes["claim"] = WON


async def _by_plugin(
    door: Allotments, device: str, outcomes: dict[str, str], *, steps: int
) -> None:
    """Ask by the other door, a prepare's steps later."""
    for _ in range(steps):
        await trio.lowlevel.checkpoint()
    try:
        await door.allocate(RESOURCE, (device,))
    except ClaimError as error:
        outcomes["plugin"] = str(error)
    else:
        outcomes["plugin"] = WON


async def test_races_have_one_winner_each(node: Node, door: Allotments) -> None:
    """A hundred races for eight devices, in every order that chance gives."""

    dice = random.Random(20)  # noqa: S311 - an order, no secret
    winners = set()
    for number in range(RACES):
        device, outcomes = f"modem-{number % DEVICES}", dict[str, str]()
        wish = claim(result(device, "serial"), name=f"race-{number}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_by_claim, node, wish, outcomes)
            late = partial(_by_plugin, door, device, outcomes, steps=dice.randrange(20))
            nursery.start_soon(late)

        (holder,) = {hold.holder for hold in node.ledger.holds()}
        winner = "plugin" if isinstance(holder, PluginHolder) else "claim"
        loser = "claim" if winner == "plugin" else "plugin"
        winners.add(winner)
        assert outcomes[winner] == WON
        told = RESOURCE if winner == "plugin" else f"claim default/race-{number} "
        assert "is held by" in outcomes[loser]
        assert told in outcomes[loser]
        await node.claims.unprepare(wish.ref)
        for given in door._given.all():
            await door.free(given)

    assert winners == {"plugin", "claim"}
    assert node.ledger.holds() == ()
