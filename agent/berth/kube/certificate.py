"""The common name in a client certificate: a kubelet's says which node this is.

Python's standard library gives the subject of a peer's certificate, not of an own one, so the few
fields in the way are walked here. Nothing is verified: the API server does that.

Source: RFC 5280 §4.1 (Certificate), X.690 (DER).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

NODE_PREFIX: Final = "system:node:"
"""What a kubelet's common name begins with; the node's name follows."""

_BLOCK: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----"
)
_COMMON_NAME: Final = bytes.fromhex("0603550403")
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_FIELDS_BEFORE_SUBJECT: Final = 4
"""Serial number, signature algorithm, issuer, validity."""


def node_name(pem: bytes) -> str:
    """The node that the first certificate of ``pem`` names; empty when it is no kubelet's."""
    name = common_name(pem)
    return name[len(NODE_PREFIX) :] if name.startswith(NODE_PREFIX) else ""


def common_name(pem: bytes) -> str:
    """The last common name of the first certificate in ``pem``; empty when there is none."""
    block = _BLOCK.search(pem)
    if block is None:
        return ""
    try:
        return _subject_common_name(base64.b64decode(block[1]))
    except (binascii.Error, ValueError):
        return ""


def _subject_common_name(der: bytes) -> str:
    certificate = _content(der, _SEQUENCE)
    fields = list(_elements(_content(certificate, _SEQUENCE)))
    if fields and fields[0][0] == _VERSION:
        del fields[0]
    tag, subject = (
        fields[_FIELDS_BEFORE_SUBJECT] if len(fields) > _FIELDS_BEFORE_SUBJECT else (0, b"")
    )
    found = ""
    if tag == _SEQUENCE:
        for _, relative_name in _elements(subject):
            for _, attribute in _elements(relative_name):
                if attribute.startswith(_COMMON_NAME):
                    found = _only(attribute[len(_COMMON_NAME) :]).decode()
    return found


def _only(data: bytes) -> bytes:
    return next(_elements(data))[1] if data else b""


def _content(data: bytes, tag: int) -> bytes:
    found, content = next(_elements(data)) if data else (0, b"")
    if found != tag:
        raise ValueError(f"DER tag {found:#x} where {tag:#x} is due")
    return content


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element; tags above 30, which subjects lack, are not read."""
    while data:
        if len(data) < 2:
            raise ValueError("DER element cut off")
        tag, length, start = data[0], data[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(data[2:start], "big")
        if start > 6 or start + length > len(data):
            raise ValueError("DER length beyond the data")
        yield tag, data[start : start + length]
        data = data[start + length :]
