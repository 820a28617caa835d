"""The package as a file: the same bytes each time, and what is in it."""

from __future__ import annotations

import email.utils
import hashlib
import itertools
import re
import subprocess
from pathlib import Path

import pytest

import berth
from tools.vendor import LOCK, MACHINES, PYTHONS

ROOT = Path(__file__).parents[2]
SIZE_LIMIT = 16_000_000
"""Of the package, in bytes: 14.5 million when this was written."""

CONFFILE = "ba313b5217e701468c73c16ea78a0c61d37ab4a81eca8b699e7d4e1ffb30e567"
# An administrator's edit and a change of ours together stop an unattended upgrade half way.


def output(*command: str | Path) -> str:
    """What a command tells."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def field(package: Path, name: str) -> str:
    """A field of the package's description."""
    return output("dpkg-deb", "--field", package, name)


def newest(library: str, headers: str) -> tuple[int, ...]:
    """The highest version of a library's symbols that a module asks for."""
    found = re.findall(rf"\b{library}_([\d.]+)", headers)
    return max((tuple(map(int, each.split("."))) for each in found), default=())


def files(tree: Path) -> dict[str, Path]:
    """Every file of the package, by its path on a machine."""
    return {f"/{each.relative_to(tree)}": each for each in tree.rglob("*") if each.is_file()}


def changelog() -> list[tuple[str, float]]:
    """Version and time of each release, newest first."""
    text = (ROOT / "packaging/deb/debian/changelog").read_text(encoding="utf-8")
    versions = re.findall(r"^berthd \((.+)\)", text, re.MULTILINE)
    dates = re.findall(r"^ -- .*>  (.+)$", text, re.MULTILINE)
    times = [email.utils.parsedate_to_datetime(each).timestamp() for each in dates]
    return list(zip(versions, times, strict=True))


def test_package_is_the_same_however_it_is_built(package: Path, twin: Path) -> None:
    """Time, time zone, language, umask, folder and number of threads leave no trace in it.

    The second time nothing can be fetched.
    """

    assert package.name == twin.name
    assert package.read_bytes() == twin.read_bytes()


def test_lintian_finds_nothing(package: Path) -> None:
    """Neither error nor warning; each override says why it is there."""

    done = subprocess.run(
        ["lintian", "--fail-on", "error,warning", package],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_every_lintian_override_says_why() -> None:
    """A comment stands before each."""
    overrides = ROOT / "packaging/deb/debian/berthd.lintian-overrides"
    lines = overrides.read_text(encoding="utf-8").splitlines()

    assert lines[0].startswith("# ")
    assert not any(line == "" for line in lines)


def test_version_is_that_of_the_program(package: Path) -> None:
    """The changelog's newest entry is of this release."""

    assert field(package, "Version") == berth.__version__ == changelog()[0][0]


def test_each_release_is_later_and_higher_than_the_one_before() -> None:
    """Files get the time of their release, so two releases of one time could not be told apart."""
    releases = changelog()

    for newer, older in itertools.pairwise(releases):
        assert newer[1] > older[1]
        compared = ["dpkg", "--compare-versions", newer[0], "gt", older[0]]
        assert subprocess.run(compared, check=False).returncode == 0


def test_conffile_is_that_of_every_release(tree: Path, scripts: Path) -> None:
    """There is one, and it never changes."""
    conffiles = (scripts / "conffiles").read_text(encoding="utf-8").split()

    assert conffiles == ["/etc/berth/agent.toml"]
    content = (tree / "etc/berth/agent.toml").read_bytes()
    assert hashlib.sha256(content).hexdigest() == CONFFILE


def test_dependencies_are_the_pythons_that_the_tree_serves(package: Path) -> None:
    """From the first of them to the last; and no NVIDIA, containerd or kubelet."""
    first, last = PYTHONS[0], PYTHONS[-1].split(".")
    beyond = f"{last[0]}.{int(last[1]) + 1}"

    assert sorted(field(package, "Depends").split(", ")) == sorted(
        [
            "libc6 (>= 2.17)",
            "libstdc++6 (>= 4.8)",
            "libudev1",
            f"python3 (>= {first})",
            f"python3 (<< {beyond})",
        ]
    )


def test_native_modules_need_what_the_package_depends_on(tree: Path) -> None:
    """No libraries but libc and libstdc++, and none newer than named; each Python has its module.

    GLIBCXX_3.4.19 came with GCC 4.8.3.
    """
    modules = sorted(tree.rglob("*.so"))
    of_libc = {"libc.so.6", "libm.so.6", "libpthread.so.0", "librt.so.1"}
    loaders = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

    for module in modules:
        told = output("objdump", "--private-headers", module)
        needed = set(re.findall(r"NEEDED +(\S+)", told))
        assert needed <= {*of_libc, *loaders, "libstdc++.so.6"}
        assert newest("GLIBC", told) <= (2, 17)
        assert newest("GLIBCXX", told) <= (3, 4, 19)
    ours = {f"cygrpc.cpython-{each.replace('.', '')}" for each in PYTHONS}
    names = {
        each.name.removesuffix(".so").partition("-x86")[0].partition("-aarch")[0]
        for each in modules
    }
    assert names == {*ours, "_message.abi3"}


def test_nothing_is_in_it_that_a_node_has_no_use_for(tree: Path) -> None:
    """No tests and their data, no stubs, no bytecode, no example, no compiler's input of others."""
    paths = files(tree)
    unwanted = re.compile(
        r"/(_?tests?|testdata|__pycache__)/|\.(pyi|pyc|cc|c|h)$|/py\.typed$|vendor/example\.py$"
    )
    # The rehearsal's own stand-in for NVIDIA's library is built where it is played.
    own = "/usr/lib/berthd/berth/rehearsal/nvml/"

    assert [each for each in paths if unwanted.search(each) and not each.startswith(own)] == []


def test_only_programs_are_executable(tree: Path) -> None:
    """Whatever bits the wheels had."""
    executable = {path for path, file in files(tree).items() if file.stat().st_mode & 0o111}

    assert executable == {"/usr/sbin/berthd", "/usr/bin/berth"}


def test_files_lie_where_the_system_looks_for_them(tree: Path) -> None:
    """Units, rules and pages; nothing else is outside of our own folders."""
    outside = {
        path
        for path in files(tree)
        if not path.startswith(("/usr/lib/berthd/", "/usr/share/doc/berthd/"))
    }

    assert outside == {
        "/etc/berth/agent.toml",
        "/usr/bin/berth",
        "/usr/lib/systemd/network/05-berth.network",
        "/usr/lib/systemd/system/berthd.service",
        "/usr/lib/systemd/system/berthd.socket",
        "/usr/lib/tmpfiles.d/berthd.conf",
        "/usr/lib/udev/rules.d/79-berth.rules",
        "/usr/sbin/berthd",
        "/usr/share/bash-completion/completions/berth",
        "/usr/share/lintian/overrides/berthd",
        "/usr/share/man/man1/berth.1.gz",
        "/usr/share/man/man5/agent.toml.5.gz",
        "/usr/share/man/man8/berthd.8.gz",
    }


def test_every_key_is_told_of_beside_it(tree: Path) -> None:
    """The file with every key lies where the conffile says, as it is in the repository."""
    told = tree / "usr/share/doc/berthd/agent.toml"

    assert str(Path("/") / told.relative_to(tree)) in (tree / "etc/berth/agent.toml").read_text()
    assert told.read_bytes() == (ROOT / "configs/agent.toml").read_bytes()


def test_every_project_has_its_licence(tree: Path) -> None:
    """Its own text; pynvml has it in the module."""
    projects = set(re.findall(r"^([a-z0-9-]+)==", LOCK.read_text(encoding="utf-8"), re.MULTILINE))
    folder = tree / "usr/share/doc/berthd/licences"

    assert {each.name for each in folder.iterdir()} == projects - {"nvidia-ml-py"}
    assert all(any(each.iterdir()) for each in folder.iterdir())


def test_package_stays_small(package: Path) -> None:
    """As large as its compression was measured to make it, with some room."""

    assert package.stat().st_size < SIZE_LIMIT


@pytest.mark.parametrize("architecture", MACHINES)
def test_control_file_names_what_is_built(architecture: str) -> None:
    """`ARCHITECTURE=` takes each of them."""
    control = (ROOT / "packaging/deb/debian/control").read_text(encoding="utf-8")

    assert architecture in re.findall(r"^Architecture: (.+)$", control, re.MULTILINE)[0].split()
