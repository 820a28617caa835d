"""What a credential plugin is told and what it may answer."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import RemoteProtocolError
from berth.kube.execplugin import exec_info, read_answer
from berth.kube.kubeconfig import ClusterEntry, ExecPlugin

PLUGIN = ExecPlugin(api_version="client.authentication.k8s.io/v1", command="login")
CLUSTER = ClusterEntry(server="https://api:6443", tls_server_name="kubernetes")


def answer(status: Any = None, **changes: Any) -> bytes:
    """What a plugin prints."""
    whole = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "t"} if status is None else status,
        **changes,
    }
    return json.dumps(whole).encode()


def test_plugin_is_told_of_the_cluster_only_when_it_asks() -> None:
    """The CA goes along in base64, what is not given is left away."""

    asking = attrs.evolve(PLUGIN, cluster_info=True)

    assert json.loads(exec_info(PLUGIN, CLUSTER, b"CA")) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    assert json.loads(exec_info(asking, CLUSTER, b"CA"))["spec"]["cluster"] == {
        "server": "https://api:6443",
        "tls-server-name": "kubernetes",
        "certificate-authority-data": "Q0E=",
    }


def test_token_with_expiry_is_read() -> None:
    """The time is RFC 3339, with Z or an offset."""

    zulu = read_answer(
        answer({"token": "t", "expirationTimestamp": "2026-01-02T03:04:05Z"}), PLUGIN
    )
    offset = read_answer(
        answer({"token": "t", "expirationTimestamp": "2026-01-02T04:04:05+01:00"}), PLUGIN
    )

    assert (zulu.token, zulu.expires_at) == ("t", 1767323045)
    assert offset.expires_at == zulu.expires_at


def test_certificate_with_key_is_read() -> None:
    """A plugin may give a certificate instead of a token."""

    found = read_answer(answer({"clientCertificateData": "C", "clientKeyData": "K"}), PLUGIN)

    assert (found.certificate, found.key, found.expires_at) == (b"C", b"K", None)
    assert "K" not in repr(found).replace("ExecCredential", "")


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (b"", "no JSON"),
        (b"SECRET", "no JSON"),
        (answer(kind="Token"), "'Token'"),
        (answer(apiVersion="client.authentication.k8s.io/v1beta1"), "v1beta1"),
        (answer({}), "neither"),
        (answer({"token": 1}), "token"),
        (answer({"clientCertificateData": "C"}), "without its key"),
        (answer({"clientKeyData": "SECRET"}), "without its key"),
        (answer({"token": "t", "expirationTimestamp": "soon"}), "RFC 3339"),
        (answer({"token": "t", "expirationTimestamp": "2026-01-02T03:04:05"}), "RFC 3339"),
    ],
)
def test_answer_of_no_use_is_refused_without_quoting_it(output: bytes, told: str) -> None:
    """The output may hold a secret, so no message repeats it."""

    with pytest.raises(RemoteProtocolError, match=told) as error:
        read_answer(output, PLUGIN)

    assert "SECRET" not in str(error.value)


@given(st.binary(max_size=50))
def test_any_output_is_refused_in_our_words(data: bytes) -> None:
    """Garbage never gives another error."""

    with pytest.raises(RemoteProtocolError):
        read_answer(data, PLUGIN)
