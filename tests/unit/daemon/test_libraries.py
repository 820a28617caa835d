"""Which libraries the daemon loads: a package more is decided, not slipped in."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pytest

LIBRARIES: Final = {
    "anyio": "of httpcore2",
    "attr": "of attrs",
    "attrs": "",
    "berth": "",
    "exceptiongroup": "before Python 3.11",
    "google": "protobuf",
    "grpc": "",
    "h11": "of httpcore2",
    "httpcore2": "of httpx2",
    "httpx2": "",
    "idna": "of trio and httpx2",
    "outcome": "of trio",
    "pyudev": "",
    "sdnotify": "",
    "sniffio": "of trio",
    "sortedcontainers": "of trio",
    "tomli": "before Python 3.11",
    "trio": "",
    "truststore": "of httpx2",
    "typing_extensions": "",
    "yaml": "",
}
"""Every top-level package outside the standard library, and whose it is if not ours."""

BROUGHT: Final = (
    "__main__",
    "_distutils_hack",
    "__editable__",
    "_cython",
    "cython",
    "grpc_tools",
    "sitecustomize",
)
"""What Python's start (Debian's has a sitecustomize), compiled extensions, and a developer's grpcio
bring."""

_TELL: Final = """
import json, sys
from berth.daemon.start import load_all
load_all()
print(json.dumps(sorted(sys.modules)))
"""

_TELL_SOURCES: Final = """
import contextlib, json, linecache, traceback
from berth.daemon import main
with contextlib.suppress(SystemExit):
    main(["--version"])
try:
    main(["--version"])
except SystemExit as error:
    text = "".join(traceback.format_exception(error))
print(json.dumps([name for name in linecache.cache if name.startswith("<")]))
print(json.dumps("return run(argv)" in text))
"""


@pytest.fixture(scope="module")
def modules() -> frozenset[str]:
    """Every module that a daemon has loaded when it begins to serve."""
    told = subprocess.run(
        [sys.executable, "-c", _TELL], check=True, capture_output=True, text=True, timeout=60
    )
    return frozenset(json.loads(told.stdout))


def test_daemon_loads_the_listed_packages(modules: frozenset[str]) -> None:
    """No other one, and each of them."""

    tops = {name.partition(".")[0] for name in modules}
    found = {name for name in tops if not name.startswith(BROUGHT)} - sys.stdlib_module_names

    assert found <= LIBRARIES.keys()
    assert {name for name, whose in LIBRARIES.items() if not whose} <= found


def test_daemon_loads_nothing_of_the_command(modules: frozenset[str]) -> None:
    """Tables, and the stand-ins of the rehearsal, cost the daemon nothing."""

    foreign = ("rich", "berth.cli", "berth.rehearsal", "pytest")

    assert [name for name in modules if name.startswith(foreign)] == []


def test_daemon_keeps_no_source_of_generated_code() -> None:
    """Two megabytes that nobody reads; tracebacks still show the lines of files."""

    told = subprocess.run(
        [sys.executable, "-c", _TELL_SOURCES],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    _, generated, shows_lines = told.stdout.splitlines()[-3:]

    assert json.loads(generated) == []
    assert json.loads(shows_lines) is True
