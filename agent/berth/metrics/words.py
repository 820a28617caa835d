"""The few words by which figures tell outcomes apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.errors import (
    ClaimError,
    ConfigError,
    HostError,
    KubeError,
    ProtocolError,
    StateError,
)

OK: Final = "ok"
ERROR: Final = "error"
LATE: Final = "late"

UNKNOWN: Final = "unknown"
"""Kind of a claim of which nothing is known."""

MIXED: Final = "mixed"
"""Kind of a claim whose devices are of several."""

_REASONS: Final = (
    (ClaimError, "claim"),
    (ConfigError, "config"),
    (KubeError, "api"),
    (HostError, "host"),
    (StateError, "state"),
    (ProtocolError, "peer"),
)

_WRITTEN: Final = {404: "conflict", 409: "conflict", 403: "refused", 422: "refused"}


def reason_of(error: BaseException) -> str:
    """Whose fault an error was; what is no error of ours is a defect."""
    return next((word for kind, word in _REASONS if isinstance(error, kind)), "defect")


def result_of_write(error: KubeError | None) -> str:
    """How a write to the API server ended."""
    return OK if error is None else _WRITTEN.get(error.status, ERROR)


def one_kind(kinds: Iterable[str]) -> str:
    """The kind of what has devices of these kinds."""
    found = set(kinds)
    return found.pop() if len(found) == 1 else MIXED if found else UNKNOWN


def kind_of_type(type_: str) -> str:
    """The kind of a device by its attribute ``type``: every sort of NIC is a NIC."""
    return "nic" if type_.startswith("nic") or type_ == "rdma" else type_
