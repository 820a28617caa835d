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
from berth.nic.config.field import Guard
from berth.nic.config.fields import BY_PATH
from berth.nic.config.group import GroupPolicy, covered
from berth.nic.config.report import Place


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


def merge(
    layers: Iterable[Layer], *, policy: GroupPolicy, foreign_link: bool, home: Place
) -> Draft:
    """Lay texts over each other, and note what a claim's author had no right to say.

    Args:
        layers: In the order of precedence, the weakest first.
        policy: Of the device's group.
        foreign_link: The device is a VF or a shared parent, whose hardware address reaches others.
        home: See `Draft`.
    """
    merged: dict[str, Setting] = {}
    for layer in layers:
        for path, setting in layer.settings.items():
            touched = [old for old in merged if covered(old, [path])]
            if setting.value is RESET:
                for old in touched:
                    if layer.of_claim:
                        _check_right(old, merged[old], setting.place, policy, foreign_link)
                    del merged[old]
                if not setting.sound:
                    merged[path] = setting
            else:
                if layer.of_claim:
                    _check_right(path, setting, setting.place, policy, foreign_link)
                merged[path] = setting
    return Draft(settings=merged, home=home)


def _check_right(
    path: str, setting: Setting, place: Place, policy: GroupPolicy, foreign_link: bool
) -> None:
    group = f'group "{policy.name}"'
    if policy.denies_claims(path):
        rule = f"a DeviceClass or the defaults of {group} may"
        place.say(f"a claim may not set {path} here", rule=rule, mend="drop it")
        return
    right = _needed_right(path, setting.value, foreign_link)
    if right and not policy.lets_claims_set(right):
        place.say(
            f"a claim may not set {path if right == path else right} here",
            rule=f"a DeviceClass or the defaults of {group} may",
            mend=f'claims_may = ["{right}"] in that group allows it',
        )


def _needed_right(path: str, value: object, foreign_link: bool) -> str:
    """The right that a claim's author needs; empty when everybody may."""
    field = BY_PATH[path]
    if field.guard is Guard.ALWAYS or (field.guard is Guard.FOREIGN_LINK and foreign_link):
        return path
    return next((right for guarded, right in field.guarded_values if guarded == value), "")
