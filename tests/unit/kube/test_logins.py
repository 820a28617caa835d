"""Files to a log-in."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from berth.errors import ConfigError, KubeError
from berth.kube.logins import Files, Login, Tls, load, node_name, stamps_of
from berth.kube.sources import Choice


def jwt(claims: Any) -> str:
    """An unsigned token."""
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.sig"


def config(folder: Path, *, server: str = "https://api", **user: Any) -> Choice:
    """A kubeconfig of one user."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": "ca"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    (folder / "config").write_text(json.dumps(document))
    (folder / "ca").write_text("CA")
    return Choice(kind="kubeconfig", path=str(folder / "config"))


def test_files_of_a_kubeconfig_are_read_and_stamped(tmp_path: Path) -> None:
    """Each file that was read is watched from then on."""

    (tmp_path / "both.pem").write_text("PEM")
    (tmp_path / "token").write_text(" t \n")
    choice = config(
        tmp_path,
        **{"client-certificate": "both.pem", "client-key": "both.pem", "tokenFile": "token"},
    )
    files = Files()

    loaded = load(choice, files)

    assert loaded.tls == Tls(ca=b"CA", certificate=b"PEM", key=b"PEM")
    assert loaded.token == "t"
    assert {Path(path).name for path in files.stamps} == {"config", "ca", "both.pem", "token"}
    assert files.stamps == stamps_of(files.stamps)


def test_stamp_changes_when_a_link_turns_over(tmp_path: Path) -> None:
    """Kubelet's current certificate is a link to the newest file."""

    (tmp_path / "a").write_text("same")
    (tmp_path / "b").write_text("same")
    link = tmp_path / "current"
    link.symlink_to("a")
    files = Files()
    files.read(str(link))

    (tmp_path / "next").symlink_to("b")
    (tmp_path / "next").replace(link)

    assert files.stamps != stamps_of(files.stamps)


def test_token_choice_needs_no_kubeconfig(tmp_path: Path) -> None:
    """Server, token and CA come from the settings."""

    (tmp_path / "token").write_text("t")
    choice = Choice(kind="token", path=str(tmp_path / "token"), server="https://api")

    loaded = load(choice, Files())

    assert (loaded.token, loaded.tls, loaded.config.cluster.server) == ("t", Tls(), "https://api")


@pytest.mark.parametrize("make", ["nothing", "directory", "fifo", "huge"])
def test_what_is_no_file_of_use_is_told_by_its_path(make: str, tmp_path: Path) -> None:
    """Nothing hangs, and the path is named; a FIFO counts as empty."""

    path = tmp_path / "token"
    if make == "directory":
        path.mkdir()
    elif make == "fifo":
        os.mkfifo(path)
    elif make == "huge":
        path.write_bytes(b"x" * (1024 * 1024 + 1))
    files = Files()

    if make == "fifo":
        assert files.read(str(path)) == b""
    else:
        with pytest.raises(KubeError, match=str(path)):
            files.read(str(path))
    assert str(path) in files.stamps


@pytest.mark.parametrize(
    ("server", "token", "well"),
    [
        ("https://api:6443", "t", True),
        ("http://127.0.0.1:8080", "t", True),
        ("http://localhost", "t", True),
        ("http://[::1]", "t", True),
        ("unix:///run/api.sock", "t", True),
        ("http://10.0.0.1", "", True),
        ("http://10.0.0.1", "t", False),
        ("api:6443", "", False),
        ("ftp://api", "", False),
        ("https://", "", False),
        ("unix://", "", False),
        ("https://[::1", "", False),
    ],
)
def test_token_goes_over_no_open_network(
    server: str, token: str, tmp_path: Path, *, well: bool
) -> None:
    """Plain HTTP is for loopback, or for somebody who shows no token."""

    choice = config(tmp_path, server=server, token=token)

    if well:
        assert load(choice, Files()).config.cluster.server == server
    else:
        with pytest.raises(ConfigError, match="server"):
            load(choice, Files())


def test_server_of_the_settings_is_named_by_its_key(tmp_path: Path) -> None:
    """The operator looks into the TOML, not into the token."""

    (tmp_path / "token").write_text("t")
    choice = Choice(kind="token", path=str(tmp_path / "token"), server="http://10.0.0.1")

    with pytest.raises(ConfigError, match=r"^\[kubernetes\] server"):
        load(choice, Files())


@pytest.mark.parametrize(
    ("token", "node"),
    [
        (jwt({"kubernetes.io": {"node": {"name": "worker-7", "uid": "u"}}}), "worker-7"),
        (jwt({"kubernetes.io": {"pod": {"name": "p"}}}), ""),
        (jwt({"kubernetes.io": {"node": {"name": 1}}}), ""),
        (jwt([]), ""),
        ("a.b", ""),
        ("a.?.c", ""),
        ("a.é.c", ""),
        ("", ""),
    ],
)
def test_bound_token_names_its_node(token: str, node: str) -> None:
    """A token of a service account that is bound to a node says which."""

    assert node_name(Login(server="https://api", tls=Tls(), token=token)) == node


def test_secrets_show_in_no_repr(tmp_path: Path) -> None:
    """A log line that shows a value shows no key and no token."""

    choice = config(
        tmp_path,
        token="SECRET",
        **{
            "client-certificate-data": base64.b64encode(b"CERT").decode(),
            "client-key-data": base64.b64encode(b"SECRET").decode(),
        },
    )

    loaded = load(choice, Files())
    login = Login(server="https://api", tls=loaded.tls, token="SECRET", proxy="http://u:SECRET@p")

    assert "SECRET" not in repr(loaded) + repr(login)
