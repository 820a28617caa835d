"""What a NIC has at home, taken over into its configuration where that asks for it."""

from __future__ import annotations

import attrs

from berth.nic.config.decode import Setting
from berth.nic.config.devicefacts import HomeSettings
from berth.nic.config.items import identity
from berth.nic.config.merge import Draft


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
    places = (wish.place.at(str(identity(item))) for item in found)
    return attrs.evolve(mine, value=(*mine.value, *found), item_places=(*mine.item_places, *places))
