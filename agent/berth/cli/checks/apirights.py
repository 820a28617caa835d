"""What we may do at the API server, and which of its features are on, by its own words.

A review of one's own access stores nothing, and everybody who is known to the server may ask for
it. A node has rights to what its pods use alone, by name, so those are not asked for with kubelet's
own credentials.

Source: ``authorization.k8s.io/v1``; ``kubernetes_feature_enabled`` among the server's figures;
configs/kubernetes/rbac.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import attrs

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.wording import listed
from berth.config.schema import Config
from berth.config.skip import Skip
from berth.errors import KubeError
from berth.kube import fields
from berth.kube.api import Identity
from berth.kube.client import KubeClient, Request
from berth.readiness.demands import Demands, is_left_out

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
        loss: What does not work without it, or what gives that for a configuration; nothing where
            nobody needs the right.
        by_name: A node has it for what is its own alone.
        mend: How to get it.
    """

    verb: str
    resource: str
    loss: str | Callable[[Config], str]
    group: str = "resource.k8s.io"
    level: Level = Level.FAULT
    by_name: bool = True
    mend: str = "kubectl apply -f configs/kubernetes/rbac.yaml, or give their user what it grants"

    def lost(self, config: Config) -> str:
        """What does not work without it; empty where nobody needs it."""
        return self.loss if isinstance(self.loss, str) else self.loss(config)

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


def _lost_unseen(config: Config) -> str:
    """What comes of groups for which all claims have to be seen, where they are not."""
    skipped = [one.name for one in config.generic if one.skip_node_operations is not Skip.NONE]
    binds = Demands.of(config).groups
    left_out = [name for (_, name), bind in binds.items() if is_left_out(bind)]
    unasked = [name for (_, name), bind in binds.items() if not is_left_out(bind)]
    parts = (
        skipped and f"skip_node_operations of {listed(skipped)} is not in force",
        unasked and f"pods are bound before devices of {listed(unasked)} are ready",
        left_out and f"devices of {listed(left_out)} are not offered",
    )
    return "; ".join(part for part in parts if part)


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
    # No field of a claim can be selected, so that nobody has these for his own claims alone.
    *(
        Right(
            verb=verb,
            resource="resourceclaims",
            loss=_lost_unseen,
            level=Level.WARNING,
            by_name=False,
            mend="use a service account with what configs/kubernetes/rbac.yaml grants; with a "
            "node's own credentials claims are never all seen, and kubelet's PodResources names "
            "no device for which it did not ask",
        )
        for verb in ("list", "watch")
    ),
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
    config = machine.config
    lacking = [right for right in RIGHTS if rights.get(str(right)) is False and right.lost(config)]
    for (resource, lost), several in groupby(lacking, lambda one: (one.resource, one.lost(config))):
        alike = tuple(several)
        verbs = " or ".join(one.verb for one in alike)
        yield Line(
            topic=TOPIC,
            level=alike[0].level,
            text=f"these credentials may not {verbs} {resource}: {lost}",
            mend=alike[0].mend,
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
