"""Records to the bytes of their files and back.

A claim of a newer program is refused, since nothing may be undone that cannot be read; what is no
record of any program is damaged, and set aside.

The form follows from the values' own annotations (`berth.model.structure`), and reading is strict,
so that a record is never half of what was written.
"""

from __future__ import annotations

import json
from typing import TypeVar

import attrs

from berth.generic.identity import Memory
from berth.gpu.witness import Remembered
from berth.model.envelope import Damaged, opened
from berth.model.structure import Misfit, from_json, to_json
from berth.nic.record import NicRecord
from berth.node.records.given import Given
from berth.node.records.olderrecords import claim_of_today, given_of_today
from berth.node.records.record import SCHEMA, ClaimRecord

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class KnownGpus:
    """What NVML said last of every GPU."""

    gpus: tuple[Remembered, ...]


def to_bytes(record: ClaimRecord | Given | NicRecord | Memory | KnownGpus) -> bytes:
    """The file of a record."""
    document = {"schema": SCHEMA, "record": to_json(record)}
    # Indented it would be written by Python instead of C, for four times as long.
    return json.dumps(document, sort_keys=True).encode() + b"\n"


def claim_from_bytes(content: bytes, *, where: str) -> ClaimRecord:
    """Read a claim's file.

    Raises:
        Damaged: It is not a claim's record.
        StateError: It is one of a newer program.
    """
    return claim_of_today(_from_bytes(content, ClaimRecord, where))


def given_from_bytes(content: bytes, *, where: str) -> Given:
    """Read the file of what the device plugin gave; raises as `claim_from_bytes` does."""
    return given_of_today(_from_bytes(content, Given, where))


def memory_from_bytes(content: bytes, *, where: str) -> Memory:
    """Read what a survey of device nodes left; raises as `claim_from_bytes` does."""
    return _from_bytes(content, Memory, where)


def gpus_from_bytes(content: bytes, *, where: str) -> tuple[Remembered, ...]:
    """Read what NVML said last; raises as `claim_from_bytes` does."""
    return _from_bytes(content, KnownGpus, where).gpus


def nic_from_bytes(content: bytes, *, where: str) -> NicRecord:
    """Read a NIC's file; raises as `claim_from_bytes` does."""
    return _from_bytes(content, NicRecord, where)


def _from_bytes(content: bytes, kind: type[T], where: str) -> T:
    mend = "install the berthd that wrote it, or unprepare its claim there first"
    document = opened(content, schema=SCHEMA, where=where, mend=mend)
    try:
        return from_json(kind, document.get("record"), where=f"{where}: record")
    except Misfit as error:
        raise Damaged(error.where, error.found) from error
