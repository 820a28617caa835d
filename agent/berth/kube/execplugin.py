"""Credential plugins: what such a program is told, and what its answer says.

Source: ``k8s.io/client-go/pkg/apis/clientauthentication/v1/types.go`` of 1.37; KEP 541.
"""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

import attrs

from berth.errors import RemoteProtocolError
from berth.kube import fields
from berth.kube.kubeconfig import ClusterEntry, ExecPlugin


@attrs.frozen(kw_only=True)
class ExecCredential:
    """What a plugin gave.

    Attributes:
        expires_at: Unix time in seconds; ``None`` when the server's 401 is to tell.
    """

    token: str = attrs.field(default="", repr=False)
    certificate: bytes = attrs.field(default=b"", repr=False)
    key: bytes = attrs.field(default=b"", repr=False)
    expires_at: float | None = None


def exec_info(plugin: ExecPlugin, cluster: ClusterEntry, ca: bytes) -> str:
    """The content of ``KUBERNETES_EXEC_INFO``.

    Args:
        plugin: The plugin, which may ask to be told of the cluster.
        cluster: The cluster of the same context.
        ca: The cluster's CA as PEM; empty for the system's.
    """
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster_info:
        members = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure,
            "certificate-authority-data": base64.b64encode(ca).decode(),
            "proxy-url": cluster.proxy_url,
        }
        spec["cluster"] = {key: value for key, value in members.items() if value}
    return json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})


def read_answer(output: bytes, plugin: ExecPlugin) -> ExecCredential:
    """Read what the plugin printed.

    Raises:
        RemoteProtocolError: It is no ``ExecCredential`` of the version that was asked for, or holds
            neither a token nor a certificate with its key. The text never quotes the output.
    """
    try:
        value = json.loads(output)
    except (ValueError, RecursionError):
        raise RemoteProtocolError(plugin.command, "it printed no JSON") from None
    version, kind = fields.text(value, "apiVersion"), fields.text(value, "kind")
    if kind != "ExecCredential" or version != plugin.api_version:
        raise RemoteProtocolError(
            plugin.command,
            f"it printed {kind[:40]!r} of {version[:60]!r}",
            rule=f"must be ExecCredential of {plugin.api_version}",
        )
    return _credential(fields.mapping(value, "status"), plugin.command)


def _credential(status: Any, command: str) -> ExecCredential:
    credential = ExecCredential(
        token=fields.text(status, "token"),
        certificate=fields.text(status, "clientCertificateData").encode(),
        key=fields.text(status, "clientKeyData").encode(),
        expires_at=_expiry(fields.text(status, "expirationTimestamp"), command),
    )
    if bool(credential.certificate) != bool(credential.key):
        raise RemoteProtocolError(command, "it gave a certificate without its key, or the reverse")
    if not credential.token and not credential.certificate:
        raise RemoteProtocolError(command, "it gave neither a token nor a certificate")
    return credential


def _expiry(text: str, command: str) -> float | None:
    if not text:
        return None
    try:
        # Python 3.10 reads no "Z".
        moment = datetime.fromisoformat(
            text.removesuffix("Z") + "+00:00" if text.endswith("Z") else text
        )
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise RemoteProtocolError(command, "its expirationTimestamp is no RFC 3339 time")
    return moment.timestamp()
