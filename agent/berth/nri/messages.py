"""NRI's protobuf messages to values and back, for both roles.

Whatever decodes gives a value: an unknown state is UNKNOWN, an unset pod has an empty id. What does
not decode is the peer's fault.
"""

from __future__ import annotations

from typing import TypeVar

import attrs
from google.protobuf.message import DecodeError, Message

from berth.errors import RemoteProtocolError
from berth.model.names import excerpt
from berth.model.pod import Adjustment, Container, ContainerState, Sandbox
from berth.nri.events import Event, Happening
from berth.nri.versions import Runtime
from berth.pb import nri_pb2 as pb

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"

NAME_LIMIT = 253
"""Longest name of a pod or a runtime, in characters, which is Kubernetes' own limit."""

_M = TypeVar("_M", bound=Message)


@attrs.frozen(kw_only=True)
class Registration:
    """Who registers: the name, and the two digits that place it among the plugins."""

    name: str
    index: str
    nri_version: str = ""


@attrs.frozen(kw_only=True)
class Chunk:
    """One message of Synchronize; ``more`` says that others follow."""

    sandboxes: tuple[Sandbox, ...] = ()
    containers: tuple[Container, ...] = ()
    more: bool = False


def _parse(kind: type[_M], payload: bytes) -> _M:
    try:
        return kind.FromString(payload)
    except DecodeError as error:
        name = kind.DESCRIPTOR.name
        raise RemoteProtocolError("NRI", f"a {name} that cannot be read: {error}") from error


def _sandbox(message: pb.PodSandbox) -> Sandbox:
    for what, text in (
        ("id", message.id),
        ("name", message.name),
        ("namespace", message.namespace),
        ("uid", message.uid),
    ):
        if len(text) > NAME_LIMIT:
            found = f"a pod whose {what} has {len(text)} characters"
            raise RemoteProtocolError("NRI", found, rule=f"at most {NAME_LIMIT}")
    paths = (space.path for space in message.linux.namespaces if space.type == "network")
    return Sandbox(
        id=message.id,
        name=message.name,
        namespace=message.namespace,
        uid=message.uid,
        netns_path=next((path for path in paths if path), None),
        annotations=dict(message.annotations),
        labels=dict(message.labels),
        runtime_handler=message.runtime_handler,
        ips=tuple(message.ips),
        pid=message.pid,
    )


def _sandbox_message(sandbox: Sandbox) -> pb.PodSandbox:
    message = pb.PodSandbox(
        id=sandbox.id,
        name=sandbox.name,
        namespace=sandbox.namespace,
        uid=sandbox.uid,
        annotations=dict(sandbox.annotations),
        labels=dict(sandbox.labels),
        runtime_handler=sandbox.runtime_handler,
        ips=sandbox.ips,
        pid=sandbox.pid,
    )
    if sandbox.netns_path is not None:
        message.linux.namespaces.add(type="network", path=sandbox.netns_path)
    return message


def _state(number: int) -> ContainerState:
    try:
        return ContainerState(number)
    except ValueError:
        return ContainerState.UNKNOWN


def _event(number: int) -> Event | None:
    try:
        return Event(number)
    except ValueError:
        return None


def _container(message: pb.Container) -> Container:
    return Container(
        id=message.id,
        sandbox_id=message.pod_sandbox_id,
        name=message.name,
        env=dict(_variable(entry) for entry in message.env),
        state=_state(message.state),
        cdi_devices=tuple(device.name for device in message.CDI_devices),
        annotations=dict(message.annotations),
        labels=dict(message.labels),
        pid=message.pid,
    )


def _variable(entry: str) -> tuple[str, str]:
    name, _, value = entry.partition("=")
    return name, value


def _container_message(container: Container) -> pb.Container:
    return pb.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox_id,
        name=container.name,
        env=[f"{name}={value}" for name, value in container.env.items()],
        state=pb.ContainerState.ValueType(container.state.value),
        CDI_devices=[pb.CDIDevice(name=name) for name in container.cdi_devices],
        annotations=dict(container.annotations),
        labels=dict(container.labels),
        pid=container.pid,
    )


def encode_registration(registration: Registration) -> bytes:
    """Gives the payload of RegisterPlugin."""
    return pb.RegisterPluginRequest(
        plugin_name=registration.name,
        plugin_idx=registration.index,
        NRI_version=registration.nri_version,
    ).SerializeToString()


def decode_registration(payload: bytes) -> Registration:
    """Reads RegisterPlugin.

    Raises:
        RemoteProtocolError: The bytes are no such message.
    """
    message = _parse(pb.RegisterPluginRequest, payload)
    return Registration(
        name=message.plugin_name, index=message.plugin_idx, nri_version=message.NRI_version
    )


def encode_configure(runtime: Runtime, *, with_timeouts: bool = True) -> bytes:
    """Gives the payload of Configure.

    Args:
        runtime: Who the runtime says it is.
        with_timeouts: Whether it tells its timeouts, as from NRI 0.7 on.
    """
    message = pb.ConfigureRequest(
        runtime_name=runtime.name,
        runtime_version=runtime.version,
        NRI_version=runtime.nri_version,
    )
    if with_timeouts:
        message.registration_timeout = round(runtime.registration_timeout_s * 1000)
        message.request_timeout = round(runtime.request_timeout_s * 1000)
    return message.SerializeToString()


def decode_configure(payload: bytes) -> Runtime:
    """Reads Configure; timeouts that are not told are NRI's defaults.

    Raises:
        RemoteProtocolError: The bytes are no such message.
    """
    message = _parse(pb.ConfigureRequest, payload)
    told: dict[str, float] = {}
    if message.registration_timeout > 0:
        told["registration_timeout_s"] = message.registration_timeout / 1000
    if message.request_timeout > 0:
        told["request_timeout_s"] = message.request_timeout / 1000
    return Runtime(
        name=excerpt(message.runtime_name, limit=NAME_LIMIT),
        version=excerpt(message.runtime_version, limit=NAME_LIMIT),
        nri_version=excerpt(message.NRI_version, limit=NAME_LIMIT),
        **told,
    )


def encode_events(bits: int) -> bytes:
    """Gives the answer to Configure: the events wanted."""
    return pb.ConfigureResponse(events=bits).SerializeToString()


def decode_events(payload: bytes) -> int:
    """Reads the answer to Configure.

    Raises:
        RemoteProtocolError: The bytes are no such message.
    """
    return _parse(pb.ConfigureResponse, payload).events


def encode_chunk(chunk: Chunk) -> bytes:
    """Gives the payload of one Synchronize."""
    return pb.SynchronizeRequest(
        pods=map(_sandbox_message, chunk.sandboxes),
        containers=map(_container_message, chunk.containers),
        more=chunk.more,
    ).SerializeToString()


def decode_chunk(payload: bytes) -> Chunk:
    """Reads one Synchronize.

    Raises:
        RemoteProtocolError: The bytes are no such message.
    """
    message = _parse(pb.SynchronizeRequest, payload)
    return Chunk(
        sandboxes=tuple(map(_sandbox, message.pods)),
        containers=tuple(map(_container, message.containers)),
        more=message.more,
    )


def encode_chunk_answer(*, more: bool) -> bytes:
    """Gives the answer to one Synchronize: ``more`` as it was asked, and no updates."""
    return pb.SynchronizeResponse(more=more).SerializeToString()


def decode_chunk_answer(payload: bytes) -> bool:
    """Reads ``more`` from the answer to one Synchronize.

    Raises:
        RemoteProtocolError: The bytes are no such message.
    """
    return _parse(pb.SynchronizeResponse, payload).more


def encode_event(happening: Happening) -> bytes:
    """Gives the payload of an event's own RPC."""
    message = pb.CreateContainerRequest(pod=_sandbox_message(happening.sandbox))
    if happening.container is not None:
        message.container.CopyFrom(_container_message(happening.container))
    return message.SerializeToString()


def decode_event(kind: Event, payload: bytes) -> Happening:
    """Reads the request of an event's own RPC: pod is field 1, container field 2 in all of them.

    Raises:
        RemoteProtocolError: The bytes are no such message.
    """
    message = _parse(pb.CreateContainerRequest, payload)
    container = _container(message.container) if message.HasField("container") else None
    return Happening(kind=kind, sandbox=_sandbox(message.pod), container=container)


def encode_state_change(happening: Happening) -> bytes:
    """Gives the payload of StateChange."""
    message = pb.StateChangeEvent(
        event=pb.Event.ValueType(happening.kind or 0), pod=_sandbox_message(happening.sandbox)
    )
    if happening.container is not None:
        message.container.CopyFrom(_container_message(happening.container))
    return message.SerializeToString()


def decode_state_change(payload: bytes) -> Happening:
    """Reads StateChange.

    Raises:
        RemoteProtocolError: The bytes are no such message.
    """
    message = _parse(pb.StateChangeEvent, payload)
    return Happening(
        kind=_event(message.event),
        sandbox=_sandbox(message.pod),
        container=_container(message.container) if message.HasField("container") else None,
    )


def encode_adjustment(adjustment: Adjustment) -> bytes:
    """Gives the answer to CreateContainer; empty when nothing is changed."""
    if adjustment == Adjustment():
        return b""
    return pb.CreateContainerResponse(
        adjust=pb.ContainerAdjustment(
            annotations=dict(adjustment.annotations),
            env=[pb.KeyValue(key=name, value=value) for name, value in adjustment.env.items()],
            CDI_devices=[pb.CDIDevice(name=name) for name in adjustment.cdi_devices],
        )
    ).SerializeToString()


def decode_adjustment(payload: bytes) -> Adjustment:
    """Reads the answer to CreateContainer.

    Raises:
        RemoteProtocolError: The bytes are no such message.
    """
    adjust = _parse(pb.CreateContainerResponse, payload).adjust
    return Adjustment(
        env={pair.key: pair.value for pair in adjust.env},
        annotations=dict(adjust.annotations),
        cdi_devices=tuple(device.name for device in adjust.CDI_devices),
    )


def encode_verdict(reason: str) -> bytes:
    """Gives the answer to ValidateContainerAdjustment; an empty reason lets the container pass."""
    return pb.ValidateContainerAdjustmentResponse(
        reject=bool(reason), reason=reason
    ).SerializeToString()


def decode_verdict(payload: bytes) -> str:
    """Reads the answer to ValidateContainerAdjustment: the reason to reject, or empty.

    Raises:
        RemoteProtocolError: The bytes are no such message.
    """
    message = _parse(pb.ValidateContainerAdjustmentResponse, payload)
    return (message.reason or "rejected without a reason") if message.reject else ""
