"""What events of GPUs are counted and logged, whatever they come to.

Source: gpu-and-health.md §6.2, §6.3, §7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from berth.config.xid import XidClass
from berth.host.nvml.values import EventKind, NvmlEvent
from berth.runtime.logs import get_log

QUIET_S: Final = 60.0
"""An XID of one GPU is logged no oftener; what came in between is counted in the next line."""

MOST: Final = 1024
"""Most XIDs that are told apart; more are counted under the code 0, which is none."""

_ECC: Final[Mapping[int, str]] = {0x1: "corrected", 0x2: "uncorrected"}
_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class Xid:
    """What is counted together.

    Attributes:
        address: Of the GPU; empty when the driver named none that is known.
    """

    address: str
    code: int
    xid_class: XidClass


@attrs.define
class _Said:
    at_s: float
    since: int = 0


class XidJournal:
    """Counts and logs what is heard of GPUs.

    Attributes:
        xids: How often each came.
        ecc_errors: Events of single memory errors, by address and ``corrected`` or ``uncorrected``.
    """

    def __init__(self) -> None:
        self.xids: Counter[Xid] = Counter()
        self.ecc_errors: Counter[tuple[str, str]] = Counter()
        self._said: dict[Xid, _Said] = {}

    def note(self, event: NvmlEvent, xid_class: XidClass, *, now_s: float) -> None:
        """Take an event.

        Args:
            xid_class: Of its code, for an XID.
        """
        if event.kind is EventKind.XID:
            self._note_xid(event, xid_class, now_s)
        elif event.type in _ECC:
            self.ecc_errors[event.address, _ECC[event.type]] += 1

    def retain(self, keep: Callable[[str], bool]) -> None:
        """Drop the counts of every GPU of whose address this is not said."""
        self.xids = Counter({xid: n for xid, n in self.xids.items() if keep(xid.address)})
        self.ecc_errors = Counter({key: n for key, n in self.ecc_errors.items() if keep(key[0])})

    def _note_xid(self, event: NvmlEvent, xid_class: XidClass, now_s: float) -> None:
        xid = Xid(address=event.address, code=event.data, xid_class=xid_class)
        if xid not in self.xids and len(self.xids) >= MOST:
            xid = attrs.evolve(xid, code=0)
        self.xids[xid] += 1
        said = self._said.get(xid)
        if said is not None and now_s - said.at_s < QUIET_S:
            said.since += 1
            return
        self._said[xid] = _Said(at_s=now_s)
        scope = "-" if event.gi is None else f"gi{event.gi}"
        scope += "" if event.ci is None else f"/ci{event.ci}"
        _log.warning(
            "XID",
            gpu=event.address or "unknown",
            code=event.data,
            means=xid_class.value,
            part=scope,
            more_since_last=said.since if said is not None else 0,
        )
