"""Kubelet's PodResources: asks which container has which ids and devices. It decides nothing.

Kubelet answers 100 calls a second to all callers together, with a burst of 10; so each question is
one call. What it answers is of active pods alone: a pod that was deleted by force is not listed
though its containers may still run.

Source: KC §10.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import trio

from berth.deviceplugin.listing import read_allocatable, read_pods
from berth.deviceplugin.provisions import read_provisions
from berth.errors import HostError
from berth.model.meter import Timing
from berth.model.provision import PodProvision
from berth.model.resource import PodUsages, Usage
from berth.pb import podresources_v1_pb2 as pb
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge import open_channel
from berth.runtime.methods import Message, RpcError, Status
from berth.runtime.sockets import SocketId, find_socket

ANSWER_S: Final = 5.0
"""Longest that kubelet may take for an answer, in seconds."""

SERVICE: Final = "v1.PodResourcesLister"

_MENDS: Final = {
    Status.UNAVAILABLE: "is kubelet running, and is [kubelet] root what its --root-dir says?",
    Status.RESOURCE_EXHAUSTED: "others ask too much or the answer is too large; it is asked again",
}

ReplyT = TypeVar("ReplyT", bound=Message)


class PodResources:
    """Asks one kubelet.

    Args:
        thread: The loop on which grpcio runs.
        root: Kubelet's root directory.

    Attributes:
        seconds: How long kubelet took, by result: ``ok``, ``late``, or gRPC's word.
    """

    def __init__(self, thread: AsyncioThread, *, root: Path) -> None:
        self.path = root / "pod-resources" / "kubelet.sock"
        """Kubelet's socket; a new one means that kubelet has restarted."""
        self.seconds = Timing("result")
        self._thread = thread

    def socket(self) -> SocketId | None:
        """Which socket lies there, and since when; ``None`` while none does.

        Raises:
            HostError: It cannot be looked at.
        """
        return find_socket(self.path)

    async def list_pods(self) -> PodUsages:
        """Ask what the containers of all active pods have.

        Raises:
            HostError: Kubelet does not answer, or not within `ANSWER_S`.
        """
        return read_pods((await self._list()).pod_resources)

    async def provisions(self) -> tuple[PodProvision, ...]:
        """Ask what all active pods have of CPUs, memory and devices.

        Raises:
            HostError: As `list_pods`.
        """
        return read_provisions((await self._list()).pod_resources)

    async def usages(self) -> tuple[Usage, ...]:
        """Ask which ids of extended resources the containers of all active pods have.

        Raises:
            HostError: As `list_pods`.
        """
        return (await self.list_pods()).usages

    async def age_s(self) -> float:
        """How long kubelet's socket has been there, in seconds, by the wall clock.

        Raises:
            HostError: It is not there, or cannot be looked at.
        """
        await trio.lowlevel.checkpoint()
        found = self.socket()
        if found is None:
            raise HostError(str(self.path), "there is no socket", mend=_MENDS[Status.UNAVAILABLE])
        return max(0.0, time.time() - found.made_ns / 1e9)

    async def get_pod(self, namespace: str, name: str) -> PodUsages | None:
        """Ask what the containers of one pod have; ``None`` when there is no such active pod.

        Raises:
            HostError: As `list_pods`, or kubelet does not serve this (by default since 1.34).
        """
        request = pb.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        try:
            answer = await self._ask("Get", request, pb.GetPodResourcesResponse)
        except HostError as error:
            if _is_unknown_pod(error.__cause__):
                return None
            raise
        return read_pods([answer.pod_resources])

    async def list_allocatable(self) -> Mapping[str, tuple[str, ...]]:
        """Ask which ids of which resources kubelet takes for healthy, those in use included.

        Raises:
            HostError: As `list_pods`.
        """
        answer = await self._ask(
            "GetAllocatableResources",
            pb.AllocatableResourcesRequest(),
            pb.AllocatableResourcesResponse,
        )
        return read_allocatable(answer)

    async def _list(self) -> pb.ListPodResourcesResponse:
        return await self._ask("List", pb.ListPodResourcesRequest(), pb.ListPodResourcesResponse)

    async def _ask(self, method: str, request: Message, reply: type[ReplyT]) -> ReplyT:
        began = trio.current_time()

        def answered(result: str) -> None:
            self.seconds.observe(trio.current_time() - began, result)

        with trio.move_on_after(ANSWER_S):
            try:
                async with open_channel(self._thread, self.path) as channel:
                    answer = await channel.unary(f"/{SERVICE}/{method}", request, reply)
            except RpcError as error:
                answered(error.code.name.lower())
                raise HostError(
                    str(self.path),
                    f"kubelet does not answer {method}: {error.found}",
                    rule=error.code.name,
                    mend=_MENDS.get(error.code, ""),
                ) from error
            answered("ok")
            return answer
        answered("late")
        raise HostError(str(self.path), f"kubelet did not answer {method} within {ANSWER_S:.0f} s")


def _is_unknown_pod(cause: BaseException | None) -> bool:
    # Kubelet's own text: it gives no code that would say so.
    return (
        isinstance(cause, RpcError)
        and cause.code in {Status.UNKNOWN, Status.NOT_FOUND}
        and "not found" in cause.found
    )
