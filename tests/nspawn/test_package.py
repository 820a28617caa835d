"""The package as dpkg handles it on a node with systemd: what stays, what goes, what restarts.

Source: packaging.md §3.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import berth
from berth.cdi.document import CdiDevice, render
from berth.model.edits import Edits
from berth.node.records.document import to_bytes
from berth.node.records.record import SCHEMA
from tests.cluster import debian
from tests.nspawn.bed import Bed
from tests.nspawn.node import CONFIG, SERVICE, SOCKET, SOCKETS, Node
from tests.nspawn.releases import MODULES, Releases
from tests.nspawn.rootfs import rootfs
from tests.unit.node.claimrecords import of_claim

# As long as this one, see `Releases.make`.
NEXT, BROKEN, FAILING = (berth.__version__[:-1] + digit for digit in "789")
DPKG_LIMIT_S = 900.0
"""How long dpkg may take, on a machine that is busy with ten other things."""
LINKS = (
    "/etc/systemd/system/multi-user.target.wants/berthd.service",
    "/etc/systemd/system/sockets.target.wants/berthd.socket",
)


@pytest.fixture(scope="session")
def releases(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Releases:
    """Where other releases come from."""
    return Releases(package, tmp_path_factory.mktemp("releases"))


@pytest.fixture(scope="session")
def following(releases: Releases) -> Path:
    """The release after this one."""
    return releases.make(NEXT)


@pytest.fixture(scope="session")
def broken(releases: Releases) -> Path:
    """A release that cannot run."""
    return releases.make(BROKEN, {f"{MODULES}/nic/plan.py": lambda _: "import nowhere\n"})


@pytest.fixture
def fresh(bare: Node, package: Path) -> Node:
    """A node of the test's own with the package installed."""
    bare.provision(package)
    return bare


def apt(node: Node, *arguments: str) -> str:
    """Run apt-get as an unattended upgrade does; gives all that it said."""
    options = ["-o", "Dpkg::Use-Pty=0", "-y", "--no-install-recommends", "--allow-downgrades"]
    command = ["apt-get", *options, *arguments]
    done = node.attempt("sh", "-c", 'exec "$@" 2>&1', "sh", *command, limit_s=DPKG_LIMIT_S)
    assert done.returncode == 0, done.stdout
    return done.stdout


def install(node: Node, package: Path) -> str:
    """Install a package file, whatever is there; gives all that was said."""
    inside = f"/root/{package.name}"
    subprocess.run(["cp", package, node.path(inside)], check=True)
    return apt(node, "install", inside)


def told(output: str) -> list[str]:
    """The lines that the package's own scripts said."""
    return [line for line in output.splitlines() if line.startswith("berthd: ")]


def bytecode(node: Node) -> int:
    """How many compiled modules there are."""
    return len(list(node.path("/usr/lib/berthd").rglob("*.pyc")))


def held(node: Node) -> tuple[object, ...]:
    """What changes when kubelet's sockets are made anew."""
    inodes = [node.path(path).stat().st_ino for path in SOCKETS]
    return (node.show("ActiveEnterTimestampMonotonic", SOCKET), *inodes)


def version(node: Node) -> str:
    """Of the program that would run now."""
    return node.run("berthd", "--version").split()[1]


def test_upgrade_restarts_the_service_and_leaves_the_sockets(fresh: Node, following: Path) -> None:
    """Kubelet's sockets are the same, an edited configuration stands, and the new code runs.

    Its files have the times and sizes of the old ones, so old bytecode would pass for theirs.
    """
    fresh.configure("# edited\n[nri]\ntimeout_s = 1.25\n")
    pid, sockets = fresh.pid, held(fresh)

    said = install(fresh, following)

    assert told(said) == []
    fresh.wait_other(pid)
    assert held(fresh) == sockets
    assert version(fresh) == NEXT
    assert fresh.path(CONFIG).read_text() == "# edited\n[nri]\ntimeout_s = 1.25\n"
    assert f"version={NEXT}" in fresh.journal()


def test_every_module_is_compiled_and_nothing_else(fresh: Node) -> None:
    """No start is slower than it must be; and no bytecode stays when the package goes."""
    modules = list(fresh.path("/usr/lib/berthd").rglob("*.py"))

    assert bytecode(fresh) == len(modules)

    apt(fresh, "remove", "berthd")

    assert not fresh.path("/usr/lib/berthd").exists()


def test_broken_release_leaves_the_process_of_before(
    fresh: Node, broken: Path, following: Path
) -> None:
    """One line says why, dpkg goes on, and the next release that runs takes over."""
    pid = fresh.pid

    said = install(fresh, broken)

    assert fresh.pid == pid
    assert fresh.is_active()
    (line,) = told(said)
    assert "not restarted" in line
    assert "No module named 'nowhere'" in line
    assert fresh.run("dpkg-query", "--show", "--showformat=${Status}", "berthd") == (
        "install ok installed"
    )

    said = install(fresh, following)

    assert told(said) == []
    fresh.wait_other(pid)


def test_release_that_fails_only_when_it_runs_is_told(fresh: Node, releases: Releases) -> None:
    """No test beforehand sees everything; dpkg goes on, but not without a word."""
    start = {
        f"{MODULES}/daemon/start.py": lambda text: text.replace("make_folder(state_dir)", "1 / 0")
    }
    failing = releases.make(FAILING, start)

    (line,) = told(install(fresh, failing))

    assert "it did not restart: journalctl --unit=berthd tells why" in line
    assert "ZeroDivisionError" in fresh.journal()


def test_configuration_that_the_next_release_refuses_leaves_the_process_of_before(
    fresh: Node, following: Path
) -> None:
    """The line names the fault."""
    pid = fresh.pid
    fresh.configure("[nri]\ntimeout_s = -3\n")

    (line,) = told(install(fresh, following))

    assert f"{CONFIG}:2" in line
    assert fresh.pid == pid


@pytest.mark.parametrize("kind", ["stopped", "disabled", "masked"])
def test_service_that_an_administrator_put_away_stays_so(
    fresh: Node, following: Path, kind: str
) -> None:
    """An upgrade neither starts it nor links it in again."""
    fresh.run("systemctl", "stop", SOCKET, SERVICE)
    if kind != "stopped":
        verb = "disable" if kind == "disabled" else "mask"
        fresh.run("systemctl", verb, SOCKET, SERVICE)
    wanted = {"stopped": "enabled"}.get(kind, kind)

    install(fresh, following)

    for unit in (SERVICE, SOCKET):
        assert not fresh.is_active(unit)
        assert fresh.attempt("systemctl", "is-enabled", unit).stdout.strip() == wanted


def test_removal_leaves_state_and_configuration_and_an_installation_takes_them_up(
    fresh: Node, package: Path
) -> None:
    """The sockets go, or kubelet would go on sending pods here; afterwards all is as before."""
    fresh.configure("# kept\n")
    fresh.write("/var/lib/berth/claims/one.json", to_bytes(of_claim("one")).decode())

    apt(fresh, "remove", "berthd")

    assert not any(fresh.path(path).exists() for path in SOCKETS)
    assert not fresh.path("/usr/sbin/berthd").exists()
    assert fresh.path(CONFIG).read_text() == "# kept\n"
    assert fresh.path("/var/lib/berth/claims/one.json").exists()

    assert told(install(fresh, package)) == []

    assert fresh.is_active()
    assert fresh.is_active(SOCKET)
    assert fresh.path(CONFIG).read_text() == "# kept\n"


def test_purge_leaves_nothing_but_kubelets_folders(fresh: Node) -> None:
    """Also no enablement, and no mark on a NIC."""
    paths = fresh.run("dpkg", "--listfiles", "berthd").splitlines()
    ours = [path for path in paths if "berth" in path]
    fresh.write("/var/lib/berth/claims/one.json", to_bytes(of_claim("one")).decode())
    fresh.write("/run/berth-nics/0000:00:00.0", "")
    assert all(fresh.path(link).is_symlink() for link in LINKS)

    apt(fresh, "purge", "berthd")

    gone = [
        *ours,
        *LINKS,
        *SOCKETS,
        "/var/lib/berth",
        "/etc/berth",
        "/run/berth-nics",
        "/run/berth",
    ]
    assert [
        path for path in gone if fresh.path(path).exists() or fresh.path(path).is_symlink()
    ] == []
    assert fresh.path("/var/lib/kubelet").is_dir()
    assert fresh.attempt("systemctl", "cat", SERVICE).returncode != 0
    assert fresh.attempt("systemctl", "list-units", "--failed", "--plain", "-q").stdout == ""


CLAIM = "0b0e5d5c-0000-4000-8000-000000000000"
ONE_NODE = """
[[generic]]
name = "null"
match = { path = "/dev/full" }
"""


def test_purge_leaves_what_tells_an_installation_of_devices_that_pods_have(
    fresh: Node, package: Path
) -> None:
    """Their containers are started by CDI files too, so these last until kubelet or a boot ends it.

    The records are gone: nobody else is given the device for that.
    """
    edits = Edits(env=(f"BERTH_CLAIM_{CLAIM.replace('-', '')}=null-full",))
    given = CdiDevice(name="null-full", edits=edits)
    file = f"/run/cdi/berth.dev-generic_{CLAIM}.json"
    fresh.write(file, render("berth.dev/generic", (given,), Edits()).decode())

    apt(fresh, "purge", "berthd")

    assert fresh.path(file).exists()

    install(fresh, package)
    fresh.configure(ONE_NODE)
    fresh.run("systemctl", "restart", SERVICE)

    said = fresh.wait_journal("record lost, its devices count as held")
    assert CLAIM in said
    assert "null-full" in [each["device"] for each in fresh.ask("holds")["holds"]]


def test_downgrade_starts(fresh: Node, following: Path, package: Path) -> None:
    """The release of before takes the state of this one over."""
    install(fresh, following)
    pid = fresh.pid

    assert told(install(fresh, package)) == []

    fresh.wait_other(pid)
    assert version(fresh) == berth.__version__


def test_downgrade_that_could_not_read_the_records_leaves_the_process_of_before(
    fresh: Node, following: Path, package: Path
) -> None:
    """They are refused by their number, and nothing is undone."""
    install(fresh, following)
    pid = fresh.pid
    record = json.loads(to_bytes(of_claim("one")))
    fresh.write("/var/lib/berth/claims/one.json", json.dumps({**record, "schema": SCHEMA + 1}))

    (line,) = told(install(fresh, package))

    assert f"has schema {SCHEMA + 1}" in line
    assert fresh.pid == pid


def test_another_python_compiles_anew_and_restarts(fresh: Node) -> None:
    """As its package does when it is upgraded: it triggers us."""
    pid, sockets, compiled = fresh.pid, held(fresh), bytecode(fresh)
    (one, *_) = fresh.path("/usr/lib/berthd/berth").rglob("*.pyc")
    one.unlink()

    fresh.run("dpkg-trigger", "--no-await", "--by-package=python3-minimal", "/usr/bin/python3")
    fresh.run("dpkg", "--triggers-only", "--pending", limit_s=DPKG_LIMIT_S)

    fresh.wait_other(pid)
    assert held(fresh) == sockets
    assert bytecode(fresh) == compiled


@pytest.mark.slow
def test_upgrade_of_debian_leaves_the_service_running(bed: Bed, package: Path) -> None:
    """From 12 to 13 with another Python: restarted once its library is there, sockets the same."""
    offline = debian.upgrade(rootfs("12"), release="trixie")
    node = bed.boot("12")
    node.provision(package)
    pid, sockets = node.pid, held(node)
    before = node.run("python3", "-c", "import sys; print(sys.version_info[:2])")
    for part, place in (("lists", "/var/lib/apt/lists"), ("archives", "/var/cache/apt/archives")):
        subprocess.run(["cp", "-rT", offline / part, node.path(place)], check=True)
    sources = (offline / "sources.list").read_text(encoding="utf-8")
    node.write("/etc/apt/sources.list", sources)

    said = apt(node, "dist-upgrade", "--no-download")

    assert told(said) == []
    assert node.run("python3", "-c", "import sys; print(sys.version_info[:2])") != before
    node.wait_other(pid)
    assert held(node) == sockets
    library = node.path(f"/proc/{node.pid}/maps").read_text(encoding="utf-8")
    assert "(deleted)" not in library
    assert bytecode(node) == len(list(node.path("/usr/lib/berthd").rglob("*.py")))
    bed.end(node)
