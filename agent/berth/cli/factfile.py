"""A look at a machine as a file: written on one machine, planned from on another.

Names and addresses of the machine are in it, and no secrets. Hardware addresses can be replaced by
ones that only this file has: equal ones stay equal, as the rules about them need, and the key that
they were made with is not kept. IPv6 addresses that were made from a hardware address go with it.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, Final

from berth import __version__
from berth.errors import ConfigError, StateError
from berth.host.scan import HostScan
from berth.model.structure import from_json, to_json
from berth.runtime.files import write_file

SCHEMA: Final = 1
"""Version of the form; a file of a newer one is refused."""

SIZE_LIMIT: Final = 64 * 1024 * 1024
"""Largest file that is read, in bytes."""

_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}((:[0-9a-f]{2}){14})?")
_KEPT: Final = frozenset({"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"})
_EUI: Final = b"\xff\xfe"


def facts_text(scan: HostScan, *, hash_macs: bool = False, key: bytes = b"") -> str:
    """The file's text.

    Args:
        hash_macs: Replace hardware addresses.
        key: What they are hashed with; a random one unless given.
    """
    found = to_json(scan)
    if hash_macs:
        found = _hashed(found, key or secrets.token_bytes(16))
    document = {"schema": SCHEMA, "berth": __version__, "hashed": hash_macs, "scan": found}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def save_facts(path: Path, text: str) -> None:
    """Write the file, whole or not at all, for its owner alone.

    Raises:
        HostError: The system refused.
    """
    write_file(path, text.encode())


def read_facts(path: Path) -> HostScan:
    """Read a file that `save_facts` wrote.

    Raises:
        ConfigError: It cannot be read, or is none.
    """
    mend = "make it with `berth facts --save` of this version"
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), f"is no JSON: {error}", mend=mend) from error
    schema = document.get("schema") if isinstance(document, Mapping) else None
    if type(schema) is not int or schema != SCHEMA:
        raise ConfigError(str(path), f"has schema {schema!r}", rule=f"{SCHEMA} is read", mend=mend)
    try:
        return from_json(HostScan, document.get("scan"), where=f"{path}: scan")
    except StateError as error:
        raise ConfigError(error.where, error.found, mend=mend) from error


def _hashed(value: Any, key: bytes) -> Any:
    if isinstance(value, str):
        return _hashed_text(value, key)
    if isinstance(value, Mapping):
        return {name: _hashed(item, key) for name, item in value.items()}
    return [_hashed(item, key) for item in value] if isinstance(value, list) else value


def _hashed_text(text: str, key: bytes) -> str:
    if _MAC.fullmatch(text):
        return text if text in _KEPT else _hash(text, key)
    address, slash, length = text.partition("/")
    try:
        packed = IPv6Address(address).packed
    except ValueError:
        return text
    if packed[11:13] != _EUI:
        return text
    # RFC 4291, appendix A: the address around ff:fe, its seventh bit turned over.
    own = bytes([packed[8] ^ 2, *packed[9:11], *packed[13:]])
    octets = bytes.fromhex(_hash(own.hex(":"), key).replace(":", ""))
    made = bytes([octets[0] ^ 2, *octets[1:3], *_EUI, *octets[3:]])
    return f"{IPv6Address(packed[:8] + made)}{slash}{length}"


def _hash(address: str, key: bytes) -> str:
    """Another address of the same length, local and unicast."""
    length = address.count(":") + 1
    digest = hashlib.blake2b(address.encode(), key=key, digest_size=length - 1).digest()
    return bytes([2, *digest]).hex(":")
