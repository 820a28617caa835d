"""Objects and their history: one counter of versions, and the changes that watches read.

A version is never given twice. History is bounded: a watch that asks for a version from before its
beginning is told so (410), as the real server does after a compaction of etcd.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import attrs

from berth.rehearsal.apiserver.problems import refuse

HISTORY_LIMIT: Final = 2000
"""Changes that are remembered."""


@attrs.frozen
class Key:
    """Which object: plural of its resource, namespace (empty for none), name."""

    resource: str
    namespace: str
    name: str


@attrs.frozen(kw_only=True)
class Change:
    """One change.

    Attributes:
        kind: ``ADDED``, ``MODIFIED`` or ``DELETED``.
        object: The object after it; with ``DELETED`` its last state, with the version of the end.
        before: The object before it; ``None`` with ``ADDED``.
    """

    version: int
    kind: str
    resource: str
    object: Mapping[str, Any]
    before: Mapping[str, Any] | None


class Store:
    """Objects in memory. What goes in and comes out is never shared with the caller."""

    def __init__(self) -> None:
        self.version = 1000
        self._floor = self.version
        self._objects: dict[Key, dict[str, Any]] = {}
        self._history: deque[Change] = deque()
        self._applied: dict[Key, dict[str, Mapping[str, Any]]] = {}

    def get(self, key: Key) -> dict[str, Any] | None:
        """The object, ``None`` when there is none."""
        return copy.deepcopy(self._objects.get(key))

    def objects(self, resource: str, namespace: str = "") -> list[dict[str, Any]]:
        """All objects of a resource, in the order of namespace and name."""
        keys = sorted(
            (key.namespace, key.name)
            for key in self._objects
            if key.resource == resource and namespace in {"", key.namespace}
        )
        return [copy.deepcopy(self._objects[Key(resource, *rest)]) for rest in keys]

    def put(self, key: Key, value: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object and give it back with its new version.

        An object that is equal to the stored one keeps its version, and no watch hears of it.
        """
        before = self._objects.get(key)
        stored = copy.deepcopy(dict(value))
        stored["metadata"] = {**stored["metadata"], "name": key.name}
        if before is not None:
            stored["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
            if stored == before:
                return copy.deepcopy(before)
        kind = "ADDED" if before is None else "MODIFIED"
        stored["metadata"]["resourceVersion"] = str(self._next())
        self._objects[key] = stored
        self._note(kind, key.resource, stored, before)
        return copy.deepcopy(stored)

    def remove(self, key: Key) -> dict[str, Any]:
        """Remove an object that is there, and give its last state."""
        before = self._objects.pop(key)
        self._applied.pop(key, None)
        last = copy.deepcopy(before)
        last["metadata"]["resourceVersion"] = str(self._next())
        self._note("DELETED", key.resource, last, before)
        return copy.deepcopy(last)

    def applied(self, key: Key) -> dict[str, Mapping[str, Any]]:
        """What each manager applied last to an object, by manager."""
        return dict(self._applied.get(key, {}))

    def note_applied(self, key: Key, manager: str, value: Mapping[str, Any]) -> None:
        """Remember what a manager applied."""
        self._applied.setdefault(key, {})[manager] = copy.deepcopy(dict(value))

    def changes_since(self, version: int, resource: str) -> list[Change]:
        """The changes of a resource after ``version``.

        Raises:
            KubeError: 410, when they are not remembered.
        """
        if version < self._floor:
            message = f"too old resource version: {version} ({self._floor})"
            raise refuse(410, message, reason="Expired")
        return [
            item for item in self._history if item.version > version and item.resource == resource
        ]

    def forget(self) -> None:
        """Forget the whole history; watches from before get 410 when they come again."""
        self._history.clear()
        self._floor = self._next()

    def _next(self) -> int:
        self.version += 1
        return self.version

    def _note(
        self,
        kind: str,
        resource: str,
        value: Mapping[str, Any],
        before: Mapping[str, Any] | None,
    ) -> None:
        change = Change(
            version=self.version, kind=kind, resource=resource, object=value, before=before
        )
        self._history.append(change)
        if len(self._history) > HISTORY_LIMIT:
            self._floor = self._history.popleft().version
