"""What each verb does to the objects: the API server without a network.

Source: ``apiserver/pkg/registry/generic/registry/store.go`` and the strategies of
``pkg/registry/resource`` of 1.37.2, as seen from outside (KC §4.5, §7).
"""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, Final

import attrs

from berth.errors import KubeError
from berth.model.names import is_dns_subdomain
from berth.rehearsal.apiserver import callers, claimrules, gates, merging, schema
from berth.rehearsal.apiserver.callers import Caller
from berth.rehearsal.apiserver.problems import (
    INVALID,
    REQUIRED,
    Problem,
    invalid_json,
    refuse,
)
from berth.rehearsal.apiserver.resources import CLAIMS, SLICES, Call, matches, pick
from berth.rehearsal.apiserver.slicerules import check_slice
from berth.rehearsal.apiserver.store import Key, Store

NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names: no vowels, so that no words come out."""

PREFIX_LIMIT: Final = 58
"""To how many bytes a ``generateName`` is cut, so that five letters make 63."""

_SYSTEM_FIELDS: Final = ("uid", "creationTimestamp", "generation", "deletionTimestamp")


@attrs.frozen(kw_only=True)
class Answer:
    """Status and JSON of an answer."""

    status: int
    body: Mapping[str, Any]


class Verbs:
    """The verbs over one store.

    Args:
        store: The objects.
        enabled: Feature gates that are on.
        now: Unix time in seconds.
    """

    def __init__(self, store: Store, *, enabled: frozenset[str], now: Callable[[], float]) -> None:
        self._store = store
        self._gates = enabled
        self._now = now

    def run(self, caller: Caller, call: Call) -> Answer:
        """Answer a call; ``watch`` is not for here.

        Raises:
            KubeError: The server refuses; its status and text are the answer.
        """
        callers.authorize(caller, call, self._store)
        action = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }[call.verb]
        return action(caller, call)

    def timestamp(self) -> str:
        """Now, as the API writes times."""
        return datetime.fromtimestamp(int(self._now()), timezone.utc).isoformat()[:19] + "Z"

    def _get(self, _caller: Caller, call: Call) -> Answer:
        return Answer(status=200, body=_typed(call, self._found(call)))

    def _list(self, _caller: Caller, call: Call) -> Answer:
        selector = call.selector
        items = [
            item
            for item in self._store.objects(call.resource.plural, call.namespace)
            if matches(item, selector)
        ]
        start, limit = _page(call)
        page = items[start : start + limit] if limit else items[start:]
        metadata = {"resourceVersion": str(self._store.version)}
        if start + len(page) < len(items):
            metadata["continue"] = base64.b64encode(str(start + len(page)).encode()).decode()
        return Answer(status=200, body=list_json(call, page, metadata))

    def _create(self, caller: Caller, call: Call) -> Answer:
        value = _object(call)
        if value["metadata"].get("resourceVersion"):
            raise refuse(500, "resourceVersion should not be set on objects to be created")
        name = value["metadata"].get("name") or self._generate(call, value)
        call = attrs.evolve(call, name=name)
        if self._store.get(_key(call)) is not None:
            message = f'{call.resource.qualified} "{name}" already exists'
            raise refuse(409, message, reason="AlreadyExists")
        value["metadata"] = {
            **{key: item for key, item in value["metadata"].items() if key not in _SYSTEM_FIELDS},
            "name": name,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": self.timestamp(),
        }
        if call.resource.counts:
            value["metadata"]["generation"] = 1
        if call.resource.status:
            value.pop("status", None)
        problems = self._prepare(caller, call, value, None)
        return self._store_checked(call, value, problems, status=201)

    def _update(self, caller: Caller, call: Call) -> Answer:
        value, old = _object(call), self._found(call)
        if value["metadata"].get("name", call.name) != call.name:
            raise refuse(400, "the name of the object does not match the name on the URL")
        return self._replace(caller, call, value, old)

    def _patch(self, caller: Caller, call: Call) -> Answer:
        if call.content_type == "application/apply-patch+yaml":
            return self._apply(caller, call)
        if call.content_type != "application/merge-patch+json":
            raise refuse(415, f"the patch type {call.content_type} is not served here")
        old = self._found(call)
        return self._replace(caller, call, merging.merge_patch(old, call.body), old)

    def _apply(self, caller: Caller, call: Call) -> Answer:
        manager = call.params.get("fieldManager", "")
        if not manager:
            message = "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value"
            raise refuse(422, message, fields=["fieldManager"])
        old, applied = self._found(call), _object(call)
        if applied["metadata"].get("managedFields"):
            raise refuse(400, "metadata.managedFields must be nil")
        known = self._store.applied(_key(call))
        owned = {"status": applied.get("status", {})} if call.subresource else _content(applied)
        others = {name: value for name, value in known.items() if name != manager}
        if call.params.get("force") != "true":
            for name, other in others.items():
                paths = merging.conflicts(old, owned, other)
                if paths:
                    message = f'Apply failed with {len(paths)} conflicts with "{name}"'
                    raise refuse(409, message, fields=paths)
        merged = merging.apply(old, owned, known.get(manager, {}), list(others.values()))
        uid = applied["metadata"].get("uid", old["metadata"]["uid"])
        if uid != old["metadata"]["uid"]:
            problem = Problem("metadata.uid", INVALID, "field is immutable", uid)
            return self._store_checked(call, merged, [problem], status=200)
        if not claimrules.is_rewritten_alike(old.get("status", {}).get("allocation") or {}):
            problem = Problem("status.allocation", INVALID, "field is immutable")
            return self._store_checked(call, merged, [problem], status=200)
        answer = self._replace(caller, call, merged, old)
        if answer.status == 200:
            self._store.note_applied(_key(call), manager, owned)
        return answer

    def _replace(
        self, caller: Caller, call: Call, value: dict[str, Any], old: dict[str, Any]
    ) -> Answer:
        """Store ``value`` over ``old``, as far as the resource lets it change."""
        uid = value["metadata"].get("uid") or old["metadata"]["uid"]
        if uid != old["metadata"]["uid"]:
            raise _conflict(
                call,
                f"Precondition failed: UID in precondition: {uid}, "
                f"UID in object meta: {old['metadata']['uid']}",
            )
        version = value["metadata"].get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise _conflict(
                call,
                "the object has been modified; please apply your changes to "
                "the latest version and try again",
            )
        if call.subresource:
            value = {**old, "status": value.get("status", {})}
        elif call.resource.status:
            value = {**value, "status": old.get("status", {})}
        kept = {key: old["metadata"][key] for key in _SYSTEM_FIELDS if key in old["metadata"]}
        value["metadata"] = {**value["metadata"], "name": call.name, **kept}
        problems = self._prepare(caller, call, value, old)
        if call.resource.counts and value.get("spec") != old.get("spec"):
            value["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        return self._store_checked(call, value, problems, status=200)

    def _delete(self, caller: Caller, call: Call) -> Answer:
        found = self._found(call)
        if call.resource is SLICES:
            callers.apply_policy(caller, call, found["spec"])
        options = call.body if isinstance(call.body, Mapping) else {}
        for key, wanted in (options.get("preconditions") or {}).items():
            if wanted != found["metadata"].get(key):
                word = {"uid": "UID", "resourceVersion": "ResourceVersion"}.get(key, key)
                raise _conflict(
                    call,
                    f"Precondition failed: {word} in precondition: {wanted}, "
                    f"{word} in object meta: {found['metadata'].get(key)}",
                )
        return Answer(status=200, body=_typed(call, self.remove(_key(call))))

    def _delete_collection(self, _caller: Caller, call: Call) -> Answer:
        """What kubelet does to the slices of a node."""
        selector = call.selector
        gone = [
            self.remove(
                Key(
                    call.resource.plural, pick(item, "metadata.namespace"), item["metadata"]["name"]
                )
            )
            for item in self._store.objects(call.resource.plural, call.namespace)
            if matches(item, selector)
        ]
        metadata = {"resourceVersion": str(self._store.version)}
        return Answer(status=200, body=list_json(call, gone, metadata))

    def remove(self, key: Key) -> dict[str, Any]:
        """Delete an object, or mark it as being deleted while finalizers hold it."""
        found = self._store.get(key)
        if found is None:
            raise refuse(404, f'{key.resource} "{key.name}" not found')
        if not found["metadata"].get("finalizers"):
            return self._store.remove(key)
        found["metadata"].setdefault("deletionTimestamp", self.timestamp())
        return self._store.put(key, found)

    def _found(self, call: Call) -> dict[str, Any]:
        found = self._store.get(_key(call))
        if found is None:
            raise refuse(404, f'{call.resource.qualified} "{call.name}" not found')
        return found

    def _generate(self, call: Call, value: Mapping[str, Any]) -> str:
        prefix = pick(value, "metadata.generateName")[:PREFIX_LIMIT]
        if not prefix:
            return ""
        while True:
            # Names are no secrets.
            letters = random.choices(NAME_LETTERS, k=5)  # noqa: S311 - a name, not a key
            name = prefix + "".join(letters)
            if self._store.get(Key(call.resource.plural, call.namespace, name)) is None:
                return name

    def _prepare(
        self, caller: Caller, call: Call, value: dict[str, Any], old: Mapping[str, Any] | None
    ) -> list[Problem]:
        """Bring ``value`` into the form that is stored, and list its faults."""
        problems = list(_check_name(call))
        if call.resource is SLICES:
            problems += self._prepare_slice(caller, call, value, old)
        elif call.resource is CLAIMS and old is not None:
            problems += self._prepare_claim(caller, call, value, old)
        return problems

    def _prepare_slice(
        self, caller: Caller, call: Call, value: dict[str, Any], old: Mapping[str, Any] | None
    ) -> list[Problem]:
        unknown: list[str] = []
        spec = schema.conform(value.get("spec") or {}, schema.SLICE_SPEC, "spec", unknown)
        if unknown and call.params.get("fieldValidation") == "Strict":
            raise refuse(400, f'strict decoding error: unknown field "{unknown[0]}"')
        if old is None:
            callers.restrict_node(caller, call, spec)
        for device in spec.get("devices", []):
            for taint in device.get("taints", []):
                taint.setdefault("timeAdded", self.timestamp())
        stored = old["spec"] if old is not None else None
        gates.drop_disabled(spec, stored, self._gates)
        problems = check_slice(spec, stored)
        # They are checked as they came, and stored without what is empty.
        value["spec"] = schema.without_empty(spec, schema.SLICE_SPEC)
        if not problems:
            callers.apply_policy(caller, call, spec)
        return problems

    def _prepare_claim(
        self, caller: Caller, call: Call, value: dict[str, Any], old: Mapping[str, Any]
    ) -> list[Problem]:
        if not call.subresource:
            same = value.get("spec") == old.get("spec")
            return [] if same else [Problem("spec", INVALID, "field is immutable")]
        stored = old.get("status", {})
        status = schema.conform(value.get("status") or {}, schema.CLAIM_STATUS, "status", [])
        for device in status.get("devices", []):
            device.setdefault("conditions", None)
        claimrules.drop_deallocated(status, stored)
        value["status"] = status
        problems = claimrules.check_claim_status(status, stored)
        if gates.GRANULAR_STATUS in self._gates:
            problems = [*callers.check_status_rights(caller, call.verb, status, stored), *problems]
        return problems

    def _store_checked(
        self, call: Call, value: Mapping[str, Any], problems: Iterable[Problem], *, status: int
    ) -> Answer:
        listed = list(problems)
        if listed:
            resource = call.resource
            body = invalid_json(resource.kind, resource.group, call.name, listed)
            return Answer(status=422, body=body)
        if call.params.get("dryRun") == "All":
            return Answer(status=status, body=_typed(call, value))
        metadata = value["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            return Answer(status=status, body=_typed(call, self._store.remove(_key(call))))
        stored = self._store.put(_key(call), value)
        return Answer(status=status, body=_typed(call, stored))


def list_json(
    call: Call, items: Iterable[Mapping[str, Any]], metadata: Mapping[str, str]
) -> dict[str, Any]:
    """A list of objects as the API gives it."""
    return {
        "kind": f"{call.resource.kind}List",
        "apiVersion": call.resource.api_version,
        "metadata": dict(metadata),
        "items": list(items),
    }


def _typed(call: Call, value: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": call.resource.kind, "apiVersion": call.resource.api_version, **value}


def _key(call: Call) -> Key:
    return Key(call.resource.plural, call.namespace, call.name)


def _content(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in {"apiVersion", "kind"}}


def _object(call: Call) -> dict[str, Any]:
    """The body as an object of the call's resource, with its namespace."""
    body = call.body
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise refuse(400, "the body is no object of Kubernetes")
    for key, wanted in (("kind", call.resource.kind), ("apiVersion", call.resource.api_version)):
        if body.get(key, wanted) != wanted:
            raise refuse(400, f"{key} is {body[key]!r}, the URL says {wanted!r}")
    metadata = dict(body.get("metadata", {}))
    if call.namespace and metadata.setdefault("namespace", call.namespace) != call.namespace:
        raise refuse(400, "the namespace of the object does not match the namespace on the URL")
    return {**_content(body), "metadata": metadata}


def _check_name(call: Call) -> Iterable[Problem]:
    if not call.name:
        yield Problem("metadata.name", REQUIRED, "name or generateName is required")
    elif not is_dns_subdomain(call.name, limit=253):
        yield Problem("metadata.name", INVALID, "must be a lower-case DNS subdomain", call.name)


def _page(call: Call) -> tuple[int, int]:
    """Where a page of a list starts, and how many objects it holds; 0 for all."""
    try:
        start = int(base64.b64decode(call.params.get("continue", "MA==")))
        return start, int(call.params.get("limit", "0"))
    except ValueError:
        raise refuse(400, "continue key is not valid") from None


def _conflict(call: Call, why: str) -> KubeError:
    return refuse(
        409, f'Operation cannot be fulfilled on {call.resource.qualified} "{call.name}": {why}'
    )
