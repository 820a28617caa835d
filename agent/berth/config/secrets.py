"""Secrets do not belong into the configuration: it is world-readable, copied and quoted.

What looks like one is a fault and is taken out before anything else is read, so that no message
can show it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from berth.config.finding import Cursor

_NAME = re.compile(
    r"(?:^|[_-])(?:token|password|passwd|passphrase|secret|bearer|api[_-]?key|private[_-]?key"
    r"|(?:client[_-])?key[_-]data|secret[_-]?key)$"
)

_VALUE = re.compile(
    r"eyJ[\w-]{8,}\.[\w-]{8,}\."  # a JSON web token, as service accounts have
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|^Bearer "
    r"|://[^/@\s:]*:[^/@\s]+@"  # an address with user and password
)


def looks_secret(name: str, value: object) -> bool:
    """Whether a key's name or text says that it holds a secret."""
    if isinstance(value, list):
        return any(looks_secret(name, item) for item in value)
    named = _NAME.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return isinstance(value, str) and bool(value) and bool(named or _VALUE.search(value))


def without_secrets(table: Mapping[str, Any], cursor: Cursor) -> dict[str, Any]:
    """The table less the keys that hold a secret; each of them is noted as a fault."""
    kept: dict[str, Any] = {}
    for name, value in table.items():
        if looks_secret(name, value):
            cursor.at(name).say(
                "holds what looks like a secret (it is not shown here)",
                rule="this file must hold none",
                mend="put it into a file that root alone can read, and name that file: "
                "[kubernetes] token_file or kubeconfig",
            )
        else:
            kept[name] = _inside(value, cursor.at(name))
    return kept


def _inside(value: object, cursor: Cursor) -> object:
    if isinstance(value, Mapping):
        return without_secrets(value, cursor)
    if isinstance(value, list):
        return [_inside(item, cursor.at(number)) for number, item in enumerate(value)]
    return value
