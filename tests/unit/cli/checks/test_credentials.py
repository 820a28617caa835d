"""Credentials and the node's name, from files alone."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from berth.cli.checks.credentials import check_credentials
from berth.cli.checks.machine import Machine
from berth.config.schema import Config, NodeTable
from berth.kube.sources import CredentialSettings
from tests.unit.cli.checks.tree import told

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: u, user: {token: TOKEN}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def machine_with(path: Path, *, token: str = "abc", name: str = "") -> Machine:
    """A machine with kubelet's kubeconfig at the path."""
    path.write_text(KUBECONFIG.replace("TOKEN", token), encoding="utf-8")
    return Machine(
        config=Config(node=NodeTable(name=name)),
        credentials=CredentialSettings(kubelet_kubeconfigs=("/nowhere", str(path))),
        host_name="Worker-7",
    )


def node_token(name: str) -> str:
    """A service account's token that is bound to a node; its signature is nobody's."""
    claims = json.dumps({"kubernetes.io": {"node": {"name": name}}}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.x"


def test_credentials_when_kubelets_are_found(tmp_path: Path) -> None:
    """File and server are told, what cannot be done with them, and whose name is guessed."""

    path = tmp_path / "kubelet.conf"

    assert told(check_credentials(machine_with(path))) == [
        ("ok", f"https://10.0.0.1:6443, by {path} (kubelet)"),
        (
            "note",
            (
                "with kubelet's own credentials slices and claims work; claim status is not "
                "written, since nodes have no right to"
            ),
        ),
        ("ok", "this is node worker-7, a name taken from the host name"),
    ]


def test_credentials_when_they_name_the_node(tmp_path: Path) -> None:
    """A name out of the credentials is certain."""

    machine = machine_with(tmp_path / "k", token=node_token("worker-7.lab"))

    assert told(check_credentials(machine))[-1] == (
        "ok",
        f"this is node worker-7.lab, a name taken from the credentials in {tmp_path}/k",
    )


def test_credentials_when_the_name_is_another(tmp_path: Path) -> None:
    """Case 9: a wrong name is a fault that tells both."""

    machine = machine_with(tmp_path / "k", token=node_token("worker-7.lab"), name="worker-8")
    level, text = told(check_credentials(machine))[-1]

    assert level == "fault"
    assert "'worker-8'" in text
    assert "'worker-7.lab'" in text


def test_credentials_when_there_are_none(tmp_path: Path) -> None:
    """Each path that was tried is told, with the system's reason."""

    settings = CredentialSettings(kubelet_kubeconfigs=(str(tmp_path / "a"), str(tmp_path / "b")))
    (line,) = check_credentials(Machine(config=Config(), credentials=settings))

    assert (line.level.value, line.text) == (
        "fault",
        (
            "no kubeconfig of kubelet was found: "
            f"tried {tmp_path}/a, {tmp_path}/b (No such file or directory)"
        ),
    )
    assert "join the node to its cluster" in line.mend


def test_credentials_when_the_file_is_no_kubeconfig(tmp_path: Path) -> None:
    """A file that cannot be used is a fault with its path, and nothing of it is shown."""

    (tmp_path / "k").write_text("{secret: [", encoding="utf-8")
    settings = CredentialSettings(kubeconfig=str(tmp_path / "k"))
    (line,) = check_credentials(Machine(config=Config(), credentials=settings))

    assert line.level.value == "fault"
    assert line.text.startswith(f"{tmp_path}/k: it is no YAML")
    assert "secret" not in line.text
