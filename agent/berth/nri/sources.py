"""Whom the hooks ask: about claims, about pods, and to move NICs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from berth.model.pod import Container, Sandbox
from berth.nic.record import SandboxRef
from berth.node.records.given import Given
from berth.node.records.record import ClaimRecord
from berth.runtime.threads import Decision


class PreparedClaims(Protocol):
    """The node's prepared claims; `berth.node.claims.claims.Claims` says what each promises."""

    def of_pod(self, pod_uid: str) -> tuple[ClaimRecord, ...]:
        """The prepared claims that the pod uses."""
        ...

    def by_marker(self, uids: Sequence[str]) -> tuple[ClaimRecord | None, ...]:
        """Records by claim UIDs without hyphens."""
        ...

    async def reread(self, uid: str) -> ClaimRecord | None:
        """Learn from the API server who uses a prepared claim now."""
        ...


class ResourcePods(Protocol):
    """Pods that asked for resources; see `berth.node.plugin.resourcepods.ResourcePods`."""

    def of_pod(self, pod_uid: str) -> tuple[Given, ...]:
        """What berth brings into the pod's sandboxes."""
        ...

    async def learn(self, sandbox: Sandbox) -> None:
        """Ask kubelet what the pod has, if that may be a NIC."""
        ...

    async def mark(
        self, sandbox: Sandbox, containers: Iterable[Container], *, limit_s: float = ...
    ) -> None:
        """Learn it from its containers."""
        ...

    def asked_by(self, container: Container) -> tuple[Given, ...]:
        """What a container says that it was given."""
        ...


class SharingPods(Protocol):
    """Pods that have claims which do not name them; see `berth.node.claims.sharers.Sharers`."""

    def of_pod(self, sandbox: Sandbox) -> tuple[ClaimRecord, ...]:
        """Claims that the pod is known to have, though they do not name it."""
        ...

    def asks_about(self, sandbox: Sandbox) -> bool:
        """Whether that is not known."""
        ...

    def is_foreign(self, sandbox: Sandbox, record: ClaimRecord) -> bool:
        """Whether a claim of a group is not the pod's, whatever its containers say."""
        ...

    async def learn(self, sandbox: Sandbox, *, limit_s: float) -> None:
        """Find it out."""
        ...

    def forget(self, pod_uid: str) -> None:
        """The pod's sandbox has ended."""
        ...

    def keep(self, pod_uids: Collection[str]) -> None:
        """No other pods are there."""
        ...


class Arrivals(Protocol):
    """Who brings NICs into sandboxes; `berth.node.claims.arrivals` says what it promises."""

    async def missing(self, uids: Collection[str], sandbox: SandboxRef) -> tuple[str, ...]:
        """Devices of these holders that are not in the sandbox now."""
        ...

    async def attach(
        self, uids: Collection[str], sandbox: SandboxRef, *, limit_s: float, decision: Decision
    ) -> None:
        """Bring the holders' NICs into a sandbox."""
        ...

    async def detach(self, sandbox_id: str) -> None:
        """Bring home whatever is in the sandbox."""
        ...
