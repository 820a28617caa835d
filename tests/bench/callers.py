"""Those who ask a service on and on, while it is installed and upgraded under them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs
import grpc

from berth.control import FOLDER, ControlClient
from berth.errors import BerthError
from tests.bench.dracaller import SERVICE
from tests.nspawn.node import CALL_S, SOCKETS, Node

PAUSE_S: Final = 0.02
"""Between an answer, or a refusal, and the next question; three callers must not cost much."""

Ask = Callable[[], object]


@attrs.define
class Caller:
    """Asks one socket by a new connection each time.

    Attributes:
        answers: When each answer was there, on the clock of `time.perf_counter`.
        failures: When each question failed, with the reason.
    """

    _ask: Ask
    answers: list[float] = attrs.field(factory=list)
    failures: list[tuple[float, str]] = attrs.field(factory=list)

    def run(self, ending: threading.Event) -> None:
        """Ask until the end."""
        while not ending.is_set():
            try:
                self._ask()
            except (BerthError, grpc.RpcError) as error:
                self.failures.append((time.perf_counter(), str(error)))
            else:
                self.answers.append(time.perf_counter())
            time.sleep(PAUSE_S)

    def first(self, after: float) -> float:
        """When the first answer came after a moment."""
        return next(moment for moment in self.answers if moment > after)

    def was_answered(self, after: float) -> bool:
        """Whether an answer came after a moment."""
        return bool(self.answers) and self.answers[-1] > after

    def longest_s(self) -> float:
        """The longest time from one answer to the next."""
        pairs = zip(self.answers, self.answers[1:], strict=False)
        return max(later - earlier for earlier, later in pairs)


@contextlib.contextmanager
def calling(node: Node) -> Iterator[Mapping[str, Caller]]:
    """Callers of each socket of the service, for the time of the block; by the socket's name."""
    callers = {name: Caller(ask) for name, ask in _questions(node).items()}
    ending = threading.Event()
    threads = [threading.Thread(target=one.run, args=(ending,)) for one in callers.values()]
    for thread in threads:
        thread.start()
    try:
        yield callers
    finally:
        ending.set()
        for thread in threads:
            thread.join()


def _questions(node: Node) -> Mapping[str, Ask]:
    dra, registration = (node.path(path) for path in SOCKETS)
    control = node.path(str(FOLDER))
    return {
        "control": lambda: _ask_control(control),
        "DRA": lambda: _ask_grpc(dra, f"{SERVICE}/NodePrepareResources"),
        "registration": lambda: _ask_grpc(registration, "/pluginregistration.Registration/GetInfo"),
    }


def _ask_control(folder: Path) -> None:
    with contextlib.closing(ControlClient(folder)) as client:
        client.ask("status")


def _ask_grpc(path: Path, method: str) -> None:
    """Call with an empty message, which asks for nothing.

    Without a pool of its own a channel would wait as long as an earlier one was refused.
    """
    alone = (("grpc.use_local_subchannel_pool", 1),)
    with grpc.insecure_channel(f"unix:{path}", options=alone) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        call(b"", timeout=CALL_S)
