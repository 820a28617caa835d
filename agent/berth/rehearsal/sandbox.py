"""A pod's sandbox and its containers, made of the parts that matter here.

The sandbox is a network namespace, pinned where containerd pins it, with an ``eth0`` as CNI gives
one. A container is a folder into which the files that its devices name are mounted, at the moment
at which a runtime makes a container's mounts. Device nodes, hooks and groups are told, not made.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

import attrs

from berth.errors import HostError
from berth.model.edits import Edits, Mount
from berth.model.pod import Container, ContainerState, Sandbox
from berth.rehearsal.iproute import ip, ip_batch
from berth.rehearsal.mounts import bind, unmount
from berth.rehearsal.world import NETNS, ROOT

CONTAINERS: Final = ROOT / "containers"
"""Where the containers' own folders lie."""

POD_NETWORK: Final = "10.244.7"
"""First three numbers of the pods' own addresses."""


@attrs.frozen(kw_only=True)
class PodName:
    """Which pod."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


async def make_sandbox(pod: PodName, *, number: int, host_network: bool) -> Sandbox:
    """Make a pod's network namespace and its ``eth0``.

    Args:
        number: Number of the pod's own address, 2 to 254.

    Raises:
        HostError: The kernel refused.
    """
    sandbox = Sandbox(
        id=uuid4().hex + uuid4().hex,
        name=pod.name,
        namespace=pod.namespace,
        uid=pod.uid,
        labels={
            "io.kubernetes.pod.name": pod.name,
            "io.kubernetes.pod.namespace": pod.namespace,
            "io.kubernetes.pod.uid": pod.uid,
        },
    )
    if host_network:
        return sandbox
    name = f"cni-{uuid4()}"
    await ip("netns", "add", name)
    cable = f"veth{sandbox.id[:8]}"
    await ip_batch(
        [
            f"link add {cable} type veth peer name eth0 netns {name}",
            f"link set {cable} up",
        ]
    )
    address = f"{POD_NETWORK}.{number}"
    await ip_batch(
        [
            "link set lo up",
            "link set eth0 up",
            f"address add {address}/24 dev eth0",
            f"route add default via {POD_NETWORK}.1",
        ],
        netns=name,
    )
    return attrs.evolve(sandbox, netns_path=f"/var/run/netns/{name}", ips=(address,))


async def end_sandbox(sandbox: Sandbox) -> None:
    """Take a pod's namespace away; what is still in it goes as the kernel decides.

    Raises:
        HostError: It is gone already.
    """
    if sandbox.netns_path is not None:
        await ip("netns", "delete", Path(sandbox.netns_path).name)


def netns_name(sandbox: Sandbox) -> str:
    """Name of the pod's namespace below ``/run/netns``, for ``ip -n``; empty for the host's."""
    return "" if sandbox.netns_path is None else (NETNS / Path(sandbox.netns_path).name).name


class ContainerBox:
    """One container, as the runtime has it.

    Attributes:
        container: What NRI is told of it.
        edits: What its devices add: its nodes, hooks and groups are these values.
    """

    def __init__(self, sandbox: Sandbox, name: str, edits: Edits) -> None:
        env: dict[str, str] = {"HOSTNAME": sandbox.name}
        for entry in edits.env:
            key, _, value = entry.partition("=")
            env[key] = value
        self.container = Container(
            id=uuid4().hex + uuid4().hex,
            sandbox_id=sandbox.id,
            name=name,
            env=env,
            state=ContainerState.CREATED,
            labels={**sandbox.labels, "io.kubernetes.container.name": name},
        )
        self.edits = edits
        self._mounts: Sequence[Mount] = edits.mounts
        self._made: list[Path] = []

    @property
    def root(self) -> Path:
        """The container's root folder, seen from the host."""
        return CONTAINERS / self.container.id

    def make_mounts(self) -> None:
        """Mount what the container gets, as the runtime does right before the start. Blocks.

        Raises:
            HostError: A file to mount is not there, or the kernel refused.
        """
        for mount in self._mounts:
            source = Path(mount.host_path)
            target = self.root / mount.container_path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                target.mkdir(exist_ok=True)
            else:
                target.touch()
            bind(source, target, read_only="ro" in mount.options)
            self._made.append(target)

    def read(self, path: str) -> bytes:
        """What the container reads at a path. Blocks.

        Raises:
            HostError: There is nothing to read.
        """
        try:
            return (self.root / path.lstrip("/")).read_bytes()
        except OSError as error:
            raise HostError(f"container {self.container.name}: {path}", str(error)) from error

    def files(self) -> tuple[str, ...]:
        """Paths, in the container, of what was mounted into it."""
        return tuple(f"/{path.relative_to(self.root)}" for path in self._made)

    def set_state(self, state: ContainerState, env: Mapping[str, str] | None = None) -> None:
        """Note that it runs or has ended, and what NRI added to its environment."""
        added = {} if env is None else env
        self.container = attrs.evolve(
            self.container, state=state, env={**self.container.env, **added}
        )

    def remove(self) -> None:
        """Take its folder away. Blocks."""
        for target in self._made:
            with contextlib.suppress(HostError):
                unmount(target)
        self._made.clear()
        shutil.rmtree(self.root, ignore_errors=True)
