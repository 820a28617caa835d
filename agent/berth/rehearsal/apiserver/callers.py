"""Who asks, and what the authorizers let them do.

Three roles suffice: an administrator; a kubelet under the node authorizer and NodeRestriction; our
service account under ``rbac.yaml`` and ``admission.yaml`` of ``configs/kubernetes``.

Source: ``plugin/pkg/auth/authorizer/node``, ``plugin/pkg/admission/noderestriction`` and
``pkg/registry/resource/utils.go`` of 1.37.2 (KC §4.5, §7.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import attrs

from berth.rehearsal.apiserver.problems import FORBIDDEN, Problem, refuse
from berth.rehearsal.apiserver.resources import (
    CLAIMS,
    CLASSES,
    NODES,
    PODS,
    SLICES,
    TAINT_RULES,
    Call,
)
from berth.rehearsal.apiserver.store import Key, Store


class Role(Enum):
    """What a caller is."""

    ADMIN = "admin"
    KUBELET = "kubelet"
    ACCOUNT = "account"


@attrs.frozen(kw_only=True)
class Caller:
    """Somebody with a token.

    Attributes:
        name: User name for messages.
        node: A kubelet's node, or the node that an account's token is bound to; empty for none.
        arbitrary: An account may write claim status on every node.
        driver: The only driver for which an account may write claim status.
    """

    name: str
    role: Role = Role.ADMIN
    node: str = ""
    arbitrary: bool = False
    driver: str = "berth.dev"


ANYBODY: Final = Caller(name="kubernetes-admin")
"""Who asks when the server knows no tokens."""

_WRITES: Final = frozenset({"get", "list", "watch", "create", "update", "patch", "delete"})
_ACCOUNT_RULES: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    (SLICES.plural, ""): _WRITES,
    (CLAIMS.plural, ""): frozenset({"get", "list", "watch"}),
    (CLAIMS.plural, "status"): frozenset({"get", "update", "patch"}),
    (NODES.plural, ""): frozenset({"get"}),
    (CLASSES.plural, ""): frozenset({"get", "list"}),
    (TAINT_RULES.plural, ""): frozenset({"list"}),
    (PODS.plural, ""): frozenset({"get"}),
}


def authorize(caller: Caller, call: Call, store: Store) -> None:
    """Let a call pass.

    Raises:
        KubeError: 403, in the words of the authorizer that would have to allow it.
    """
    reason: str | None = None
    if caller.role is Role.KUBELET:
        reason = _kubelet_reason(caller.node, call, store)
    elif caller.role is Role.ACCOUNT:
        allowed = _ACCOUNT_RULES.get((call.resource.plural, call.subresource), frozenset())
        reason = None if call.verb in allowed else ""
    if reason is not None:
        raise _forbidden(caller, call, reason)


def restrict_node(caller: Caller, call: Call, spec: Mapping[str, Any]) -> None:
    """Let a new slice pass NodeRestriction, which comes before validation.

    Raises:
        KubeError: 403, when a kubelet makes a slice that is not its own node's.
    """
    if caller.role is Role.KUBELET and spec.get("nodeName") != caller.node:
        why = "can only create ResourceSlice with the same NodeName as the requesting node"
        raise refuse(403, f'{call.resource.qualified} "{call.name}" is forbidden: {why}')


def apply_policy(caller: Caller, call: Call, spec: Mapping[str, Any]) -> None:
    """Let a write of a slice pass the policy of ``admission.yaml``, which comes after validation.

    Args:
        caller: Who writes.
        call: The write.
        spec: Of the slice: the new one's, or that of the one to be deleted.

    Raises:
        KubeError: 403, when an account's token is not bound to the slice's node.
    """
    own = caller.node and spec.get("nodeName") == caller.node
    if caller.role is Role.ACCOUNT and not own:
        why = f"this token may write ResourceSlices of node '{caller.node}' only"
        raise refuse(403, f'{call.resource.qualified} "{call.name}" is forbidden: {why}')


def check_status_rights(
    caller: Caller, verb: str, status: Mapping[str, Any], old: Mapping[str, Any]
) -> Iterator[Problem]:
    """Faults of a claim's new status that lie in who writes it; a 422 at the real server, too."""
    if caller.role is Role.ADMIN:
        return
    if any(status.get(key) != old.get(key) for key in ("allocation", "reservedFor")):
        rule = f'needs resource="resourceclaims/binding", verb="{verb}" permission'
        yield Problem("status.allocation", FORBIDDEN, rule)
    near = caller.node and _node_of(status.get("allocation") or {}) == caller.node
    allowed = {caller.driver} if near or caller.arbitrary else set()
    if not _changed_drivers(status, old) <= allowed:
        rule = (
            'changing status.devices requires resource="resourceclaims/driver", '
            f'verb="[arbitrary-node:{verb}]" permission'
        )
        yield Problem("status.devices", FORBIDDEN, rule)


def _changed_drivers(status: Mapping[str, Any], old: Mapping[str, Any]) -> set[str]:
    """Drivers of which an entry of ``status.devices`` came, went or changed."""
    now, before = status.get("devices") or [], old.get("devices") or []
    changed = [item for item in now if item not in before]
    changed += [item for item in before if item not in now]
    return {item["driver"] for item in changed}


def _node_of(allocation: Mapping[str, Any]) -> str:
    """The node of an allocation that is bound to one by name, and by nothing else."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    match terms[0].get("matchFields"):
        case [{"key": "metadata.name", "operator": "In", "values": [str(name)]}]:
            return name
    return ""


def _kubelet_reason(node: str, call: Call, store: Store) -> str | None:
    """Why the node authorizer does not allow a call; ``None`` when it does."""
    unrelated = f"no relationship found between node '{node}' and this object"
    if call.resource is SLICES:
        return _slice_reason(node, call, store, unrelated)
    if call.resource is CLAIMS:
        if call.verb != "get" or call.subresource:
            return "can only get individual resources of this type"
        return None if _uses_claim(node, call, store) else unrelated
    if call.resource is NODES:
        own = call.name == node and call.verb in {"get", "update", "patch"}
        return None if own else f"node '{node}' cannot read '{call.name}', only its own Node object"
    if call.resource is PODS:
        scoped = call.verb == "get" or call.selector.get("spec.nodeName") == node
        return None if scoped else "can only list/watch pods with spec.nodeName field selector"
    return None if call.resource.kind == "Event" and call.verb == "create" else ""


def _slice_reason(node: str, call: Call, store: Store, unrelated: str) -> str | None:
    if call.verb == "create":
        return None
    if call.verb in {"list", "watch", "deletecollection"}:
        if call.selector.get("spec.nodeName") == node:
            return None
        return "can only list/watch/deletecollection resourceslices with nodeName field selector"
    # A slice that is gone has no node any more: so the answer is 403 where 404 is meant.
    found = store.get(Key(SLICES.plural, "", call.name))
    return None if found and found["spec"].get("nodeName") == node else unrelated


def _uses_claim(node: str, call: Call, store: Store) -> bool:
    return any(
        call.name in _claims_of(pod)
        for pod in store.objects(PODS.plural, call.namespace)
        if pod.get("spec", {}).get("nodeName") == node
    )


def _claims_of(pod: Mapping[str, Any]) -> Iterator[str]:
    for holder, key in (("spec", "resourceClaims"), ("status", "resourceClaimStatuses")):
        for item in pod.get(holder, {}).get(key) or []:
            yield item.get("resourceClaimName", "")


def _forbidden(caller: Caller, call: Call, reason: str) -> Exception:
    resource = f"{call.resource.plural}/{call.subresource}".rstrip("/")
    scope = f'in the namespace "{call.namespace}"' if call.namespace else "at the cluster scope"
    name = f' "{call.name}"' if call.name else ""
    return refuse(
        403,
        f'{call.resource.qualified}{name} is forbidden: User "{caller.name}" cannot {call.verb} '
        f'resource "{resource}" in API group "{call.resource.group}" {scope}'
        + (f": {reason}" if reason else ""),
    )
