"""What a NIC has at home, taken over into its configuration where that asks for it.

It is read as if the author had written it: what cannot be written in a claim (a route in a table of
the kernel's own, an address with the prefix 0) is refused and not dropped, and whatever is taken
over can be written to disk and read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from berth.nic.config.build import plain_object
from berth.nic.config.decode import Setting, read_item
from berth.nic.config.devicefacts import HomeSettings
from berth.nic.config.items import identity
from berth.nic.config.merge import Draft
from berth.nic.config.report import Place
from berth.nic.config.values import AddressConfig


def take_over(draft: Draft, home: HomeSettings) -> Draft:
    """The draft with what it inherits, behind its own; its own wins where both say something.

    What is inherited is told at the field ``inherit``, with what the kernel knows it by.
    """
    wish = draft.settings.get("inherit")
    if wish is None or not wish.sound:
        return draft
    lists = {path: _extended(draft.settings.get(path), path, wish, home) for path in wish.value}
    return attrs.evolve(draft, settings={**draft.settings, **lists})


def _extended(own: Setting | None, path: str, wish: Setting, home: HomeSettings) -> Setting:
    mine = own or Setting(value=(), place=wish.place)
    known = {identity(item) for item in mine.value}
    found = [item for item in getattr(home, path) if identity(item) not in known]
    before = wish.place.report.count
    read = list(_read(found, path, wish.place))
    return attrs.evolve(
        mine,
        value=(*mine.value, *(item for item, _ in read)),
        item_places=(*mine.item_places, *(place for _, place in read)),
        sound=mine.sound and wish.place.report.count == before,
    )


def _read(items: Sequence[object], path: str, place: Place) -> Iterator[tuple[object, Place]]:
    for item in items:
        here = place.at(str(identity(item)))
        raw = plain_object(item, f"{path}[]")
        if isinstance(item, AddressConfig):
            # Its duplicates were searched for at home; a second search would outlast the hook.
            raw["noDAD"] = True
        read = read_item(raw, here, path)
        if read is not None:
            yield read, here
