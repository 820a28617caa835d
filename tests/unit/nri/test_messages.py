"""Values to NRI's messages and back, and what odd messages become."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import RemoteProtocolError
from berth.model.pod import Adjustment, Container, ContainerState, Sandbox
from berth.nri import messages
from berth.nri.events import Event, Happening
from berth.nri.messages import Chunk, Registration
from berth.nri.versions import Runtime
from berth.pb import nri_pb2
from tests.unit.nri import values

DECODERS: list[Callable[[bytes], object]] = [
    messages.decode_registration,
    messages.decode_configure,
    messages.decode_events,
    messages.decode_chunk,
    messages.decode_chunk_answer,
    lambda payload: messages.decode_event(Event.CREATE_CONTAINER, payload),
    messages.decode_state_change,
    messages.decode_adjustment,
    messages.decode_verdict,
]


@given(
    st.lists(values.sandboxes, max_size=3).map(tuple),
    st.lists(values.containers, max_size=3).map(tuple),
    st.booleans(),
)
def test_chunk_comes_back(
    sandboxes: tuple[Sandbox, ...], containers: tuple[Container, ...], more: bool
) -> None:
    """Pods and containers survive the message that tells them."""
    chunk = Chunk(sandboxes=sandboxes, containers=containers, more=more)

    assert chunk == messages.decode_chunk(messages.encode_chunk(chunk))


@given(st.sampled_from(Event), values.sandboxes, st.none() | values.containers)
def test_event_comes_back_by_both_ways(
    kind: Event, sandbox: Sandbox, container: Container | None
) -> None:
    """An event is the same by its own call and by StateChange."""
    happening = Happening(kind=kind, sandbox=sandbox, container=container)

    assert happening == messages.decode_event(kind, messages.encode_event(happening))
    assert happening == messages.decode_state_change(messages.encode_state_change(happening))


@given(values.adjustments)
def test_adjustment_comes_back(adjustment: Adjustment) -> None:
    """What is to be changed of a container survives the message."""
    assert adjustment == messages.decode_adjustment(messages.encode_adjustment(adjustment))


def test_no_adjustment_is_an_empty_payload() -> None:
    """Success without a change is an answer of length 0."""
    assert messages.encode_adjustment(Adjustment()) == b""


def test_registration_comes_back() -> None:
    """Name, index and version are told."""
    registration = Registration(name="berth", index="10", nri_version="v0.12.0")
    payload = messages.encode_registration(registration)

    assert registration == messages.decode_registration(payload)


def test_configure_comes_back() -> None:
    """Timeouts are told in milliseconds and kept in seconds."""
    runtime = Runtime(
        name="containerd",
        version="v2.4.2",
        nri_version="v0.12.3",
        registration_timeout_s=6.5,
        request_timeout_s=0.25,
    )

    assert runtime == messages.decode_configure(messages.encode_configure(runtime))


def test_configure_without_timeouts_means_the_defaults() -> None:
    """NRI 0.6 tells none; its own are 5 and 2 seconds."""
    runtime = Runtime(name="containerd", version="v1.7.24", request_timeout_s=9)
    found = messages.decode_configure(messages.encode_configure(runtime, with_timeouts=False))

    assert (found.registration_timeout_s, found.request_timeout_s) == (5.0, 2.0)


@pytest.mark.parametrize("reason", ["", "not ready"])
def test_verdict_comes_back(reason: str) -> None:
    """A reason rejects, none lets pass."""
    assert reason == messages.decode_verdict(messages.encode_verdict(reason))


def test_rejection_without_reason_is_still_one() -> None:
    """A validator may forget to say why."""
    payload = nri_pb2.ValidateContainerAdjustmentResponse(reject=True).SerializeToString()

    assert messages.decode_verdict(payload)


def test_netns_is_the_first_network_path() -> None:
    """Other namespaces and empty paths do not count; without any there is none."""
    pod = nri_pb2.PodSandbox(id="s")
    for kind, path in (("ipc", "/i"), ("network", ""), ("network", "/n"), ("network", "/m")):
        pod.linux.namespaces.add(type=kind, path=path)
    chunk = nri_pb2.SynchronizeRequest(pods=[pod, nri_pb2.PodSandbox(id="t")])
    found = messages.decode_chunk(chunk.SerializeToString()).sandboxes

    assert [sandbox.netns_path for sandbox in found] == ["/n", None]


def test_environment_takes_what_is_there() -> None:
    """A later variable wins, one without a value is empty, a value may hold the sign."""
    container = nri_pb2.Container(id="c", env=["A=1", "B", "A=2=3", ""])
    chunk = nri_pb2.SynchronizeRequest(containers=[container]).SerializeToString()

    [found] = messages.decode_chunk(chunk).containers
    assert found.env == {"A": "2=3", "B": "", "": ""}


def test_unknown_numbers_become_unknown() -> None:
    """A state or event of a newer NRI is no fault."""
    # Container.state and StateChangeEvent.event, set to 99.
    chunk = messages.decode_chunk(bytes.fromhex("1202 2063"))
    happening = messages.decode_state_change(bytes.fromhex("0863"))

    assert chunk.containers[0].state is ContainerState.UNKNOWN
    assert happening.kind is None


@pytest.mark.parametrize("decode", DECODERS)
def test_unreadable_bytes_are_the_peers_fault(decode: Callable[[bytes], object]) -> None:
    """Each decoder says which message cannot be read."""
    with pytest.raises(RemoteProtocolError, match="cannot be read"):
        decode(b"\xff\xff")


@pytest.mark.parametrize("decode", DECODERS)
@given(payload=st.binary(max_size=60))
def test_garbage_gives_a_value_or_the_peers_fault(
    decode: Callable[[bytes], object], payload: bytes
) -> None:
    """No decoder ends in another way."""
    try:
        decode(payload)
    except RemoteProtocolError:
        return
