"""Watching where the kernel refuses, and where a file system goes: in namespaces of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.root

WATCHER = "tests.integration.runtime.watcher"
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def watch(*arguments: str | Path) -> tuple[list[str], str]:
    """What the watcher says, and what it logs."""
    try:
        subprocess.run([*UNSHARE, "true"], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"SKIPPED FOR WANT OF NAMESPACES: {error.stderr.decode()}")
    ended = subprocess.run(
        [*UNSHARE, sys.executable, "-m", WATCHER, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines(), ended.stderr


@pytest.mark.parametrize(
    ("limit", "mend", "meanwhile"),
    [
        ("max_inotify_instances", "fs.inotify.max_user_instances", "()"),
        ("max_inotify_watches", "fs.inotify.max_user_watches", "(0,)"),
    ],
)
def test_path_is_polled_while_the_kernel_has_none_left(
    limit: str, mend: str, meanwhile: str, folder: Path
) -> None:
    """It says which limit, once, and watches as soon as there is one, with one instance."""

    said, logged = watch("limit", limit, folder)

    assert said == [
        f"nothing, watches: {meanwhile}",
        f"socket, watches: {meanwhile}",
        "nothing, watches: (1,)",
        "socket, watches: (1,)",
    ]
    assert logged.count("a path is polled") == 1
    assert mend in logged


def test_socket_when_its_file_system_is_unmounted(folder: Path) -> None:
    """The kernel ends the watch; what is made below is seen."""

    said, _ = watch("unmount", folder)

    assert said == [f"{what}, watches: (1,)" for what in ("socket", "nothing", "socket")]
