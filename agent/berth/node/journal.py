"""What the log says of the inventory: each finding and each reason when it is news, once."""

from __future__ import annotations

from typing import Final

import trio

from berth.model.device import Exclusion, Nic
from berth.model.inventory import Inventory
from berth.runtime.logs import Repeats, get_log

REPEAT_S: Final = 3600.0
"""A finding that comes and goes is told again after this time at the earliest."""

_QUIET: Final = frozenset({"not-selected", "returning"})
# Reasons that are no news: most NICs of a node are no business of ours, and pods end all day.

_log = get_log(__name__)


class InventoryJournal:
    """Tells the log how the inventory changes; made anew with each change of the settings."""

    def __init__(self) -> None:
        self._repeats = Repeats(period_s=REPEAT_S)

    def tell(
        self, before: Inventory, after: Inventory, *, expected: Exclusion | None = None
    ) -> None:
        """Tell what is new.

        Args:
            expected: A reason that holds for every free NIC, and is told by whoever gave it.
        """
        for warning in after.warnings:
            if self._is_news(warning):
                _log.warning("inventory", finding=warning)
        for nic in after.nics:
            was = before.nic_by_identity.get(nic.identity)
            known = was is not None and was.exclusion == nic.exclusion
            if nic.exclusion is not None and not known and nic.exclusion != expected:
                self._tell_exclusion(nic, nic.exclusion)
        _tell_change(before, after)

    def _tell_exclusion(self, nic: Nic, exclusion: Exclusion) -> None:
        if exclusion.reason not in _QUIET and self._is_news(f"{nic.identity} {exclusion}"):
            _log.warning("NIC not offered", device=nic.name, link=nic.ifname, reason=exclusion)

    def _is_news(self, text: str) -> bool:
        return self._repeats.count_due(text, now_s=trio.current_time()) is not None


def _tell_change(before: Inventory, after: Inventory) -> None:
    offered = {nic.name for nic in after.nics if nic.exclusion is None}
    was_offered = {nic.name for nic in before.nics if nic.exclusion is None}
    if offered != was_offered:
        _log.info(
            "inventory changed",
            devices=len(after.devices),
            come=",".join(sorted(offered - was_offered)) or "-",
            gone=",".join(sorted(was_offered - offered)) or "-",
        )
