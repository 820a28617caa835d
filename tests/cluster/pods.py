"""Pods of the tests: small, quick to end, from the bed's own image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.cluster.api import Object
from tests.cluster.images import BUSYBOX, WAIT_FOR_TERM


def pod(
    namespace: str,
    name: str,
    *,
    node: str = "",
    command: list[str] | None = None,
    claims: Mapping[str, Mapping[str, str]] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod with one container called `main`.

    Args:
        namespace: Where it is created.
        name: What it is called.
        node: The only node it may run on; the scheduler still places it, and allocates claims.
        command: What it runs; without one it waits for its end and obeys TERM at once.
        claims: From a name to its source, such as `{"nic": {"resourceClaimName": "nic-1"}}`; the
            container refers to each.
        labels: Of the pod.
        annotations: Of the pod.
        spec: More fields of the pod's spec, in Kubernetes' own spelling.
    """
    filled: Object = {
        "containers": [container("main", *(claims or ()), command=command)],
        "automountServiceAccountToken": False,
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 2,
        # What a test waits for is a state; a pod that ends shall say so.
        "restartPolicy": "Never",
        **spec,
    }
    if node:
        filled["nodeSelector"] = {"kubernetes.io/hostname": node}
    if claims:
        filled["resourceClaims"] = [{"name": each, **claims[each]} for each in claims]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": filled,
    }


def container(name: str, *claims: str, command: list[str] | None = None, **more: Any) -> Object:
    """One container of the bed's image.

    Args:
        name: What it is called.
        claims: The pod's names of the claims that it refers to.
        command: What it runs; without one it waits for its end and obeys TERM at once.
        more: More fields in Kubernetes' own spelling.
    """
    made: Object = {
        "name": name,
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": command or WAIT_FOR_TERM,
        **more,
    }
    if claims:
        made["resources"] = {"claims": [{"name": each} for each in claims]}
    return made


def runtime_class(handler: str) -> Object:
    """A runtime class of its handler's name."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": handler},
        "handler": handler,
    }


def pod_path(namespace: str, name: str) -> str:
    """Where a pod lies in the API."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def phase(document: Object) -> str:
    """The pod's phase: `Pending`, `Running`, `Succeeded`, `Failed`."""
    return str(document["status"].get("phase", ""))


def is_running(document: Object) -> bool:
    """Whether every container of the pod runs now."""
    states = document["status"].get("containerStatuses", ())
    return phase(document) == "Running" and all("running" in each["state"] for each in states)
