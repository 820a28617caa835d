"""The play itself: what is shown, how it may end, and with which exit code.

It runs as the first process of its world, so whatever it leaves ends with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from berth.errors import BerthError, ConfigError, HostError, LocalProtocolError
from berth.rehearsal.acts import Acts
from berth.rehearsal.gpuworld import plug_in
from berth.rehearsal.report import Report
from berth.rehearsal.script import Script, write_script
from berth.rehearsal.stage import Setting, Stage
from berth.rehearsal.world import furnish
from berth.runtime.streams import Unheard, let_go

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells give it."""

CUT_OFF: Final = 141
"""Exit code when whoever read the output has gone, as shells give it."""

KUBELET_AGE_S: Final = 600.0
"""How long kubelet has been there: a young one would not be believed for a minute."""

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup


def play(arguments: Sequence[str]) -> int:
    """Play in this process, which has namespaces of its own; gives the exit code.

    Raises:
        Unheard: What is shown cannot be written, for another reason than a reader who has gone.
    """
    try:
        return _play_files(arguments, Report())
    except Unheard as error:
        let_go(sys.stdout)
        if error.is_cut_off:
            return CUT_OFF
        raise


def _play_files(arguments: Sequence[str], report: Report) -> int:
    asked = {name: Path(path) for name, path in json.loads(arguments[0]).items()}
    try:
        # Before the world is furnished: its folders cover some of the machine's own.
        script = write_script(config=asked.get("config"), claim=asked.get("claim"))
    except ConfigError as error:
        report.failure("files", error)
        return 2
    furnish()
    script, environment = _with_gpus(script)
    _introduce(script, report)
    return trio.run(_play, script, report, environment)


def _with_gpus(script: Script) -> tuple[Script, Mapping[str, str]]:
    """The play with GPUs if it wants some and they can be had, and what the daemon needs for it."""
    if not script.with_gpus:
        return script, {}
    try:
        gpus = plug_in()
    except HostError as error:
        return script.lacking_gpus(" ".join(str(error).split())), {}
    return script.having_gpus(gpus.library, gpus.nodes), gpus.environment


async def _play(script: Script, report: Report, environment: Mapping[str, str]) -> int:
    setting = Setting(
        config=script.config,
        driver=script.driver,
        environment=environment,
        kubelet_age_s=KUBELET_AGE_S,
    )
    stage = Stage(setting)
    acts = Acts(stage, script, report)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_with_the_command, nursery.cancel_scope)
            nursery.start_soon(_end_on_signal, nursery.cancel_scope)
            await nursery.start(stage.run)
            await acts.play()
            nursery.cancel_scope.cancel()
    except (BerthError, BaseExceptionGroup) as raised:
        report.failure(acts.stage_name, _first(raised))
        _show_log(stage, report)
        return 1
    if not acts.done:
        report.say("\nInterrupted. Everything of the rehearsal goes with its namespaces.")
        return INTERRUPTED
    report.say(f"\nEach stage was verified; {report.elapsed_s:.1f} s in all. Nothing is left.")
    return 0


def _introduce(script: Script, report: Report) -> None:
    report.say(
        "Pods get a NIC, a device node and a GPU. Real: berthd, the kernel's links and\n"
        "namespaces. Stand-ins: kubelet, scheduler, API server, container runtime, veth pairs\n"
        "for NICs, the library of the GPUs' driver. Device nodes are shown as containers get\n"
        "them, and none is opened. This machine is not touched.\n"
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


async def _end_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
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
        faults, _ = raised.split(BerthError)
        if faults is None:
            raise raised
        raised = faults.exceptions[0]
    if not isinstance(raised, BerthError):
        raise raised
    return raised
