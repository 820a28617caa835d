"""Which containers that the device plugin gave something run now, as the runtime tells.

Kubelet's lists forget a pod that was deleted by force while its containers still run; the runtime
does not. A container is known by the mark that the plugin's answer put into its environment.
Whoever writes a pod may write that too: so it speaks for no other pod's devices once kubelet has
shown whose they are. A container whose mark is not true counts for all that kubelet showed it with,
and for what kubelet has shown nobody with yet.

Source: gpu-and-health.md L6, L7.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from berth.model.pod import Container, ContainerState, Sandbox
from berth.model.resource import ContainerRef
from berth.node.records.given import Given

_MARK: Final = "BERTH_PLUGIN_"
_ENDED: Final = frozenset({ContainerState.STOPPED})

MOST_MARKS: Final = 64
"""Marks that are kept of a container: one for each resource that it asks for."""

MOST_UNITS: Final = 1024
"""Units that are kept of what a container's marks say."""

MOST_CHARS: Final = 32_768
"""What a container's marks may have in all. A pod's author can write megabytes of them."""


def mark(resource: str, ids: Sequence[str]) -> str:
    """The environment entry by which a container is known to have ids of a resource.

    One name per resource, since a second entry of the same name would replace the first.
    """
    return f"{mark_name(resource)}={resource}:{','.join(ids)}"


def mark_name(resource: str) -> str:
    """The variable that every container has which was given something of a resource.

    Whoever writes a pod can give it another value, which wins, and cannot take it away.
    Names of resources may differ in signs alone that no variable's name has, hence the checksum.
    """
    name = re.sub(r"[^A-Z0-9]", "_", resource.upper())
    return f"{_MARK}{name}_{zlib.crc32(resource.encode()):08X}"


@attrs.frozen(kw_only=True)
class _Marked:
    """A container that has something of ours, or says so.

    Attributes:
        pod: Namespace and name of its pod; empty where the runtime did not tell.
        name: Its own, in the pod.
        marks: Names of its marks: these are there whatever the pod's author wrote.
        units: What its marks say.
        is_flooded: It has more than is kept, so neither is: each mark may be there, and is untrue.
    """

    sandbox_id: str
    pod: tuple[str, str]
    name: str
    marks: frozenset[str]
    units: frozenset[tuple[str, str]]
    is_flooded: bool = False

    def has_mark(self, resource: str) -> bool:
        """Whether it was given something of a resource, or somebody wrote so."""
        return self.is_flooded or mark_name(resource) in self.marks

    def may_be(self, shown: ContainerRef) -> bool:
        """Whether it is the container that kubelet shows, as far as the runtime told."""
        return self.pod == ("", "") or (*self.pod, self.name) == (
            shown.namespace,
            shown.pod,
            shown.container,
        )


class Running:
    """Keeps the containers with our mark.

    While the runtime is away those that it told of last count as running: it may be started anew
    beside containers that run on. Before it has told this process anything, the records say whose
    containers it told of.

    Args:
        ended: Called when one of them has ended.
        given: What the device plugin gave, with the containers that kubelet shows.
    """

    def __init__(
        self,
        ended: Callable[[], None] = lambda: None,
        *,
        given: Callable[[], Iterable[Given]] = tuple,
    ) -> None:
        self._ended = ended
        self._given = given
        self._containers: dict[str, _Marked] = {}
        self._is_told = False

    def synchronize(self, sandboxes: Iterable[Sandbox], containers: Iterable[Container]) -> None:
        """The runtime has told of all its containers."""
        self._is_told = True
        by_id = {sandbox.id: sandbox for sandbox in sandboxes}
        self._containers.clear()
        for container in containers:
            if container.state not in _ENDED:
                unknown = Sandbox(id=container.sandbox_id)
                self.made(by_id.get(container.sandbox_id, unknown), container)

    def made(self, sandbox: Sandbox, container: Container) -> None:
        """A container is being made."""
        marks = {name: value for name, value in container.env.items() if name.startswith(_MARK)}
        if marks:
            chars = sum(len(name) + len(value) for name, value in marks.items())
            is_flooded = len(marks) > MOST_MARKS or chars > MOST_CHARS
            units = frozenset(() if is_flooded else units_of(marks))
            is_flooded = is_flooded or len(units) > MOST_UNITS
            self._containers[container.id] = _Marked(
                sandbox_id=sandbox.id,
                pod=(sandbox.namespace, sandbox.name),
                name=container.name,
                marks=frozenset(() if is_flooded else marks),
                units=frozenset(() if is_flooded else units),
                is_flooded=is_flooded,
            )

    def ended(self, container: Container) -> None:
        """A container has ended, or is no more."""
        if self._containers.pop(container.id, None) is not None:
            self._ended()

    def sandbox_ended(self, sandbox_id: str) -> None:
        """A sandbox has ended, and with it whatever was made in it or failed to be."""
        ids = [id_ for id_, one in self._containers.items() if one.sandbox_id == sandbox_id]
        for id_ in ids:
            del self._containers[id_]
        if ids:
            self._ended()

    def is_live(self, given: Given) -> bool:
        """Whether a container runs that has a part of what was given, as far as anybody knows."""
        if given.ran and not self._is_told:
            return True
        wanted = {(given.holder.resource, id_) for id_ in given.holder.ids}
        shown = given.holder.container
        return any(
            shown is None or one.pod in {("", ""), (shown.namespace, shown.pod)}
            if not wanted.isdisjoint(one.units)
            else (shown is None or one.may_be(shown)) and self._hides(one, given.holder.resource)
            for one in self._containers.values()
        )

    def _hides(self, one: _Marked, resource: str) -> bool:
        """Whether its mark of a resource says anything but what kubelet shows it with."""
        if not one.has_mark(resource):
            return False
        said = {id_ for of, id_ in one.units if of == resource}
        shown = {
            id_
            for each in self._given()
            if each.holder.resource == resource
            and each.holder.container is not None
            and one.may_be(each.holder.container)
            for id_ in each.holder.ids
        }
        return not said or not said <= shown


def units_of(env: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Resource and id of each unit that a container's environment tells of."""
    for name, value in env.items():
        if name.startswith(_MARK):
            resource, _, ids = value.partition(":")
            yield from ((resource, id_) for id_ in ids.split(",") if id_)
