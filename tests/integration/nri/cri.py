"""containerd in a box of its own, without kubelet, and the few CRI calls that make a pod."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import grpc
import trio
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from tests.cluster import cgroups, images, nodeconfig
from tests.cluster.boxes import ENVIRONMENT, Box
from tests.cluster.parts import Kind

NRI_SOCKET = "/run/nri/nri.sock"
_CRI_SOCKET = "/run/containerd/containerd.sock"
_CALL_LIMIT_S = 30


class CriError(Exception):
    """A CRI call failed; kubelet would show this text in the pod's event."""


def compile_messages(scratch: Path) -> dict[str, Callable[..., Any]]:
    """Gives the message classes of cri.proto by name."""
    target = scratch / "cri.set"
    folder = Path(__file__).parent
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc"),
        *(f"--proto_path={folder}", f"--descriptor_set_out={target}", "cri.proto"),
    ]
    subprocess.run(command, check=True)
    [file] = FileDescriptorSet.FromString(target.read_bytes()).file
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found = pool.FindFileByName("cri.proto").message_types_by_name
    return {name: message_factory.GetMessageClass(found[name]) for name in found}


@attrs.define(eq=False)
class Containerd:
    """One containerd of a given version; pods are made by CRI, as kubelet would.

    Attributes:
        version: Major and minor.
        cgroup: Where its pods' control groups lie.
    """

    box: Box
    kind: Kind
    version: tuple[int, int]
    cgroup: str
    messages: dict[str, Callable[..., Any]]

    @property
    def nri_socket(self) -> Path:
        """The NRI socket, as reached from outside the box."""
        return self.box.path(NRI_SOCKET)

    def start(self) -> None:
        """Makes the box and starts containerd in it, with the two images."""
        cgroups.remove(self.cgroup)
        cgroups.make(self.cgroup)
        self.box.start()
        config = self.box.path("/etc/containerd/config.toml")
        config.write_text(nodeconfig.containerd(self.version), encoding="utf-8")
        network = self.box.path("/etc/cni/net.d/10-pods.conflist")
        network.write_text(nodeconfig.pod_network("10.99.1.0/24"), encoding="utf-8")
        folder = self.kind.containerd_folder()
        environment = {"PATH": f"{folder}:{ENVIRONMENT['PATH']}"}
        self.box.spawn("containerd", [str(folder / "containerd")], environment=environment)
        self._wait_serving()
        ctr = (str(folder / "ctr"), "-n", "k8s.io", "image", "import", "--no-unpack")
        self.box.run(*ctr, str(images.archive()))
        self._wait_images()

    def restart(self) -> None:
        """Ends containerd and starts it again; pods go on running."""
        self.box.daemons["containerd"].restart()

    def stop(self) -> None:
        """Ends the box with everything in it."""
        self.box.kill()
        cgroups.remove(self.cgroup)

    def _wait_serving(self) -> None:
        for _ in range(600):
            with contextlib.suppress(CriError):
                self._call("Version", self.messages["Empty"](), "Empty")
                return
            time.sleep(0.05)
        raise CriError(self.box.daemons["containerd"].log_text()[-3000:])

    def _wait_images(self) -> None:
        """Wait until the CRI service knows what was imported: containerd 1.7 tells it by an event,
        and whoever asks for a sandbox before has the pause image pulled from afar.
        """
        make = self.messages
        for name in (images.PAUSE, images.BUSYBOX):
            request = make["ImageStatusRequest"](image=make["ImageSpec"](image=name))
            for _ in range(600):
                status = self._call(
                    "ImageStatus", request, "ImageStatusResponse", service="ImageService"
                )
                if status.HasField("image"):
                    break
                time.sleep(0.05)
            else:
                raise CriError(f"image {name} was imported, and the CRI service does not know it")

    def _call(
        self, method: str, request: Any, reply: str, *, service: str = "RuntimeService"
    ) -> Any:
        with grpc.insecure_channel(f"unix:{self.box.path(_CRI_SOCKET)}") as channel:
            call: grpc.UnaryUnaryMultiCallable[Any, bytes] = channel.unary_unary(
                f"/runtime.v1.{service}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=lambda data: data,
            )
            try:
                data = call(request, timeout=_CALL_LIMIT_S)
            except grpc.RpcError as error:
                raise CriError(error.details()) from error
        return self.messages[reply].FromString(data)  # type: ignore[attr-defined] # a message class


@attrs.define(eq=False)
class Pod:
    """A pod of a containerd, made step by step."""

    containerd: Containerd
    name: str
    uid: str = attrs.field(factory=lambda: str(uuid.uuid4()))
    sandbox_id: str = ""

    def _config(self) -> Any:
        make = self.containerd.messages
        return make["PodSandboxConfig"](
            metadata=make["PodSandboxMetadata"](name=self.name, uid=self.uid, namespace="ns"),
            log_directory="/var/log",
            labels={"io.kubernetes.pod.name": self.name},
            annotations={"berth.dev/test": "yes"},
            linux=make["LinuxPodSandboxConfig"](cgroup_parent=f"/{self.containerd.cgroup}"),
        )

    async def _call(self, method: str, request: Any, reply: str = "Empty") -> Any:
        return await trio.to_thread.run_sync(self.containerd._call, method, request, reply)

    async def run(self) -> str:
        """Runs the sandbox; gives its id."""
        request = self.containerd.messages["RunPodSandboxRequest"](config=self._config())
        reply = await self._call("RunPodSandbox", request, "RunPodSandboxResponse")
        self.sandbox_id = str(reply.pod_sandbox_id)
        return self.sandbox_id

    async def create(self, name: str = "main") -> str:
        """Creates a container; gives its id."""
        make = self.containerd.messages
        request = make["CreateContainerRequest"](
            pod_sandbox_id=self.sandbox_id,
            config=make["ContainerConfig"](
                metadata=make["ContainerMetadata"](name=name),
                image=make["ImageSpec"](image=images.BUSYBOX),
                envs=[make["KeyValue"](key="BERTH_CLAIM_1", value="nic0")],
                log_path=f"{self.name}-{name}.log",
                linux=make["LinuxContainerConfig"](),
            ),
            sandbox_config=self._config(),
        )
        reply = await self._call("CreateContainer", request, "CreateContainerResponse")
        return str(reply.container_id)

    async def start(self, container: str) -> None:
        """Starts a container."""
        await self._call("StartContainer", self.containerd.messages["ById"](id=container))

    async def stop(self) -> None:
        """Stops the sandbox with its containers."""
        await self._call("StopPodSandbox", self.containerd.messages["ById"](id=self.sandbox_id))

    async def remove(self) -> None:
        """Removes the sandbox."""
        await self._call("RemovePodSandbox", self.containerd.messages["ById"](id=self.sandbox_id))
