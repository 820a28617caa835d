"""The command as an operator runs it, and a daemon that answers what a test wants."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from berth.cli import main
from berth.control import ControlServer, Event, Verb
from berth.runtime.inotify import open_inotify

GOLDEN = Path(__file__).parent / "golden"


@attrs.frozen(kw_only=True)
class Ran:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output, read."""
        return json.loads(self.out)


@attrs.frozen
class Berth:
    """Runs the command.

    Attributes:
        runtime_dir: Where it looks for a daemon.
    """

    runtime_dir: Path
    _capture: pytest.CaptureFixture[str]

    def __call__(self, *words: object) -> Ran:
        """Run one command line."""
        self._capture.readouterr()
        try:
            code = main(["--runtime-dir", str(self.runtime_dir), *map(str, words)])
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = self._capture.readouterr()
        return Ran(code=code, out=out, err=err)


@pytest.fixture
def berth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Berth:
    """The command, in a place without daemon unless a test starts one."""
    # Help is wrapped at the terminal's width, whoever runs the tests.
    monkeypatch.setenv("COLUMNS", "100")
    return Berth(tmp_path / "run", capsys)


Answers = Mapping[str, "Mapping[str, Any] | Exception"]
Serve = Callable[[Answers], list[Mapping[str, Any]]]


@pytest.fixture
def daemon(berth: Berth) -> Iterator[Serve]:
    """Starts a daemon with one answer per verb; gives the requests that it gets."""
    ends: list[Callable[[], None]] = []

    def start(answers: Answers) -> list[Mapping[str, Any]]:
        asked: list[Mapping[str, Any]] = []
        ready = threading.Event()
        scopes: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = []

        def verb_for(answer: Mapping[str, Any] | Exception) -> Verb:
            async def verb(request: Mapping[str, Any], _: Event) -> Mapping[str, Any]:
                await trio.lowlevel.checkpoint()
                asked.append(request)
                if isinstance(answer, Exception):
                    raise answer
                return answer

            return verb

        async def serve() -> None:
            async with open_inotify() as inotify, trio.open_nursery() as nursery:
                scopes.append((trio.lowlevel.current_trio_token(), nursery.cancel_scope))
                verbs = {word: verb_for(answer) for word, answer in answers.items()}
                server = ControlServer(berth.runtime_dir, verbs, inotify=inotify)
                await nursery.start(server.run)
                ready.set()

        thread = threading.Thread(target=trio.run, args=(serve,))
        thread.start()
        assert ready.wait(10)

        def end() -> None:
            token, scope = scopes[0]
            token.run_sync_soon(scope.cancel)
            thread.join()

        ends.append(end)
        return asked

    yield start
    for end in ends:
        end()


def golden(name: str, seen: str) -> str:
    """What a command is to write, as a person has last looked at it.

    With ``GOLDEN=write`` in the environment it becomes what was seen, to be looked at.
    """
    path = GOLDEN / name
    if os.environ.get("GOLDEN") == "write":
        path.write_text(seen, encoding="utf-8")
    return path.read_text(encoding="utf-8")
