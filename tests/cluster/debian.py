"""Fetches from Debian what need not be built: packages installed, or another release's unpacked."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from berth.errors import HostError
from tests.cluster import cache

_INSTALLER = Path(__file__).parents[2] / "tools" / "apt"


def install(wanted: dict[str, str]) -> None:
    """Install the packages of the files that are missing.

    Args:
        wanted: From a file that must be there to the Debian package that brings it.

    Raises:
        HostError: Something is missing and we are not root, or apt-get failed.
    """
    missing = sorted({package for file, package in wanted.items() if not Path(file).exists()})
    if not missing:
        return
    if os.geteuid() != 0:
        raise HostError(
            "the cluster's parts", f"missing: {', '.join(missing)}", mend="install them as root"
        )
    cache.say(f"installing {', '.join(missing)}")
    _run([str(_INSTALLER), *missing])


def unpack(package: str, *, release: str, only: str = "") -> Path:
    """The folder with the package's files, as that release of Debian has them.

    Nothing is installed: the files of another release only need what they are linked with.

    Args:
        only: The one file that is kept, where the rest is large; below the root.

    Raises:
        HostError: The machine's own apt knows no Debian mirror, or apt-get failed.
    """

    def make(folder: Path) -> None:
        cache.say(f"fetching {package} of Debian {release}")
        download = folder / "apt"
        options = _own_configuration(download, release)
        _apt([*options, "update"])
        _apt([*options, "download", package], cwd=download)
        (archive,) = download.glob("*.deb")
        tree = ["dpkg-deb", "--fsys-tarfile", str(archive)]
        wanted = [f"./{only}"] if only else []
        with subprocess.Popen(tree, stdout=subprocess.PIPE) as reading:
            take = ["tar", "-x", "-C", str(folder), *wanted]
            subprocess.run(take, stdin=reading.stdout, check=True)
        subprocess.run(["rm", "-r", str(download)], check=True)

    name = f"debian-{release}-{package}"
    return cache.entry(f"{name}-{Path(only).name}" if only else name, make)


def upgrade(root: Path, *, release: str) -> Path:
    """The folder with all that apt needs to upgrade a root file system to a release, offline.

    In it lie ``lists`` and ``archives`` as apt keeps them, and ``sources.list``.

    Raises:
        HostError: The machine's own apt knows no Debian mirror, or apt-get failed.
    """

    def make(folder: Path) -> None:
        cache.say(f"fetching an upgrade to Debian {release}")
        options = _own_configuration(folder, release)
        options += ["-o", f"Dir::State::status={root}/var/lib/dpkg/status"]
        _apt([*options, "update"])
        _apt([*options, "-y", "--download-only", "dist-upgrade"])
        (folder / "cache/archives").rename(folder / "archives")
        subprocess.run(["rm", "-r", str(folder / "cache")], check=True)

    return cache.entry(f"upgrade-{root.name}-{release}", make)


def unpack_kernel(*, release: str) -> Path:
    """The folder with the files of that release's newest kernel, not only of what leads to it.

    Raises:
        HostError: As `unpack`.
    """

    def make(folder: Path) -> None:
        with _apt_of(release, folder) as (options, download):
            named = _told("apt-cache", *options, "depends", "--important", "linux-image-amd64")
            package = named.partition("Depends: ")[2].split()[0]
            cache.say(f"fetching {package} of Debian {release}")
            _apt([*options, "download", package], cwd=download)
            _unpack_all(download, folder)

    return cache.entry(f"debian-{release}-kernel", make)


def unpack_with_libraries(name: str, *packages: str, release: str) -> Path:
    """The folder with the files of packages and of all that they depend on, the C library too.

    Args:
        name: Of the folder in the cache.
        packages: What is wanted.
        release: Of Debian.

    Raises:
        HostError: As `unpack`.
    """

    def make(folder: Path) -> None:
        with _apt_of(release, folder) as (options, download):
            cache.say(f"fetching {', '.join(packages)} of Debian {release}")
            # As for a machine on which nothing is installed yet.
            (download / "status").touch()
            bare = (f"Dir::State::status={download}/status", "APT::Install-Recommends=false")
            flags = [part for each in bare for part in ("-o", each)]
            _apt([*options, *flags, "install", "-y", "--download-only", *packages])
            _unpack_all(download / "cache" / "archives", folder)

    return cache.entry(f"debian-{release}-{name}", make)


@contextlib.contextmanager
def _apt_of(release: str, folder: Path) -> Iterator[tuple[list[str], Path]]:
    """Options for apt with that release's lists, and a folder for its files within this one."""
    download = folder / "apt"
    options = _own_configuration(download, release)
    _apt([*options, "update"])
    yield options, download
    shutil.rmtree(download)


def _unpack_all(archives: Path, folder: Path) -> None:
    for archive in archives.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(archive), str(folder)], check=True)


def _own_configuration(folder: Path, release: str) -> list[str]:
    """Options with which apt sees that release alone and leaves the machine's lists untouched."""
    for name in ("lists/partial", "cache/archives/partial", "parts"):
        (folder / name).mkdir(parents=True)
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (folder / "sources.list").write_text(
        f"deb [signed-by={keyring}] {mirror()} {release} main\n", encoding="utf-8"
    )
    settings = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": folder / "parts",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
        # A mirror that stands still for a while is good enough for tests; its signature is checked.
        "Acquire::Check-Valid-Until": "false",
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def mirror() -> str:
    """The Debian mirror that the machine itself uses, so that no script names one.

    Raises:
        HostError: Its apt knows none.
    """
    told = _told("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    for address in told.split():
        if address.rstrip("/").endswith("/debian"):
            return address
    raise HostError(
        "apt's own sources", "no Debian mirror among them", mend="run this on Debian or add one"
    )


def _told(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _apt(arguments: list[str], *, cwd: Path | None = None) -> None:
    _run(["apt-get", "-qq", *arguments], cwd=cwd)


def _run(command: list[str], *, cwd: Path | None = None) -> None:
    result = subprocess.run(
        command,
        check=False,
        cwd=cwd,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode:
        raise HostError(
            Path(command[0]).name,
            f"ended with {result.returncode}",
            rule="\n" + result.stdout[-2000:],
        )
