"""Case 16: NRI and CDI of each runtime, switched on, off, or not said."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from berth.cli.checks.machine import Machine
from berth.cli.checks.nri import ANNOTATION, check_runtime, check_socket
from berth.cli.checks.runtime import dotted, seconds
from berth.config.doors import Door
from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.config.schema import Config, NriTable
from berth.model.device import NicMode
from tests.unit.cli.checks.tree import bad, plant, told
from tests.unit.nic.machine import group

FILE = "/etc/containerd/config.toml"
NRI = '[plugins."io.containerd.nri.v1.nri"]'
CRI_1 = '[plugins."io.containerd.grpc.v1.cri"]'
CRI_2 = '[plugins."io.containerd.cri.v1.runtime"]'
V1 = "containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6"
V2 = "containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4"
UNASKED = "is off: no pod can ask to wait for berthd"

MOVED = NicTable(groups=(group("fast", name=("ens1f0",)),))
"""NICs that need hooks of the runtime."""


def machine_with(root: Path, files: dict[str, str], **facts: Any) -> Machine:
    """A machine with the files."""
    return Machine(config=Config(nic=MOVED), root=plant(root, files), **facts)


def test_socket_by_the_daemons_word() -> None:
    """A daemon that runs knows best."""

    nri = {"synchronized": True, "runtime": "containerd 2.4.2", "reason": "", "socket": "/s"}
    up = Machine(config=Config(nic=MOVED), status={"nri": nri})
    down = Machine(
        config=Config(nic=MOVED), status={"nri": {**nri, "synchronized": False, "reason": "x"}}
    )

    assert told(check_socket(up)) == [("ok", "connected: containerd 2.4.2 at /s")]
    assert told(check_socket(down)) == [("fault", "the daemon is not connected: x")]


def test_socket_when_nothing_is_there(tmp_path: Path) -> None:
    """No socket is a fault that says what it means."""

    (line,) = check_socket(Machine(config=Config(nic=MOVED), root=tmp_path))

    assert (line.level.value, line.text) == ("fault", "/var/run/nri/nri.sock: there is no socket")
    assert line.mend == "the runtime must be up, with NRI switched on"


@pytest.mark.parametrize(
    "groups",
    [
        (),
        (group("vm", name=("ens1f0",), mode=NicMode.VFIO),),
        (group("old", name=("ens1f0",), door=Door.PLUGIN),),
    ],
)
def test_socket_when_nobody_needs_it(tmp_path: Path, groups: tuple[NicGroup, ...]) -> None:
    """GPUs, device nodes, and NICs that are bound or that a CNI plugin moves need no hook."""

    config = Config(nic=NicTable(groups=groups))
    (line,) = check_socket(Machine(config=config, root=tmp_path))

    assert (line.level.value, line.mend) == ("note", "")
    assert line.text.endswith("; no device that is configured needs NRI")


@pytest.mark.parametrize(
    ("kind", "told_"),
    [
        ("listens", ("ok", "the runtime listens at /n.sock")),
        ("refuses", ("fault", "/n.sock: the socket refuses connections")),
        ("file", ("fault", "/n.sock: there is something that is no socket")),
    ],
)
def test_socket_by_a_try(tmp_path: Path, kind: str, told_: tuple[str, str]) -> None:
    """Without a daemon the socket is tried."""

    config = Config(nic=MOVED, nri=NriTable(socket=Path("/n.sock")))
    with socket.socket(socket.AF_UNIX) as found:
        if kind == "file":
            (tmp_path / "n.sock").write_text("")
        else:
            found.bind(str(tmp_path / "n.sock"))
        if kind == "listens":
            found.listen()

        assert told(check_socket(Machine(config=config, root=tmp_path))) == [told_]


@pytest.mark.parametrize(
    ("text", "version", "nri", "cdi"),
    [
        pytest.param("version = 2\n", V1, False, False, id="1.7 says nothing"),
        pytest.param("version = 2\n", V2, True, True, id="2.x reads version 2"),
        pytest.param("version = 2\n", "", None, None, id="version 2 of who knows what"),
        pytest.param("version = 3\n", "", True, True, id="version 3"),
        pytest.param("version = 4\n", "", True, True, id="version 4"),
        pytest.param("", V1, False, False, id="empty"),
        pytest.param(
            f"version = 2\n{NRI}\ndisable = false\n{CRI_1}\nenable_cdi = true\n",
            V1,
            True,
            True,
            id="1.7 switched on",
        ),
        pytest.param(
            f"version = 3\n{NRI}\ndisable = true\n{CRI_2}\nenable_cdi = false\n",
            V2,
            False,
            False,
            id="2.x switched off",
        ),
        pytest.param(
            f'version = 3\ndisabled_plugins = ["io.containerd.nri.v1.nri"]\n{NRI}\n',
            V2,
            False,
            True,
            id="not loaded at all",
        ),
    ],
)
def test_containerd_in_each_version(
    tmp_path: Path, text: str, version: str, nri: bool | None, cdi: bool | None
) -> None:
    """What a key says, or its default in that version; what is not known is a note."""

    machine = machine_with(tmp_path, {FILE: text}, runtime_version=version)
    lines = list(check_runtime(machine))
    levels = {
        topic: {line.level.value for line in lines if line.topic == topic}
        for topic in ("NRI", "CDI")
    }

    assert levels["NRI"] == {True: set(), False: {"fault"}, None: {"note"}}[nri]
    assert levels["CDI"] == {True: {"ok"}, False: {"fault"}, None: {"note"}}[cdi]


def test_containerd_when_all_is_off(tmp_path: Path) -> None:
    """File and key are named, with the line to write and the command to run."""

    machine = machine_with(tmp_path, {FILE: "version = 2\n"}, runtime_version=V1)

    assert bad(check_runtime(machine)) == [
        (
            f"{FILE}: {NRI} disable is not written, and it is off by default",
            "write disable = false; systemctl restart containerd",
        ),
        (
            (
                f"{FILE}: {CRI_1} enable_cdi is not written, and off by default: "
                "containers start without the devices of [[nic.group]], [gpu]"
            ),
            "write enable_cdi = true; systemctl restart containerd",
        ),
    ]


def test_containerd_when_a_file_that_it_imports_says_so(tmp_path: Path) -> None:
    """The last file that says it counts, and is the one that is named."""

    files = {
        FILE: f'version = 3\nimports = ["conf.d/*.toml", "/etc/x/none.toml"]\n'
        f"{NRI}\ndisable = false\n",
        "/etc/containerd/conf.d/10.toml": f"version = 3\n{NRI}\ndisable = false\n",
        "/etc/containerd/conf.d/20.toml": f"version = 3\n{NRI}\ndisable = true\n",
    }

    assert bad(check_runtime(machine_with(tmp_path, files))) == [
        (
            f"/etc/containerd/conf.d/20.toml: {NRI} disable says that it is off",
            "write disable = false; systemctl restart containerd",
        )
    ]


def test_containerd_when_its_file_is_another_programs(tmp_path: Path) -> None:
    """Where the file is written anew at each start, its template is named."""

    path = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
    files = {path: f"version = 3\n{NRI}\ndisable = true\n"}
    ((_, mend),) = bad(check_runtime(machine_with(tmp_path, files)))

    assert "config-v3.toml.tmpl beside it" in mend


def test_containerd_when_it_is_on_all_the_same(tmp_path: Path) -> None:
    """A daemon that is connected contradicts the file: it will hold when the runtime restarts."""

    status = {"nri": {"synchronized": True, "runtime": "r", "reason": "", "socket": "/s"}}
    files = {FILE: f"version = 3\n{NRI}\ndisable = true\n"}
    line = next(iter(check_runtime(machine_with(tmp_path, files, status=status))))

    assert line.level.value == "warning"
    assert line.text.endswith("it is on now, and not any more when the runtime restarts")


@pytest.mark.parametrize(
    ("line", "found", "mend"),
    [
        (
            f"{NRI}\ndisable_connections = true",
            "disable_connections says that it is off",
            "drop that line",
        ),
        (
            f'{NRI}\nsocket_path = "/run/x.sock"',
            "socket_path is /run/x.sock, [nri] socket is /var/run/nri/nri.sock",
            'write [nri] socket = "/run/x.sock"',
        ),
        (
            f'{CRI_2}\ncdi_spec_dirs = ["/etc/cdi"]',
            "cdi_spec_dirs lacks /var/run/cdi",
            'add "/var/run/cdi"',
        ),
    ],
)
def test_containerd_when_one_thing_is_wrong(
    tmp_path: Path, line: str, found: str, mend: str
) -> None:
    """Each thing that keeps devices from pods is a fault of its own."""

    files = {FILE: f"version = 3\n{line}\n", "/etc/cdi/": "", "/var/run/cdi/": ""}
    ((text, words),) = bad(check_runtime(machine_with(tmp_path, files)))

    assert found in text
    assert mend in words


def test_containerd_when_its_folder_is_ours_by_another_name(tmp_path: Path) -> None:
    """``/run/cdi`` is ``/var/run/cdi`` where ``/var/run`` is a link."""

    files = {FILE: f'version = 3\n{CRI_2}\ncdi_spec_dirs = ["/run/cdi"]\n', "/run/cdi/": ""}
    machine = machine_with(tmp_path, files)
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to(tmp_path / "run")

    assert told(check_runtime(machine)) == [("ok", "containerd reads /var/run/cdi")]


@pytest.mark.parametrize(("given", "warned"), [("2s", False), ("10s", False), ("1s", True)])
def test_containerd_when_it_waits_too_little(tmp_path: Path, given: str, warned: bool) -> None:
    """A runtime that waits less than a hook may take is warned of, with the numbers."""

    files = {FILE: f'version = 3\n{NRI}\nplugin_request_timeout = "{given}"\n'}
    texts = [line.text for line in check_runtime(machine_with(tmp_path, files)) if line.mend]

    assert texts == (
        [f"{FILE}: {NRI} plugin_request_timeout is 1s: a hook gets 0.5 s of [nri] timeout_s = 1.5"]
        if warned
        else []
    )


@pytest.mark.parametrize("text", ["version = 3\nplugins = 7\n", "version = 'x'\nimports = 3\n"])
def test_containerd_when_its_file_is_odd(tmp_path: Path, text: str) -> None:
    """What is of another type than it should be counts as not written."""

    machine = machine_with(tmp_path, {FILE: text}, runtime_version=V2)

    assert bad(check_runtime(machine)) == []


def test_containerd_when_its_file_is_no_toml(tmp_path: Path) -> None:
    """A file that cannot be read is a warning with its place, not the end."""

    ((level, text), *_) = told(check_runtime(machine_with(tmp_path, {FILE: "a = = 1\n"})))

    assert level == "warning"
    assert text.startswith(f"{FILE}:1:")


def test_crio(tmp_path: Path) -> None:
    """CRI-O has both on; drop-ins go over the file, in the order of their names."""

    files = {
        "/etc/crio/crio.conf": '[crio.nri]\nenable_nri = true\nnri_listen = "/x"\n',
        "/etc/crio/crio.conf.d/10-a.conf": '[crio.nri]\nenable_nri = false\nnri_listen = "/y"\n',
        "/etc/crio/crio.conf.d/20-b.conf": '[crio.runtime]\ncdi_spec_dirs = ["/etc/cdi"]\n',
        "/etc/crio/crio.conf.d/ignored": "no TOML at all",
    }

    assert bad(check_runtime(machine_with(tmp_path, files))) == [
        (
            "/etc/crio/crio.conf.d/10-a.conf: [crio.nri] enable_nri says that it is off",
            "write enable_nri = true; systemctl restart crio",
        ),
        (
            (
                "/etc/crio/crio.conf.d/10-a.conf: [crio.nri] nri_listen is /y, "
                "[nri] socket is /var/run/nri/nri.sock"
            ),
            'write [nri] socket = "/y"',
        ),
        (
            (
                "/etc/crio/crio.conf.d/20-b.conf: [crio.runtime] cdi_spec_dirs lacks /var/run/cdi, "
                "where the files for [[nic.group]], [gpu] are written"
            ),
            'add "/var/run/cdi"; systemctl restart crio',
        ),
    ]


def test_crio_when_it_says_nothing(tmp_path: Path) -> None:
    """Its defaults are what is needed."""

    files = {"/etc/crio/crio.conf": "", "/etc/cdi/": "", "/var/run/cdi/": ""}
    lines = list(check_runtime(machine_with(tmp_path, files)))

    assert [(line.level.value, line.text) for line in lines if line.level.value != "note"] == [
        ("ok", "CRI-O reads /var/run/cdi")
    ]
    assert f"[crio.nri.default_validator] nri_enable_default_validator {UNASKED}" in lines[0].text


@pytest.mark.parametrize(
    ("version", "written", "noted"),
    [
        (V2, "", False),
        ("containerd github.com/containerd/containerd/v2 v2.2.0 1c4457e", "", True),
        ("containerd github.com/containerd/containerd/v2 v2.4.2 1c4457e", "enable = false", True),
        ("containerd github.com/containerd/containerd/v2 v2.4.2 1c4457e", "enable = true", False),
        ("", "", False),
    ],
)
def test_containerd_that_can_let_pods_wait(
    tmp_path: Path, version: str, written: str, *, noted: bool
) -> None:
    """One that could is named, with the table, the annotation and the command to run."""

    table = NRI.replace("]", ".default_validator]")
    files = {FILE: f"version = 3\n{table}\n{written}\n"}
    lines = check_runtime(machine_with(tmp_path, files, runtime_version=version))
    found = [(line.level.value, line.text, line.mend) for line in lines if UNASKED in line.text]

    assert found == (
        [
            (
                "note",
                (
                    f"{FILE}: {table} enable {UNASKED}, "
                    "and one that starts while it is away gets its NICs late"
                ),
                (
                    f"write it as true, and give such pods the annotation {ANNOTATION}; "
                    "systemctl restart containerd"
                ),
            )
        ]
        if noted
        else []
    )


def test_validator_where_no_hook_moves_a_nic(tmp_path: Path) -> None:
    """Nobody has to wait for what needs no hook."""

    machine = Machine(config=Config(), root=plant(tmp_path, {"/etc/crio/crio.conf": ""}))

    assert [line for line in check_runtime(machine) if UNASKED in line.text] == []


def test_runtime_when_no_file_is_found(tmp_path: Path) -> None:
    """Every place that was looked at is named."""

    (line,) = check_runtime(Machine(config=Config(), root=tmp_path))

    assert line.level.value == "note"
    assert FILE in line.text
    assert "/etc/crio/crio.conf" in line.text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2s", 2.0),
        ("1m30s", 90.0),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("2", None),
        (2, None),
        ("", None),
    ],
)
def test_seconds_of_go(text: object, value: float | None) -> None:
    """Go's notation, or nothing."""

    assert seconds(text) == value


def test_table_as_toml_writes_it() -> None:
    """Names with dots are quoted."""

    assert dotted(("plugins", "io.x.y")) == 'plugins."io.x.y"'
