"""Claim records: what is known of each claim, one file per claim, and one lock.

The claim of a file that cannot be read is found by what the system still shows
(`Recovery.orphans`), never counted as free for want of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from berth.node.records.document import claim_from_bytes, to_bytes
from berth.node.records.record import ClaimRecord
from berth.node.records.shelf import Shelf


class Records(Shelf[ClaimRecord]):
    """Every claim's record of the node.

    Each claim has a lock; whoever changes a record holds its claim's lock over the whole change.

    Args:
        folder: Where the files are; made by `load`.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder,
            uid_of=lambda record: record.claim.uid,
            to_bytes=to_bytes,
            from_bytes=lambda content, where: claim_from_bytes(content, where=where),
        )

    def of_pod(self, pod_uid: str) -> tuple[ClaimRecord, ...]:
        """Prepared records that the pod consumes and that nobody asked to undo."""
        return tuple(
            record
            for record in self.all()
            if record.serves_pod(pod_uid) and record.prepared and not record.revoked
        )

    def away(self) -> Iterator[tuple[ClaimRecord, int]]:
        """Every NIC that is not known to be at home, as record and device index."""
        for record in self.all():
            for index, device in enumerate(record.devices):
                if device.nic is not None and device.nic.is_away:
                    yield record, index
