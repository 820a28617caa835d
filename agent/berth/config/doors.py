"""What groups of every sort say of kubelet's doors: which one, under what name, and in what form.

Contract: GH §5.1.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from berth.config.forms import Text
from berth.model import peripheral
from berth.model.names import is_dns_subdomain

_RESOURCE_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class Door(Enum):
    """The ways by which a device reaches a pod."""

    DRA = "dra"
    PLUGIN = "plugin"
    AUTO = "auto"
    BOTH = "both"


class Inject(Enum):
    """How a device that was asked for as a resource gets into the container."""

    AUTO = "auto"
    CDI = "cdi"
    SPECS = "specs"


def settled(door: Door, auto: peripheral.Door) -> peripheral.Door:
    """The door that is meant.

    Args:
        door: As it is written.
        auto: What ``auto`` comes to on this node.
    """
    return auto if door is Door.AUTO else peripheral.Door(door.value)


def resource(example: str) -> Text[str]:
    """The form of a resource's name; empty for the usual one.

    Args:
        example: A name for people to follow.
    """
    domain = example.partition("/")[0]
    return Text(
        what=f'the name of an extended resource such as "{example}", not of Kubernetes\' own '
        'domains, or ""',
        parse=_resource,
        hint=lambda text: f'write "{domain}/{text}"' if _RESOURCE_NAME.fullmatch(text) else "",
    )


def _resource(text: str) -> str | None:
    """A qualified name in a domain that is not Kubernetes' own.

    Source: ``pkg/apis/core/v1/helper``, `IsExtendedResourceName`; ``requests.`` goes before it in
    quotas.
    """
    if not text:
        return text
    domain, slash, name = text.partition("/")
    foreign = not f".{domain}".endswith((".kubernetes.io", ".k8s.io"))
    plain = foreign and not domain.startswith("requests.")
    good = is_dns_subdomain(domain, limit=253 - len("requests."))
    return text if slash and good and plain and _RESOURCE_NAME.fullmatch(name) else None
