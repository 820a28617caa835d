"""Who has device nodes open."""

from __future__ import annotations

from pathlib import Path

from berth.host.openers import Opener, openers


def process(proc: Path, pid: int, *paths: str, group: str = "0::/a\n") -> None:
    """A process with files open."""
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(f"program-{pid}\n")
    (folder / "cgroup").write_text(group)
    for number, path in enumerate(paths):
        (folder / "fd" / str(number)).symlink_to(path)


def test_openers_are_named_with_what_they_have_open(tmp_path: Path) -> None:
    """Each node once, and the control group that tells the pod."""

    process(tmp_path, 20, "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia1")
    process(tmp_path, 3, "/dev/nvidia0", group="4:cpu:/\n1:memory:/kubepods/pod-x\n")
    process(tmp_path, 5, "/dev/null", "pipe:[7]")
    (tmp_path / "self").mkdir()

    assert openers("/dev/nvidia", tmp_path) == (
        Opener(pid=3, command="program-3", group="/kubepods/pod-x", paths=("/dev/nvidia0",)),
        Opener(pid=20, command="program-20", group="/a", paths=("/dev/nvidia1", "/dev/nvidiactl")),
    )


def test_process_that_ends_meanwhile_is_passed_over(tmp_path: Path) -> None:
    """Its folders are gone when they are read."""

    (tmp_path / "7").mkdir()
    process(tmp_path, 8, "/dev/nvidia0")
    (tmp_path / "8" / "comm").unlink()
    (tmp_path / "8" / "cgroup").unlink()

    assert openers("/dev/nvidia", tmp_path) == (
        Opener(pid=8, command="", group="", paths=("/dev/nvidia0",)),
    )


def test_own_files_are_seen(tmp_path: Path) -> None:
    """On the real machine: what this process has open."""

    path = tmp_path / "open"
    with path.open("w"):
        (found,) = openers(str(path))

    assert found.paths == (str(path),)
