"""How the API server would be reached from here, without reaching for it.

Only files are read: no request is sent and no credential plugin is run.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import attrs

from berth.config.schema import Config
from berth.kube.api import Identity
from berth.kube.logins import Files, Login, load, node_name
from berth.kube.sources import Choice, CredentialSettings, choose


@attrs.frozen(kw_only=True)
class Access:
    """What the files say.

    Attributes:
        choice: Which files were taken.
        server: The API server's address.
        node_name: The node that a certificate or token belongs to; empty when none is named.
    """

    choice: Choice
    server: str
    node_name: str

    @property
    def host(self) -> str:
        """The server's host name or address."""
        return urlsplit(self.server).hostname or ""

    @property
    def identity(self) -> Identity:
        """Whom we would be to the server."""
        return Identity(
            kind=self.choice.kind,
            source=self.choice.path,
            server=self.server,
            node_name=self.node_name,
        )


def credential_settings(config: Config) -> CredentialSettings:
    """The ``[kubernetes]`` table as the choice of credentials takes it."""
    table = config.kubernetes
    return CredentialSettings(
        credentials=table.credentials.value,
        kubeconfig=str(table.kubeconfig or ""),
        server=table.server,
        token_file=str(table.token_file or ""),
        ca_file=str(table.ca_file or ""),
    )


def find_access(settings: CredentialSettings) -> Access:
    """Read the files that the settings lead to; blocks on the disk.

    Raises:
        ConfigError: The settings contradict themselves, or a file is not what it should be.
        KubeError: A file is missing or unreadable; each path that was tried is named.
    """
    choice = choose(settings)
    loaded = load(choice, Files())
    server = loaded.config.cluster.server
    login = Login(server=server, tls=loaded.tls, token=loaded.token)
    return Access(choice=choice, server=server, node_name=node_name(login))
