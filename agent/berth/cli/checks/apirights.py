"""What we may do at the API server, and which of its features are on, by its own words.

A review of one's own access stores nothing, and everybody who is known to the server may ask for
it. A node has rights to what its pods use alone, by name, so those are not asked for with kubelet's
own credentials.

Source: ``authorization.k8s.io/v1``; ``kubernetes_feature_enabled`` among the server's figures;
configs/kubernetes/rbac.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.errors import KubeError
from berth.kube import fields
from berth.kube.api import Identity
from berth.kube.client import KubeClient, Request

TOPIC: Final = "API server"

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SILENCE_S: Final = 3.0
_FEATURE: Final = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)".*\} ([01])$', re.MULTILINE)
_FAMILY: Final = b"kubernetes_feature_enabled{"
_SIZE_LIMIT: Final = 32 * 1024 * 1024


@attrs.frozen(kw_only=True)
class Right:
    """One thing that we want to be allowed.

    Attributes:
        verb: Of Kubernetes.
        resource: With its subresource behind a slash.
        loss: What does not work without it.
        by_name: A node has it for what is its own alone.
    """

    verb: str
    resource: str
    loss: str
    group: str = "resource.k8s.io"
    level: Level = Level.FAULT
    by_name: bool = True

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


RIGHTS: Final = (
    *(
        Right(verb=verb, resource="resourceslices", loss="devices are not published", by_name=own)
        for verb, own in (
            ("create", False),
            ("get", True),
            ("list", True),
            ("watch", True),
            ("update", True),
            ("delete", True),
        )
    ),
    Right(verb="get", resource="resourceclaims", loss="no claim is prepared"),
    Right(
        verb="get",
        resource="nodes",
        loss="slices stay when the node goes, and its addresses make no uplink",
        group="",
        level=Level.WARNING,
    ),
    Right(
        verb="get",
        resource="pods",
        loss="a NIC may come home late after the runtime was restarted, and where kubelet does not "
        "tell which claims a pod has, none starts in the namespace of a PodGroup's NIC",
        group="",
        level=Level.WARNING,
    ),
    Right(
        verb="patch",
        resource="resourceclaims/status",
        loss="claims do not tell how their devices are",
        level=Level.WARNING,
    ),
)


def check_rights(machine: Machine) -> Iterator[Line]:
    """Which rights are lacking, and what of it."""
    rights = machine.api.rights if machine.api is not None else None
    if not rights:
        return
    lacking = [right for right in RIGHTS if rights.get(str(right)) is False]
    for right in lacking:
        yield Line(
            topic=TOPIC,
            level=right.level,
            text=f"these credentials may not {right}: {right.loss}",
            mend="kubectl apply -f configs/kubernetes/rbac.yaml, or give their user what it grants",
        )
    if not lacking:
        text = "these credentials have the rights that were asked for"
        yield Line(topic=TOPIC, level=Level.OK, text=text)


async def ask_rights(client: KubeClient, identity: Identity) -> Mapping[str, bool] | None:
    """What we may do; ``None`` when the server does not say."""
    found: dict[str, bool] = {}
    for right in RIGHTS:
        if right.by_name and identity.kind == "kubelet":
            continue
        try:
            answer = await client.request(
                Request(method="POST", path=_REVIEWS, body=_review(right))
            )
        except KubeError:
            return None
        found[str(right)] = fields.mapping(answer, "status").get("allowed") is True
    return found


async def ask_features(client: KubeClient) -> Mapping[str, bool] | None:
    """Which feature gates are on; ``None`` where the server's figures may not be read."""
    data = bytearray()
    request = Request(method="GET", path="/metrics")
    try:
        async with client.stream(request, silence_s=_SILENCE_S) as pieces:
            async for piece in pieces:
                data += piece
                # Families come in the order of their names, and what follows is large.
                if len(data) > _SIZE_LIMIT or _is_past(data):
                    break
    except KubeError:
        return None
    text = data.decode("utf-8", "replace")
    return {name: state == "1" for name, state in _FEATURE.findall(text)} or None


def _is_past(data: bytearray) -> bool:
    """Whether the figures wanted are all there: another family follows them."""
    last = data.rfind(_FAMILY)
    return last >= 0 and data.find(b"\n# ", last) >= 0


def _review(right: Right) -> Mapping[str, Any]:
    resource, _, subresource = right.resource.partition("/")
    wanted = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
