"""The API server behind `berth.kube.api.KubeApi`: paths, selectors, the quirks of its answers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, NoReturn, TypeVar

import attrs
import trio

from berth.errors import ClaimError, KubeError, RemoteProtocolError
from berth.kube import fields
from berth.kube.allocations import allocated_claim
from berth.kube.api import (
    NOT_RELATED,
    ClaimEvent,
    ClaimGone,
    ClaimQuery,
    ClaimSeen,
    ClaimsListed,
    Identity,
    Node,
    ServerVersion,
    SliceEvent,
    SliceGone,
    SliceQuery,
    SliceSeen,
    SlicesListed,
    WatchInterrupted,
    WatchResumed,
)
from berth.kube.claims import claim_from_json, claim_ref_from_json
from berth.kube.client import APPLY_PATCH, MERGE_PATCH, KubeClient, Request
from berth.kube.credentials import Credentials
from berth.kube.pods import is_ending, pod_claims_from_json
from berth.kube.slices import Slice, slice_from_json, slice_json
from berth.kube.sources import CredentialSettings, choose
from berth.kube.status import DeviceStatus, claim_status_json, device_statuses
from berth.kube.taintrules import PATHS, TaintRule, taint_rule_from_json
from berth.kube.watcher import Listed, Watcher, list_all
from berth.kube.watching import WatchEvent
from berth.model.claim import Claim, ClaimRef
from berth.model.pod import PodClaims

SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
"""Path of the slices' collection."""

CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
"""Path of the claims of all namespaces."""

CLAIM_PAGES_LIMIT: Final = 400
"""Pages of claims that are read, of 500 each; of all but a few nothing is kept."""

CLOSE_LIMIT_S: Final = 2.0
"""How long the end of connections is waited for, in seconds."""

BINDING_DELAYS_S: Final = (0.1, 0.2, 0.4, 0.8, 1.5, 2.5)
"""How long to wait before each next GET of a claim that the node authorizer does not know yet."""

_LIST: Final = Request(method="GET", path=SLICES)
_T = TypeVar("_T")


@contextlib.asynccontextmanager
async def open_server(settings: CredentialSettings) -> AsyncIterator[KubeServer]:
    """The API server with the credentials that ``settings`` lead to; nothing is sent yet.

    Raises:
        ConfigError: The settings or the files they name are wrong.
        KubeError: The credentials are not there (yet).
    """
    credentials = Credentials(choose(settings))
    await credentials.login()
    client = KubeClient(credentials)
    try:
        yield KubeServer(client)
    finally:
        with trio.move_on_after(CLOSE_LIMIT_S, shield=True):
            await client.aclose()


def claim_path(ref: ClaimRef) -> str:
    """Path of one claim."""
    return f"/apis/resource.k8s.io/v1/namespaces/{ref.namespace}/resourceclaims/{ref.name}"


def pod_path(namespace: str, name: str) -> str:
    """Path of one pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


class KubeServer:
    """Implements `berth.kube.api.KubeApi`, whose docstrings hold.

    Args:
        client: Connection to the server, closed by whoever made it.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    @property
    def identity(self) -> Identity:
        """Whom we are to the server."""
        return self._client.credentials.identity

    async def get_claim(self, ref: ClaimRef, *, driver: str) -> Claim:
        """The claim, reduced to ``driver``."""
        request = Request(method="GET", path=claim_path(ref))
        value = await self._get_once_bound(request)
        found = _decoded(request, claim_ref_from_json, value)
        if found.uid != ref.uid:
            raise ClaimError(
                f"claim {ref}",
                f"its UID is {found.uid}, kubelet asks for {ref.uid}",
                rule="another claim has that name now",
            )
        return _decoded(request, lambda item: claim_from_json(item, driver=driver), value)

    async def watch_claims(
        self, query: ClaimQuery, report: Callable[[ClaimEvent], None]
    ) -> NoReturn:
        """Tell ``report`` of the claims that ``query`` asks for, the whole list first."""

        def translate(event: Listed | WatchEvent | WatchInterrupted | WatchResumed) -> None:
            report(_claim_event(event, query))

        await Watcher(
            self._client,
            CLAIMS,
            params={},
            report=translate,
            concerns=lambda item: allocated_claim(item, query) is not None,
            pages=CLAIM_PAGES_LIMIT,
        ).run()

    async def list_slices(self, query: SliceQuery) -> tuple[Slice, ...]:
        """All slices that ``query`` asks for, in the order of their names."""
        items, _ = await list_all(self._client, SLICES, _selector(query), large=True)
        return _decoded(_LIST, _slices, items)

    async def watch_slices(
        self, query: SliceQuery, report: Callable[[SliceEvent], None]
    ) -> NoReturn:
        """Tell ``report`` of every change, the whole list first, until cancelled."""

        def translate(event: Listed | WatchEvent | WatchInterrupted | WatchResumed) -> None:
            report(_slice_event(event))

        await Watcher(
            self._client, SLICES, params=_selector(query), report=translate, large=True
        ).run()

    async def list_taint_rules(self) -> tuple[TaintRule, ...]:
        """All rules that taint devices, by whichever form of them the server has."""
        for path in PATHS:
            try:
                items, _ = await list_all(self._client, path, {})
            except KubeError as error:
                if error.status != 404:
                    raise
                continue
            return _decoded(Request(method="GET", path=path), _taint_rules, items)
        return ()

    async def create_slice(self, wanted: Slice) -> Slice:
        """Create a slice; returns it as the server stored it."""
        return await self._write(_creation(wanted))

    async def try_slice(self, wanted: Slice) -> Slice:
        """Create a slice for show: returns it as the server would store it, and stores nothing."""
        return await self._write(attrs.evolve(_creation(wanted), params={"dryRun": "All"}))

    async def update_slice(self, wanted: Slice) -> Slice:
        """Replace a slice by name; returns it as the server stored it."""
        path = f"{SLICES}/{wanted.name}"
        return await self._write(Request(method="PUT", path=path, body=slice_json(wanted)))

    async def delete_slice(self, gone: Slice) -> None:
        """Delete a slice if it is still this one."""
        conditions = {"uid": gone.uid, "resourceVersion": gone.resource_version}
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {key: value for key, value in conditions.items() if value},
        }
        try:
            await self._client.request(
                Request(method="DELETE", path=f"{SLICES}/{gone.name}", body=body)
            )
        except KubeError as error:
            if error.status != 404 and error.reason != NOT_RELATED:
                raise

    async def apply_claim_status(
        self, ref: ClaimRef, devices: Sequence[DeviceStatus], *, driver: str, manager: str
    ) -> None:
        """Write all of our entries of a claim's ``status.devices`` in one server-side apply."""
        body = claim_status_json(ref, devices, driver=driver)
        request = Request(
            method="PATCH",
            path=f"{claim_path(ref)}/status",
            params={"fieldManager": manager, "force": "true"},
            body=body,
            content_type=APPLY_PATCH,
        )
        try:
            await self._client.request(request)
        except KubeError as error:
            if error.fields == ("metadata.uid",):
                raise _replaced(error.where, ref) from error
            if "status.allocation" not in error.fields:
                raise
            await self._merge_claim_status(ref, body["status"]["devices"], driver=driver)

    async def _merge_claim_status(
        self, ref: ClaimRef, entries: Sequence[Any], *, driver: str
    ) -> None:
        """Write our entries by reading and patching, where the server refuses an apply.

        An apply makes the server write the opaque parameters of the allocation anew, with sorted
        keys, and then find that the allocation was changed, which nobody may. A merge patch leaves
        the order of keys alone. White space, which it does not, nobody can help. Seen on 1.37.2.
        """
        found = await self._client.request(Request(method="GET", path=claim_path(ref)))
        metadata = fields.mapping(found, "metadata")
        others = [
            entry
            for entry in fields.mappings(fields.mapping(found, "status"), "devices")
            if fields.text(entry, "driver") != driver
        ]
        body = {
            "metadata": {"uid": ref.uid, "resourceVersion": metadata.get("resourceVersion")},
            "status": {"devices": [*others, *entries]},
        }
        path = f"{claim_path(ref)}/status"
        if metadata.get("uid") != ref.uid:
            raise _replaced(f"API server, PATCH {path}", ref)
        await self._client.request(
            Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH)
        )

    async def read_claim_status(self, ref: ClaimRef, *, driver: str) -> tuple[DeviceStatus, ...]:
        """The entries of ``driver`` in a claim's ``status.devices``."""
        request = Request(method="GET", path=claim_path(ref))
        value = await self._client.request(request)
        if fields.mapping(value, "metadata").get("uid") != ref.uid:
            raise _replaced(request.where, ref)
        return _decoded(request, lambda item: device_statuses(item, driver=driver), value)

    async def get_node(self, name: str) -> Node:
        """The Node object."""
        request = Request(method="GET", path=f"/api/v1/nodes/{name}")
        return _decoded(request, _node, await self._client.request(request))

    async def pod_is_ending(self, namespace: str, name: str, *, uid: str) -> bool:
        """Whether a pod is being deleted, has ended, or is gone already."""
        request = Request(method="GET", path=pod_path(namespace, name))
        try:
            value = await self._client.request(request)
        except KubeError as error:
            if error.status == 404 or error.reason == NOT_RELATED:
                return True
            raise
        return _decoded(request, lambda pod: is_ending(pod, uid=uid), value)

    async def pod_claims(self, namespace: str, name: str, *, uid: str) -> PodClaims | None:
        """The claims of a pod; ``None`` when there is none of that name and UID."""
        request = Request(method="GET", path=pod_path(namespace, name))
        try:
            value = await self._client.request(request)
        except KubeError as error:
            if error.status == 404:
                return None
            raise
        return _decoded(request, lambda pod: pod_claims_from_json(pod, uid=uid), value)

    async def server_version(self) -> ServerVersion:
        """The version of the server that answers."""
        request = Request(method="GET", path="/version")
        return _decoded(request, _version, await self._client.request(request))

    def local_endpoints(self) -> tuple[str, ...]:
        """Own IP addresses of the connections to the server that are open now."""
        return self._client.local_endpoints()

    async def _get_once_bound(self, request: Request) -> Any:
        """GET a claim; a pod bound a moment ago may not have reached the authorizer."""
        for delay_s in BINDING_DELAYS_S:
            try:
                return await self._client.request(request)
            except KubeError as error:
                if error.reason != NOT_RELATED:
                    raise
            await trio.sleep(delay_s)
        return await self._client.request(request)

    async def _write(self, request: Request) -> Slice:
        try:
            value = await self._client.request(request)
        except KubeError as error:
            if error.reason != NOT_RELATED:
                raise
            raise KubeError(
                error.where, f"it is gone: {error.found}", status=404, reason="NotFound"
            ) from error
        return _decoded(request, slice_from_json, value)


def _creation(wanted: Slice) -> Request:
    bare = attrs.evolve(wanted, uid="", resource_version="")
    return Request(method="POST", path=SLICES, body=slice_json(bare))


def _replaced(where: str, ref: ClaimRef) -> KubeError:
    found = f"claim {ref} is another one now: its UID is not {ref.uid}"
    return KubeError(where, found, status=409, reason="Conflict")


def _selector(query: SliceQuery) -> dict[str, str]:
    """Both fields may be selected since 1.34; the node authorizer demands ``spec.nodeName``."""
    terms = [f"spec.driver={query.driver}"]
    if query.node_name:
        terms.append(f"spec.nodeName={query.node_name}")
    return {"fieldSelector": ",".join(terms)}


def _slice_event(event: Listed | WatchEvent | WatchInterrupted | WatchResumed) -> SliceEvent:
    if isinstance(event, Listed):
        return SlicesListed(slices=_slices(event.items))
    if isinstance(event, WatchEvent):
        found = slice_from_json(event.object)
        return SliceGone(slice=found) if event.kind == "DELETED" else SliceSeen(slice=found)
    return event


def _claim_event(
    event: Listed | WatchEvent | WatchInterrupted | WatchResumed, query: ClaimQuery
) -> ClaimEvent:
    if isinstance(event, Listed):
        found = (allocated_claim(item, query) for item in event.items)
        return ClaimsListed(claims=tuple(claim for claim in found if claim is not None))
    if isinstance(event, WatchEvent):
        claim = allocated_claim(event.object, query) if event.kind != "DELETED" else None
        if claim is None:
            return ClaimGone(uid=claim_ref_from_json(event.object).uid)
        return ClaimSeen(claim=claim)
    return event


def _slices(items: Sequence[Any]) -> tuple[Slice, ...]:
    return tuple(sorted(map(slice_from_json, items), key=lambda item: item.name))


def _taint_rules(items: Sequence[Any]) -> tuple[TaintRule, ...]:
    return tuple(rule for rule in map(taint_rule_from_json, items) if rule is not None)


def _decoded(request: Request, decode: Callable[[Any], _T], value: Any) -> _T:
    try:
        return decode(value)
    except RemoteProtocolError as error:
        raise KubeError(request.where, f"the answer is not understood: {error}") from error


def _node(value: Any) -> Node:
    metadata = fields.mapping(value, "metadata")
    status = fields.mapping(value, "status")
    addresses = fields.mappings(status, "addresses")
    return Node(
        name=fields.text(metadata, "name"),
        uid=fields.text(metadata, "uid"),
        addresses=tuple(
            fields.text(item, "address")
            for item in addresses
            if fields.text(item, "type") in {"InternalIP", "ExternalIP"}
        ),
        kubelet_version=fields.text(fields.mapping(status, "nodeInfo"), "kubeletVersion"),
        declared=frozenset(fields.texts(status, "declaredFeatures")),
    )


def _version(value: Any) -> ServerVersion:
    text = fields.text(value, "gitVersion")
    own = _numbers(value, "major", "minor")
    acted = _numbers(value, "emulationMajor", "emulationMinor")
    if (0, 0) < acted < own:
        own, text = acted, f"{text} acting as {acted[0]}.{acted[1]}"
    return ServerVersion(major=own[0], minor=own[1], text=text)


def _numbers(value: Any, *keys: str) -> tuple[int, ...]:
    found = [re.match(r"\d+", fields.text(value, key)) for key in keys]
    return tuple(int(one[0]) if one else 0 for one in found)
