"""What the log says of the inventory: each finding and each reason when it is news."""

from __future__ import annotations

from typing import Final

import trio

from berth.model.device import Exclusion, Nic
from berth.model.inventory import Inventory
from berth.runtime.logs import Repeats, get_log

REPEAT_S: Final = 60.0
"""A finding that comes and goes is told again after this time at the earliest."""

_QUIET: Final = frozenset({"not-selected", "returning"})
# Reasons that are no news: most NICs of a node are no business of ours, and pods end all day.

_log = get_log(__name__)


class InventoryJournal:
    """Tells the log how the inventory changes; made anew with each change of the settings.

    So what holds under the settings in force is told once for each of them, from the start on.
    """

    def __init__(self) -> None:
        self._last = Inventory()
        self._repeats = Repeats(period_s=REPEAT_S)

    def tell(self, inventory: Inventory, *, expected: Exclusion | None = None) -> None:
        """Tell what is new since the last call.

        Args:
            expected: A reason that holds for every free NIC, and is told by whoever gave it.
        """
        last, self._last = self._last, inventory
        for warning in inventory.warnings:
            if warning not in last.warnings and self._is_due(warning):
                _log.warning("inventory", finding=warning)
        for nic in inventory.nics:
            was = last.nic_by_identity.get(nic.identity)
            known = was is not None and was.exclusion == nic.exclusion
            if nic.exclusion is not None and not known and nic.exclusion != expected:
                self._tell_exclusion(nic, nic.exclusion)
        _tell_change(last, inventory)

    def _tell_exclusion(self, nic: Nic, exclusion: Exclusion) -> None:
        if exclusion.reason not in _QUIET and self._is_due(f"{nic.identity} {exclusion}"):
            _log.warning("NIC not offered", device=nic.name, link=nic.ifname, reason=exclusion)

    def _is_due(self, text: str) -> bool:
        return self._repeats.count_due(text, now_s=trio.current_time()) is not None


def _tell_change(last: Inventory, inventory: Inventory) -> None:
    offered = {nic.name for nic in inventory.nics if nic.exclusion is None}
    was_offered = {nic.name for nic in last.nics if nic.exclusion is None}
    if offered != was_offered:
        _log.info(
            "inventory changed",
            devices=len(inventory.devices),
            come=",".join(sorted(offered - was_offered)) or "-",
            gone=",".join(sorted(was_offered - offered)) or "-",
        )
