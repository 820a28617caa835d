"""The rehearsal: a pod gets its NIC, each stage shown as it happens and verified from outside.

`rehearse` is the command's side: it starts `play` in a world of its own and passes its exit code
on. When the command is gone, in whatever way, its end of the pipe closes and the play ends, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.errors import BerthError, ConfigError, HostError, LocalProtocolError
from berth.rehearsal.acts import Acts
from berth.rehearsal.enter import inside
from berth.rehearsal.report import Report
from berth.rehearsal.script import Script, write_script
from berth.rehearsal.stage import Setting, Stage
from berth.rehearsal.world import furnish

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells give it."""

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup


@attrs.frozen(kw_only=True)
class RehearsalOptions:
    """What the operator asks for.

    Attributes:
        config: The configuration to rehearse; without one an embedded one is played.
        claim: Manifests with claims; without them the play brings its own.
    """

    config: Path | None = None
    claim: Path | None = None


def rehearse(options: RehearsalOptions) -> int:
    """Play a rehearsal and print it as it goes.

    Returns:
        0 when every stage was verified, 1 when one was not or no world could be made, 2 when a
        file cannot be used, 130 after Ctrl-C.
    """
    given = {"config": options.config, "claim": options.claim}
    asked = json.dumps({name: str(path) for name, path in given.items() if path is not None})
    try:
        command = inside("story", asked)
    except HostError as error:
        Report(sys.stderr).failure("world", error)
        return 1
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # The play was interrupted as well: it says so, and its world ends with it.
                continue


def play(arguments: Sequence[str]) -> int:
    """Play in this process, which has namespaces of its own; gives the exit code."""
    report = Report()
    asked = {name: Path(path) for name, path in json.loads(arguments[0]).items()}
    try:
        # Before the world is furnished: its folders cover some of the machine's own.
        script = write_script(config=asked.get("config"), claim=asked.get("claim"))
    except ConfigError as error:
        report.failure("configuration", error)
        return 2
    furnish()
    _introduce(script, report)
    try:
        return trio.run(_play, script, report)
    except KeyboardInterrupt:
        report.say("\ninterrupted; everything of the rehearsal is gone with its namespaces")
        return INTERRUPTED


async def _play(script: Script, report: Report) -> int:
    stage = Stage(Setting(config=script.config, driver=script.driver))
    acts = Acts(stage, script, report)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_with_the_command, nursery.cancel_scope)
            await nursery.start(stage.run)
            await acts.play()
            nursery.cancel_scope.cancel()
    except (BerthError, BaseExceptionGroup) as raised:
        report.failure(acts.stage_name, _first(raised))
        _show_log(stage, report)
        return 1
    if not acts.done:
        return INTERRUPTED
    report.say(f"\nEach stage was verified; {report.elapsed_s:.1f} s in all. Nothing is left.")
    return 0


def _introduce(script: Script, report: Report) -> None:
    report.say(
        "A pod gets its NIC. Real: berthd, the kernel's links and namespaces. Stand-ins: kubelet,\n"
        "scheduler, API server, container runtime, and veth pairs for NICs. This machine is not\n"
        "touched.\n"
    )
    report.say(f"Configuration: {script.title}")
    if script.text:
        report.quote(script.text)
    for warning in script.warnings:
        report.say(f"  WARNING  {warning}")
    for note in (*script.notes, *script.manifests.notes):
        report.say(f"  NOTE     {note}")
    report.say("\n   moment      took  stage")


async def _end_with_the_command(scope: trio.CancelScope) -> None:
    """End when the command at the other end of standard input has ended."""
    async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stdin:
        while await stdin.receive_some():
            pass
    scope.cancel()


def _show_log(stage: Stage, report: Report) -> None:
    try:
        tail = stage.berthd.log_tail()
    except LocalProtocolError:
        return
    report.say("\nThe end of berthd's log:")
    report.quote(tail or "(empty)")


def _first(raised: BaseException) -> BerthError:
    """The fault to tell of; any other exception is a defect, and goes on as it is."""
    while isinstance(raised, BaseExceptionGroup):
        faults, rest = raised.split(BerthError)
        if faults is None or (rest is not None and rest.subgroup(KeyboardInterrupt) is not None):
            raise raised
        raised = faults.exceptions[0]
    if not isinstance(raised, BerthError):
        raise raised
    return raised
