"""The package as it is built, unpacked, and laid over this machine without being installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.package)


def _build(folder: Path, umask: int, **changed: str) -> Path:
    environ = {**os.environ, **changed, "BUILD": str(folder), "DIST": str(folder)}
    environ["WHEELS"] = "build/wheels"
    subprocess.run(["tools/deb"], cwd=ROOT, check=True, env=environ, umask=umask)
    return next(folder.glob("*.deb"))


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package."""
    return _build(tmp_path_factory.mktemp("build"), 0o022)


@pytest.fixture(scope="session")
def twin(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, as a machine builds it that is set up in another way."""
    ways = {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "DPKG_DEB_THREADS_MAX": "4"}
    # Nothing is to be fetched any more: an index that leads nowhere must not matter.
    return _build(tmp_path_factory.mktemp("twin"), 0o077, **ways, PIP_INDEX_URL="http://[::1]:1")


@pytest.fixture(scope="session")
def tree(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its files."""
    folder = tmp_path_factory.mktemp("tree")
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return folder


@pytest.fixture(scope="session")
def scripts(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What tells dpkg of it: its maintainer scripts among them."""
    folder = tmp_path_factory.mktemp("control")
    subprocess.run(["dpkg-deb", "--control", package, folder], check=True)
    return folder


class Laid:
    """This machine as it would look with the package on it, for one command at a time.

    Args:
        tree: The package's files.
        above: A folder of more files, by their whole paths; they lie on top.
    """

    def __init__(self, tree: Path, above: Path) -> None:
        self.above = above
        self._layers = (above, tree)

    def write(self, path: str, text: str) -> None:
        """Add a file."""
        file = self.above / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def run(self, *command: str | Path, **changed: str) -> subprocess.CompletedProcess[str]:
        """Run a command there, with these variables besides; gives how it ended."""
        steps = []
        for top in ("usr", "etc"):
            layers = [str(each / top) for each in self._layers if (each / top).is_dir()]
            lower = ":".join([*layers, f"/{top}"])
            steps.append(f"mount -t overlay overlay -o lowerdir={lower} /{top}")
        script = " && ".join([*steps, 'exec "$@"'])
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *command],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.above,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **changed},
        )


@pytest.fixture
def laid(tree: Path, tmp_path: Path) -> Laid:
    """The machine with the package laid over it."""
    if os.geteuid() != 0:
        pytest.skip("laying the package over this machine needs root")
    above = tmp_path / "above"
    above.mkdir()
    return Laid(tree, above)


def pythons() -> Sequence[Path]:
    """One of each version from 3.10 to 3.14 that this machine has; Debian's own first."""
    found: dict[str, Path] = {}
    for candidate in _candidates():
        asked = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        if told in {f"3.{minor}" for minor in range(10, 15)}:
            found.setdefault(told, candidate)
    return tuple(found.values())


def _candidates() -> Iterator[Path]:
    yield Path("/usr/bin/python3")
    for minor in range(10, 15):
        if path := shutil.which(f"python3.{minor}"):
            yield Path(path)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob("versions/3.*/bin/python3"))
