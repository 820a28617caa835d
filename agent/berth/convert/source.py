"""What an operator hands over to the document in it: a plugin's file, or the ConfigMap with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from berth.config.forms import listed
from berth.convert.findings import shown
from berth.errors import ConfigError
from berth.model import jsontext

KIND: Final = "ConfigMap"


@attrs.frozen(kw_only=True)
class Source:
    """A plugin's document.

    Attributes:
        where: The file, and the key of the ConfigMap in it.
    """

    document: Any
    where: str


def find(
    text: bytes, where: str, *, key: str, read_yaml: Callable[[bytes, str], Sequence[Any]]
) -> Source:
    """The plugin's document in a file.

    Args:
        where: The file.
        key: Key of the ConfigMap; empty where it has one alone.
        read_yaml: Gives the objects of a YAML text.

    Raises:
        ConfigError: There is none, or it is not known which.
    """
    if not text.lstrip().startswith((b"{", b"[")):
        return _in_one_of(read_yaml(text, where), where, key)
    document = _json(text, where)
    if isinstance(document, Mapping) and document.get("kind") in {KIND, "List"}:
        items = document.get("items")
        return _in_one_of(items if isinstance(items, list) else [document], where, key)
    if key:
        raise ConfigError(where, "is no ConfigMap", rule="--key names a key of one")
    return Source(document=document, where=where)


def _in_one_of(objects: Sequence[Any], where: str, key: str) -> Source:
    maps = [each for each in objects if isinstance(each, Mapping) and each.get("kind") == KIND]
    if len(maps) != 1:
        raise ConfigError(
            where,
            f"holds {len(maps)} ConfigMaps" if maps else "is neither JSON nor a ConfigMap",
            rule="it must be a plugin's file, which is JSON, or one ConfigMap with it",
            mend="kubectl get configmap NAME -o yaml gives one",
        )
    data = maps[0].get("data")
    texts = data if isinstance(data, Mapping) else {}
    keys = [str(each) for each in texts]
    if not key and len(keys) == 1:
        (key,) = keys
    if key not in texts:
        found = f"has no data[{shown(key)}]" if key else f"has {len(keys)} keys in data"
        raise ConfigError(where, found, mend=_which(keys))
    place = f"{where}: data[{shown(key)}]"
    text = texts[key]
    if not isinstance(text, str):
        raise ConfigError(place, "is no text", rule="it must be the plugin's file")
    return Source(document=_json(text, place), where=place)


def _which(keys: Sequence[str]) -> str:
    names = listed([shown(each) for each in keys[:10]], last="or")
    more = " …" if len(keys) > 10 else ""
    return f"say by --key which one: {names}{more}" if keys else ""


def _json(text: str | bytes, where: str) -> Any:
    try:
        return jsontext.loads(text)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}"
        raise ConfigError(place, f"is no JSON: {error.msg}", mend=_hint(error)) from error
    except ValueError as error:
        raise ConfigError(where, f"is no JSON: {error}") from error


def _hint(error: json.JSONDecodeError) -> str:
    if error.doc.startswith(",", error.pos):  # as Python 3.13 and newer tell it
        return "drop it"
    before = error.doc[: error.pos].rstrip()
    return "drop the comma before it" if before.endswith(",") else ""
