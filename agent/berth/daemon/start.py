"""From the command line to the running daemon, and its exit code."""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from berth import __version__
from berth.config.load import CONFIG
from berth.control import FOLDER
from berth.daemon.configfile import ConfigFile, read_config
from berth.daemon.service import Daemon
from berth.errors import BerthError, Faults, HostError
from berth.runtime.asyncthread import open_asyncio_thread
from berth.runtime.files import make_folder, sweep_temporaries
from berth.runtime.grpcbridge import protobuf_fault
from berth.runtime.inotify import open_inotify
from berth.runtime.lock import hold_lock
from berth.runtime.logs import get_log, start_logging

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

LOADED_LATE: Final = ("encodings.idna", "httpcore2", "yaml")
"""Modules that libraries of ours load in the middle of their work."""

_log = get_log(__name__)


def load_all() -> None:
    """Load what would be loaded later.

    An upgrade replaces files under a running daemon: what is loaded after it would not fit the
    rest, and costs the first pod its time besides.
    """
    for name in LOADED_LATE:
        importlib.import_module(name)


def runtime_folder(environ: Mapping[str, str]) -> Path:
    """Where the daemon's own sockets lie: systemd's RuntimeDirectory, else ``/run/berth``."""
    return Path(environ.get("RUNTIME_DIRECTORY") or FOLDER)


async def _run(file: ConfigFile, environ: dict[str, str]) -> None:
    async with open_asyncio_thread() as thread, open_inotify() as inotify:
        daemon = Daemon(
            file,
            environ=environ,
            runtime=runtime_folder(environ),
            thread=thread,
            inotify=inotify,
        )
        await daemon.run()


def make_parser() -> argparse.ArgumentParser:
    """The parser of the daemon's command line."""
    parser = argparse.ArgumentParser(
        prog="berthd",
        description="Hands this machine's network devices and GPUs to its Kubernetes pods.",
    )
    parser.add_argument(
        "--config",
        type=Path,
        default=CONFIG,
        metavar="FILE",
        help="the configuration (default: %(default)s)",
    )
    parser.add_argument(
        "--selftest",
        action="store_true",
        help="load everything, read the configuration and the records, then end; changes nothing",
    )
    parser.add_argument("--version", action="version", version=f"berthd {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon.

    Returns:
        0 after a stop that was asked for, 1 when the machine does not allow the start, 2 for a
        configuration that is refused.
    """
    arguments = make_parser().parse_args(argv)
    faulthandler.enable()
    start_logging(environ=os.environ)
    try:
        file = read_config(arguments.config)
        return _selftest(file) if arguments.selftest else _serve(file)
    except Faults as error:
        for fault in error.faults:
            _log.error("configuration refused", fault=fault)
        return 2
    except BerthError as error:
        _log.error("cannot go on", reason=error)
        return 1


def _selftest(file: ConfigFile) -> int:
    # Imported here: no daemon needs it.
    from berth.daemon.selftest import load_every_module, read_state

    load_all()
    load_every_module()
    read_state(file.config.node.state_dir)
    return 0


def _serve(file: ConfigFile) -> int:
    state_dir = file.config.node.state_dir
    load_all()
    fault = protobuf_fault()
    if fault:
        _log.warning("protobuf is slow", reason=fault)
    environ = dict(os.environ)
    os.umask(0o077)
    make_folder(state_dir)
    make_folder(runtime_folder(environ))
    with hold_lock(state_dir):
        _sweep(state_dir)
        try:
            trio.run(_run, file, environ)
        except BaseExceptionGroup as group:
            faults, rest = group.split(BerthError)
            if rest is not None or faults is None:
                raise
            raise _first(faults) from group
    return 0


def _sweep(state_dir: Path) -> None:
    """Take away what writes of the life before left, while nobody writes there."""
    try:
        sweep_temporaries(state_dir)
    except HostError as error:
        _log.warning("leftovers of interrupted writes stay", reason=error)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


if __name__ == "__main__":
    sys.exit(main())
