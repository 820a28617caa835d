"""From JSON, or the same shape in TOML, to settings that remember where they stood.

Reading never stops at a fault: the fault is noted at its place, and the rest is read on. What could
not be read is remembered as unsound, so that later checks do not build a second fault on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any, Final

import attrs

from berth.model.jsontext import duplicates
from berth.nic.config.field import Field, attribute
from berth.nic.config.fields import MEMBERS, join
from berth.nic.config.items import BUILDERS, check_unique
from berth.nic.config.kinds import Objects
from berth.nic.config.nearest import nearest
from berth.nic.config.report import Place


class Reset(Enum):
    """What a ``null`` asks for: the built-in default."""

    RESET = "null"


RESET: Final = Reset.RESET


@attrs.frozen(kw_only=True)
class Setting:
    """One field as one text sets it.

    Attributes:
        value: As the field's form reads it, or `RESET`.
        place: Where it stands.
        item_places: Of a list of objects: where each item stands.
        sound: All of it could be read.
    """

    value: Any
    place: Place
    item_places: tuple[Place, ...] = ()
    sound: bool = True


@attrs.frozen(kw_only=True)
class Layer:
    """What one text sets, by the path of field or object; objects only when reset as a whole.

    Attributes:
        of_claim: The text's author is a tenant.
    """

    settings: Mapping[str, Setting]
    of_claim: bool = False


def decode(
    raw: Mapping[str, Any],
    place: Place,
    *,
    of_claim: bool = False,
    beside: Collection[str] = (),
) -> Layer:
    """Read a configuration; faults go to the place's report.

    Args:
        raw: The object, as `berth.model.jsontext` or a TOML reader gives it.
        place: Where it stands.
        of_claim: See `Layer`.
        beside: Keys at the top that are no fields, and that the caller has read.
    """
    return Layer(settings=_object(raw, place, "", beside), of_claim=of_claim)


def _object(
    raw: Mapping[str, Any], place: Place, path: str, beside: Collection[str] = ()
) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    for key in duplicates(raw):
        place.at(key).say("given more than once", rule="each field stands once")
    for key, value in raw.items():
        here, inner = place.at(key), join(path, key)
        if key in beside:
            continue
        if key not in MEMBERS[path]:
            _say_unknown(key, here, path)
        elif value is None:
            settings[inner] = Setting(value=RESET, place=here)
        else:
            settings |= _member(MEMBERS[path][key], value, here, inner)
    return settings


def _member(field: Field | None, value: object, place: Place, path: str) -> Mapping[str, Setting]:
    if field is None:
        if isinstance(value, Mapping):
            return _object(value, place, path)
        place.refuse(value, rule="it must be an object")
        return {}
    if isinstance(field.form, Objects):
        return {path: _items(field.form, value, place, path)}
    read = field.form.read(value, place)
    if read is None:
        return {path: Setting(value=RESET, place=place, sound=False)}
    return {path: Setting(value=read, place=place)}


def _items(form: Objects, raw: object, place: Place, path: str) -> Setting:
    before = place.report.count
    values, places = [], []
    for number, item in enumerate(form.read(raw, place) or ()):
        built = read_item(item, place.at(number), path)
        if built is not None:
            values.append(built)
            places.append(place.at(number))
    sound = place.report.count == before
    check_unique(path, values, places)
    return Setting(value=tuple(values), place=place, item_places=tuple(places), sound=sound)


def read_item(raw: object, place: Place, path: str) -> object | None:
    """Read one item of the list at ``path``; ``None`` when that was refused."""
    if not isinstance(raw, Mapping):
        place.refuse(raw, rule="it must be an object")
        return None
    inner = f"{path}[]"
    settings = _object(raw, place, inner)
    given = {
        attribute(each.rpartition(".")[2]): setting.value
        for each, setting in settings.items()
        if setting.value is not RESET
    }
    lacking = _lacking(given, raw, inner)
    for name in lacking:
        place.say(f"lacks {name}", rule=f"it must be given: {_label(inner, name)}")
    sound = not lacking and all(setting.sound for setting in settings.values())
    build: Callable[[Mapping[str, Any], Place], object | None] = BUILDERS[path]
    return build(given, place) if sound else None


def _lacking(given: Mapping[str, Any], raw: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Required fields that are absent, or null; one at fault is told of already."""
    return tuple(
        name
        for name, field in MEMBERS[path].items()
        if field is not None and field.required and attribute(name) not in given
        if raw.get(name) is None
    )


def _label(path: str, name: str) -> str:
    field = MEMBERS[path][name]
    return "" if field is None else field.form.label


def _say_unknown(key: str, place: Place, path: str) -> None:
    if place.report.full:
        place.say("unknown field")
        return
    near = nearest(key, path)
    known = f"known here are {', '.join(MEMBERS[path])}"
    place.say(
        "unknown field", rule="" if near else known, mend=f"did you mean {near}?" * bool(near)
    )
