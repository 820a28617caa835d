"""The stand-in's front: HTTP to verbs and watches, faults on demand, and methods for its director.

Run it with ``await nursery.start(server.serve, listeners)``. Whoever plays scheduler, kubelet or
administrator uses `ApiServer.put`, `ApiServer.get` and their kin, which ask no authorizer.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import trio

from berth.errors import KubeError
from berth.model import jsontext
from berth.rehearsal.apiserver import callers
from berth.rehearsal.apiserver.callers import ANYBODY, Caller
from berth.rehearsal.apiserver.faults import Break, Cut, Fault, Hang, Refuse
from berth.rehearsal.apiserver.gates import GATES_1_37
from berth.rehearsal.apiserver.merging import merge_patch
from berth.rehearsal.apiserver.problems import refuse, status_json
from berth.rehearsal.apiserver.resources import Call, Resource, read_path
from berth.rehearsal.apiserver.store import Key, Store
from berth.rehearsal.apiserver.verbs import Verbs
from berth.rehearsal.apiserver.watches import Watch
from berth.rehearsal.apiserver.web import Exchange, serve_connection

SEEN_LIMIT: Final = 1000
"""How many of the last requests are remembered."""


@attrs.frozen(kw_only=True)
class SeenRequest:
    """One request that came, for tests and for the story."""

    method: str
    path: str
    params: Mapping[str, str]
    caller: str

    @property
    def is_write(self) -> bool:
        """Whether it asks for a change."""
        return self.method not in {"GET", "HEAD"} and "dryRun" not in self.params


class ApiServer:
    """A small API server.

    Args:
        gates: Feature gates that are on.
        version: What ``/version`` says, as ``1.37.2``.
        tokens: Who has which bearer token; without any, everybody is an administrator.
        bookmark_s: Seconds between two bookmarks of a watch.
        now: Unix time in seconds.

    Attributes:
        faults: Faults that wait for their requests; the first that fits is taken.
        tokens: As given; a token may be added or taken back while the server runs.
        seen: The last requests, in the order of their coming.
    """

    def __init__(
        self,
        *,
        gates: frozenset[str] = GATES_1_37,
        version: str = "1.37.2",
        tokens: Mapping[str, Caller] | None = None,
        bookmark_s: float = 60.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.faults: list[Fault] = []
        self.tokens: dict[str, Caller] = dict(tokens or {})
        self.seen: deque[SeenRequest] = deque(maxlen=SEEN_LIMIT)
        self._version = version
        self._bookmark_s = bookmark_s
        self._store = Store()
        self._verbs = Verbs(self._store, enabled=gates, now=now)
        self._watches: set[Watch] = set()

    async def serve(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled; the listeners are closed then."""
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, self.serve_stream, listeners)
            task_status.started()

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Serve one connection, of whatever kind."""
        await serve_connection(stream, self._serve)

    def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any] | None:
        """An object as it is stored, ``None`` when there is none."""
        return self._store.get(Key(resource.plural, namespace, name))

    def objects(self, resource: Resource, namespace: str = "") -> list[dict[str, Any]]:
        """All objects of a resource, in the order of namespace and name."""
        return self._store.objects(resource.plural, namespace)

    def put(self, resource: Resource, value: Mapping[str, Any]) -> dict[str, Any]:
        """Create or replace an object, its status included, as nobody else may in one step.

        Raises:
            KubeError: The server would not take it.
        """
        metadata = value["metadata"]
        name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
        call = Call(verb="create", resource=resource, namespace=namespace, name=name, body=value)
        if self.get(resource, name, namespace) is not None:
            metadata = {**metadata, "resourceVersion": ""}
            body = {**value, "metadata": metadata}
            call = attrs.evolve(call, verb="update", body=body)
        stored = self._direct(call)
        if resource.status and "status" in value:
            body = {"metadata": {}, "status": value["status"]}
            name = stored["metadata"]["name"]
            stored = self._direct(
                attrs.evolve(call, verb="update", name=name, subresource="status", body=body)
            )
        return stored

    def patch(
        self, resource: Resource, name: str, patch: Mapping[str, Any], namespace: str = ""
    ) -> dict[str, Any]:
        """Change an object by a JSON merge patch, its status included.

        Raises:
            KubeError: There is no such object, or the server would not take it.
        """
        found = self.get(resource, name, namespace)
        if found is None:
            raise refuse(404, f'{resource.qualified} "{name}" not found')
        return self.put(resource, merge_patch(found, patch))

    def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete an object.

        Raises:
            KubeError: There is none.
        """
        self._verbs.remove(Key(resource.plural, namespace, name))
        self._wake()

    def cut_watches(self, how: Cut) -> int:
        """End every watch in the given way; gives how many there were."""
        for watch in self._watches:
            watch.cut(how)
        return len(self._watches)

    def forget_versions(self) -> None:
        """Forget the history, as a compaction does; resumed watches get 410."""
        self._store.forget()
        self._wake()

    @property
    def watching(self) -> int:
        """How many watches are being served."""
        return len(self._watches)

    @property
    def bookmarks(self) -> int:
        """How many bookmarks the watches that are being served were sent."""
        return sum(watch.bookmarks for watch in self._watches)

    def _direct(self, call: Call) -> dict[str, Any]:
        answer = self._verbs.run(ANYBODY, call)
        self._wake()
        if answer.status >= 300:
            raise refuse(answer.status, str(answer.body.get("message")))
        return dict(answer.body)

    def _wake(self) -> None:
        for watch in self._watches:
            watch.wake()

    async def _serve(self, exchange: Exchange) -> None:
        request = exchange.request
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        caller = self.tokens.get(token) if self.tokens else ANYBODY
        seen = SeenRequest(
            method=request.method,
            path=request.path,
            params=request.params,
            caller=caller.name if caller else "",
        )
        self.seen.append(seen)
        if await self._suffer(exchange):
            return
        try:
            await self._answer(exchange, caller)
        except KubeError as error:
            await exchange.answer(error.status, status_json(error))

    async def _suffer(self, exchange: Exchange) -> bool:
        """Do what the first fault says that hits this request; gives whether there was one."""
        request = exchange.request
        hits = (
            fault.action
            for fault in self.faults
            if fault.hits(request.method, request.path, request.params)
        )
        action = next(hits, None)
        if isinstance(action, Hang):
            await trio.sleep_forever()
        elif isinstance(action, Refuse):
            error = refuse(action.status, action.message, reason=action.reason)
            await exchange.answer(error.status, status_json(error))
        elif isinstance(action, Break) and action.cut is Cut.RST:
            exchange.reset()
        return action is not None

    async def _answer(self, exchange: Exchange, caller: Caller | None) -> None:
        request = exchange.request
        plain = self._plain(request.path)
        if plain is not None:
            await exchange.answer(200, plain)
            return
        if caller is None:
            raise refuse(401, "Unauthorized")
        call = attrs.evolve(
            read_path(request.method, request.path),
            params=request.params,
            body=_body(request.body),
            content_type=request.headers.get("content-type", "").partition(";")[0],
        )
        if call.verb == "list" and call.params.get("watch") in {"1", "true"}:
            await self._watch(exchange, caller, attrs.evolve(call, verb="watch"))
            return
        answer = self._verbs.run(caller, call)
        self._wake()
        await exchange.answer(answer.status, answer.body)

    async def _watch(self, exchange: Exchange, caller: Caller, call: Call) -> None:
        callers.authorize(caller, call, self._store)
        watch = Watch(call, self._store, bookmark_s=self._bookmark_s)
        self._watches.add(watch)
        try:
            await watch.run(exchange)
        finally:
            self._watches.discard(watch)

    def _plain(self, path: str) -> Mapping[str, Any] | str | None:
        """Answers that need no log-in."""
        if path in {"/readyz", "/livez", "/healthz"}:
            return "ok"
        if path == "/version":
            major, minor, _ = self._version.split(".")
            return {"major": major, "minor": minor, "gitVersion": f"v{self._version}"}
        return None


def kubeconfig_json(server: str, *, token: str = "") -> str:
    """A kubeconfig for the stand-in at ``server``; JSON is YAML."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "rehearsal", "cluster": {"server": server}}],
            "users": [{"name": "rehearsal", "user": {"token": token} if token else {}}],
            "contexts": [
                {"name": "rehearsal", "context": {"cluster": "rehearsal", "user": "rehearsal"}}
            ],
            "current-context": "rehearsal",
        }
    )


def _body(data: bytes) -> Any:
    if not data:
        return None
    try:
        return jsontext.loads(data)
    except (ValueError, RecursionError):
        raise refuse(400, "the body is no JSON") from None
