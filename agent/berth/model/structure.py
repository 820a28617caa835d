"""Values as JSON and back, by their own annotations.

An object per class, a list per tuple, text for addresses. Reading is strict, so that a value is
never half of what was written: each key is known, each type is the annotated one, and only what has
a default may be missing. Members of a union are told apart by their fields; the first that fits is
taken.
"""

from __future__ import annotations

import functools
import ipaddress
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

import attrs

from berth.errors import StateError
from berth.model.device import Version

T = TypeVar("T")

_ADDRESSES: Final = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)
_PLAIN: Final = frozenset({str, int, bool, float, type(None)})
# What annotations name by a quoted alias, or import for a type checker alone.
_NAMES: Final[Mapping[str, Any]] = {
    "Mapping": Mapping,
    **{kind.__name__: kind for kind in (*_ADDRESSES, Version)},
}


class Misfit(StateError):
    """A document that has not the form of the value that it should hold."""


def to_json(value: object) -> Any:
    """The value as JSON; `from_json` gives an equal one back."""
    return _encode(value)


def from_json(kind: type[T], document: object, *, where: str) -> T:
    """Read a value that `to_json` wrote.

    Args:
        kind: Its class.
        where: Where the document stands, for the error.

    Raises:
        Misfit: It is not what `to_json` writes; the error names the place in it.
    """
    value: T = _decode_class(kind, document, where)
    return value


def _encode(value: Any) -> Any:
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if attrs.has(kind):
        return {field: _encode(getattr(value, field)) for field in fields_of(kind)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    return str(value) if isinstance(value, _ADDRESSES) else value


@functools.cache
def fields_of(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """The annotation of each field, and whether it must be given."""
    hints = typing.get_type_hints(kind, localns=dict(_NAMES))
    return {
        field.name: (hints[field.name], field.default is attrs.NOTHING)
        for field in attrs.fields(kind)
    }


def _decode_class(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise Misfit(path, "is no object")
    fields = fields_of(kind)
    for key in value.keys() - fields.keys():
        raise Misfit(f"{path}.{key}", "is not known")
    for name, (_, needed) in fields.items():
        if needed and name not in value:
            raise Misfit(f"{path}.{name}", "is missing")
    return kind(
        **{key: _decode(fields[key][0], item, f"{path}.{key}") for key, item in value.items()}
    )


def _decode(hint: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in {typing.Union, types.UnionType}:
        return _decode_union(typing.get_args(hint), value, path)
    if origin is tuple:
        return _decode_tuple(typing.get_args(hint), _typed(list, value, path), path)
    if origin is not None:
        item = typing.get_args(hint)[1]
        return {
            key: _decode(item, each, f"{path}.{key}")
            for key, each in _typed(dict, value, path).items()
        }
    if attrs.has(hint):
        return _decode_class(hint, value, path)
    if hint in _ADDRESSES or issubclass(hint, Enum):
        return _made(hint, _typed(str, value, path), path)
    return _typed(hint, value, path)


def _decode_tuple(hints: tuple[Any, ...], values: list[Any], path: str) -> tuple[Any, ...]:
    if hints[-1] is Ellipsis:
        hints = hints[:1] * len(values)
    if len(hints) != len(values):
        raise Misfit(path, f"has {len(values)} items where {len(hints)} belong")
    return tuple(
        _decode(hint, value, f"{path}[{index}]")
        for index, (hint, value) in enumerate(zip(hints, values, strict=True))
    )


def _decode_union(kinds: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is not None:
        # Of what is there its own fault is told, and not that it is no None.
        kinds = tuple(kind for kind in kinds if kind is not type(None))
    for kind in kinds:
        try:
            return _decode(kind, value, path)
        except Misfit as error:
            fault = error
    raise fault


def _typed(kind: type[T], value: Any, path: str) -> T:
    # `True` is an int to isinstance, and no number to us.
    if type(value) is not kind:
        raise Misfit(path, f"is {type(value).__name__} where {kind.__name__} belongs")
    return value


def _made(kind: Callable[[str], T], text: str, path: str) -> T:
    try:
        return kind(text)
    except ValueError as error:
        raise Misfit(path, str(error)) from error
