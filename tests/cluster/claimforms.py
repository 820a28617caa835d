"""Claims and templates as users write them, and the configuration that they carry for our NICs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.cluster.api import Object
from tests.cluster.berthd import DRIVER

RESOURCE = "resource.k8s.io/v1"


def nic_config(*requests: str, **fields: object) -> Object:
    """One entry of a claim's `config`.

    Args:
        requests: Which it is for; without one it is for all.
        fields: Of the NicConfig.
    """
    parameters = {"apiVersion": f"{DRIVER}/v1alpha1", "kind": "NicConfig", **fields}
    return raw_config(*requests, parameters=parameters)


def raw_config(*requests: str, parameters: object) -> Object:
    """One entry of a claim's `config` with whatever parameters, right or wrong."""
    entry: Object = {"opaque": {"driver": DRIVER, "parameters": parameters}}
    return {"requests": list(requests), **entry} if requests else entry


def request(name: str = "nic", *, of: str = "nic", **exactly: Any) -> Object:
    """A request for a device of one of our classes.

    Args:
        name: Of the request.
        of: Which class: `nic`, `nic-shared`.
        exactly: More of what is asked, such as `count` or `selectors`.
    """
    return {"name": name, "exactly": choice(of=of, **exactly)}


def first_available(name: str, **choices: Object) -> Object:
    """A prioritized list: each choice, by its name, as `choice` gives it."""
    return {
        "name": name,
        "firstAvailable": [{"name": each, **asked} for each, asked in choices.items()],
    }


def choice(*, of: str = "nic", cel: str = "", **more: object) -> Object:
    """What is asked for, without a name.

    Args:
        of: Which class.
        cel: A condition, where `own` stands for our attributes.
        more: Further fields in Kubernetes' own spelling.
    """
    asked: Object = {"deviceClassName": f"{of}.{DRIVER}", **more}
    if cel:
        expression = cel.replace("own.", f'device.attributes["{DRIVER}"].')
        asked["selectors"] = [{"cel": {"expression": expression}}]
    return asked


def spec(*requests: Object, config: Sequence[Object] = (), **more: object) -> Object:
    """The spec of a claim; without a request it asks for one NIC, as `nic`."""
    devices: Object = {"requests": list(requests) or [request()], **more}
    if config:
        devices["config"] = list(config)
    return {"devices": devices}


def claim(namespace: str, name: str, asked: Object) -> Object:
    """A claim for that spec."""
    return _document("ResourceClaim", namespace, name, asked)


def template(namespace: str, name: str, asked: Object) -> Object:
    """A template whose claims have that spec."""
    return _document("ResourceClaimTemplate", namespace, name, {"spec": asked})


def _document(kind: str, namespace: str, name: str, what: Object) -> Object:
    return {
        "apiVersion": RESOURCE,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": what,
    }
