"""A kubeconfig file to the one cluster and the one user that its current context names.

Only the file's text is looked at here: files that it names are read by `berth.kube.credentials`.
What kubectl has dropped (basic auth, auth providers) and what a daemon cannot do (a plugin that
wants a terminal, acting as somebody else) is refused by name.

Source: ``k8s.io/client-go/tools/clientcmd/api/v1/types.go`` of 1.37.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
from collections.abc import Mapping
from typing import Any, Final

import attrs

from berth.errors import ConfigError

EXEC_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
"""Versions of the protocol of credential plugins that we speak."""

_REFUSED: Final = {
    "username": "the API server has no password log-in since 1.19",
    "password": "the API server has no password log-in since 1.19",
    "auth-provider": "gone since 1.26; use exec",
    "as": "acting as somebody else is not for a daemon",
    "as-uid": "acting as somebody else is not for a daemon",
    "as-groups": "acting as somebody else is not for a daemon",
}


@attrs.frozen(kw_only=True)
class Blob:
    """Certificate, key or CA: given in the file, or the path of one, or neither.

    Attributes:
        data: PEM, never shown.
        path: Absolute path; empty when ``data`` is given or there is none.
    """

    data: bytes = attrs.field(default=b"", repr=False)
    path: str = ""


@attrs.frozen(kw_only=True)
class ClusterEntry:
    """The API server.

    Attributes:
        server: Address as written: ``https://host:port``, or ``unix:///path`` (ours alone).
        tls_server_name: Name that the server's certificate must have, when not the address.
        insecure: The file says not to check the certificate.
        proxy_url: Proxy for this server; empty leaves it to the environment.
    """

    server: str
    ca: Blob = Blob()
    tls_server_name: str = ""
    insecure: bool = False
    proxy_url: str = ""


@attrs.frozen(kw_only=True)
class ExecPlugin:
    """A program that prints credentials.

    Attributes:
        command: Program, a path made absolute or a bare name for ``PATH``.
        env: Variables added to our environment.
        cluster_info: The program is told of the cluster.
        install_hint: What to tell somebody who lacks the program.
    """

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    cluster_info: bool = False
    install_hint: str = ""


@attrs.frozen(kw_only=True)
class UserEntry:
    """Who we are; empty fields are not given."""

    certificate: Blob = Blob()
    key: Blob = Blob()
    token: str = attrs.field(default="", repr=False)
    token_path: str = ""
    plugin: ExecPlugin | None = None


@attrs.frozen(kw_only=True)
class Kubeconfig:
    """What the current context of a kubeconfig file names."""

    cluster: ClusterEntry
    user: UserEntry


def parse_kubeconfig(text: bytes, *, where: str) -> Kubeconfig:
    """Read a kubeconfig.

    Args:
        text: The file's content, YAML or JSON.
        where: The file's path; relative paths in it start at its folder.

    Raises:
        ConfigError: It is no kubeconfig, or asks for what we cannot do.
    """
    document = _Table(where, "", _read_yaml(text, where))
    contexts = document.named("contexts", "context")
    current = document.text("current-context")
    if not current and len(contexts) == 1:
        current = next(iter(contexts))
    context = _pick(contexts, current, where, "current-context")
    clusters, users = document.named("clusters", "cluster"), document.named("users", "user")
    cluster = _pick(clusters, context.text("cluster"), where, f'contexts "{current}": cluster')
    user = _pick(users, context.text("user"), where, f'contexts "{current}": user')
    return Kubeconfig(cluster=_cluster(cluster), user=_user(user))


def _read_yaml(text: bytes, where: str) -> Any:
    # PyYAML is imported late: a node with a token alone never needs it.
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        # The text of a parser's error quotes the file, which may be a secret.
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(where, f"it is no YAML{line}", mend="write the file anew") from None


@attrs.frozen
class _Table:
    """One mapping of the file, which knows where it is."""

    where: str
    path: str
    value: Any

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.value, Mapping):
            raise ConfigError(self.where, f"{self.path or 'the file'} is no mapping")

    def fault(self, key: str, found: str, *, rule: str = "", mend: str = "") -> ConfigError:
        place = f"{self.path}.{key}" if self.path else key
        return ConfigError(self.where, f"{place} {found}", rule=rule, mend=mend)

    def text(self, key: str) -> str:
        found = self.value.get(key)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise self.fault(key, "is no text")
        return found

    def flag(self, key: str) -> bool:
        found = self.value.get(key, False)
        if not isinstance(found, bool):
            raise self.fault(key, "is neither true nor false")
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        found = self.value.get(key) or []
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            raise self.fault(key, "is no list of texts")
        return tuple(found)

    def file(self, key: str) -> str:
        """A path, made absolute at the file's folder."""
        found = self.text(key)
        return posixpath.join(posixpath.dirname(self.where), found) if found else ""

    def blob(self, key: str) -> Blob:
        """``<key>-data`` in base64, which goes before the path at ``<key>``."""
        encoded = self.text(f"{key}-data")
        if not encoded:
            return Blob(path=self.file(key))
        try:
            return Blob(data=base64.b64decode(encoded, validate=True))
        except (binascii.Error, ValueError):
            raise self.fault(f"{key}-data", "is no base64") from None

    def named(self, key: str, inner: str) -> dict[str, _Table]:
        """The list at ``key`` of ``{name, <inner>}`` by its names; the first of a name counts."""
        entries = self.value.get(key) or []
        if not isinstance(entries, list):
            raise self.fault(key, "is no list")
        found: dict[str, _Table] = {}
        for index, entry in enumerate(entries):
            table = _Table(self.where, f"{key}[{index}]", entry)
            name = table.text("name")
            path = f'{key} "{name}"'
            found.setdefault(name, _Table(self.where, path, table.value.get(inner) or {}))
        return found


def _pick(tables: Mapping[str, _Table], name: str, where: str, asked: str) -> _Table:
    if name not in tables:
        known = ", ".join(sorted(tables)) or "none"
        raise ConfigError(where, f'{asked} is "{name}"', rule=f"the file has: {known}")
    return tables[name]


def _cluster(table: _Table) -> ClusterEntry:
    entry = ClusterEntry(
        server=table.text("server"),
        ca=table.blob("certificate-authority"),
        tls_server_name=table.text("tls-server-name"),
        insecure=table.flag("insecure-skip-tls-verify"),
        proxy_url=table.text("proxy-url"),
    )
    if not entry.server:
        raise table.fault("server", "is missing", mend="give the API server's address")
    if entry.insecure and entry.ca != Blob():
        raise table.fault(
            "insecure-skip-tls-verify", "is true beside a certificate-authority", mend="drop one"
        )
    return entry


def _user(table: _Table) -> UserEntry:
    for key, why in _REFUSED.items():
        if table.value.get(key):
            raise table.fault(key, "is not supported", rule=why)
    entry = UserEntry(
        certificate=table.blob("client-certificate"),
        key=table.blob("client-key"),
        token=table.text("token"),
        token_path=table.file("tokenFile"),
        plugin=_plugin(table) if table.value.get("exec") else None,
    )
    if (entry.certificate == Blob()) != (entry.key == Blob()):
        raise table.fault("client-certificate", "needs client-key, and the reverse")
    return entry


def _plugin(user: _Table) -> ExecPlugin:
    table = _Table(user.where, f"{user.path}.exec", user.value["exec"])
    version, command = table.text("apiVersion"), table.text("command")
    if version not in EXEC_VERSIONS:
        raise table.fault(
            "apiVersion", f'is "{version}"', rule=f"it must be one of {', '.join(EXEC_VERSIONS)}"
        )
    if not command:
        raise table.fault("command", "is missing")
    if table.text("interactiveMode") == "Always":
        raise table.fault("interactiveMode", "is Always", rule="a daemon has no terminal")
    return ExecPlugin(
        api_version=version,
        command=table.file("command") if "/" in command else command,
        args=table.texts("args"),
        env=_environment(table),
        cluster_info=table.flag("provideClusterInfo"),
        install_hint=table.text("installHint"),
    )


def _environment(table: _Table) -> dict[str, str]:
    entries = table.value.get("env") or []
    if not isinstance(entries, list):
        raise table.fault("env", "is no list")
    tables = [_Table(table.where, f"{table.path}.env", entry) for entry in entries]
    return {entry.text("name"): entry.text("value") for entry in tables}
