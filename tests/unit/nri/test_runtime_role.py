"""The runtime's role behaves as each version's runtime was seen to behave."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.model.pod import Container, Sandbox
from berth.nri import messages, mux
from berth.nri.events import Event, Happening
from berth.nri.messages import Registration
from berth.nri.runtime_role import (
    NRI_0_6,
    NRI_0_8,
    NRI_0_11,
    NRI_0_12,
    Answered,
    Item,
    Manner,
    Refused,
    Registered,
    RuntimeRole,
    Subscribed,
    Synchronized,
)
from berth.nri.ttrpc import Call, Client, Code, Refusal, Reply, Server
from berth.nri.versions import Runtime
from tests.unit.nri import vectors
from tests.unit.nri.values import CONTAINER, SANDBOX

RUNTIME = Runtime(name="containerd", version="v2.4.2", nri_version="v0.12.3")
RUN = Happening(kind=Event.RUN_POD_SANDBOX, sandbox=SANDBOX)


@attrs.define
class HandPlugin:
    """A plugin that says just what the test tells it."""

    role: RuntimeRole
    server: Server = attrs.field(factory=lambda: Server(max_in_bytes=16 << 20))
    client: Client = attrs.field(factory=Client)

    def register(self, name: str = "nic-agent", index: str = "10") -> Reply | Refusal | None:
        """Registers and gives the runtime's answer."""
        payload = messages.encode_registration(Registration(name=name, index=index))
        self.client.call(messages.RUNTIME_SERVICE, "RegisterPlugin", payload)
        self.push()
        return self.answer

    def push(self) -> Sequence[Item]:
        """Carries the plugin's bytes to the runtime, then the runtime's back."""
        data = b"".join(map(vectors.to_plugin, self.server.messages_to_send()))
        data += b"".join(map(vectors.to_plugin_client, self.client.messages_to_send()))
        items = self.role.receive(data)
        self.pull()
        return items

    calls: list[Call] = attrs.field(factory=list)
    answer: Reply | Refusal | None = None

    def pull(self) -> None:
        """Reads what the runtime has to say."""
        for piece in mux.Demultiplexer((1, 2)).receive(self.role.data_to_send()):
            if piece.connection == mux.PLUGIN_CONNECTION:
                self.calls += self.server.receive(piece.data)
            else:
                [self.answer] = self.client.receive(piece.data)

    def reply(self, payload: bytes = b"") -> Sequence[Item]:
        """Answers the newest call."""
        self.server.reply(self.calls[-1].stream, payload)
        return self.push()

    def refuse(self, code: Code = Code.INTERNAL) -> Sequence[Item]:
        """Refuses the newest call."""
        self.server.refuse(self.calls[-1].stream, code, "no")
        return self.push()

    def start(self, events: int = 0x7) -> None:
        """Gets as far as hearing of events."""
        self.register()
        self.reply(messages.encode_events(events))
        self.role.synchronize([], [])
        self.pull()
        assert self.reply() == [Synchronized()]

    def tell(self, happening: Happening = RUN) -> int:
        """Lets the runtime tell an event."""
        ticket = self.role.relay(happening)
        assert ticket is not None
        self.pull()
        return ticket


def hand_plugin(manner: Manner = NRI_0_12, runtime: Runtime = RUNTIME) -> HandPlugin:
    """Gives a plugin in the test's hand, connected and silent."""
    return HandPlugin(RuntimeRole(runtime, manner, max_message_bytes=2000))


def test_vectors_of_a_whole_session() -> None:
    """Byte for byte what the runtime side was seen to send, at NRI before 0.7 and before 0.12."""
    role = RuntimeRole(Runtime(name="containerd", version="v1.7.24"), NRI_0_6)
    [item] = role.receive(vectors.REGISTER)
    assert item == Registered(
        registration=Registration(name="nic-agent", index="10", nri_version="v0.12.0")
    )
    assert role.data_to_send().startswith(vectors.CONFIGURE)
    assert role.receive(vectors.CONFIGURE_ANSWER_OLD_EVENTS) == [Subscribed(events=0x7FF)]
    role.synchronize([], [])
    assert role.data_to_send() == vectors.SYNCHRONIZE_NOTHING
    assert role.receive(vectors.EMPTY_ANSWER_3) == [Synchronized()]
    role.relay(RUN)
    assert role.data_to_send() == vectors.STATE_CHANGE_RUN


def test_vector_of_an_own_call() -> None:
    """NRI 0.12 tells each event by its own name."""
    plugin = hand_plugin()
    plugin.start()
    plugin.role.relay(RUN)

    assert plugin.role.data_to_send() == vectors.RUN_POD_SANDBOX


@pytest.mark.parametrize(
    ("manner", "name", "index"),
    [
        (NRI_0_12, "with space", "10"),
        (NRI_0_12, "", "10"),
        (NRI_0_8, "", "10"),
        (NRI_0_8, "fine", "1"),
        (NRI_0_8, "fine", "x1"),
        (NRI_0_8, "fine", "100"),
    ],
)
def test_bad_registration_is_refused_and_left_open(manner: Manner, name: str, index: str) -> None:
    """The error is an answer; closing is the plugin's part."""
    plugin = hand_plugin(manner)
    answer = plugin.register(name, index)

    assert isinstance(answer, Refusal)
    assert answer.code == Code.UNKNOWN
    assert (plugin.role.closed, plugin.calls) == ("", [])


def test_older_versions_take_any_name() -> None:
    """Characters are looked at from 0.12 on."""
    assert isinstance(hand_plugin(NRI_0_11).register("with space"), Reply)


@pytest.mark.parametrize(
    ("manner", "told"),
    [(NRI_0_6, ""), (NRI_0_8, ""), (NRI_0_12, "v0.12.3")],
)
def test_configure_tells_what_the_version_tells(manner: Manner, told: str) -> None:
    """The NRI version only from 0.12 on."""
    plugin = hand_plugin(manner)
    plugin.register()
    runtime = messages.decode_configure(plugin.calls[0].payload)

    assert (plugin.calls[0].method, runtime.nri_version) == ("Configure", told)


@pytest.mark.parametrize(
    ("manner", "events", "closed"),
    [
        (NRI_0_8, 0x7FF, ""),
        (NRI_0_8, 0x3FFF, "invalid plugin events: 0x3800"),
        (NRI_0_12, 0x3FFF, ""),
        (NRI_0_12, 0x4000, "invalid plugin events: 0x4000"),
    ],
)
def test_unknown_event_bits_get_the_plugin_thrown_out(
    manner: Manner, events: int, closed: str
) -> None:
    """0x3FFF was refused by 1.7.24 and 2.1.6."""
    plugin = hand_plugin(manner)
    plugin.register()
    plugin.reply(messages.encode_events(events))

    assert plugin.role.closed == closed


def test_no_event_bits_mean_all() -> None:
    """A mask of 0 subscribes to everything."""
    plugin = hand_plugin()
    plugin.register()

    assert plugin.reply() == [Subscribed(events=0x3FFF)]


def test_refused_configure_gets_the_plugin_thrown_out() -> None:
    """An error there ends the connection."""
    plugin = hand_plugin()
    plugin.register()
    plugin.refuse()

    assert plugin.role.closed == "failed to configure plugin: no"


def _long_lists() -> tuple[list[Sandbox], list[Container]]:
    sandboxes = [Sandbox(id=f"s{n}", labels={"k": "v" * 80}) for n in range(40)]
    return sandboxes, [Container(id=f"c{n}", sandbox_id=f"s{n}") for n in range(40)]


def test_long_lists_are_split() -> None:
    """Chunks follow as each is answered as one; nothing is lost, none is longer than allowed."""
    plugin = hand_plugin()
    plugin.register()
    plugin.reply(messages.encode_events(7))
    sandboxes, containers = _long_lists()
    plugin.role.synchronize(sandboxes, containers)
    plugin.pull()
    found: list[messages.Chunk] = [messages.decode_chunk(plugin.calls[-1].payload)]
    while found[-1].more:
        assert plugin.reply(messages.encode_chunk_answer(more=True)) == []
        found.append(messages.decode_chunk(plugin.calls[-1].payload))

    assert plugin.reply() == [Synchronized()]
    assert len(found) > 1
    assert [s for chunk in found for s in chunk.sandboxes] == sandboxes
    assert [c for chunk in found for c in chunk.containers] == containers
    assert all(len(call.payload) <= 2000 for call in plugin.calls)


def test_oldest_version_sends_long_lists_at_once() -> None:
    """NRI 0.6 knows no chunks."""
    plugin = hand_plugin(NRI_0_6)
    plugin.register()
    plugin.reply(messages.encode_events(7))
    plugin.role.synchronize(*_long_lists())
    plugin.pull()

    assert len(messages.decode_chunk(plugin.calls[-1].payload).sandboxes) == 40


def test_chunk_answered_as_the_last_gets_the_plugin_thrown_out() -> None:
    """A plugin that does not know chunks would miss pods."""
    plugin = hand_plugin()
    plugin.register()
    plugin.reply(messages.encode_events(7))
    plugin.role.synchronize(*_long_lists())
    plugin.pull()
    plugin.reply()

    assert plugin.role.closed == "plugin does not handle split sync requests"


def test_objects_too_long_for_any_chunk_are_our_own_fault() -> None:
    """Eight objects are the smallest chunk."""
    plugin = hand_plugin()
    sandboxes = [Sandbox(id="s", labels={"k": "v" * 3000})] * 9
    with pytest.raises(LocalProtocolError, match="too long"):
        plugin.role.synchronize(sandboxes, [])


@pytest.mark.parametrize(
    ("manner", "closed"), [(NRI_0_6, ""), (NRI_0_8, "failed to synchronize plugin: no")]
)
def test_refused_synchronize_is_forgotten_or_dropped(manner: Manner, closed: str) -> None:
    """NRI 0.6 leaves a connection that never hears of an event."""
    plugin = hand_plugin(manner)
    plugin.register()
    plugin.reply(messages.encode_events(7))
    plugin.role.synchronize([], [])
    plugin.pull()
    plugin.refuse()

    assert plugin.role.closed == closed
    assert plugin.role.relay(RUN) is None


@pytest.mark.parametrize(("manner", "closed"), [(NRI_0_6, ""), (NRI_0_8, "deadline exceeded")])
def test_late_synchronize_is_forgotten_or_dropped(manner: Manner, closed: str) -> None:
    """The same when no answer comes in time; a late one changes nothing."""
    plugin = hand_plugin(manner)
    plugin.register()
    plugin.reply(messages.encode_events(7))
    plugin.role.synchronize([], [])
    plugin.pull()
    plugin.role.expire()
    plugin.reply()

    assert plugin.role.closed == closed
    assert plugin.role.relay(RUN) is None


def test_events_not_subscribed_are_not_told() -> None:
    """The runtime goes on without asking."""
    plugin = hand_plugin()
    plugin.start(Event.STOP_POD_SANDBOX.bit)

    assert plugin.role.relay(RUN) is None


def test_unknown_own_call_falls_back_for_good() -> None:
    """After one UNIMPLEMENTED all nine come by StateChange, others keep their own call."""
    plugin = hand_plugin()
    plugin.start(0x2F)
    ticket = plugin.tell()
    assert plugin.refuse(Code.UNIMPLEMENTED) == []
    assert plugin.calls[-1].method == "StateChange"
    assert plugin.reply() == [Answered(ticket=ticket)]

    plugin.tell(Happening(kind=Event.STOP_POD_SANDBOX, sandbox=SANDBOX))
    assert plugin.calls[-1].method == "StateChange"
    plugin.tell(Happening(kind=Event.CREATE_CONTAINER, sandbox=SANDBOX, container=CONTAINER))
    assert plugin.calls[-1].method == "CreateContainer"


def test_unknown_call_without_fallback_is_a_refusal() -> None:
    """CreateContainer has no other way."""
    plugin = hand_plugin()
    plugin.start(Event.CREATE_CONTAINER.bit)
    happening = Happening(kind=Event.CREATE_CONTAINER, sandbox=SANDBOX, container=CONTAINER)
    ticket = plugin.tell(happening)

    assert plugin.refuse(Code.UNIMPLEMENTED) == [Refused(ticket=ticket, code=12, message="no")]


def test_unreadable_result_refuses_and_keeps_the_plugin() -> None:
    """An answer that does not parse fails closed."""
    plugin = hand_plugin()
    plugin.start(Event.CREATE_CONTAINER.bit)
    plugin.tell(Happening(kind=Event.CREATE_CONTAINER, sandbox=SANDBOX, container=CONTAINER))
    [item] = plugin.reply(b"\xff\xff")

    assert isinstance(item, Refused)
    assert plugin.role.closed == ""


def test_objection_of_a_validator_is_told() -> None:
    """A reason to reject is the answer's."""
    plugin = hand_plugin()
    plugin.start(0x2000)
    ticket = plugin.tell(
        Happening(kind=Event.VALIDATE_CONTAINER_ADJUSTMENT, sandbox=SANDBOX, container=CONTAINER)
    )

    assert plugin.reply(messages.encode_verdict("bad")) == [
        Answered(ticket=ticket, objection="bad")
    ]


def test_late_plugin_is_dropped() -> None:
    """The deadline of an event closes the connection; a late answer is nothing."""
    plugin = hand_plugin()
    plugin.start()
    plugin.tell()
    plugin.role.expire()

    assert plugin.role.closed == "deadline exceeded"
    assert plugin.reply() == []
    assert plugin.role.relay(RUN) is None


@pytest.mark.parametrize(
    ("service", "text"), [(messages.RUNTIME_SERVICE, "method X"), ("other", "service other")]
)
def test_other_calls_are_unimplemented(service: str, text: str) -> None:
    """The runtime serves RegisterPlugin here, and nothing else."""
    plugin = hand_plugin()
    plugin.client.call(service, "X", b"")
    plugin.push()

    assert plugin.answer == Refusal(stream=1, code=12, message=text)


def test_second_registration_is_refused() -> None:
    """One connection is one plugin."""
    plugin = hand_plugin()
    plugin.register()

    assert isinstance(plugin.register(), Refusal)


def test_broken_framing_is_the_plugins_fault() -> None:
    """A length that nobody writes."""
    with pytest.raises(RemoteProtocolError):
        hand_plugin().role.receive(b"\x00\x00\x00\x01\xff\xff\xff\xff")
