"""What a container gets of extended resources, as kubelet passes it to the runtime.

Source: ``pkg/kubelet/cm/devicemanager/pod_devices.go`` of kubernetes 1.37.2; containerd
``pkg/cri/opts`` (the numbers of a node are the host's, links followed).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from berth.model.edits import Edits, Mount
from berth.rehearsal.cdiedits import applied, node_of_host
from berth.rehearsal.kubelet import Allotment


def demands_of(spec: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """How many units of which extended resource each container of a pod asks for."""
    return {
        container["name"]: {
            name: int(count)
            for name, count in ((container.get("resources") or {}).get("limits") or {}).items()
            if "/" in name
        }
        for container in spec["containers"]
    }


def edits_for(container: str, allotments: Iterable[Allotment]) -> Edits:
    """What the runtime is told of a container's devices. Blocks.

    Raises:
        RemoteProtocolError: A node is not on the host.
    """
    return applied(_edits(one) for one in allotments if one.container.container == container)


def cdi_ids_for(container: str, allotments: Iterable[Allotment]) -> tuple[str, ...]:
    """CDI names that the runtime is told of besides."""
    return tuple(
        device.name
        for one in allotments
        if one.container.container == container
        for device in one.read_answer().cdi_devices
    )


def _edits(allotment: Allotment) -> Edits:
    answer = allotment.read_answer()
    return Edits(
        env=tuple(f"{name}={value}" for name, value in answer.envs.items()),
        nodes=tuple(
            node_of_host(spec.container_path, spec.host_path, spec.permissions)
            for spec in answer.devices
        ),
        mounts=tuple(
            Mount(
                host_path=mount.host_path,
                container_path=mount.container_path,
                options=("ro",) if mount.read_only else (),
            )
            for mount in answer.mounts
        ),
    )
