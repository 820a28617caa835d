"""Fetches from Debian what need not be built: packages installed, or another release's unpacked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from berth.errors import HostError
from tests.cluster import cache


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
    _apt(["update"])
    _apt(["install", "-y", "--no-install-recommends", *missing])


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
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def mirror() -> str:
    """The Debian mirror that the machine itself uses, so that no script names one."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for address in told.split():
        if address.rstrip("/").endswith("/debian"):
            return address
    raise HostError(
        "apt's own sources", "no Debian mirror among them", mend="run this on Debian or add one"
    )


def _apt(arguments: list[str], *, cwd: Path | None = None) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    result = subprocess.run(
        ["apt-get", "-qq", *arguments],
        check=False,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode:
        raise HostError(
            "apt-get", f"ended with {result.returncode}", rule="\n" + result.stdout[-2000:]
        )
