"""One NRI connection as the plugin sees it: bytes in, what to do out.

The order is the runtime's: we register (`Session.register`), it asks Configure, tells all pods and
containers by Synchronize, and from our answer to that on tells events, one at a time. Whatever is
asked out of that order is answered by an error, since an error makes the runtime hold the pod back
where silence would let it start.

An answer that comes after the connection's end, or the second one to a call, is dropped: `answer`
and `refuse` say so. Whoever answers late has to undo what it did.

There is no clock here. Each question carries what was left of the runtime's patience when it sent
it; who runs the session must answer before, by an error if need be.

Left out: updates of running containers, evictions, and events that nobody here wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

import attrs

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.model.names import excerpt
from berth.model.pod import Adjustment, Container, Sandbox
from berth.nri import messages, mux, ttrpc
from berth.nri.events import Event, Happening, mask
from berth.nri.messages import Chunk, Registration
from berth.nri.ttrpc import Code
from berth.nri.versions import EVENTS_BEFORE_0_10, Runtime, known_events

NRI_VERSION = "v0.12.0"
"""The newest protocol spoken here; told at registration, for the runtime's log."""

WANTED_EVENTS = frozenset(
    {
        Event.RUN_POD_SANDBOX,
        Event.STOP_POD_SANDBOX,
        Event.REMOVE_POD_SANDBOX,
        Event.CREATE_CONTAINER,
        Event.START_CONTAINER,
        Event.STOP_CONTAINER,
        Event.REMOVE_CONTAINER,
        # Nothing is validated; but a plugin that breaks off within CreateContainer fails the
        # container only if it was to be asked this as well (measured on NRI 0.12.2).
        Event.VALIDATE_CONTAINER_ADJUSTMENT,
    }
)

MAX_OBJECTS = 65536
"""Pods and containers that Synchronize may tell in all its messages."""

MAX_SYNCHRONIZE_BYTES = 256 << 20
"""What all messages of Synchronize may have; 1000 pods with 10 containers have some 30 MiB."""


class Stage(Enum):
    """How far a session has come."""

    NEW = "not registered"
    REGISTERED = "waiting for Configure"
    CONFIGURED = "waiting for Synchronize"
    SYNCHRONIZING = "synchronizing"
    RUNNING = "synchronized"
    CLOSED = "closed"


@attrs.frozen(kw_only=True)
class Configured:
    """The runtime said who it is; nothing is to be answered.

    Attributes:
        events: The bits that were asked of it.
    """

    runtime: Runtime
    events: int


@attrs.frozen(kw_only=True)
class Synchronize:
    """All pods and containers of the runtime; to be answered.

    Dead sandboxes are among them, without a network namespace, and a pod may have several.
    """

    call: int
    sandboxes: tuple[Sandbox, ...]
    containers: tuple[Container, ...]
    timeout_s: float | None


@attrs.frozen(kw_only=True)
class Told:
    """An event; to be answered.

    Attributes:
        kind: Which event; always one that was asked for.
        container: Set in container events.
    """

    call: int
    kind: Event
    sandbox: Sandbox
    container: Container | None
    timeout_s: float | None


Item = Configured | Synchronize | Told

_EVENTS_BY_METHOD = {event.method: event for event in Event}
_STAGES_BY_METHOD = {
    "Configure": Stage.REGISTERED,
    "Synchronize": Stage.CONFIGURED,
    "Shutdown": None,
}


class Session:
    """The plugin's side of one connection.

    Args:
        registration: The plugin's name and index.
        wanted: Events to ask for, as far as the runtime knows them.
        old_events_only: Ask for none that NRI before 0.10 does not know, whatever the runtime
            says of itself: for the try after one that ended right behind Configure.
    """

    def __init__(
        self,
        registration: Registration,
        *,
        wanted: Iterable[Event] = WANTED_EVENTS,
        old_events_only: bool = False,
    ) -> None:
        self._registration = registration
        self._wanted = mask(wanted)
        if not self._wanted & EVENTS_BEFORE_0_10:
            raise LocalProtocolError("NRI session", "asks for no event, which would mean all")
        if old_events_only:
            self._wanted &= EVENTS_BEFORE_0_10
        self._stage = Stage.NEW
        self._reached = Stage.NEW
        self._runtime = Runtime(name="an unknown runtime", version="")
        self._mux = mux.Demultiplexer((mux.PLUGIN_CONNECTION, mux.RUNTIME_CONNECTION))
        self._server = ttrpc.Server()
        self._client = ttrpc.Client()
        self._sandboxes: list[Sandbox] = []
        self._containers: list[Container] = []
        self._gathered_bytes = 0
        self._open: dict[int, Event | None] = {}
        self._synchronize_call = 0
        self._methods: dict[str, Callable[[ttrpc.Call], Item | None]] = {
            "Configure": self._configure,
            "Synchronize": self._synchronize,
            "StateChange": self._state_change,
            "Shutdown": self._shutdown,
            **{event.method: self._own_call for event in Event if event.bit & self._wanted},
        }

    @property
    def stage(self) -> Stage:
        """How far the session has come."""
        return self._stage

    @property
    def reached(self) -> Stage:
        """How far the session came before it was closed."""
        return self._reached

    @property
    def runtime(self) -> Runtime:
        """Who is on the other side; nobody known before Configure."""
        return self._runtime

    def register(self) -> None:
        """Starts the session; its bytes are then in `data_to_send`.

        Raises:
            LocalProtocolError: It was started before.
        """
        if self._stage is not Stage.NEW:
            raise LocalProtocolError("NRI session", f"registers while {self._stage.value}")
        payload = messages.encode_registration(self._registration)
        self._client.call(messages.RUNTIME_SERVICE, "RegisterPlugin", payload)
        self._advance(Stage.REGISTERED)

    def data_to_send(self) -> bytes:
        """Gives the bytes due on the socket, and forgets them; they must go out in this order."""
        halves = ((mux.PLUGIN_CONNECTION, self._server), (mux.RUNTIME_CONNECTION, self._client))
        return b"".join(
            mux.frames(connection, message)
            for connection, half in halves
            for message in half.messages_to_send()
        )

    def receive(self, data: bytes) -> Sequence[Item]:
        """Gives what ``data`` asks of us.

        Raises:
            RemoteProtocolError: The connection is of no further use and has to be closed; what
                `data_to_send` still has is worth a try.
            LocalProtocolError: The session was over before.
        """
        if self._stage in {Stage.NEW, Stage.CLOSED}:
            raise LocalProtocolError("NRI session", f"gets bytes while {self._stage.value}")
        items: list[Item] = []
        try:
            for piece in self._mux.receive(data):
                self._take(piece, items)
        except RemoteProtocolError:
            self._stage = Stage.CLOSED
            raise
        return items

    def end(self) -> None:
        """Tells that the connection is over; every call still open is now answered too late."""
        self._stage = Stage.CLOSED
        self._open.clear()

    def answer(self, call: int, adjustment: Adjustment | None = None) -> bool:
        """Answers Synchronize or an event with success.

        Args:
            call: The call that the item bore.
            adjustment: Changes to the container, for CREATE_CONTAINER alone.

        Returns:
            Whether the call was still open.

        Raises:
            LocalProtocolError: The answer is too long; the call stays open.
        """
        if call not in self._open:
            return False
        self._server.reply(call, self._answer_payload(self._open[call], adjustment))
        del self._open[call]
        if call == self._synchronize_call:
            self._advance(Stage.RUNNING)
        return True

    def refuse(self, call: int, code: Code, message: str) -> bool:
        """Answers Synchronize or an event by an error; the former ends the session.

        Returns:
            Whether the call was still open.
        """
        if call not in self._open:
            return False
        self._server.refuse(call, code, message)
        del self._open[call]
        if call == self._synchronize_call:
            self.end()
        return True

    def _advance(self, stage: Stage) -> None:
        self._stage = self._reached = stage

    @staticmethod
    def _answer_payload(kind: Event | None, adjustment: Adjustment | None) -> bytes:
        if kind is Event.CREATE_CONTAINER and adjustment is not None:
            return messages.encode_adjustment(adjustment)
        return b""

    def _take(self, piece: mux.Piece, items: list[Item]) -> None:
        if piece.connection == mux.RUNTIME_CONNECTION:
            for answer in self._client.receive(piece.data):
                self._registered(answer)
            return
        for call in self._server.receive(piece.data):
            item = self._dispatch(call)
            if item is not None:
                items.append(item)

    def _registered(self, answer: ttrpc.Reply | ttrpc.Refusal) -> None:
        if isinstance(answer, ttrpc.Refusal):
            raise RemoteProtocolError(
                f"NRI plugin {self._registration.index}-{self._registration.name}",
                f"the runtime refused the registration (code {answer.code}): "
                f"{excerpt(answer.message)}",
            )

    def _dispatch(self, call: ttrpc.Call) -> Item | None:
        fault = self._fault(call)
        if fault is not None:
            self._server.refuse(call.stream, *fault)
            return None
        try:
            return self._methods[call.method](call)
        except RemoteProtocolError as error:
            self._server.refuse(call.stream, Code.INVALID_ARGUMENT, str(error))
            if self._stage is not Stage.RUNNING:
                raise
            return None

    def _fault(self, call: ttrpc.Call) -> tuple[Code, str] | None:
        if call.service != messages.PLUGIN_SERVICE:
            return Code.UNIMPLEMENTED, f"service {call.service}"
        if call.method not in self._methods:
            return Code.UNIMPLEMENTED, f"method {call.method}"
        needed = _STAGES_BY_METHOD.get(call.method, Stage.RUNNING)
        if needed not in {None, self._stage}:
            return Code.FAILED_PRECONDITION, f"{call.method} came while {self._stage.value}"
        return None

    def _configure(self, call: ttrpc.Call) -> Item:
        runtime = messages.decode_configure(call.payload)
        events = self._wanted & known_events(runtime)
        self._server.reply(call.stream, messages.encode_events(events))
        self._runtime = runtime
        self._advance(Stage.CONFIGURED)
        return Configured(runtime=runtime, events=events)

    def _shutdown(self, call: ttrpc.Call) -> None:
        # No runtime is known to send it; the end of the socket is what counts.
        self._server.reply(call.stream, b"")

    def _synchronize(self, call: ttrpc.Call) -> Item | None:
        chunk = messages.decode_chunk(call.payload)
        self._gather(chunk, len(call.payload))
        if chunk.more:
            self._server.reply(call.stream, messages.encode_chunk_answer(more=True))
            return None
        self._open[call.stream] = None
        self._synchronize_call = call.stream
        self._advance(Stage.SYNCHRONIZING)
        sandboxes, containers = tuple(self._sandboxes), tuple(self._containers)
        self._sandboxes.clear()
        self._containers.clear()
        return Synchronize(
            call=call.stream,
            sandboxes=sandboxes,
            containers=containers,
            timeout_s=call.timeout_s,
        )

    def _gather(self, chunk: Chunk, size: int) -> None:
        self._gathered_bytes += size
        self._sandboxes += chunk.sandboxes
        self._containers += chunk.containers
        count = len(self._sandboxes) + len(self._containers)
        if count > MAX_OBJECTS:
            raise RemoteProtocolError(
                "NRI Synchronize", f"{count} pods and containers", rule=f"at most {MAX_OBJECTS}"
            )
        if self._gathered_bytes > MAX_SYNCHRONIZE_BYTES:
            raise RemoteProtocolError(
                "NRI Synchronize",
                f"{self._gathered_bytes} bytes",
                rule=f"at most {MAX_SYNCHRONIZE_BYTES}",
            )

    def _own_call(self, call: ttrpc.Call) -> Item | None:
        kind = _EVENTS_BY_METHOD[call.method]
        if kind is Event.VALIDATE_CONTAINER_ADJUSTMENT:
            self._server.reply(call.stream, messages.encode_verdict(""))
            return None
        return self._tell(call, kind, messages.decode_event(kind, call.payload))

    def _state_change(self, call: ttrpc.Call) -> Item | None:
        happening = messages.decode_state_change(call.payload)
        kind = happening.kind
        if kind is None or not kind.is_state_change or not kind.bit & self._wanted:
            self._server.reply(call.stream, b"")
            return None
        return self._tell(call, kind, happening)

    def _tell(self, call: ttrpc.Call, kind: Event, happening: Happening) -> Item:
        if not happening.sandbox.id or (kind.is_container_event and happening.container is None):
            raise RemoteProtocolError("NRI", f"{kind.method} without its pod or container")
        self._open[call.stream] = kind
        return Told(
            call=call.stream,
            kind=kind,
            sandbox=happening.sandbox,
            container=happening.container,
            timeout_s=call.timeout_s,
        )
