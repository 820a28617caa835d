"""The API server seen from the tests: requests, applied documents, and waiting by watch."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import yaml

from berth.errors import HostError, KubeError
from tests.cluster.boxes import LIMIT_S, Box

Object = dict[str, Any]
Predicate = Callable[[Object], object]


class _Connection(http.client.HTTPConnection):
    """HTTP over TLS over a socket that lives in a box's network."""

    def __init__(self, box: Box, host: str, port: int, tls: ssl.SSLContext, limit_s: float) -> None:
        super().__init__(host, port, timeout=limit_s)
        self._box = box
        self._tls = tls

    def connect(self) -> None:
        plain = self._box.socket()
        try:
            plain.settimeout(self.timeout)
            plain.connect((self.host, self.port))
            self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise


class Api:
    """A client of the API server under one identity. Safe to use from several threads.

    Args:
        box: In whose network the server is reached.
        address: Host and port.
        tls: Trusts the test's authority and shows a client certificate.
    """

    def __init__(self, box: Box, address: tuple[str, int], tls: ssl.SSLContext) -> None:
        self._box = box
        self._address = address
        self._tls = tls
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    @contextlib.contextmanager
    def _ask(
        self, method: str, path: str, body: object, content: str, limit_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        # A connection for each request: 3 ms, and nothing to keep over a restart of the server.
        connection = _Connection(self._box, *self._address, self._tls, limit_s)
        with contextlib.closing(connection):
            # As kubectl writes it, sorted and without spaces: the server takes no apply on the
            # status of a claim whose opaque parameters it would have written in another way.
            given = (
                None if body is None else json.dumps(body, sort_keys=True, separators=(",", ":"))
            )
            headers = {"Accept": "application/json", "Content-Type": content}
            connection.request(method, path, given, headers)
            yield connection.getresponse()

    def request(
        self, method: str, path: str, body: object = None, *, content: str = "application/json"
    ) -> Any:
        """Ask once; gives the answer's JSON, or its text when it is none.

        Raises:
            KubeError: The server refused; the error carries its status and words.
            OSError: It could not be reached.
        """
        with self._ask(method, path, body, content, LIMIT_S) as response:
            text = response.read().decode()
            kind = response.headers.get_content_type()
        answer = json.loads(text) if kind == "application/json" else text
        if response.status >= 300:
            told: Object = answer if isinstance(answer, dict) else {"message": text}
            causes = (told.get("details") or {}).get("causes", ())
            raise KubeError(
                f"{method} {path}",
                f"{response.status} {told.get('message', text)}",
                status=response.status,
                reason=told.get("reason", ""),
                fields=[each["field"] for each in causes if "field" in each],
            )
        return answer

    def get(self, path: str) -> Any:
        """One object, or one list."""
        return self.request("GET", path)

    def items(self, collection: str, **query: str) -> list[Object]:
        """The objects of a collection; `fieldSelector` and `labelSelector` narrow it."""
        found: list[Object] = self.get(_with_query(collection, query))["items"]
        return found

    def create(self, document: Object) -> Object:
        """Create an object where its kind and namespace say."""
        made: Object = self.request("POST", self._collection(document), document)
        return made

    def apply(self, document: str | Object) -> list[Object]:
        """Apply one object, or every object of a YAML text, as `kubectl apply --server-side` does.

        Gives the objects as the server has them then.
        """
        given = yaml.safe_load_all(document) if isinstance(document, str) else [document]
        return [
            self.request(
                "PATCH",
                _with_query(self.path(each), {"fieldManager": "tests", "force": "true"}),
                each,
                content="application/apply-patch+yaml",
            )
            for each in given
            if each
        ]

    def merge(self, path: str, change: Object) -> Object:
        """Change an object by a JSON merge patch."""
        changed: Object = self.request(
            "PATCH", path, change, content="application/merge-patch+json"
        )
        return changed

    def delete(self, path: str, *, grace_s: int | None = None) -> None:
        """Ask for an object's deletion; one that is gone is no error.

        Args:
            path: Of the object.
            grace_s: For pods; 0 forgets a pod at once, whatever its node does.
        """
        options = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        try:
            self.request("DELETE", path, options)
        except KubeError as error:
            if error.status != 404:
                raise

    def path(self, document: Object) -> str:
        """Where an object lies, from its kind, namespace and name."""
        return f"{self._collection(document)}/{quote(document['metadata']['name'], safe='')}"

    def _collection(self, document: Object) -> str:
        version, kind = document["apiVersion"], document["kind"]
        top = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._plurals:
            for resource in self.get(top)["resources"]:
                if "/" not in resource["name"]:
                    known = (resource["name"], resource["namespaced"])
                    self._plurals[(version, resource["kind"])] = known
        plural, namespaced = self._plurals[(version, kind)]
        if not namespaced:
            return f"{top}/{plural}"
        namespace = document["metadata"].get("namespace", "default")
        return f"{top}/namespaces/{namespace}/{plural}"

    def snapshots(
        self, collection: str, *, limit_s: float = LIMIT_S, **query: str
    ) -> Iterator[dict[str, Object]]:
        """The collection as it is now and after each change, by name, until the limit is over."""
        end = time.monotonic() + limit_s
        while (left_s := end - time.monotonic()) > 0:
            listed = self.get(_with_query(collection, query))
            held = {item["metadata"]["name"]: item for item in listed["items"]}
            yield dict(held)
            watch = {
                "watch": "1",
                "resourceVersion": listed["metadata"]["resourceVersion"],
                "timeoutSeconds": str(max(1, int(left_s))),
            }
            path = _with_query(collection, {**query, **watch})
            # Cut off, or told that the version is too old: list again.
            with (
                contextlib.suppress(OSError, http.client.HTTPException),
                self._ask("GET", path, None, "application/json", left_s + 1) as stream,
            ):
                for line in stream:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    _fold(held, event)
                    yield dict(held)

    def wait_all(
        self,
        collection: str,
        ready: Predicate,
        *,
        what: str,
        limit_s: float = LIMIT_S,
        **query: str,
    ) -> dict[str, Object]:
        """Wait until the whole collection, by name, is as wished.

        Raises:
            HostError: It was not within the limit; the message shows what was there last.
        """
        seen: dict[str, Object] = {}
        for seen in self.snapshots(collection, limit_s=limit_s, **query):
            if ready(seen):
                return seen
        last = json.dumps({name: item.get("status") for name, item in seen.items()})
        raise HostError(what, f"not so within {limit_s:.0f} s", rule=f"last seen: {last}")

    def wait(
        self, path: str, ready: Predicate, *, what: str = "", limit_s: float = LIMIT_S
    ) -> Object:
        """Wait until one object exists and is as wished; gives it.

        Args:
            path: Of the object.
            ready: Told the object.
            what: Names what is waited for, in the error.
            limit_s: How long.

        Raises:
            HostError: It was not so within the limit.
        """
        collection, _, name = path.rpartition("/")
        seen = self.wait_all(
            collection,
            lambda all_: name in all_ and ready(all_[name]),
            what=what or path,
            limit_s=limit_s,
            fieldSelector=f"metadata.name={name}",
        )
        return seen[name]

    def wait_gone(self, path: str, *, limit_s: float = LIMIT_S) -> None:
        """Wait until no object of that path is left."""
        collection, _, name = path.rpartition("/")
        selector = f"metadata.name={name}"
        self.wait_all(
            collection,
            lambda all_: not all_,
            what=f"{path} gone",
            limit_s=limit_s,
            fieldSelector=selector,
        )


def condition(document: Object, kind: str) -> str:
    """The status of an object's condition: `True`, `False` or `Unknown`; empty without one."""
    for each in document.get("status", {}).get("conditions", ()):
        if each["type"] == kind:
            return str(each["status"])
    return ""


def _fold(held: dict[str, Object], event: Mapping[str, Any]) -> None:
    name = event["object"]["metadata"]["name"]
    if event["type"] == "DELETED":
        held.pop(name, None)
    else:
        held[name] = event["object"]


def _with_query(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
