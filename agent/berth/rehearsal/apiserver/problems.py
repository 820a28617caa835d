"""What is wrong with an object, and the answers by which the API server says so.

Source: ``apimachinery/pkg/util/validation/field/errors.go`` and ``api/errors/errors.go`` of 1.37.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from berth.errors import KubeError

REQUIRED: Final = "FieldValueRequired"
INVALID: Final = "FieldValueInvalid"
DUPLICATE: Final = "FieldValueDuplicate"
FORBIDDEN: Final = "FieldValueForbidden"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"
NOT_FOUND: Final = "FieldValueNotFound"

_WORDS: Final = {
    REQUIRED: "Required value",
    INVALID: "Invalid value",
    DUPLICATE: "Duplicate value",
    FORBIDDEN: "Forbidden",
    NOT_SUPPORTED: "Unsupported value",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    NOT_FOUND: "Not found",
}
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
}


@attrs.frozen
class Problem:
    """One fault of an object.

    Attributes:
        path: Such as ``spec.devices[3].name``.
        reason: One of the words above.
        detail: What is allowed.
        value: The value found; ``None`` when showing it says nothing.
    """

    path: str
    reason: str
    detail: str
    value: Any = None

    def __str__(self) -> str:
        word = _WORDS[self.reason]
        shown = f": {json.dumps(self.value)}" if self.value is not None else ""
        return f"{self.path}: {word}{shown}: {self.detail}".removesuffix(": ")


def refuse(status: int, message: str, *, reason: str = "", fields: Iterable[str] = ()) -> KubeError:
    """An error that the service turns into the answer `status_json` describes."""
    reason = reason or _REASONS.get(status, "")
    return KubeError("", message, status=status, reason=reason, fields=fields)


def status_json(error: KubeError) -> dict[str, Any]:
    """The ``Status`` object for a refused request."""
    causes = [{"field": path, "message": error.found} for path in error.fields]
    details = {"causes": causes} if causes else {}
    return _status(error.status, error.reason, error.found, details)


def invalid_json(kind: str, group: str, name: str, problems: Iterable[Problem]) -> dict[str, Any]:
    """The ``Status`` of a 422 for an object with ``problems``."""
    listed = list(problems)
    text = ", ".join(map(str, listed))
    if len(listed) > 1:
        text = f"[{text}]"
    causes = [
        {"reason": item.reason, "message": str(item).partition(": ")[2], "field": item.path}
        for item in listed
    ]
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    return _status(422, "Invalid", f'{kind}.{group} "{name}" is invalid: {text}', details)


def _status(code: int, reason: str, message: str, details: Mapping[str, Any]) -> dict[str, Any]:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": dict(details),
        "code": code,
    }
    return {key: value for key, value in status.items() if value or key == "metadata"}
