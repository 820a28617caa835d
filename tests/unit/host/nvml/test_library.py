"""Which file of the library is mapped, and which one would take its place."""

from __future__ import annotations

from pathlib import Path

from berth.host.nvml import library
from berth.host.nvml.library import Library, LibraryFile
from berth.host.nvml.values import Refusal

HELD = LibraryFile(path="/usr/lib/libnvidia-ml.so.580.65.06", inode=7, version="580.65.06")
NEXT = LibraryFile(path="/usr/lib/libnvidia-ml.so.580.82.07", inode=8, version="580.82.07")


def test_mapped_file_is_read_from_the_maps(tmp_path: Path) -> None:
    """Also when it was removed meanwhile."""

    maps = tmp_path / "maps"
    maps.write_text(
        "7f00-7f01 r-xp 00000000 08:01 5 /usr/lib/libc.so.6\n"
        "7f02-7f03 rw-p 00000000 00:00 0\n"
        "7f04-7f05 r-xp 00000000 08:01 7 /usr/lib/libnvidia-ml.so.580.65.06 (deleted)\n"
    )

    assert library.mapped(maps) == HELD


def test_no_mapped_file_is_told(tmp_path: Path) -> None:
    """Nothing is guessed."""

    (tmp_path / "maps").write_text("7f00-7f01 r-xp 00000000 08:01 5 /usr/lib/libc.so.6\n")

    assert library.mapped(tmp_path / "maps") is None


def test_file_on_disk_is_what_the_link_leads_to(tmp_path: Path) -> None:
    """Its version is in the name of the file itself."""

    real = tmp_path / "libnvidia-ml.so.580.82.07"
    real.touch()
    (tmp_path / "libnvidia-ml.so.1").symlink_to(real.name)
    found = library.on_disk(str(tmp_path / "libnvidia-ml.so.1"))

    assert found == LibraryFile(path=str(real), inode=real.stat().st_ino, version="580.82.07")
    assert library.on_disk(str(tmp_path / "absent")) is None


def test_successor_is_another_file_of_the_modules_version() -> None:
    """Only then would a new process be better off."""

    assert library.successor(HELD, NEXT, "580.82.07") == "8:580.82.07"
    assert library.successor(HELD, NEXT, "575.1.2") == ""
    assert library.successor(HELD, NEXT, "") == ""
    assert library.successor(HELD, HELD, "580.65.06") == ""
    assert library.successor(HELD, None, "580.82.07") == ""
    assert library.successor(None, NEXT, "580.82.07") == ""


def test_module_version_is_empty_without_a_module(tmp_path: Path) -> None:
    """The module may come later."""

    (tmp_path / "version").write_text("580.82.07\n")

    assert library.module_version(tmp_path / "version") == "580.82.07"
    assert library.module_version(tmp_path / "absent") == ""


def test_library_that_is_absent_is_a_refusal(tmp_path: Path) -> None:
    """It names the file, as NVML's own error does not."""

    answer = Library(str(tmp_path / "absent.so")).open()

    assert isinstance(answer, Refusal)
    assert answer.code == 12
    assert "absent.so" in answer.text
