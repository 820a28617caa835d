"""Pods and containers as the container runtime tells of them.

The sandbox's id is the identity here: a pod keeps its UID over several sandboxes, and a late event
of a dead one must not touch its successor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

import attrs


@attrs.frozen(kw_only=True)
class Sandbox:
    """A pod sandbox.

    Attributes:
        id: The runtime's id of the sandbox.
        name: The pod's name; empty where the runtime knows no more than the id.
        namespace: The pod's Kubernetes namespace.
        uid: The pod's UID, by which claims are found.
        netns_path: The pinned network namespace; ``None`` for the host's network, for a dead
            sandbox, and in some runtimes' Stop and Remove events.
        runtime_handler: The pod's runtime class, as the runtime names it; empty for the default.
        ips: Addresses of the pod, where the runtime tells them.
        pid: Process id of the sandbox, 0 where there is none.
    """

    id: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    netns_path: str | None = None
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    labels: Mapping[str, str] = attrs.field(factory=dict)
    runtime_handler: str = ""
    ips: tuple[str, ...] = ()
    pid: int = 0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.name else self.id


@attrs.frozen(kw_only=True)
class PodClaims:
    """The claims that a pod uses, whether or not a container of it refers to them.

    Attributes:
        group: The pod's PodGroup; empty when it is of none.
        names: Names of ResourceClaims.
        unresolved: The pod's own names of claims made from templates, where whoever told of the pod
            did not tell which claims they are.
    """

    group: str = ""
    names: frozenset[str] = frozenset()
    unresolved: frozenset[str] = frozenset()

    @classmethod
    def resolve(
        cls, group: str, entries: Iterable[tuple[str, str]], made: Mapping[str, str]
    ) -> PodClaims:
        """What a pod's object says.

        Args:
            group: Name of its PodGroup.
            entries: Of each entry of ``spec.resourceClaims`` the pod's own name for it, and the
                claim that it names; that is empty where it names a template.
            made: Claims that were made from templates, by the pod's own names; empty for one of
                which none was needed.
        """
        known = [(own, named or made.get(own)) for own, named in entries]
        return cls(
            group=group,
            names=frozenset(name for _, name in known if name),
            unresolved=frozenset(own for own, name in known if name is None),
        )


class ContainerState(Enum):
    """What the runtime says a container does."""

    UNKNOWN = 0
    CREATED = 1
    PAUSED = 2
    RUNNING = 3
    STOPPED = 4


@attrs.frozen(kw_only=True)
class Container:
    """A container of a sandbox.

    Attributes:
        env: The environment, a later entry over an earlier one of the same name. CDI edits are in
            it already when the container is created.
        cdi_devices: Fully qualified CDI names; only containerd from 2.3 on tells them.
        pid: Process id of the container, 0 before its start.
    """

    id: str
    sandbox_id: str
    name: str = ""
    env: Mapping[str, str] = attrs.field(factory=dict)
    state: ContainerState = ContainerState.UNKNOWN
    cdi_devices: tuple[str, ...] = ()
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    labels: Mapping[str, str] = attrs.field(factory=dict)
    pid: int = 0


@attrs.frozen(kw_only=True)
class Adjustment:
    """What is changed of a container while it is made.

    Each item may be set by one plugin only; a second one fails the container.

    Attributes:
        env: Variables set.
        annotations: Annotations set.
        cdi_devices: Fully qualified CDI names added (containerd from 1.7.30 and 2.1.0 on).
    """

    env: Mapping[str, str] = attrs.field(factory=dict)
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    cdi_devices: tuple[str, ...] = ()
