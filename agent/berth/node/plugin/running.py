"""Which containers that the device plugin gave something run now, as the runtime tells.

Kubelet's lists forget a pod that was deleted by force while its containers still run; the runtime
does not. A container is known by the mark that the plugin's answer put into its environment; since
whoever writes a pod may write that too, it speaks for no other pod's devices once kubelet has shown
whose they are.

Source: gpu-and-health.md L6, L7.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from berth.model.pod import Container, ContainerState, Sandbox
from berth.node.records.given import Given

_MARK: Final = "BERTH_PLUGIN_"
_ENDED: Final = frozenset({ContainerState.STOPPED})


def mark(resource: str, ids: Sequence[str]) -> str:
    """The environment entry by which a container is known to have ids of a resource.

    One name per resource, since a second entry of the same name would replace the first. Names of
    resources may differ in signs alone that no variable's name has, hence the checksum.
    """
    name = re.sub(r"[^A-Z0-9]", "_", resource.upper())
    return f"{_MARK}{name}_{zlib.crc32(resource.encode()):08X}={resource}:{','.join(ids)}"


@attrs.frozen(kw_only=True)
class _Marked:
    """A container that has something of ours, or says so.

    Attributes:
        pod: Namespace and name of its pod; empty where the runtime did not tell.
    """

    sandbox_id: str
    pod: tuple[str, str]
    units: frozenset[tuple[str, str]]


class Running:
    """Keeps the containers with our mark.

    While the runtime is away those that it told of last count as running: it may be started anew
    beside containers that run on. Before it has told this process anything, the records say whose
    containers it told of.

    Args:
        ended: Called when one of them has ended.
    """

    def __init__(self, ended: Callable[[], None] = lambda: None) -> None:
        self._ended = ended
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
        units = frozenset(units_of(container.env))
        if units:
            self._containers[container.id] = _Marked(
                sandbox_id=sandbox.id, pod=(sandbox.namespace, sandbox.name), units=units
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
            not wanted.isdisjoint(one.units)
            and (shown is None or one.pod in {("", ""), (shown.namespace, shown.pod)})
            for one in self._containers.values()
        )


def units_of(env: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Resource and id of each unit that a container's environment tells of."""
    for name, value in env.items():
        if name.startswith(_MARK):
            resource, _, ids = value.partition(":")
            yield from ((resource, id_) for id_ in ids.split(",") if id_)
