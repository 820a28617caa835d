"""One device's configuration out of several texts: who wins, and who may say what.

Built-in < the group's defaults < entries of the claim's allocation in their order, where those of
the class stand before those of the claim. Scalars: the later one wins. Objects: by key. Lists: a
later one replaces the whole. ``null`` resets to the built-in default. Contract: network.md §3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from berth.nic.config.decode import RESET, Layer, Setting
from berth.nic.config.group import covered
from berth.nic.config.report import Place
from berth.nic.config.rights import Rights


@attrs.frozen(kw_only=True)
class Draft:
    """What all texts together say of one device, and where each part of it stands.

    Attributes:
        settings: By field; a reset one is absent unless what was to be read there is unsound.
        home: Where faults are told that stand in no text.
    """

    settings: Mapping[str, Setting]
    home: Place

    def place(self, path: str) -> Place:
        """Where a field is set; the device's own place when nobody sets it."""
        setting = self.settings.get(path)
        return self.home if setting is None else setting.place

    def item_place(self, path: str, number: int) -> Place:
        """Where an item of a list stands."""
        return self.settings[path].item_places[number]

    def sound(self, *paths: str) -> bool:
        """Whether nothing is known to be missing from these fields."""
        return all(self.settings[path].sound for path in paths if path in self.settings)

    def values(self) -> Mapping[str, Any]:
        """Values by field, as far as they could be read."""
        return {
            path: setting.value
            for path, setting in self.settings.items()
            if setting.value is not RESET
        }


def merge(layers: Iterable[Layer], *, rights: Rights, home: Place) -> Draft:
    """Lay texts over each other, and note what a claim's author had no right to say.

    Args:
        layers: In the order of precedence, the weakest first.
        rights: Of claims on the device.
        home: See `Draft`.
    """
    merged: dict[str, Setting] = {}
    for layer in layers:
        for path, setting in layer.settings.items():
            overruled = {old: merged.pop(old) for old in list(merged) if covered(old, [path])}
            changed = overruled if setting.value is RESET else {path: setting}
            if layer.of_claim:
                for each, change in changed.items():
                    rights.check(each, change.value, setting.place)
            if setting.value is not RESET or not setting.sound:
                merged[path] = _over(overruled.get(path), setting)
    return Draft(settings=merged, home=home)


def _over(weaker: Setting | None, setting: Setting) -> Setting:
    """A setting with what a weaker one says of names that it leaves out, where names are free."""
    value = setting.value
    if not isinstance(value, Mapping):
        return setting
    known = weaker.value if weaker is not None and isinstance(weaker.value, Mapping) else {}
    named = {name: on for name, on in {**known, **value}.items() if on is not None}
    return attrs.evolve(setting, value=named)
