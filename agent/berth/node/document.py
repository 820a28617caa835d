"""Records to the bytes of their files and back.

Each file says by a number which program it is for. One of a newer program is refused, since nothing
may be undone that cannot be read; what is no record of any program is damaged, and set aside.

The form follows from the values' own annotations: an object per class, a list per tuple, text for
addresses. Reading is strict, so that a record is never half of what was written: each key is known,
each type is the annotated one, and only what has a default may be missing.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

import attrs

from berth.errors import StateError
from berth.model.device import Version
from berth.nic.record import NicRecord
from berth.node.record import SCHEMA, ClaimRecord

T = TypeVar("T")

_ADDRESSES: Final = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)
# What annotations name by a quoted alias, whose own module is not the one that is asked.
_NAMES: Final = {kind.__name__: kind for kind in (*_ADDRESSES, Version)}


class DamagedRecord(StateError):
    """A file is no record of any program; it is set aside, unlike one of a newer program."""


def to_bytes(record: ClaimRecord | NicRecord) -> bytes:
    """The file of a record."""
    document = {"schema": SCHEMA, "record": _encode(record)}
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def claim_from_bytes(content: bytes, *, where: str) -> ClaimRecord:
    """Read a claim's file.

    Raises:
        DamagedRecord: It is not a claim's record.
        StateError: It is one of a newer program.
    """
    return _from_bytes(content, ClaimRecord, where)


def nic_from_bytes(content: bytes, *, where: str) -> NicRecord:
    """Read a NIC's file; raises as `claim_from_bytes` does."""
    return _from_bytes(content, NicRecord, where)


def _from_bytes(content: bytes, kind: type[T], where: str) -> T:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedRecord(where, f"is no JSON ({type(error).__name__}: {error})") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if type(schema) is not int or schema < SCHEMA:
        raise DamagedRecord(where, "is no record: it has no schema number that was ever used")
    if schema > SCHEMA:
        raise StateError(
            where,
            f"has schema {schema}",
            rule=f"this program reads {SCHEMA}",
            mend="install the berthd that wrote it, or unprepare its claim there first",
        )
    record: T = _decode_class(kind, document.get("record"), f"{where}: record")
    return record


def _encode(value: Any) -> Any:
    kind: Any = type(value)
    if attrs.has(kind):
        return {field: _encode(getattr(value, field)) for field in _fields(kind)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    return str(value) if isinstance(value, _ADDRESSES) else value


@functools.cache
def _fields(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """The annotation of each field, and whether it must be given."""
    hints = typing.get_type_hints(kind, localns=_NAMES)
    return {
        field.name: (hints[field.name], field.default is attrs.NOTHING)
        for field in attrs.fields(kind)
    }


def _decode_class(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise DamagedRecord(path, "is no object")
    fields = _fields(kind)
    for key in value.keys() - fields.keys():
        raise DamagedRecord(f"{path}.{key}", "is not known")
    for name, (_, needed) in fields.items():
        if needed and name not in value:
            raise DamagedRecord(f"{path}.{name}", "is missing")
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
        raise DamagedRecord(path, f"has {len(values)} items where {len(hints)} belong")
    return tuple(
        _decode(hint, value, f"{path}[{index}]")
        for index, (hint, value) in enumerate(zip(hints, values, strict=True))
    )


def _decode_union(kinds: tuple[Any, ...], value: Any, path: str) -> Any:
    for kind in kinds:
        try:
            return _decode(kind, value, path)
        except DamagedRecord as error:
            fault = error
    raise fault


def _typed(kind: type[T], value: Any, path: str) -> T:
    # `True` is an int to isinstance, and no number to us.
    if type(value) is not kind:
        raise DamagedRecord(path, f"is {type(value).__name__} where {kind.__name__} belongs")
    return value


def _made(kind: Callable[[str], T], text: str, path: str) -> T:
    try:
        return kind(text)
    except ValueError as error:
        raise DamagedRecord(path, str(error)) from error
