"""Where credentials come from: which file the settings name or the node has.

Nothing of a secret is read here, so that ``berth check`` can tell the choice, and every path that
was tried, without being able to use it.
"""

from __future__ import annotations

import errno
import os
from typing import Final

import attrs

from berth.errors import ConfigError, KubeError

KUBELET_KUBECONFIGS: Final = (
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/kubelet/kubeconfig",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/lib/k0s/kubelet.conf",
    "/var/snap/microk8s/current/credentials/kubelet.config",
)
"""Where kubelet's own kubeconfig lies: kubeadm, kops and EKS, k3s, RKE2, k0s, MicroK8s."""

KINDS: Final = ("auto", "kubeconfig", "token", "kubelet")


@attrs.frozen(kw_only=True)
class CredentialSettings:
    """What the operator says: the table ``[kubernetes]`` of the settings.

    Attributes:
        credentials: One of `KINDS`; ``auto`` takes the first of the others that is given or found.
        kubeconfig: Path of a kubeconfig of the operator's; empty when not given.
        server: Address of the API server, for ``token``.
        token_file: File with a service account's token, read again when it changes.
        ca_file: CA of the API server, for ``token``; empty for the system's.
        kubelet_kubeconfigs: Where to look for kubelet's kubeconfig, in this order.
    """

    credentials: str = "auto"
    kubeconfig: str = ""
    server: str = ""
    token_file: str = ""
    ca_file: str = ""
    kubelet_kubeconfigs: tuple[str, ...] = KUBELET_KUBECONFIGS


@attrs.frozen(kw_only=True)
class Choice:
    """Which credentials are taken.

    Attributes:
        kind: ``kubeconfig``, ``token`` or ``kubelet``.
        path: The kubeconfig, or the file with the token.
        server: Only for ``token``: the API server's address.
        ca_path: Only for ``token``: the file with its CA; empty for the system's.
    """

    kind: str
    path: str
    server: str = ""
    ca_path: str = ""


def choose(settings: CredentialSettings) -> Choice:
    """Decide which credentials to take. Looks whether kubelet's files exist; blocks for that only.

    Raises:
        ConfigError: The settings contradict themselves.
        KubeError: No kubelet's kubeconfig is there (yet); each path that was tried is named.
    """
    if settings.credentials not in KINDS:
        raise ConfigError(
            "[kubernetes] credentials",
            f'is "{settings.credentials}"',
            rule=f"it must be one of {', '.join(KINDS)}",
        )
    wanted = settings.credentials
    if wanted == "kubeconfig" or (wanted == "auto" and settings.kubeconfig):
        return _kubeconfig(settings)
    if wanted == "token" or (wanted == "auto" and (settings.token_file or settings.server)):
        return _token(settings)
    return _kubelet(settings)


def _kubeconfig(settings: CredentialSettings) -> Choice:
    if not settings.kubeconfig:
        raise ConfigError(
            "[kubernetes] kubeconfig",
            'is empty, and credentials is "kubeconfig"',
            mend="give the path of the file",
        )
    return Choice(kind="kubeconfig", path=settings.kubeconfig)


def _token(settings: CredentialSettings) -> Choice:
    for key, value in (("server", settings.server), ("token_file", settings.token_file)):
        if not value:
            raise ConfigError(
                f"[kubernetes] {key}", "is empty", rule="a token needs server and token_file"
            )
    return Choice(
        kind="token",
        path=settings.token_file,
        server=settings.server,
        ca_path=settings.ca_file,
    )


def _kubelet(settings: CredentialSettings) -> Choice:
    tried: dict[str, list[str]] = {}
    for path in settings.kubelet_kubeconfigs:
        reason = _why_unreadable(path)
        if not reason:
            return Choice(kind="kubelet", path=path)
        tried.setdefault(reason, []).append(path)
    told = "; ".join(f"{', '.join(paths)} ({reason})" for reason, paths in tried.items())
    raise KubeError(
        "credentials",
        "no kubeconfig of kubelet was found",
        rule=f"tried {told or 'no path'}",
        mend="join the node to its cluster, or set [kubernetes] kubeconfig",
    )


def _why_unreadable(path: str) -> str:
    """Why ``path`` cannot be read; empty when it can."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return os.strerror(error.errno or errno.EIO)
    return ""
