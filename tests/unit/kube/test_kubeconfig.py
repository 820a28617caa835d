"""Kubeconfig files, good and bad."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import ConfigError
from berth.kube.kubeconfig import Blob, ClusterEntry, ExecPlugin, UserEntry, parse_kubeconfig

WHERE = "/etc/kubernetes/kubelet.conf"


def document(*, cluster: Any = None, user: Any = None, **more: Any) -> bytes:
    """A kubeconfig with one context."""
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **more,
    }
    return yaml.safe_dump(whole).encode()


def encoded(text: str) -> str:
    """Base64 as kubectl writes it."""
    return base64.b64encode(text.encode()).decode()


def test_file_of_kubeadm_is_understood() -> None:
    """Certificate and key by path, CA inline; relative paths start at the file."""

    found = parse_kubeconfig(
        document(
            cluster={"certificate-authority-data": encoded("CA"), "tls-server-name": "kubernetes"},
            user={
                "client-certificate": "/var/lib/kubelet/pki/kubelet-client-current.pem",
                "client-key": "pki/key.pem",
            },
        ),
        where=WHERE,
    )

    assert found.cluster == ClusterEntry(
        server="https://api:6443", ca=Blob(data=b"CA"), tls_server_name="kubernetes"
    )
    assert found.user == UserEntry(
        certificate=Blob(path="/var/lib/kubelet/pki/kubelet-client-current.pem"),
        key=Blob(path="/etc/kubernetes/pki/key.pem"),
    )


def test_inline_data_goes_before_a_path() -> None:
    """As in kubectl."""

    user = {
        "client-certificate": "a",
        "client-certificate-data": encoded("CERT"),
        "client-key-data": encoded("KEY"),
        "token": "secret",
        "tokenFile": "token",
    }

    found = parse_kubeconfig(document(user=user), where=WHERE).user

    assert found.certificate == Blob(data=b"CERT")
    assert (found.token, found.token_path) == ("secret", "/etc/kubernetes/token")


def test_plugin_is_understood() -> None:
    """Version, arguments, variables and the wish to know the cluster."""

    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "bin/login",
        "args": ["--node"],
        "env": [{"name": "A", "value": "B"}],
        "provideClusterInfo": True,
        "interactiveMode": "IfAvailable",
        "installHint": "apt install login",
    }

    assert parse_kubeconfig(document(user={"exec": plugin}), where=WHERE).user.plugin == ExecPlugin(
        api_version="client.authentication.k8s.io/v1",
        command="/etc/kubernetes/bin/login",
        args=("--node",),
        env={"A": "B"},
        cluster_info=True,
        install_hint="apt install login",
    )


def test_bare_command_is_left_to_the_path() -> None:
    """A name without a slash is looked for by the system."""

    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}

    found = parse_kubeconfig(document(user={"exec": plugin}), where=WHERE).user.plugin

    assert found is not None
    assert found.command == "aws"


def test_only_context_needs_no_name() -> None:
    """Without current-context the one that there is is meant."""

    text = document(**{"current-context": ""})

    assert parse_kubeconfig(text, where=WHERE).cluster.server == "https://api:6443"


def test_json_is_yaml() -> None:
    """The rehearsal writes JSON."""

    text = (
        b'{"clusters":[{"name":"c","cluster":{"server":"http://a"}}],"users":[{"name":"u"}],'
        b'"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}]}'
    )

    assert parse_kubeconfig(text, where=WHERE).cluster.server == "http://a"


BAD: list[tuple[bytes, str]] = [
    (b"", "no mapping"),
    (b"[]", "no mapping"),
    (b"a: [1", "no YAML in line"),
    (b"\xff\xff", "no YAML"),
    (b"!!python/object:os.system {}", "no YAML"),
    (document(**{"current-context": "y"}), r'current-context is "y": the file has: x'),
    (document(**{"current-context": ["y"]}), "current-context is no text"),
    (document(contexts=[]), "the file has: none"),
    (document(contexts={"x": 1}), "contexts is no list"),
    (document(clusters=[{"name": "d"}]), r'cluster is "c": the file has: d'),
    (document(users=[{"name": "d"}]), r'user is "u": the file has: d'),
    (document(users=["x"]), r"users\[0\] is no mapping"),
    (document(cluster={"server": None}), "server is missing"),
    (document(cluster={"certificate-authority-data": "?"}), "no base64"),
    (document(cluster={"insecure-skip-tls-verify": "yes"}), "neither true nor false"),
    (
        document(cluster={"insecure-skip-tls-verify": True, "certificate-authority": "/ca"}),
        "beside a certificate-authority",
    ),
    (document(user={"username": "a"}), "username is not supported"),
    (document(user={"auth-provider": {"name": "oidc"}}), "auth-provider is not supported"),
    (document(user={"as": "root"}), "as is not supported"),
    (document(user={"client-certificate": "a"}), "needs client-key"),
    (document(user={"client-key": "a"}), "needs client-key, and the reverse"),
    (document(user={"exec": "a"}), "exec is no mapping"),
    (document(user={"exec": {"apiVersion": "v1"}}), r'apiVersion is "v1"'),
    (
        document(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}),
        "command is missing",
    ),
]
GOOD_EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "a"}
BAD += [
    (document(user={"exec": {**GOOD_EXEC, "interactiveMode": "Always"}}), "no terminal"),
    (document(user={"exec": {**GOOD_EXEC, "args": "a"}}), "no list of texts"),
    (document(user={"exec": {**GOOD_EXEC, "env": "A=B"}}), "env is no list"),
    (document(user={"exec": {**GOOD_EXEC, "env": ["A=B"]}}), "env is no mapping"),
]


@pytest.mark.parametrize(("text", "told"), BAD)
def test_bad_file_is_refused_with_its_place(text: bytes, told: str) -> None:
    """The message names the file and the field."""

    with pytest.raises(ConfigError, match=told) as error:
        parse_kubeconfig(text, where=WHERE)

    assert str(error.value).startswith(WHERE)


def test_secrets_show_in_no_message_and_no_repr() -> None:
    """A key may stand in a broken file too."""

    user = {
        "token": "SECRET",
        "client-certificate-data": encoded("CERT"),
        "client-key-data": encoded("SECRET"),
        "exec": {**GOOD_EXEC, "env": [{"name": "A", "value": "SECRET"}]},
    }
    found = parse_kubeconfig(document(user=user), where=WHERE)

    with pytest.raises(ConfigError) as error:
        parse_kubeconfig(b"users: [{token: SECRET\n", where=WHERE)

    assert "SECRET" not in repr(found)
    assert "SECRET" not in str(error.value)
    assert error.value.__cause__ is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "clusters",
                        "users",
                        "contexts",
                        "name",
                        "cluster",
                        "user",
                        "context",
                        "server",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_document_is_a_kubeconfig_or_a_config_error(value: Any) -> None:
    """Nothing in a file leads to another error."""

    try:
        parse_kubeconfig(yaml.safe_dump(value).encode(), where=WHERE)
    except ConfigError:
        return


@given(st.binary(max_size=60))
def test_any_bytes_are_a_kubeconfig_or_a_config_error(data: bytes) -> None:
    """Neither do bytes."""

    with pytest.raises(ConfigError):
        parse_kubeconfig(data, where=WHERE)
