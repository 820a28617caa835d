"""Which pod has the NICs that were asked for as resources: found out when its sandbox is made.

Kubelet asks the device plugin for ids and names no pod. When a sandbox comes while NICs wait for
theirs, kubelet is asked what that pod has. A container that was given something has the mark in its
environment. Whoever writes a pod may write that too, and a value of their own goes over the true
one; the name alone stays. So while a NIC of that resource waits for its pod, kubelet is asked once
more whatever the value says, and has the word; but for what the pod is known to have. From then on
the pod has its NICs as it would by claims: with names of their own, brought into each of its
sandboxes until nobody has them any more.

Source: network.md §9 (``attach = "nri"``); KC §10 for what kubelet answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, Protocol

import attrs
import trio

from berth.errors import BerthError, ClaimError
from berth.model.pod import Container, Sandbox
from berth.model.resource import PodUsages
from berth.nic.config.pod import assign_names
from berth.nic.record import NicRecord, Stage
from berth.node.holders.nicholders import NicHolder, NicHolders, nics_of
from berth.node.plugin.running import mark_name, units_of
from berth.node.records.given import Given
from berth.node.records.record import ClaimRecord
from berth.node.records.shelf import Shelf
from berth.runtime.logs import get_log

ASK_S: Final = 0.3
"""How long kubelet may take to say what a pod has: the pod's hook waits for it."""

INSIST_S: Final = 0.7
"""The same for a pod of which a container was given something that no pod is known to have."""

_NUMBERED: Final = re.compile(r"net[1-9][0-9]*")
_log = get_log(__name__)


class _Silent(ClaimError):
    """Kubelet does not say what a pod has."""


@attrs.frozen(kw_only=True)
class _Has:
    """What kubelet says that a pod has.

    Attributes:
        units: Ids of resources, each with its resource.
        claims: Names of claims that its containers refer to.
    """

    units: frozenset[tuple[str, str]]
    claims: frozenset[str]


class Asks(Protocol):
    """Kubelet's PodResources."""

    async def get_pod(self, namespace: str, name: str) -> PodUsages | None:
        """What the containers of one pod have."""
        ...


class ResourcePods:
    """Knows the pods.

    Args:
        given: What the device plugin gave.
        holders: Who else has NICs in a pod.
        kubelet: Who knows what a pod has.
        moved: Resource and id of each NIC that berth brings into pods, given or not.
    """

    def __init__(
        self,
        given: Shelf[Given],
        *,
        holders: NicHolders,
        kubelet: Asks,
        moved: Callable[[], Collection[tuple[str, str]]] = tuple,
    ) -> None:
        self._given = given
        self._holders = holders
        self._kubelet = kubelet
        self._moved = moved

    def of_pod(self, pod_uid: str) -> tuple[Given, ...]:
        """What berth brings into the pod's sandboxes."""
        return tuple(
            one
            for one in self._given.all()
            if one.serves_pod(pod_uid) and one.has_nics and one.prepared and not one.revoked
        )

    async def learn(self, sandbox: Sandbox) -> None:
        """Ask kubelet what a pod has, if there are NICs that wait for their pod.

        A kubelet that does not answer is no reason to keep every pod from starting: of those that
        have a NIC, the containers are not made before it has.

        Raises:
            ClaimError: The pod cannot have its NICs as their groups say.
            HostError: The disk refused.
        """
        if not any(self._waiting()):
            return
        try:
            await self._bind(sandbox, await self._ask(sandbox, limit_s=ASK_S))
        except _Silent as error:
            _log.warning("not known yet what a pod has", pod=sandbox, reason=error)

    async def mark(
        self, sandbox: Sandbox, containers: Iterable[Container], *, limit_s: float = INSIST_S
    ) -> None:
        """Learn what a pod has whose containers say that they were given something.

        Args:
            limit_s: How long kubelet may take.

        Raises:
            ClaimError: The pod cannot have its NICs as their groups say, another has them, or
                kubelet does not say whose they are.
            HostError: The disk refused.
        """
        told = [container.env for container in containers]
        said = {unit for env in told for unit in units_of(env)}
        lost = self._lost(said)
        if not lost and not self._may_wait(sandbox, told) and not self._strange(sandbox, said):
            return
        has = await self._ask(sandbox, limit_s=limit_s)
        await self._bind(sandbox, has)
        for one in self._strange(sandbox, has.units):
            raise _unready(sandbox, one.holder.resource, one.holder.ids)
        for one in self._strange(sandbox, said):
            if not one.pod_uid and not one.revoked:
                raise _unshown(sandbox, one.holder.resource, one.holder.ids)
        for resource, id_ in sorted(lost):
            refusal = _unready if (resource, id_) in has.units else _unshown
            raise refusal(sandbox, resource, [id_])

    def asked_by(self, container: Container) -> tuple[Given, ...]:
        """What a container says that it was given, of whatever kind."""
        units = {*units_of(container.env)}
        return tuple(
            one
            for one in (self._given.all() if units else ())
            if not one.revoked
            and any((one.holder.resource, id_) in units for id_ in one.holder.ids)
        )

    async def _ask(self, sandbox: Sandbox, *, limit_s: float) -> _Has:
        """What kubelet says that the pod has; nothing for a pod that it does not know.

        Raises:
            _Silent: It does not say.
        """
        reason: object = f"no answer within {limit_s:g} s"
        with trio.move_on_after(limit_s):
            try:
                found = await self._kubelet.get_pod(sandbox.namespace, sandbox.name) or PodUsages()
                units = ((one.resource, id_) for one in found.usages for id_ in one.ids)
                claims = frozenset(one.name for one in found.claims)
                return _Has(units=frozenset(units), claims=claims)
            except BerthError as error:
                reason = error
        raise _Silent(
            f"pod {sandbox}",
            f"may have NICs, and kubelet does not say which: {reason}",
            mend="kubelet makes the container again by itself",
        )

    def _waiting(self) -> Iterator[Given]:
        """What has NICs, and no pod yet."""
        return (one for one in self._given.all() if one.has_nics and not one.pod_uid)

    def _may_wait(self, sandbox: Sandbox, told: Iterable[Mapping[str, str]]) -> bool:
        """Whether a container may have a NIC that waits for its pod.

        One whose mark says nothing but what its pod is known to have has no other NIC: kubelet
        gives a container all of a resource at once.
        """
        own: dict[str, set[tuple[str, str]]] = {}
        for one in self.of_pod(sandbox.uid):
            units = {(one.holder.resource, id_) for id_ in one.holder.ids}
            own.setdefault(mark_name(one.holder.resource), set()).update(units)
        for name in {mark_name(one.holder.resource) for one in self._waiting()}:
            for value in (env[name] for env in told if name in env):
                said = {*units_of({name: value})}
                if not said or not said <= own.get(name, set()):
                    return True
        return False

    def _lost(self, units: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """NICs among these units that nobody has: the record is lost, or was given up.

        So is what kubelet never shows, of an init container that waits long enough.
        """
        held = {(one.holder.resource, id_) for one in self._given.all() for id_ in one.holder.ids}
        lost = frozenset(units) - held
        return lost and lost.intersection(self._moved())

    def _strange(self, sandbox: Sandbox, units: Collection[tuple[str, str]]) -> tuple[Given, ...]:
        """What has a part of these units, and is not known to be the pod's."""
        return tuple(
            one
            for one in self._given.all()
            if one.pod_uid != sandbox.uid
            and one.has_nics
            and any((one.holder.resource, id_) in units for id_ in one.holder.ids)
        )

    async def _bind(self, sandbox: Sandbox, has: _Has) -> None:
        # Names that groups give come before those that are numbered, which leave them free.
        for one in sorted(self._strange(sandbox, has.units), key=lambda one: not _is_named(one)):
            async with self._given.lock(one.uid):
                known = self._given.get(one.uid)
                if known is None or not known.prepared or known.revoked:
                    continue
                # Asked about twice at once, a pod has had it from the other question by now.
                if not known.serves_pod(sandbox.uid):
                    _require_home(known)
                    await self._given.put(self._of(known, sandbox, has))

    def _of(self, given: Given, sandbox: Sandbox, has: _Has) -> Given:
        """What is the pod's from now on, under names that it has room for.

        Raises:
            ClaimError: A group names an interface as another NIC of the pod is named.
        """
        near = self._claims_near(sandbox)
        shared = (record for record in near if record.claim.name in has.claims)
        taken = _names_of((*self._holders.of_pod(sandbox.uid), *shared))
        # A group's claim may be the pod's too, and names no pod: a number leaves its name free.
        used = taken | _names_of(record for record in near if record.groups)
        nics = [(index, nic) for index, nic in nics_of(given) if nic.stage is not Stage.LENT]
        wished = [_wish(nic, given, used) for _, nic in nics]
        for number, name in enumerate(wished):
            if name and (name in taken or name in wished[:number]):
                raise ClaimError(
                    nics[number][1].device,
                    f'is to be "{name}" in pod {sandbox}, as another NIC of it is',
                    mend="drop interface.name from the group's defaults: then a free one is taken",
                )
        for (index, nic), name in zip(nics, assign_names(wished, used), strict=True):
            interface = attrs.evolve(nic.config.interface, name=name)
            config = attrs.evolve(nic.config, interface=interface)
            given = given.with_nic(index, attrs.evolve(nic, config=config))
        return attrs.evolve(given, pod_uid=sandbox.uid)

    def _claims_near(self, sandbox: Sandbox) -> list[ClaimRecord]:
        """The claims of the pod's namespace, its own among them."""
        return [
            record
            for record in self._holders.all()
            if isinstance(record, ClaimRecord)
            and record.claim.namespace == sandbox.namespace
            and not record.revoked
        ]


def _names_of(records: Iterable[NicHolder]) -> frozenset[str]:
    nics = (nic for record in records for _, nic in nics_of(record))
    return frozenset(name for nic in nics for _, name in nic.config.names)


def _unready(sandbox: Sandbox, resource: str, ids: Iterable[str]) -> ClaimError:
    """What kubelet shows a pod with, and berth cannot bring there now."""
    return ClaimError(
        f"pod {sandbox}",
        f"has {', '.join(ids)} of {resource}, not ready yet",
        mend="kubelet makes the container again; `berth holds` tells how far it is",
    )


def _unshown(sandbox: Sandbox, resource: str, ids: Iterable[str]) -> ClaimError:
    """What a container says that it was given, though kubelet shows it nowhere in its pod.

    Kubelet gives the devices of an init container that ends to the containers after it, as many as
    these ask for; the rest stays the pod's, and is shown nowhere.
    Source: ``pkg/kubelet/cm/devicemanager/manager.go`` (``devicesToReuse``), 1.34.
    """
    return ClaimError(
        f"pod {sandbox}",
        f"says that it has {', '.join(ids)} of {resource}, and kubelet shows no container of it "
        "with that",
        rule="a NIC goes to the pod that kubelet shows with it; of init containers kubelet shows "
        "those that restart, and of the others only what containers after them have too",
        mend="let the containers that run on ask for as many of it, together, as each init "
        "container that ends, or ask by a claim; no pod sets "
        f"{mark_name(resource)} itself",
    )


def _is_named(given: Given) -> bool:
    """Whether a group names an interface of it, or an earlier pod had it under a name."""
    return any(nic.config.interface.name for _, nic in nics_of(given))


def _wish(nic: NicRecord, given: Given, taken: Collection[str]) -> str:
    """The name that its group gives; one that may be an earlier pod's number gives way."""
    name = nic.config.interface.name
    is_number = given.pod_uid and _NUMBERED.fullmatch(name)
    return "" if is_number and name in taken else name


def _require_home(given: Given) -> None:
    """Refuse what is in another pod's sandbox yet.

    Raises:
        ClaimError: It is.
    """
    for _, nic in nics_of(given):
        if nic.is_away:
            where = nic.sandbox.pod if nic.sandbox is not None else "another pod"
            raise ClaimError(
                nic.device, f"is still in pod {where}", mend="kubelet asks again by itself"
            )
