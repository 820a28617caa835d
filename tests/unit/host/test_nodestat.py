"""What lies at the paths of device nodes."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from berth.errors import HostError
from berth.host.nodefacts import AtPath
from berth.host.nodestat import look_at_paths
from berth.model.edits import NodeType


def test_paths_are_told_as_they_are(tmp_path: Path) -> None:
    """A node with its numbers, something else, a link, which is not followed, and nothing."""
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to("/dev/null")
    beneath = f"{file}/x"

    assert look_at_paths(["/dev/null", str(file), str(link), "/no/such", beneath]) == {
        "/dev/null": AtPath(type=NodeType.CHAR, major=1, minor=3),
        str(file): AtPath(),
        str(link): AtPath(),
        "/no/such": AtPath(exists=False),
        beneath: AtPath(exists=False),
    }


def test_file_system_that_refuses_is_told(tmp_path: Path) -> None:
    """By no name can it be that long."""
    path = str(tmp_path / ("x" * 300))

    with pytest.raises(HostError, match="cannot be looked at: File name too long") as caught:
        look_at_paths([path])

    assert caught.value.errno == errno.ENAMETOOLONG
