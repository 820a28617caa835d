"""Rules for the names that Kubernetes, CDI and the kernel accept, and names made from hardware.

Source: ``apimachinery/pkg/util/validation`` (DNS label and subdomain), ``resource.k8s.io/v1``
(qualified names of attributes), CDI SPEC.md (device names), ``net/core/dev.c`` (interface names).
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

LABEL_LIMIT: Final = 63
"""Longest DNS label, and so the longest device name, in bytes."""

IDENTIFIER_LIMIT: Final = 32
"""Longest C identifier of an attribute or capacity name, in bytes."""

INTERFACE_LIMIT: Final = 15
"""Longest interface name, in bytes (``IFNAMSIZ`` less the terminator)."""
TEXT_LIMIT: Final = 2000
"""Longest text of a peer that is kept, in characters: an event on a pod shows some thousand."""

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def is_dns_label(text: str) -> bool:
    """Whether ``text`` is a DNS label: lower case, at most 63 bytes."""
    return _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str, *, limit: int = LABEL_LIMIT) -> bool:
    """Whether ``text`` is a DNS subdomain of at most ``limit`` bytes, as driver names are."""
    return len(text) <= limit and all(is_dns_label(part) for part in text.split("."))


def is_qualified_name(text: str) -> bool:
    """Whether ``text`` may name an attribute or capacity: ``[domain/]identifier``."""
    domain, slash, identifier = text.rpartition("/")
    if slash and not is_dns_subdomain(domain):
        return False
    return _IDENTIFIER.fullmatch(identifier) is not None


def is_pci_address(text: str) -> bool:
    """Whether ``text`` is a PCI address as sysfs writes it, such as ``0000:41:00.0``."""
    return _PCI.fullmatch(text) is not None


def slug(text: str) -> str:
    """``text`` as the inside of a DNS label: lower case, every other character a hyphen."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def device_name(prefix: str, text: str) -> str:
    """A device name for a slice: ``prefix-slug``, cut to 63 bytes by a hash of the whole.

    The hash keeps two long names apart that share their first 54 bytes.
    """
    whole = f"{prefix}-{slug(text)}"
    if len(whole) <= LABEL_LIMIT:
        return whole
    digest = hashlib.sha256(f"{prefix}-{text}".encode()).hexdigest()[:8]
    return f"{whole[: LABEL_LIMIT - 9].rstrip('-')}-{digest}"


def excerpt(text: str, *, limit: int = TEXT_LIMIT) -> str:
    """``text`` cut in the middle to ``limit`` characters: what matters stands at both ends.

    For what a peer says: its messages have megabytes, and what is kept of them is shown again.
    """
    if len(text) <= limit:
        return text
    half = limit // 2 - 1
    return f"{text[:half]} … {text[-half:]}"
