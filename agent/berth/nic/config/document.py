"""A NIC's resolved configuration on disk, in the words of the claim's own language.

It is written as a ``NicConfig`` with every field that has a value, and read by the decoder that
reads claims: what cannot stand in a claim cannot stand in a record. So a later version may widen
the bounds of a field, and must raise `SCHEMA` when it narrows one or changes a meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.errors import StateError
from berth.model.jsontext import Json
from berth.nic.config.build import build, plain
from berth.nic.config.decode import RESET, decode
from berth.nic.config.report import Place, Report
from berth.nic.config.values import NicConfig

SCHEMA: Final = 1
"""Version of the form on disk."""


def to_document(config: NicConfig) -> dict[str, Json]:
    """The configuration as JSON; `from_document` gives an equal one back."""
    return {"schema": SCHEMA, **plain(config)}


def from_document(document: object, *, where: str) -> NicConfig:
    """Read a configuration that `to_document` wrote.

    Args:
        document: The JSON.
        where: Where it stands, for the error.

    Raises:
        StateError: It is of a newer program, or not what `to_document` writes.
    """
    if not isinstance(document, Mapping):
        raise StateError(where, "no object", rule="a NIC's configuration is one")
    schema = document.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        raise StateError(
            where,
            f"schema {schema!r}",
            rule=f"this program reads {SCHEMA}",
            mend="start the program that wrote it, or end the claim's pod under it",
        )
    return _read(document, where)


def _read(document: Mapping[str, Any], where: str) -> NicConfig:
    report = Report()
    layer = decode(document, Place(report=report, root=where), beside=("schema",))
    if faults := report.faults(StateError):
        raise faults[0]
    values = {path: each.value for path, each in layer.settings.items()}
    return build({path: value for path, value in values.items() if value is not RESET})
