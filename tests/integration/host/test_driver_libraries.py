"""The driver's libraries by our own list, found by the C library of a container.

The container has this machine's files under an overlay of its own, as an image has its layers, and
of the driver nothing but what is bound into it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.gpu.edits import gpu_draft
from berth.host.nvidiafiles import NvidiaFiles
from berth.model.edits import Mount
from tests.netns import need_root
from tests.nvml import need_compiler
from tests.unit.gpu.machine import gpu
from tests.unit.host.test_nvidiafiles import VERSION, debian, fedora

pytestmark = pytest.mark.root

RUN = """
mount -t tmpfs tmpfs "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
while read -r host inside; do
    mkdir -p "$1/root${inside%/*}"
    touch "$1/root$inside"
    mount --bind "$host" "$1/root$inside"
done <"$2"
mount --bind /proc "$1/root/proc"
exec chroot "$1/root" "$3" -I -S -c "$4"
"""

ASK = """
import ctypes
print(ctypes.CDLL("libcuda.so.1").cuInit(0))
print(*{line.split()[-1] for line in open("/proc/self/maps") if "libcuda" in line})
"""


def build(folder: Path) -> None:
    """A library of the driver that says 4711, and its links."""
    folder.mkdir(parents=True, exist_ok=True)
    source, library = folder / "cuda.c", folder / f"libcuda.so.{VERSION}"
    source.write_text("int cuInit(unsigned flags) { return 4711 + (int)flags; }\n")
    flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([shutil.which("cc") or "gcc", *flags, "-o", library, source], check=True)
    (folder / "libcuda.so.1").symlink_to(library.name)


def ask(folder: Path, root: Path, mounts: tuple[Mount, ...]) -> list[str]:
    """What a program in the container is told by the C library."""
    listed = folder / "mounts"
    lines = [f"{root}{mount.host_path} {mount.container_path}\n" for mount in mounts]
    listed.write_text("".join(lines))
    place = folder / "container"
    place.mkdir()
    shell = ["unshare", "--mount", "--propagation", "private", "sh", "-eu", "-c", RUN, "sh"]
    command = [*shell, str(place), str(listed), str(Path(sys.executable).resolve()), ASK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("layout", [debian, fedora])
def test_library_is_found_without_a_cache(tmp_path: Path, layout: Callable[[Path], str]) -> None:
    """However the host lays it: the C library's own folders are enough, and nobody ran ldconfig."""

    need_root()
    need_compiler()
    root = tmp_path / "host"
    build(root / layout(root).lstrip("/"))
    facts = NvidiaFiles(root).read(version=VERSION)
    mounts = gpu_draft(gpu(0), facts).common.mounts

    answer, mapped = ask(tmp_path, root, mounts)

    assert answer == "4711"
    folders = (f"/usr/lib/{facts.multiarch}", "/usr/lib64")
    assert mapped in {f"{folder}/libcuda.so.1" for folder in folders}
