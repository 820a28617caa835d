"""The files of one choice of credentials, read to what a request needs.

Everything here blocks, briefly. Each file is stamped through the descriptor that it was read by, so
that a change in between is seen at the next look.
"""

from __future__ import annotations

import base64
import binascii
import errno
import ipaddress
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import attrs

from berth.errors import ConfigError, KubeError
from berth.kube import certificate
from berth.kube.kubeconfig import Blob, ClusterEntry, Kubeconfig, UserEntry, parse_kubeconfig
from berth.kube.sources import Choice

FILE_LIMIT: Final = 1024 * 1024
"""Largest kubeconfig, certificate or token that is read, in bytes."""

Stamp: TypeAlias = "tuple[int, int, int, int] | None"
"""What changes when a file does: device, inode, size, time of change; ``None`` when absent."""


@attrs.frozen(kw_only=True)
class Tls:
    """How the connection is secured; equal values can share connections.

    Attributes:
        ca: PEM that the server's certificate must go back to; empty for the system's.
        certificate: Our certificate as PEM; empty when there is none.
        key: Its key as PEM.
        server_name: Name to expect in the server's certificate; empty for the address's host.
        insecure: The server's certificate is not checked.
    """

    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = attrs.field(default=b"", repr=False)
    server_name: str = ""
    insecure: bool = False


@attrs.frozen(kw_only=True)
class Login:
    """All that a request needs to reach the API server as ourselves.

    Attributes:
        server: ``https://…``, ``http://…`` or ``unix:///path``, without a slash at its end.
        token: Bearer token; empty when the certificate says it all.
        proxy: Proxy's address; empty for none.
    """

    server: str
    tls: Tls
    token: str = attrs.field(default="", repr=False)
    proxy: str = attrs.field(default="", repr=False)


@attrs.frozen(kw_only=True)
class Loaded:
    """What the files said when they were read.

    Attributes:
        config: The cluster and the user.
        token: The token that a file or the kubeconfig gives; empty when there is none.
    """

    config: Kubeconfig
    tls: Tls
    token: str = attrs.field(default="", repr=False)


class Files:
    """Reads files and remembers how each was stamped, the absent ones too."""

    def __init__(self) -> None:
        self.stamps: dict[str, Stamp] = {}

    def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            KubeError: It is absent, unreadable or longer than `FILE_LIMIT`.
        """
        self.stamps[path] = None
        try:
            with open(path, "rb", opener=_open_at_once) as file:
                status = os.fstat(file.fileno())
                data = file.read(FILE_LIMIT + 1) if stat.S_ISREG(status.st_mode) else b""
        except OSError as error:
            reason = os.strerror(error.errno or errno.EIO)
            mend = "put it there, or name another in [kubernetes]"
            raise KubeError(path, f"cannot be read: {reason}", mend=mend) from error
        self.stamps[path] = _stamp(status)
        if len(data) > FILE_LIMIT:
            raise KubeError(path, f"is longer than {FILE_LIMIT} bytes")
        return data

    def blob(self, blob: Blob) -> bytes:
        """The content of ``blob``, wherever it is; empty when there is none."""
        return self.read(blob.path) if blob.path else blob.data


def stamps_of(paths: Mapping[str, Stamp]) -> dict[str, Stamp]:
    """The stamps that the files of ``paths`` have now."""
    return {path: _stamp_of(path) for path in paths}


def load(choice: Choice, files: Files) -> Loaded:
    """Read the files of ``choice``.

    Raises:
        ConfigError: A file is not what it should be, or sends a token over an open network.
        KubeError: A file is absent or unreadable.
    """
    config = _config(choice, files)
    cluster, user = config.cluster, config.user
    token = user.token
    if user.token_path:
        token = files.read(user.token_path).decode("ascii", "replace").strip()
    loaded = Loaded(
        config=config,
        tls=Tls(
            ca=files.blob(cluster.ca),
            certificate=files.blob(user.certificate),
            key=files.blob(user.key),
            server_name=cluster.tls_server_name,
            insecure=cluster.insecure,
        ),
        token=token,
    )
    _check_server(choice, cluster.server, has_token=bool(token or user.plugin))
    return loaded


def node_name(login: Login) -> str:
    """The node that a kubelet's certificate or a node-bound token names; empty when none does."""
    return certificate.node_name(login.tls.certificate) or _token_node(login.token)


def _config(choice: Choice, files: Files) -> Kubeconfig:
    if choice.kind != "token":
        return parse_kubeconfig(files.read(choice.path), where=choice.path)
    return Kubeconfig(
        cluster=ClusterEntry(server=choice.server, ca=Blob(path=choice.ca_path)),
        user=UserEntry(token_path=choice.path),
    )


def _check_server(choice: Choice, server: str, *, has_token: bool) -> None:
    where = "[kubernetes] server" if choice.kind == "token" else f"{choice.path}: server"
    try:
        parts = urlsplit(server)
        host = parts.hostname or ""
    except ValueError:
        raise ConfigError(where, f'"{server}" is no address') from None
    if parts.scheme == "unix" and parts.path:
        return
    if parts.scheme not in {"http", "https"} or not host:
        raise ConfigError(where, f'is "{server}"', rule="it must be https://host[:port]")
    if parts.scheme == "http" and has_token and not _is_loopback(host):
        raise ConfigError(
            where, f'is "{server}"', rule="a token goes over https, or http to loopback alone"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token_node(token: str) -> str:
    """``kubernetes.io.node.name`` of a service account's token, whose signature is not our matter.

    Source: KEP 4193; ``pkg/serviceaccount/claims.go``.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return ""
    found = claims
    for key in ("kubernetes.io", "node", "name"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for the other end, should somebody have put a FIFO there."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _stamp_of(path: str) -> Stamp:
    try:
        return _stamp(Path(path).stat())
    except OSError:
        return None


def _stamp(status: os.stat_result) -> Stamp:
    if not stat.S_ISREG(status.st_mode):
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
