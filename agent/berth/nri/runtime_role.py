"""One NRI connection as the runtime sees it: the other role of the same protocol.

The rehearsal's runtime and the tests speak to our plugin by this. It behaves as the runtimes were
seen to behave, version by version (`Manner`), their faults included: a plugin that does not answer
in time is dropped and the pod goes on without it; a refused registration leaves the connection
open; NRI 0.6 forgets a plugin whose Synchronize failed without telling it.

There is no clock here either: who runs it tells by `RuntimeRole.expire` that the plugin was late.
Source: containerd/nri, pkg/adaptation/plugin.go and plugin_type.go at 0.6.1, 0.8.0 and 0.12.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.model.pod import Adjustment, Container, Sandbox
from berth.nri import messages, mux, ttrpc
from berth.nri.events import Event, Happening
from berth.nri.messages import Chunk, Registration
from berth.nri.ttrpc import Code
from berth.nri.versions import EVENTS_BEFORE_0_10, EVENTS_SINCE_0_10, Runtime

_MIN_OBJECTS = 4
_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX = re.compile(r"[0-9]{2}")


@attrs.frozen(kw_only=True)
class Manner:
    """How the runtime's side of one NRI version behaves.

    Attributes:
        events: Event bits it knows; another bit gets the plugin thrown out.
        own_calls: Each event has an RPC of its own; ``StateChange`` only where that is unknown.
        splits: Synchronize comes in several messages when it is too long for one.
        tells_timeouts: Configure tells the two timeouts.
        checks_names: Plugin names are restricted to some characters.
        drops_unsynchronized: A failed Synchronize ends the connection; else the plugin stays
            connected and never hears of an event.
    """

    events: int = EVENTS_SINCE_0_10
    own_calls: bool = False
    splits: bool = True
    tells_timeouts: bool = True
    checks_names: bool = False
    drops_unsynchronized: bool = True


NRI_0_6 = Manner(
    events=EVENTS_BEFORE_0_10, splits=False, tells_timeouts=False, drops_unsynchronized=False
)
"""containerd 1.7.24."""

NRI_0_8 = Manner(events=EVENTS_BEFORE_0_10)
"""containerd 2.0 and 2.1."""

NRI_0_11 = Manner()
"""containerd 2.2, CRI-O 1.35."""

NRI_0_12 = Manner(own_calls=True, checks_names=True)
"""containerd 2.3 and 2.4."""


@attrs.frozen(kw_only=True)
class Registered:
    """A plugin registered, and was asked Configure."""

    registration: Registration


@attrs.frozen(kw_only=True)
class Subscribed:
    """The plugin answered Configure; it waits for `RuntimeRole.synchronize`."""

    events: int


@attrs.frozen(kw_only=True)
class Synchronized:
    """The plugin knows all pods and containers; events go to it from now on."""


@attrs.frozen(kw_only=True)
class Answered:
    """The plugin agreed to an event.

    Attributes:
        ticket: What `RuntimeRole.relay` gave.
        adjustment: What it wants changed, in CREATE_CONTAINER.
        objection: Why the container must not be, in VALIDATE_CONTAINER_ADJUSTMENT; else empty.
    """

    ticket: int
    adjustment: Adjustment = attrs.field(factory=Adjustment)
    objection: str = ""


@attrs.frozen(kw_only=True)
class Refused:
    """The plugin answered an event by an error."""

    ticket: int
    code: int
    message: str


Item = Registered | Subscribed | Synchronized | Answered | Refused


@attrs.frozen
class _Relay:
    """An event on its way: by its own call first, by StateChange second."""

    ticket: int
    happening: Happening
    by_own_call: bool


class RuntimeRole:
    """The runtime's side of one connection.

    Args:
        runtime: What Configure tells the plugin; its NRI version only where the manner has calls
            of their own for events.
        manner: The NRI version to behave like.
        max_message_bytes: Where Synchronize is split; smaller in tests.
    """

    def __init__(
        self,
        runtime: Runtime,
        manner: Manner = NRI_0_12,
        *,
        max_message_bytes: int = ttrpc.MAX_DATA_BYTES,
    ) -> None:
        self._manner = manner
        self._runtime = runtime
        self._max_message = max_message_bytes
        limit = ttrpc.MAX_DATA_BYTES if manner.splits else ttrpc.MAX_INBOUND_BYTES
        self._mux = mux.Demultiplexer((mux.PLUGIN_CONNECTION, mux.RUNTIME_CONNECTION))
        self._client = ttrpc.Client(max_out_bytes=limit, max_in_bytes=ttrpc.MAX_DATA_BYTES)
        self._server = ttrpc.Server(max_in_bytes=ttrpc.MAX_DATA_BYTES)
        self._registered = False
        self._configure_stream = 0
        self._chunk_stream = 0
        self._chunk_more = False
        self._unsent: tuple[list[Sandbox], list[Container]] = ([], [])
        self._batch = (0, 0)
        self._relays: dict[int, _Relay] = {}
        self._tickets = 0
        self._own_calls = manner.own_calls
        self._events = 0
        self._running = False
        self._closed = ""

    @property
    def closed(self) -> str:
        """Why the runtime dropped the plugin and closes the connection; empty while it does not."""
        return self._closed

    def is_subscribed(self, kind: Event) -> bool:
        """Whether ``kind`` would be told to the plugin now."""
        return self._running and bool(self._events & kind.bit)

    def data_to_send(self) -> bytes:
        """Gives the bytes due on the socket, and forgets them; they must go out in this order."""
        halves = ((mux.PLUGIN_CONNECTION, self._client), (mux.RUNTIME_CONNECTION, self._server))
        return b"".join(
            mux.frames(connection, message)
            for connection, half in halves
            for message in half.messages_to_send()
        )

    def receive(self, data: bytes) -> Sequence[Item]:
        """Gives what ``data`` means to the runtime; see `closed` afterwards.

        Raises:
            RemoteProtocolError: The plugin broke the framing.
        """
        items: list[Item | None] = []
        for piece in self._mux.receive(data):
            if piece.connection == mux.RUNTIME_CONNECTION:
                items += [self._called(call) for call in self._server.receive(piece.data)]
            else:
                items += [self._answered(answer) for answer in self._client.receive(piece.data)]
        return [item for item in items if item is not None]

    def synchronize(self, sandboxes: Sequence[Sandbox], containers: Sequence[Container]) -> None:
        """Tells the plugin all pods and containers; `Synchronized` follows when it has agreed."""
        self._unsent = (list(sandboxes), list(containers))
        self._batch = (len(sandboxes), len(containers))
        self._send_chunk()

    def relay(self, happening: Happening) -> int | None:
        """Tells the plugin an event.

        Returns:
            The ticket that the answer will bear; ``None`` when the plugin does not hear of such
            an event, and the runtime goes on without it.
        """
        if self._closed or happening.kind is None or not self.is_subscribed(happening.kind):
            return None
        self._tickets += 1
        self._send_event(self._tickets, happening, by_own_call=self._own_calls)
        return self._tickets

    def expire(self) -> None:
        """Tells that the request timeout is over: the plugin is dropped, the runtime goes on."""
        if self._chunk_stream and not self._manner.drops_unsynchronized:
            self._chunk_stream = 0
            return
        self._drop("deadline exceeded")

    def _drop(self, reason: str) -> None:
        self._closed = self._closed or reason
        self._running = False
        self._relays.clear()

    def _call(self, method: str, payload: bytes) -> int:
        timeout_s = self._runtime.request_timeout_s
        return self._client.call(messages.PLUGIN_SERVICE, method, payload, timeout_s=timeout_s)

    def _called(self, call: ttrpc.Call) -> Item | None:
        if (call.service, call.method) != (messages.RUNTIME_SERVICE, "RegisterPlugin"):
            known = call.service == messages.RUNTIME_SERVICE
            text = f"method {call.method}" if known else f"service {call.service}"
            self._server.refuse(call.stream, Code.UNIMPLEMENTED, text)
            return None
        registration = messages.decode_registration(call.payload)
        fault = self._registration_fault(registration)
        if fault:
            # The real one leaves the connection open as well.
            self._server.refuse(call.stream, Code.UNKNOWN, fault)
            return None
        self._server.reply(call.stream, b"")
        self._registered = True
        self._configure_stream = self._call("Configure", self._configure_payload())
        return Registered(registration=registration)

    def _registration_fault(self, registration: Registration) -> str:
        allowed = _NAME.fullmatch if self._manner.checks_names else bool
        if not allowed(registration.name):
            return f"invalid plugin name {registration.name!r}"
        if not _INDEX.fullmatch(registration.index):
            return f"invalid plugin index {registration.index!r}, must be 2 digits"
        return "plugin registered twice" if self._registered else ""

    def _configure_payload(self) -> bytes:
        version = self._runtime.nri_version if self._manner.own_calls else ""
        runtime = attrs.evolve(self._runtime, nri_version=version)
        return messages.encode_configure(runtime, with_timeouts=self._manner.tells_timeouts)

    def _answered(self, answer: ttrpc.Reply | ttrpc.Refusal) -> Item | None:
        if answer.stream == self._configure_stream:
            return self._subscribe(answer)
        if answer.stream == self._chunk_stream:
            return self._chunk_answered(answer)
        relay = self._relays.pop(answer.stream, None)
        return None if relay is None else self._relayed(relay, answer)

    def _subscribe(self, answer: ttrpc.Reply | ttrpc.Refusal) -> Item | None:
        self._configure_stream = 0
        if isinstance(answer, ttrpc.Refusal):
            self._drop(f"failed to configure plugin: {answer.message}")
            return None
        events = messages.decode_events(answer.payload)
        unknown = events & ~self._manner.events
        if unknown:
            self._drop(f"invalid plugin events: 0x{unknown:x}")
            return None
        self._events = events or self._manner.events
        return Subscribed(events=self._events)

    def _send_chunk(self) -> None:
        (sandboxes, containers), (pods, others) = self._unsent, self._batch
        chunk = Chunk(
            sandboxes=tuple(sandboxes[:pods]),
            containers=tuple(containers[:others]),
            more=len(sandboxes) > pods or len(containers) > others,
        )
        payload = messages.encode_chunk(chunk)
        if self._manner.splits and len(payload) > self._max_message:
            self._shrink_batch(len(payload))
            self._send_chunk()
            return
        self._chunk_more = chunk.more
        self._unsent = (sandboxes[pods:], containers[others:])
        self._chunk_stream = self._call("Synchronize", payload)

    def _shrink_batch(self, actual: int) -> None:
        if sum(self._batch) <= 2 * _MIN_OBJECTS:
            raise LocalProtocolError("NRI Synchronize", f"{sum(self._batch)} objects are too long")
        factor = min(0.9, self._max_message / actual)
        pods, others = self._batch
        self._batch = (
            max(int(pods * factor), _MIN_OBJECTS),
            max(int(others * factor), _MIN_OBJECTS),
        )

    def _chunk_answered(self, answer: ttrpc.Reply | ttrpc.Refusal) -> Item | None:
        self._chunk_stream = 0
        fault = self._chunk_fault(answer)
        if fault and self._manner.drops_unsynchronized:
            self._drop(fault)
        if fault:
            return None
        if self._chunk_more:
            self._send_chunk()
            return None
        self._running = True
        return Synchronized()

    def _chunk_fault(self, answer: ttrpc.Reply | ttrpc.Refusal) -> str:
        if isinstance(answer, ttrpc.Refusal):
            return f"failed to synchronize plugin: {answer.message}"
        if self._chunk_more and not messages.decode_chunk_answer(answer.payload):
            return "plugin does not handle split sync requests"
        return ""

    def _send_event(self, ticket: int, happening: Happening, *, by_own_call: bool) -> None:
        kind = happening.kind
        if kind is not None and (by_own_call or not kind.is_state_change):
            by_own_call = True
            stream = self._call(kind.method, messages.encode_event(happening))
        else:
            stream = self._call("StateChange", messages.encode_state_change(happening))
        self._relays[stream] = _Relay(ticket, happening, by_own_call)

    def _relayed(self, relay: _Relay, answer: ttrpc.Reply | ttrpc.Refusal) -> Item | None:
        kind = relay.happening.kind
        if isinstance(answer, ttrpc.Refusal):
            replaceable = relay.by_own_call and kind is not None and kind.is_state_change
            if answer.code == Code.UNIMPLEMENTED and replaceable:
                self._own_calls = False
                self._send_event(relay.ticket, relay.happening, by_own_call=False)
                return None
            return Refused(ticket=relay.ticket, code=answer.code, message=answer.message)
        try:
            return self._result(relay.ticket, kind, answer.payload)
        except RemoteProtocolError as error:
            return Refused(ticket=relay.ticket, code=Code.INTERNAL, message=str(error))

    @staticmethod
    def _result(ticket: int, kind: Event | None, payload: bytes) -> Answered:
        if kind is Event.CREATE_CONTAINER:
            return Answered(ticket=ticket, adjustment=messages.decode_adjustment(payload))
        if kind is Event.VALIDATE_CONTAINER_ADJUSTMENT:
            return Answered(ticket=ticket, objection=messages.decode_verdict(payload))
        return Answered(ticket=ticket)
