"""What there is to say of what the node keeps: holds, claims, records, files, NICs in pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from berth.cdi.store import CdiStore
from berth.metadata.store import MetadataStore
from berth.metrics.claims import MeteredClaims, kind_of
from berth.metrics.page import Page
from berth.model.claim import ClaimRef
from berth.model.meter import Tally
from berth.node.ledger import Ledger
from berth.node.nics.nics import Nics
from berth.node.records.record import ClaimRecord
from berth.runtime.files import Folder


def put_holds(page: Page, ledger: Ledger) -> None:
    """Who holds how much, who was kept from it, and what two have."""
    held = {(hold.holder.uid, hold.device, hold.share): hold for hold in ledger.holds()}
    doors = Counter(_door(isinstance(hold.holder, ClaimRef)) for hold in held.values())
    for door in (_door(is_claim) for is_claim in (True, False)):
        page.put("berth_holds", doors[door], door)
    page.put_figure("berth_hold_conflicts_total", ledger.refusals)
    page.put("berth_holds_disputed", len(ledger.disputed()))


def _door(is_claim: bool) -> str:
    return "dra" if is_claim else "plugin"


def put_claims(page: Page, records: Iterable[ClaimRecord], metered: MeteredClaims) -> None:
    """Which claims are prepared, and what became of calls for it."""
    kinds = Counter((kind_of(one),) for one in records if one.prepared and not one.revoked)
    page.put_all("berth_claims_prepared", kinds)
    page.put_figure("berth_prepare_seconds", metered.prepares)
    page.put_figure("berth_unprepare_seconds", metered.unprepares)
    page.put_figure("berth_prepare_errors_total", metered.errors)


def put_files(
    page: Page, *, cdi: CdiStore, metadata: MetadataStore, state: Iterable[Folder]
) -> None:
    """What is written for runtimes, for containers, and for the next start."""
    page.put_all("berth_cdi_files", {(kind,): count for kind, count in cdi.kinds().items()})
    page.put_figure("berth_cdi_writes_total", cdi.writes)
    folders = tuple(state)
    page.put_figure("berth_state_writes_total", *(folder.writes for folder in folders))
    page.put_figure("berth_state_quarantined_total", *(one.quarantined for one in folders))
    page.put("berth_state_bytes", sum(sum(folder.sizes.values()) for folder in folders))
    page.put("dra_metadata_feature_enabled", 1)
    page.put_figure("dra_metadata_writes_total", metadata.writes)
    page.put_figure("dra_metadata_write_errors_total", metadata.write_errors)
    page.put_figure("dra_metadata_update_errors_total", metadata.update_errors)
    page.put_figure("dra_metadata_write_duration_seconds", metadata.seconds)


def put_nics(page: Page, nics: Nics) -> None:
    """NICs on their way, and how that went."""
    page.put_figure("berth_nic_moves_total", nics.moves)
    page.put_figure("berth_nic_move_seconds", nics.move_seconds)
    page.put("berth_nics_away", nics.statistics().away)


def put_looks(page: Page, *rescans: Tally) -> None:
    """Looks at the machine."""
    page.put_figure("berth_rescans_total", *rescans)
