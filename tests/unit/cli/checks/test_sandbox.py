"""Units of systemd: read as systemd reads them, and held against the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth.cli.checks.machine import Machine
from berth.cli.checks.sandbox import SERVICE, SOCKET, check_sandbox, check_started
from berth.cli.checks.unitfile import is_enabled, read_unit
from berth.config.doors import Door
from berth.config.nic import NicTable
from berth.config.schema import Config, KubeletTable, KubernetesTable, MetricsTable, NodeTable
from tests.unit.cli.checks.tree import bad, plant, told
from tests.unit.nic.machine import group

SHIPPED = Path(__file__).parents[4] / "systemd"
FOLDER = "/usr/lib/systemd/system"
DROPIN = f"/etc/systemd/system/{SERVICE}.d/own.conf"
NICS = NicTable(groups=(group("fast", name=("ens1f0",)),))
OLD = NicTable(groups=(group("old", name=("ens1f0",), door=Door.PLUGIN),))


def machine_of(root: Path, files: dict[str, str] | None = None, **tables: Any) -> Machine:
    """A machine with the package's own units, and more files."""
    units = {f"{FOLDER}/{name}": (SHIPPED / name).read_text() for name in (SERVICE, SOCKET)}
    return Machine(config=Config(**tables), root=plant(root, {**units, **(files or {})}))


def enable(root: Path, name: str, target: str) -> None:
    """Make the link that ``systemctl enable`` makes."""
    folder = root / "etc/systemd/system" / f"{target}.wants"
    folder.mkdir(parents=True)
    (folder / name).symlink_to(f"{FOLDER}/{name}")


def test_unit_with_drop_ins(tmp_path: Path) -> None:
    """Drop-ins go by name over all folders, and an empty value empties a list."""

    files = {
        f"{FOLDER}/a.service": "[Service]\nX=one\nX=two \\\n three\n# X=no\n[Unit]\nX=else\n",
        f"{FOLDER}/a.service.d/20.conf": "[Service]\nX=never\n",
        "/etc/systemd/system/a.service.d/20.conf": "[Service]\nX=\nX=four\n",
        "/run/systemd/system/a.service.d/10.conf": "[Service]\nX=late\n",
    }
    machine = Machine(config=Config(), root=plant(tmp_path, files))
    unit = read_unit(machine, "a.service")
    plant(tmp_path, {"/etc/systemd/system/a.service.d/20.conf": ""})
    without = read_unit(machine, "a.service")

    assert unit is not None
    assert unit.values("Service", "X") == ("four",)
    assert without is not None
    assert without.words("Service", "X") == ("one", "two", "three", "late")
    assert without.value("Unit", "X") == "else"
    assert read_unit(machine, "b.service") is None


def test_units_that_are_not_installed(tmp_path: Path) -> None:
    """A daemon that somebody starts by hand has no units to check."""

    machine = Machine(config=Config(), root=tmp_path)

    assert [*check_started(machine), *check_sandbox(machine)] == []


def test_units_that_are_started(tmp_path: Path) -> None:
    """A unit is enabled by the link that its target has."""

    enable(tmp_path, SERVICE, "multi-user.target")
    enable(tmp_path, SOCKET, "sockets.target")
    machine = machine_of(tmp_path)

    assert is_enabled(machine, SERVICE)
    assert told(check_started(machine)) == [
        ("ok", "berthd.service is started at boot"),
        ("ok", "berthd.socket is started at boot"),
    ]


def test_units_that_are_not_enabled(tmp_path: Path) -> None:
    """What is lost, and the command."""

    lines = list(check_started(machine_of(tmp_path)))

    assert told(lines) == [
        ("warning", "berthd.service is not enabled: after the next boot nobody starts berthd"),
        (
            "warning",
            (
                "berthd.socket is not enabled: after the next boot kubelet finds no socket while "
                "berthd is away"
            ),
        ),
    ]
    assert lines[0].mend == "systemctl enable --now berthd.service"


def test_units_that_are_masked(tmp_path: Path) -> None:
    """A masked service is a fault: nobody can start it."""

    machine = machine_of(tmp_path)
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/system" / SERVICE).symlink_to("/dev/null")
    first, _ = check_started(machine)

    assert first.level.value == "fault"
    assert first.text == (
        f"berthd.service is masked by /etc/systemd/system/{SERVICE}: nobody starts berthd"
    )
    assert told(check_sandbox(machine)) == []


@pytest.mark.parametrize("nic", [NICS, NicTable()])
def test_sandbox_as_it_is_shipped(tmp_path: Path, nic: NicTable) -> None:
    """The package's own unit fits the defaults."""

    assert told(check_sandbox(machine_of(tmp_path, nic=nic))) == [
        ("ok", "the sandbox of berthd.service lets through what these settings need")
    ]


@pytest.mark.parametrize(
    ("tables", "path"),
    [
        ({"kubelet": KubeletTable(root=Path("/data/kubelet"))}, "/data/kubelet"),
        ({"node": NodeTable(state_dir=Path("/srv/berth"))}, "/srv/berth"),
        ({"metrics": MetricsTable(textfile=Path("/srv/prom/berth.prom"))}, "/srv/prom"),
        ({"nic": OLD}, "/run/k8s.cni.cncf.io/devinfo/dp"),
    ],
)
def test_sandbox_that_lets_something_not_be_written(
    tmp_path: Path, tables: dict[str, Any], path: str
) -> None:
    """The folder is named, and the drop-in that opens it; with that all is well."""

    machine = machine_of(tmp_path, **tables)
    ((text, mend),) = bad(check_sandbox(machine))

    assert text.startswith(f"berthd.service may not write {path}: ReadWritePaths= of ")
    assert f"[Service] ReadWritePaths={path};" in mend
    plant(tmp_path, {DROPIN: f"[Service]\nReadWritePaths=-{path}\n"})
    assert bad(check_sandbox(machine)) == []


def test_sandbox_where_the_innermost_line_counts(tmp_path: Path) -> None:
    """A folder may be shut within one that is open."""

    machine = machine_of(
        tmp_path, {DROPIN: "[Service]\nReadOnlyPaths=/sys/devices/pci\n"}, nic=NICS
    )
    shut = machine_of(
        tmp_path / "b", {DROPIN: "[Service]\nReadOnlyPaths=/run/cdi/\nReadWritePaths=\n"}, nic=NICS
    )

    assert bad(check_sandbox(machine)) == []
    ((text, _),) = bad(check_sandbox(shut))
    assert "/var/lib/kubelet and /run/cdi and /run/berth-nics" in text
    assert "/var/lib/berth" not in text


def test_sandbox_that_is_none(tmp_path: Path) -> None:
    """Without that protection everything may be written."""

    files = {DROPIN: "[Service]\nProtectSystem=no\nReadWritePaths=\n"}

    assert bad(check_sandbox(machine_of(tmp_path, files, nic=NICS))) == []


def test_sandbox_that_hides_a_file(tmp_path: Path) -> None:
    """Credentials in somebody's home are not seen."""

    table = KubernetesTable(kubeconfig=Path("/root/.kube/config"))
    ((text, mend),) = bad(check_sandbox(machine_of(tmp_path, kubernetes=table)))

    assert text == "berthd.service does not see /root/.kube/config: ProtectHome= is yes"
    assert "put it elsewhere" in mend


def test_sandbox_that_hides_pods(tmp_path: Path) -> None:
    """Mounts of the runtime must reach the daemon."""

    files = {DROPIN: "[Service]\nMountFlags=private\n"}
    ((text, _),) = bad(check_sandbox(machine_of(tmp_path, files)))

    assert "sees no pod's network namespace" in text
