"""Lenient reading: absent is empty, of another type is a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berth.errors import RemoteProtocolError
from berth.kube import fields


@pytest.mark.parametrize("value", [{}, {"key": None}])
def test_absent_and_null_fields_are_empty(value: dict[str, Any]) -> None:
    """The server's schema makes no difference between the two."""

    assert fields.mapping(value, "key") == {}
    assert fields.text(value, "key") == ""
    assert fields.integer(value, "key") == 0
    assert fields.mappings(value, "key") == []
    assert fields.texts(value, "key") == ()


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (fields.mapping, []),
        (fields.text, 1),
        (fields.integer, "1"),
        (fields.integer, True),
        (fields.mappings, {}),
        (fields.mappings, [1]),
        (fields.texts, [{}]),
    ],
)
def test_field_of_another_type_is_told_with_its_place(
    read: Callable[[Any, str], object], value: object
) -> None:
    """The message names the field, what it is and what it must be."""

    with pytest.raises(RemoteProtocolError, match=r"key.*found.*must be"):
        read({"key": value}, "key")


def test_field_of_what_is_no_object_is_told() -> None:
    """A list where an object is due is no crash."""

    with pytest.raises(RemoteProtocolError, match="key"):
        fields.text([], "key")
