"""Fields of JSON objects from the API server, read leniently: absent is empty, wrong is told.

The server's schema says that an absent field and an empty one are the same, and newer servers send
fields that we do not know. So only a field of another type than its schema's is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from berth.errors import RemoteProtocolError

_T = TypeVar("_T")


def mapping(value: Any, key: str) -> Mapping[str, Any]:
    """The object at ``key``, empty when absent.

    Raises:
        RemoteProtocolError: ``value`` is no object, or what lies at ``key`` is none.
    """
    return _field(value, key, dict, {})


def text(value: Any, key: str) -> str:
    """The string at ``key``, empty when absent.

    Raises:
        RemoteProtocolError: ``value`` is no object, or what lies at ``key`` is no string.
    """
    return _field(value, key, str, "")


def integer(value: Any, key: str) -> int:
    """The integer at ``key``, 0 when absent.

    Raises:
        RemoteProtocolError: ``value`` is no object, or what lies at ``key`` is no integer.
    """
    found = _field(value, key, int, 0)
    if isinstance(found, bool):
        raise _wrong(key, found, "int")
    return found


def mappings(value: Any, key: str) -> list[Mapping[str, Any]]:
    """The list of objects at ``key``, empty when absent.

    Raises:
        RemoteProtocolError: ``value`` is no object, or what lies at ``key`` is no list of objects.
    """
    return _items(value, key, dict)


def texts(value: Any, key: str) -> tuple[str, ...]:
    """The list of strings at ``key``, empty when absent.

    Raises:
        RemoteProtocolError: ``value`` is no object, or what lies at ``key`` is no list of strings.
    """
    return tuple(_items(value, key, str))


def _items(value: Any, key: str, kind: type[_T]) -> list[_T]:
    items: list[Any] = _field(value, key, list, [])
    for index, item in enumerate(items):
        if not isinstance(item, kind):
            raise _wrong(f"{key}[{index}]", item, kind.__name__)
    return items


def _field(value: Any, key: str, kind: type[_T], default: _T) -> _T:
    if not isinstance(value, dict):
        raise _wrong(key, value, "an object around it")
    found = value.get(key)
    if found is None:
        return default
    if not isinstance(found, kind):
        raise _wrong(key, found, kind.__name__)
    return found


def _wrong(where: str, found: object, wanted: str) -> RemoteProtocolError:
    return RemoteProtocolError(where, f"found {type(found).__name__}", rule=f"must be {wanted}")
