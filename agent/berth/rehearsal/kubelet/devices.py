"""Kubelet's device manager: extended resources counted and given to pods.

One object is one life, as with `Kubelet`, beside which it runs. At its start it removes every
socket in its folder; its own socket stays there when it ends, as that of a killed kubelet does.
Pods that were admitted survive it in the checkpoint, and are not allocated for again.

Left out: the Topology Manager, init containers, PreStartContainer, and failed pods' late release.

Source: KC §1.6, §1.7, §2.2, §10.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import trio

from berth.errors import BerthError, RemoteProtocolError
from berth.model.resource import ContainerRef
from berth.rehearsal.kubelet.books import (
    CHECKPOINT,
    Allotment,
    ResourceState,
    read_checkpoint,
    write_checkpoint,
)
from berth.rehearsal.kubelet.extended import ExtendedPlugins
from berth.rehearsal.kubelet.notes import Act, Note, Report
from berth.rehearsal.kubelet.podlist import PodList
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge import GrpcServer
from berth.runtime.methods import Service

_lives: Final = itertools.count(1)


class KubeletDevices:
    """One life of kubelet's device manager.

    Args:
        thread: The loop on which grpcio runs.
        root: Kubelet's root directory, with its folders ``device-plugins`` and ``pod-resources``.
        private: Folder for grpcio's own sockets.
        report: Told of everything that is done.
        age_s: How long it has been there when it begins, as the files of its sockets tell it: who
            reads its lists does not believe a young kubelet that a pod is gone.
    """

    def __init__(
        self,
        thread: AsyncioThread,
        *,
        root: Path,
        private: Path,
        report: Report = lambda _: None,
        age_s: float = 0.0,
    ) -> None:
        self.plugins = ExtendedPlugins(thread, root / "device-plugins", report=report)
        """Those that registered in this life, and their resources."""
        self._resources = self.plugins.resources
        self.pods = PodList(allotments=lambda: self._allotments, resources=self._resources.get)
        self._thread = thread
        self._folder = root / "device-plugins"
        self._pods_folder = root / "pod-resources"
        self._private = private
        self._report = report
        self._age_s = age_s
        self._allotments: list[Allotment] = []
        self._admission = trio.Lock()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there until cancelled; ``started()`` when plugins can register."""
        self._begin()
        async with trio.open_nursery() as nursery:
            pods = self._pods_folder / "kubelet.sock"
            await nursery.start(self._serve, self.pods.service(), pods)
            service = self.plugins.service(nursery)
            await nursery.start(self._serve, service, self._folder / "kubelet.sock")
            task_status.started()

    def _begin(self) -> None:
        """Clean the folder up, and read what the life before wrote down."""
        for folder in (self._folder, self._pods_folder):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        for path in self._folder.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
        (self._folder / "DEPRECATION").touch()
        with contextlib.suppress(FileNotFoundError):
            self._allotments = list(read_checkpoint((self._folder / CHECKPOINT).read_text()))
        self.pods.containers += dict.fromkeys(item.container for item in self._allotments)

    async def _serve(
        self, service: Service, public: Path, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Serve at a public path whose file outlives the server: it is a second name of it."""
        private = self._private / f"kubelet-{os.getpid()}-{next(_lives)}.sock"
        server = GrpcServer(self._thread, path=private, services=[service])
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            if self._age_s:
                _make_older(private, self._age_s)
            _name_too(private, public)
            task_status.started()

    def capacity(self, resource: str) -> int:
        """What the node says to have of a resource."""
        state = self._resources.get().get(resource)
        return 0 if state is None else state.capacity(trio.current_time())

    def allocatable(self, resource: str) -> int:
        """How much of it pods may have, those that have it already included."""
        state = self._resources.get().get(resource)
        return 0 if state is None else len(state.healthy)

    async def wait_allocatable(self, resource: str, count: int) -> None:
        """Wait until pods may have so many of a resource, and its plugin is there."""

        def holds(now: Mapping[str, ResourceState]) -> bool:
            state = now.get(resource)
            return state is not None and state.ended_at is None and len(state.healthy) == count

        await self._resources.wait_value(holds)

    async def admit(
        self, namespace: str, pod: str, demands: Mapping[str, Mapping[str, int]]
    ) -> tuple[Allotment, ...]:
        """Admit a pod: gives what each container was allotted, from the checkpoint if it is there.

        Args:
            namespace: Of the pod.
            pod: Its name.
            demands: How many units of which resource, by container.

        Raises:
            RemoteProtocolError: The pod fails admission, in the words of kubelet's event.
        """
        refs = [ContainerRef(namespace=namespace, pod=pod, container=name) for name in demands]
        given: list[Allotment] = []
        async with self._admission:
            try:
                for ref in refs:
                    for resource, count in demands[ref.container].items():
                        given.append(await self._allot(ref, resource, count))
            except BerthError as error:
                self._report(Note(act=Act.NOT_ADMITTED, subject=pod, detail=str(error)))
                self.end_pod(namespace, pod)
                raise
        self.pods.containers += [ref for ref in refs if ref not in self.pods.containers]
        self._report(Note(act=Act.ADMITTED, subject=pod))
        return tuple(given)

    def end_pod(self, namespace: str, pod: str) -> None:
        """Forget a pod, whether its containers still run or not; no plugin is told."""

        def stays(ref: ContainerRef) -> bool:
            return (ref.namespace, ref.pod) != (namespace, pod)

        self.pods.containers[:] = filter(stays, self.pods.containers)
        self.pods.claims[:] = [item for item in self.pods.claims if stays(item.container)]
        self._write_down([item for item in self._allotments if stays(item.container)])

    def _write_down(self, allotments: Iterable[Allotment]) -> None:
        self._allotments = list(allotments)
        (self._folder / CHECKPOINT).write_text(write_checkpoint(self._allotments))

    async def _allot(self, ref: ContainerRef, resource: str, count: int) -> Allotment:
        state = self._resources.get().get(resource)
        healthy = () if state is None else state.healthy
        for item in self._allotments:
            if (item.container, item.resource) == (ref, resource):
                if set(item.ids) <= set(healthy):
                    return item
                raise RemoteProtocolError(
                    "UnexpectedAdmissionError",
                    "previously allocated devices are no longer healthy;"
                    f" cannot allocate unhealthy devices {resource}",
                )
        used = {name for item in self._allotments if item.resource == resource for name in item.ids}
        ids = await self._choose(resource, [name for name in healthy if name not in used], count)
        answer = await self.plugins.caller(resource).allocate(ids)
        allotment = Allotment(container=ref, resource=resource, ids=ids, answer=answer)
        self._write_down([*self._allotments, allotment])
        return allotment

    async def _choose(self, resource: str, free: list[str], count: int) -> tuple[str, ...]:
        if len(free) < count:
            raise RemoteProtocolError(
                "UnexpectedAdmissionError",
                f"Allocate failed due to requested number of devices unavailable for {resource}."
                f" Requested: {count}, Available: {len(free)}, which is unexpected",
            )
        caller = self.plugins.caller(resource)
        preferred: tuple[str, ...] = ()
        if len(free) > count and caller.options.get_preferred_allocation_available:
            preferred = await caller.prefer(free, (), count)
        return tuple(dict.fromkeys([*preferred, *free]))[:count]


def _make_older(path: Path, age_s: float) -> None:
    seen = path.lstat()
    made_ns = seen.st_mtime_ns - int(age_s * 1e9)
    os.utime(path, ns=(seen.st_atime_ns, made_ns))


def _name_too(private: Path, public: Path) -> None:
    public.unlink(missing_ok=True)
    os.link(private, public)
