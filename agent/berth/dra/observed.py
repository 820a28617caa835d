"""What the API server holds of our slices: the watch's events and our own writes, merged.

A watch lags behind our own requests. Without care an event from before a write would undo it in
this view, and the next plan would write again. So an older state of an object never replaces a
newer one, and an object that we deleted does not come back.

Source: resource versions of one resource are ordered numbers, KEP-5504 (seen on 1.37.2); should
they ever be no numbers, the event wins, and the next one corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.kube.api import SliceEvent, SliceGone, SliceQuery, SliceSeen, SlicesListed
from berth.kube.slices import Slice


class ObservedSlices:
    """The slices of one driver on one node, as far as is known.

    Args:
        query: Which slices are ours; others are ignored, whatever a watch brings.
    """

    def __init__(self, query: SliceQuery) -> None:
        self._query = query
        self._by_name: dict[str, Slice] = {}
        self._deleted: set[str] = set()
        self._listed = False

    @property
    def listed(self) -> bool:
        """Whether the whole list was seen at least once; until then nothing may be planned."""
        return self._listed

    def slices(self) -> tuple[Slice, ...]:
        """The slices in the order of their names."""
        return tuple(self._by_name[name] for name in sorted(self._by_name))

    def apply(self, event: SliceEvent) -> bool:
        """Take an event of the watch.

        Returns:
            Whether anything is known now that was not known before.
        """
        before, listed = dict(self._by_name), self._listed
        if isinstance(event, SlicesListed):
            self.list(event.slices)
        elif isinstance(event, SliceSeen):
            self._see(event.slice)
        elif isinstance(event, SliceGone):
            self._lose(event.slice)
        return before != self._by_name or listed != self._listed

    def list(self, slices: Iterable[Slice]) -> None:
        """Forget what was known, in favour of a list just read."""
        known, self._by_name = self._by_name, {}
        for item in slices:
            self._see(item, known.get(item.name))
        self._deleted.clear()
        self._listed = True

    def wrote(self, stored: Slice) -> None:
        """Note what the server answered to a create or an update."""
        self._see(stored)

    def removed(self, gone: Slice) -> None:
        """Note that a slice was deleted, or was found to be gone."""
        self._lose(gone)
        self._deleted.add(gone.uid)

    def _see(self, item: Slice, known: Slice | None = None) -> None:
        ours = (item.driver, item.node_name) == (self._query.driver, self._query.node_name)
        known = self._by_name.get(item.name, known)
        if known is not None and known.uid == item.uid and _is_older(item, known):
            item = known
        if ours and item.uid not in self._deleted:
            self._by_name[item.name] = item

    def _lose(self, item: Slice) -> None:
        known = self._by_name.get(item.name)
        if known is not None and known.uid == item.uid:
            del self._by_name[item.name]
        self._deleted.discard(item.uid)


def _is_older(one: Slice, other: Slice) -> bool:
    texts = one.resource_version, other.resource_version
    return all(text.isdecimal() for text in texts) and int(texts[0]) < int(texts[1])
