"""What the agent asks of the API server: the one interface that `node` and `dra` know.

`berth.kube.server.open_server` gives the real one; tests may give a fake. Every method raises
`KubeError`: ``status`` 0 when no answer came, else the server's. A slice that is gone is told with
status 404, whatever the node authorizer made of it; for a claim, where "gone" would be acted upon,
its answer stays 403 with the reason `NOT_RELATED`. No method waits for ever: a server that hangs
ends a call within `CALL_LIMIT_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NoReturn, Protocol, TypeAlias

import attrs

from berth.errors import KubeError
from berth.kube.slices import Slice
from berth.kube.status import DeviceStatus
from berth.kube.taintrules import TaintRule
from berth.model.allocation import AllocatedClaim
from berth.model.claim import Claim, ClaimRef
from berth.model.pod import PodClaims

CALL_LIMIT_S: Final = 20.0
"""Longest time that one call may take, connecting and reading included."""


NOT_RELATED: Final = "NoRelationship"
"""Reason of a 403 by which the node authorizer says that an object is not, or not yet, this node's.

It gives the same answer for an object that is gone, for one of another node, and for a claim whose
pod was bound a moment ago. The word is ours: the server's own reason is ``Forbidden``.
"""


@attrs.frozen(kw_only=True)
class SliceQuery:
    """Which slices: those of a driver on a node.

    Attributes:
        node_name: Empty asks for all nodes, which only an administrator's credentials may.
    """

    driver: str
    node_name: str


@attrs.frozen(kw_only=True)
class SlicesListed:
    """Everything there is now; what was known before is to be forgotten."""

    slices: tuple[Slice, ...]


@attrs.frozen(kw_only=True)
class SliceSeen:
    """One slice was created or changed."""

    slice: Slice


@attrs.frozen(kw_only=True)
class SliceGone:
    """One slice was deleted; this is its last state."""

    slice: Slice


@attrs.frozen(kw_only=True)
class WatchInterrupted:
    """The watch broke and is taken up again by itself; until then nothing new is seen.

    Attributes:
        retry_s: Seconds until the next attempt.
        attempts: Failures in a row, this one included; 1 is the moment to tell somebody.
    """

    error: KubeError
    retry_s: float
    attempts: int


@attrs.frozen(kw_only=True)
class WatchResumed:
    """The watch runs again after an interruption, and nothing was missed.

    Attributes:
        attempts: Failures that there were in a row.
    """

    attempts: int


SliceEvent: TypeAlias = "SlicesListed | SliceSeen | SliceGone | WatchInterrupted | WatchResumed"


@attrs.frozen(kw_only=True)
class ClaimQuery:
    """Which claims: those that were given a device of these pools of a driver."""

    driver: str
    pools: frozenset[str]


@attrs.frozen(kw_only=True)
class ClaimsListed:
    """Everything there is now; what was known before is to be forgotten."""

    claims: tuple[AllocatedClaim, ...]


@attrs.frozen(kw_only=True)
class ClaimSeen:
    """One claim was given devices, or changed."""

    claim: AllocatedClaim


@attrs.frozen(kw_only=True)
class ClaimGone:
    """One claim has no device that was asked for: it is gone, or has lost or never had any."""

    uid: str


ClaimEvent: TypeAlias = "ClaimsListed | ClaimSeen | ClaimGone | WatchInterrupted | WatchResumed"


@attrs.frozen(kw_only=True)
class Node:
    """A Node object, as far as we need it.

    Attributes:
        addresses: Internal and external IP addresses of its status.
        kubelet_version: Of the kubelet that keeps its status; empty when it tells none.
        declared: Features that its kubelet declares (1.36 and later, KC §8).
    """

    name: str
    uid: str
    addresses: tuple[str, ...] = ()
    kubelet_version: str = ""
    declared: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True)
class ServerVersion:
    """``/version``: two numbers to decide by, and the whole text for people.

    A server that acts as an older one (``--emulated-version``) has the older one's numbers.
    """

    major: int
    minor: int
    text: str


@attrs.frozen(kw_only=True)
class Identity:
    """Whom the agent is to the API server, and where that was found.

    Attributes:
        kind: ``kubeconfig``, ``token`` or ``kubelet``.
        source: The file it came from.
        server: The API server's address.
        node_name: The node that a kubelet's certificate names; empty when there is none.
    """

    kind: str
    source: str
    server: str
    node_name: str = ""


class KubeApi(Protocol):
    """The API server, as the agent uses it."""

    @property
    def identity(self) -> Identity:
        """Whom we are to the server."""

    async def get_claim(self, ref: ClaimRef, *, driver: str) -> Claim:
        """The claim, reduced to ``driver``.

        An authorizer that lags behind the binding of a pod is given some seconds.

        Raises:
            KubeError: There is no such claim (404), with a node's certificate it may also be
                another node's (403, `NOT_RELATED`), or the server did not answer.
            ClaimError: Another claim has the name now, or it has no allocation.
        """

    async def watch_claims(
        self, query: ClaimQuery, report: Callable[[ClaimEvent], None]
    ) -> NoReturn:
        """Tell ``report`` of the claims that ``query`` asks for, the whole list first.

        No field of a claim can be selected, so every claim of the cluster crosses the wire, and
        each change of one; what is not asked for is dropped as it is read. A node's own credentials
        may not do it: ``report`` is told of a 403 with each attempt.
        Until cancelled; ``report`` must not block and must not raise.
        """

    async def list_slices(self, query: SliceQuery) -> tuple[Slice, ...]:
        """All slices that ``query`` asks for, in the order of their names."""

    async def watch_slices(
        self, query: SliceQuery, report: Callable[[SliceEvent], None]
    ) -> NoReturn:
        """Tell ``report`` of every change, the whole list first, until cancelled.

        Broken connections are mended inside; ``report`` must not block and must not raise.
        """

    async def list_taint_rules(self) -> tuple[TaintRule, ...]:
        """All rules that taint devices; none where the server has no such thing.

        Raises:
            KubeError: 403 when the credentials may not list them, as a node's may not.
        """

    async def create_slice(self, wanted: Slice) -> Slice:
        """Create a slice; returns it as the server stored it, which may lack fields.

        Raises:
            KubeError: 422 with the refused paths in ``fields``, 409 when the name is taken.
        """

    async def try_slice(self, wanted: Slice) -> Slice:
        """Create a slice for show: returns it as the server would store it, and stores nothing.

        Raises:
            KubeError: As `create_slice`, or whatever an admission hook makes of it.
        """

    async def update_slice(self, wanted: Slice) -> Slice:
        """Replace a slice by name; returns it as the server stored it.

        Raises:
            KubeError: 409 when it changed since ``resource_version``, 404 when it is gone, 422 with
                the refused paths in ``fields``.
        """

    async def delete_slice(self, gone: Slice) -> None:
        """Delete a slice if it is still this one; being gone already is success.

        Raises:
            KubeError: 409 when it has another UID or, where given, another resource version.
        """

    async def apply_claim_status(
        self, ref: ClaimRef, devices: Sequence[DeviceStatus], *, driver: str, manager: str
    ) -> None:
        """Write all of our entries of a claim's ``status.devices``, by server-side apply.

        Raises:
            KubeError: 404 when the claim is gone, 409 when another claim has its name or it changed
                meanwhile, 403 or 422 when the credentials do not suffice (read the text), 422 with
                ``status.allocation`` in ``fields`` when the claim was created with white space in
                its opaque parameters: no change of its status by JSON is taken then.
        """

    async def read_claim_status(self, ref: ClaimRef, *, driver: str) -> tuple[DeviceStatus, ...]:
        """The entries of ``driver`` in a claim's ``status.devices``.

        Raises:
            KubeError: 404 when the claim is gone, 409 when another claim has its name.
        """

    async def get_node(self, name: str) -> Node:
        """The Node object.

        Raises:
            KubeError: 404 when there is none, 403 when the credentials are another node's.
        """

    async def pod_is_ending(self, namespace: str, name: str, *, uid: str) -> bool:
        """Whether a pod is being deleted, has ended, or is gone already.

        Raises:
            KubeError: 403 when the credentials may not read the pods of this node.
        """

    async def pod_claims(self, namespace: str, name: str, *, uid: str) -> PodClaims | None:
        """The claims of a pod; ``None`` when there is none of that name and UID.

        Kubelet's copy of a static pod has another UID than the pod that runs.

        Raises:
            KubeError: 403 when the credentials may not read the pods of this node, or (with a
                node's, `NOT_RELATED`) the authorizer does not know yet that the pod is here.
        """

    async def server_version(self) -> ServerVersion:
        """The version of the server that answers."""

    def local_endpoints(self) -> tuple[str, ...]:
        """Own IP addresses of the connections to the server that are open now."""
