"""The plugin's session: vectors, order, faults, and what each runtime makes of it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.model.pod import Adjustment, Sandbox
from berth.nri import messages, mux, runtime_role
from berth.nri import session as nri_session
from berth.nri.events import Event, Happening
from berth.nri.messages import Registration
from berth.nri.runtime_role import RuntimeRole
from berth.nri.session import Configured, Session, Stage, Synchronize, Told
from berth.nri.ttrpc import Client, Code, Refusal, Reply
from berth.nri.versions import EVENTS_BEFORE_0_10, Runtime
from tests.unit.nri import vectors
from tests.unit.nri.values import CONTAINER, SANDBOX

POD_EVENTS = (Event.RUN_POD_SANDBOX, Event.STOP_POD_SANDBOX, Event.REMOVE_POD_SANDBOX)
OLD_EVENTS = [event for event in Event if event.bit & EVENTS_BEFORE_0_10]
REGISTRATION = Registration(name="nic-agent", index="10", nri_version="v0.12.0")


@attrs.define
class Caller:
    """The runtime's hand: calls the plugin by name and reads its answers, in any order it likes."""

    session: Session
    client: Client = attrs.field(factory=Client)
    items: list[nri_session.Item] = attrs.field(factory=list)

    def call(
        self,
        method: str,
        payload: bytes = b"",
        *,
        service: str = messages.PLUGIN_SERVICE,
    ) -> Reply | Refusal | None:
        """Calls and gives the answer, or None while the call waits for one."""
        self.client.call(service, method, payload, timeout_s=2.0)
        [message] = self.client.messages_to_send()
        self.items += self.session.receive(vectors.to_plugin(message))
        return self.answer()

    def answer(self) -> Reply | Refusal | None:
        """Gives the one answer that the session has to send."""
        answers: list[Reply | Refusal] = []
        for piece in mux.Demultiplexer((1, 2)).receive(self.session.data_to_send()):
            answers += self.client.receive(piece.data)
        return answers[0] if answers else None

    def configure(self, runtime: Runtime | None = None) -> Reply | Refusal | None:
        """Calls Configure."""
        runtime = runtime or Runtime(name="containerd", version="v2.4.2", nri_version="v0.12.3")
        return self.call("Configure", messages.encode_configure(runtime))


@pytest.fixture
def caller() -> Caller:
    """A session that has registered, its registration read."""
    session = Session(REGISTRATION)
    session.register()
    session.data_to_send()
    return Caller(session)


@pytest.fixture
def running(caller: Caller) -> Caller:
    """A session that is synchronized."""
    caller.configure()
    caller.call("Synchronize")
    last = caller.items[-1]
    assert isinstance(last, Synchronize)
    caller.session.answer(last.call)
    caller.answer()
    caller.items.clear()
    return caller


def _event(kind: Event, container: bool = False) -> bytes:
    happening = Happening(kind=kind, sandbox=SANDBOX, container=CONTAINER if container else None)
    return messages.encode_event(happening)


def _told(caller: Caller) -> Told:
    [item] = caller.items
    assert isinstance(item, Told)
    return item


def test_vectors_of_a_whole_session() -> None:
    """Byte for byte what Go's side accepted, and the items of what it sent."""
    session = Session(REGISTRATION, wanted=OLD_EVENTS)
    session.register()
    assert session.data_to_send() == vectors.REGISTER

    runtime = Runtime(name="containerd", version="v1.7.24")
    assert session.receive(vectors.CONFIGURE) == [
        Configured(runtime=runtime, events=EVENTS_BEFORE_0_10)
    ]
    assert session.data_to_send() == vectors.CONFIGURE_ANSWER_OLD_EVENTS

    [question] = session.receive(vectors.SYNCHRONIZE_NOTHING)
    assert question == Synchronize(call=3, sandboxes=(), containers=(), timeout_s=2.0)
    assert session.answer(3)
    assert session.data_to_send() == vectors.EMPTY_ANSWER_3

    expected = Told(
        call=5, kind=Event.RUN_POD_SANDBOX, sandbox=SANDBOX, container=None, timeout_s=2.0
    )
    assert session.receive(vectors.STATE_CHANGE_RUN) == [expected]


def test_own_call_gives_the_same_as_state_change(running: Caller) -> None:
    """RunPodSandbox of NRI 0.12 and StateChange of those before are one event."""
    frame = vectors.RUN_POD_SANDBOX
    items = running.session.receive(frame)

    assert [item.sandbox for item in items if isinstance(item, Told)] == [SANDBOX]


def test_vector_of_fewer_events() -> None:
    """Only what is wanted is asked for."""
    session = Session(REGISTRATION, wanted=POD_EVENTS)
    session.register()
    session.data_to_send()
    session.receive(vectors.CONFIGURE)

    assert session.data_to_send() == vectors.CONFIGURE_ANSWER_POD_EVENTS


def test_vector_of_an_unwanted_call() -> None:
    """A call that was not asked for is unknown, as Go's server says it."""
    session = Session(REGISTRATION, wanted=[Event.STOP_POD_SANDBOX])
    session.register()
    session.data_to_send()
    session.receive(vectors.RUN_POD_SANDBOX)

    assert session.data_to_send() == vectors.UNIMPLEMENTED_5


def test_vectors_of_answers(running: Caller) -> None:
    """A refusal and an adjusted container go out as Go's side reads them."""
    session = running.session
    running.call("CreateContainer", _event(Event.CREATE_CONTAINER, container=True))
    running.call("CreateContainer", _event(Event.CREATE_CONTAINER, container=True))
    first, second = (item.call for item in running.items if isinstance(item, Told))
    assert (first, second) == (5, 7)

    session.answer(7, Adjustment(env={"K": "V"}))
    assert session.data_to_send() == vectors.CREATE_ANSWER_7
    running.call("RunPodSandbox", _event(Event.RUN_POD_SANDBOX))
    session.refuse(9, Code.FAILED_PRECONDITION, "nic not ready")
    expected = vectors.REFUSAL_7.replace(b"\x00\x00\x00\x07", b"\x00\x00\x00\x09")
    assert session.data_to_send() == expected


def test_session_is_the_same_byte_by_byte() -> None:
    """Reads of one byte give the same items and answers."""
    whole, bytewise = Session(REGISTRATION), Session(REGISTRATION)
    data = vectors.CONFIGURE + vectors.SYNCHRONIZE_NOTHING
    outcomes = []
    for session, reads in ((whole, [data]), (bytewise, [bytes([byte]) for byte in data])):
        session.register()
        items = [item for read in reads for item in session.receive(read)]
        outcomes.append((items, session.data_to_send()))

    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("field", ["id", "name", "namespace", "uid"])
def test_pod_with_a_name_without_end_is_refused(running: Caller, field: str) -> None:
    """What names a pod is kept in records and troubles, and shown again."""

    name: dict[str, Any] = {field: "x" * 1000}
    endless = attrs.evolve(SANDBOX, **name)
    happening = Happening(kind=Event.RUN_POD_SANDBOX, sandbox=endless)
    answer = running.call("RunPodSandbox", messages.encode_event(happening))

    assert isinstance(answer, Refusal)
    assert f"a pod whose {field} has 1000 characters: at most 253" in answer.message
    assert running.session.stage is Stage.RUNNING


def test_runtime_with_a_name_without_end_is_cut(caller: Caller) -> None:
    """It is shown with every status."""

    caller.configure(Runtime(name="x" * 10_000, version="y" * 10_000, nri_version="v" * 10_000))

    assert len(str(caller.session.runtime)) < 1000


def test_registration_refused_ends_the_session(caller: Caller) -> None:
    """The runtime leaves the connection open then, so it is ours to close."""
    envelope = vectors.REFUSAL_7[18:]
    with pytest.raises(RemoteProtocolError, match=r"10-nic-agent.*nic not ready"):
        caller.session.receive(vectors.to_plugin_client(vectors.ttrpc_frame(1, 2, envelope)))

    assert caller.session.stage is Stage.CLOSED
    with pytest.raises(LocalProtocolError):
        caller.session.receive(b"")


def test_configure_may_overtake_the_registrations_answer(caller: Caller) -> None:
    """Both connections are served at once, so either may come first."""
    caller.configure()
    caller.session.receive(vectors.to_plugin_client(vectors.ttrpc_frame(1, 2)))

    assert caller.session.stage is Stage.CONFIGURED


def test_events_asked_for_are_those_the_runtime_knows(caller: Caller) -> None:
    """A new runtime is asked to let us validate, an old one would throw us out for it."""
    answer = caller.configure()
    assert isinstance(answer, Reply)
    assert messages.decode_events(answer.payload) == 0x262F

    old = Session(REGISTRATION)
    old.register()
    old.data_to_send()
    answer = Caller(old).configure(Runtime(name="containerd", version="v2.1.9"))
    assert isinstance(answer, Reply)
    assert messages.decode_events(answer.payload) == 0x062F


def test_old_events_only_asks_for_no_other() -> None:
    """After a runtime that threw us out, the next try is modest."""
    session = Session(REGISTRATION, old_events_only=True)
    session.register()
    session.data_to_send()
    answer = Caller(session).configure()

    assert isinstance(answer, Reply)
    assert messages.decode_events(answer.payload) == 0x062F


@pytest.mark.parametrize("wanted", [(), (Event.VALIDATE_CONTAINER_ADJUSTMENT,)])
def test_no_event_is_never_asked_for(wanted: tuple[Event, ...]) -> None:
    """A mask of 0 would mean all events."""
    with pytest.raises(LocalProtocolError, match="would mean all"):
        Session(REGISTRATION, wanted=wanted)


@pytest.mark.parametrize("method", ["Synchronize", "RunPodSandbox", "StateChange"])
def test_nothing_is_served_before_configure(caller: Caller, method: str) -> None:
    """What comes out of order is answered by an error, which holds the pod back."""
    answer = caller.call(method)

    assert isinstance(answer, Refusal)
    assert answer.code == Code.FAILED_PRECONDITION
    assert caller.items == []


@pytest.mark.parametrize("method", ["Configure", "RunPodSandbox", "StateChange"])
def test_no_event_is_served_before_synchronize(caller: Caller, method: str) -> None:
    """Neither while it is awaited nor while it is worked on."""
    caller.configure()
    refusals = [caller.call(method)]
    caller.call("Synchronize")
    refusals.append(caller.call(method))

    assert [type(refusal) for refusal in refusals] == [Refusal, Refusal]


def test_synchronize_gathers_chunks(caller: Caller) -> None:
    """Each chunk is answered as one, and the whole is told once."""
    caller.configure()
    first = messages.Chunk(containers=(CONTAINER,), more=True)
    answer = caller.call("Synchronize", messages.encode_chunk(first))
    assert isinstance(answer, Reply)
    assert messages.decode_chunk_answer(answer.payload)

    last = messages.Chunk(sandboxes=(SANDBOX,))
    assert caller.call("Synchronize", messages.encode_chunk(last)) is None
    question = caller.items[-1]
    assert isinstance(question, Synchronize)
    assert (question.sandboxes, question.containers) == ((SANDBOX,), (CONTAINER,))
    caller.session.answer(question.call)
    assert caller.answer() == Reply(stream=question.call)
    assert caller.session.stage is Stage.RUNNING


def test_synchronize_has_a_bound_in_bytes(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few pods with long annotations are gathered no further than that."""

    monkeypatch.setattr(nri_session, "MAX_SYNCHRONIZE_BYTES", 100_000)
    caller.configure()
    long = attrs.evolve(SANDBOX, annotations={"a": "x" * 30_000})
    payload = messages.encode_chunk(messages.Chunk(sandboxes=(long,), more=True))
    for _ in range(3):
        assert isinstance(caller.call("Synchronize", payload), Reply)

    with pytest.raises(RemoteProtocolError, match="bytes: at most 100000"):
        caller.call("Synchronize", payload)


def test_synchronize_has_a_bound(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that never ends its list is cut off."""
    monkeypatch.setattr(nri_session, "MAX_OBJECTS", 3)
    caller.configure()
    chunk = messages.encode_chunk(messages.Chunk(sandboxes=(SANDBOX,) * 2, more=True))
    caller.call("Synchronize", chunk)
    with pytest.raises(RemoteProtocolError, match="at most 3"):
        caller.call("Synchronize", chunk)


@pytest.mark.parametrize("step", ["Configure", "Synchronize"])
def test_unreadable_opening_ends_the_session_with_an_answer(caller: Caller, step: str) -> None:
    """The runtime is told what is wrong, and we close, since NRI 0.6 would not."""
    if step == "Synchronize":
        caller.configure()
    with pytest.raises(RemoteProtocolError, match="cannot be read"):
        caller.call(step, b"\xff\xff")

    answer = caller.answer()
    assert isinstance(answer, Refusal)
    assert answer.code == Code.INVALID_ARGUMENT
    assert caller.session.stage is Stage.CLOSED


def test_refused_synchronize_ends_the_session(caller: Caller) -> None:
    """The runtime is told, and no event is taken any more."""
    caller.configure()
    caller.call("Synchronize")
    question = caller.items[-1]
    assert isinstance(question, Synchronize)
    caller.session.refuse(question.call, Code.INTERNAL, "no")

    assert isinstance(caller.answer(), Refusal)
    assert caller.session.stage is Stage.CLOSED
    assert caller.session.reached is Stage.SYNCHRONIZING


@pytest.mark.parametrize("kind", POD_EVENTS)
def test_pod_events_are_told(running: Caller, kind: Event) -> None:
    """Each by its own call, with the time that the runtime has."""
    assert running.call(kind.method, _event(kind)) is None
    item = _told(running)

    assert (item.kind, item.sandbox, item.container) == (kind, SANDBOX, None)
    assert item.timeout_s == 2.0


@pytest.mark.parametrize(
    "kind",
    [
        Event.CREATE_CONTAINER,
        Event.START_CONTAINER,
        Event.STOP_CONTAINER,
        Event.REMOVE_CONTAINER,
    ],
)
def test_container_events_are_told(running: Caller, kind: Event) -> None:
    """Each by its own call, with pod and container."""
    assert running.call(kind.method, _event(kind, container=True)) is None
    item = _told(running)

    assert (item.kind, item.sandbox, item.container) == (kind, SANDBOX, CONTAINER)


@pytest.mark.parametrize("kind", [event for event in Event if event.is_state_change])
def test_state_change_tells_what_was_wanted(running: Caller, kind: Event) -> None:
    """The rest of them is agreed to without a word."""
    container = CONTAINER if kind.is_container_event else None
    happening = Happening(kind=kind, sandbox=SANDBOX, container=container)
    answer = running.call("StateChange", messages.encode_state_change(happening))

    wanted = kind in nri_session.WANTED_EVENTS
    assert (answer is None) == wanted
    assert [item.kind for item in running.items if isinstance(item, Told)] == [kind] * wanted


@pytest.mark.parametrize("number", [0, 4, 10, 14, 15, 99])
def test_state_change_of_anything_else_is_agreed_to(running: Caller, number: int) -> None:
    """Events with calls of their own, and numbers of a newer NRI, mean nothing here."""
    payload = bytes([0x08, number, 0x12, 0x03, 0x0A, 0x01, 0x73])
    answer = running.call("StateChange", payload)

    assert isinstance(answer, Reply)
    assert running.items == []


@pytest.mark.parametrize(
    ("method", "service", "text"),
    [
        ("Nonsense", messages.PLUGIN_SERVICE, "method Nonsense"),
        ("PostCreateContainer", messages.PLUGIN_SERVICE, "method PostCreateContainer"),
        ("Log", "nri.pkg.api.v1alpha1.HostFunctions", "service nri.pkg"),
    ],
)
def test_unknown_calls_are_unimplemented(
    running: Caller, method: str, service: str, text: str
) -> None:
    """Go's runtime side tells them from failures by code 12."""
    answer = running.call(method, service=service)

    assert isinstance(answer, Refusal)
    assert answer.code == Code.UNIMPLEMENTED
    assert answer.message.startswith(text)


def test_shutdown_is_agreed_to_at_any_time(caller: Caller) -> None:
    """No runtime sends it today."""
    assert caller.call("Shutdown") == Reply(stream=1)


def test_validation_passes_all(running: Caller) -> None:
    """We want to be asked only so that our absence is noticed."""
    kind = Event.VALIDATE_CONTAINER_ADJUSTMENT
    answer = running.call(kind.method, _event(kind, container=True))

    assert isinstance(answer, Reply)
    assert messages.decode_verdict(answer.payload) == ""
    assert running.items == []


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (Event.RUN_POD_SANDBOX, b""),
        (Event.RUN_POD_SANDBOX, b"\xff\xff"),
        (Event.CREATE_CONTAINER, _event(Event.CREATE_CONTAINER)),
    ],
)
def test_unusable_event_is_refused_and_the_session_goes_on(
    running: Caller, kind: Event, payload: bytes
) -> None:
    """An event without its pod or container holds the pod back; the next one is served."""
    answer = running.call(kind.method, payload)
    assert isinstance(answer, Refusal)
    assert answer.code == Code.INVALID_ARGUMENT

    assert running.call("StopPodSandbox", _event(Event.STOP_POD_SANDBOX)) is None
    assert _told(running).kind is Event.STOP_POD_SANDBOX


def test_adjustment_belongs_to_creation_alone(running: Caller) -> None:
    """Other events have no result."""
    running.call("StartContainer", _event(Event.START_CONTAINER, container=True))
    running.session.answer(_told(running).call, Adjustment(env={"K": "V"}))

    assert running.answer() == Reply(stream=5)


def test_late_and_second_answers_are_dropped(running: Caller) -> None:
    """Whoever comes second learns that nothing was sent."""
    running.call("RunPodSandbox", _event(Event.RUN_POD_SANDBOX))
    call = _told(running).call
    session = running.session

    assert session.refuse(call, Code.UNAVAILABLE, "late")
    running.answer()
    assert not session.answer(call)
    assert not session.refuse(call, Code.INTERNAL, "again")
    assert session.data_to_send() == b""


def test_answer_after_the_end_is_dropped(running: Caller) -> None:
    """The connection went away while the hook worked."""
    running.call("RunPodSandbox", _event(Event.RUN_POD_SANDBOX))
    running.session.end()

    assert not running.session.answer(_told(running).call)
    assert running.session.data_to_send() == b""


def test_too_long_answer_can_still_be_refused(running: Caller) -> None:
    """Nothing above 4 MiB is sent; the container is refused instead."""
    running.call("CreateContainer", _event(Event.CREATE_CONTAINER, container=True))
    call = _told(running).call
    with pytest.raises(LocalProtocolError, match="at most"):
        running.session.answer(call, Adjustment(env={"K": "x" * (4 << 20)}))

    assert running.session.refuse(call, Code.INTERNAL, "too long")


def test_use_out_of_turn_is_our_own_fault() -> None:
    """Bytes before the registration, and a second registration."""
    session = Session(REGISTRATION)
    with pytest.raises(LocalProtocolError, match="not registered"):
        session.receive(b"")
    session.register()
    with pytest.raises(LocalProtocolError, match="waiting for Configure"):
        session.register()


def test_broken_framing_ends_the_session(running: Caller) -> None:
    """A length that no runtime writes."""
    with pytest.raises(RemoteProtocolError):
        running.session.receive(b"\x00\x00\x00\x01\xff\xff\xff\xff")

    assert running.session.stage is Stage.CLOSED


@given(st.binary(max_size=300), st.booleans())
def test_garbage_gives_items_or_a_protocol_error(data: bytes, framed: bool) -> None:
    """Whatever comes, a session does nothing else."""
    session = Session(REGISTRATION)
    session.register()
    try:
        items = session.receive(mux.frames(1, data) if framed else data)
    except RemoteProtocolError:
        return
    assert items == []


# Whole sessions against the other role, version by version.

MANNERS = {
    "0.6": (runtime_role.NRI_0_6, Runtime(name="containerd", version="v1.7.24")),
    "0.8": (runtime_role.NRI_0_8, Runtime(name="containerd", version="v2.1.9")),
    "0.11": (runtime_role.NRI_0_11, Runtime(name="containerd", version="v2.2.1")),
    "0.12": (
        runtime_role.NRI_0_12,
        Runtime(name="containerd", version="2.4.2+unknown", nri_version="v0.12.3"),
    ),
}


def _exchange(session: Session, role: RuntimeRole) -> tuple[list[object], list[object]]:
    """Carries bytes both ways until nobody has any."""
    ours: list[object] = []
    theirs: list[object] = []
    while (out := session.data_to_send()) or (back := role.data_to_send()):
        if out:
            theirs += role.receive(out)
        else:
            ours += session.receive(back)
    return ours, theirs


@pytest.fixture(params=sorted(MANNERS))
def pair(request: pytest.FixtureRequest) -> tuple[Session, RuntimeRole]:
    """A plugin and a runtime of each version, synchronized with one pod."""
    manner, runtime = MANNERS[request.param]
    session, role = Session(REGISTRATION), RuntimeRole(runtime, manner)
    session.register()
    _exchange(session, role)
    role.synchronize([SANDBOX], [CONTAINER])
    [question], _ = _exchange(session, role)
    assert isinstance(question, Synchronize)
    assert (question.sandboxes, question.containers) == ((SANDBOX,), (CONTAINER,))
    session.answer(question.call)
    _, answers = _exchange(session, role)
    assert answers == [runtime_role.Synchronized()]
    return session, role


@pytest.mark.parametrize("kind", sorted(nri_session.WANTED_EVENTS - {14}))
def test_events_pass_between_the_roles(pair: tuple[Session, RuntimeRole], kind: Event) -> None:
    """Each event arrives and its answer returns, in every version's way."""
    session, role = pair
    container = CONTAINER if kind.is_container_event else None
    ticket = role.relay(Happening(kind=kind, sandbox=SANDBOX, container=container))
    assert ticket is not None
    [item], _ = _exchange(session, role)
    assert isinstance(item, Told)
    assert (item.kind, item.sandbox, item.container) == (kind, SANDBOX, container)

    session.answer(item.call)
    _, answers = _exchange(session, role)
    assert answers == [runtime_role.Answered(ticket=ticket)]


def test_refusal_passes_between_the_roles(pair: tuple[Session, RuntimeRole]) -> None:
    """Code and text reach the runtime, and the connection stays."""
    session, role = pair
    ticket = role.relay(Happening(kind=Event.RUN_POD_SANDBOX, sandbox=Sandbox(id="s2")))
    assert ticket is not None
    [item], _ = _exchange(session, role)
    assert isinstance(item, Told)
    session.refuse(item.call, Code.FAILED_PRECONDITION, "nic not ready")
    _, answers = _exchange(session, role)

    assert answers == [runtime_role.Refused(ticket=ticket, code=9, message="nic not ready")]
    assert role.closed == ""
