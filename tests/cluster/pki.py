"""The cluster's one certificate authority and what it signs, by the `openssl` program."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import attrs

DAYS = "7"
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


@attrs.frozen(kw_only=True)
class Identity:
    """A certificate and its key, each a file."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority made for one run.

    Args:
        folder: Where certificates and keys are put.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.certificate = folder / "ca.crt"
        self._key = folder / "ca.key"
        _openssl(
            *("req", "-x509", *KEY, "-keyout", str(self._key), "-out", str(self.certificate)),
            *("-days", DAYS, "-subj", "/CN=berth-test-ca"),
            *("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign"),
        )

    def sign(self, name: str, subject: str, *, addresses: str = "") -> Identity:
        """A certificate for that subject, to be shown as a client or, with addresses, a server.

        Args:
            name: The files' name.
            subject: In OpenSSL's form, such as `/O=system:masters/CN=admin`.
            addresses: The subject's alternative names, such as `IP:10.98.0.1,DNS:localhost`.
        """
        made = Identity(certificate=self.folder / f"{name}.crt", key=self.folder / f"{name}.key")
        also = ["-addext", f"subjectAltName={addresses}"] if addresses else []
        _openssl(
            *("req", "-x509", "-CA", str(self.certificate), "-CAkey", str(self._key), *KEY),
            *("-keyout", str(made.key), "-out", str(made.certificate), "-days", DAYS),
            *("-subj", subject, "-addext", "basicConstraints=critical,CA:FALSE"),
            *("-addext", "extendedKeyUsage=clientAuth,serverAuth", *also),
        )
        return made

    def signing_key(self, name: str) -> Identity:
        """A key pair for service account tokens: `certificate` is the bare public key."""
        made = Identity(certificate=self.folder / f"{name}.pub", key=self.folder / f"{name}.key")
        curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        _openssl("genpkey", *curve, "-out", str(made.key))
        _openssl("pkey", "-in", str(made.key), "-pubout", "-out", str(made.certificate))
        return made

    def kubeconfig(self, server: str, identity: Identity) -> str:
        """A kubeconfig that holds the identity itself and works wherever it is put."""
        user = {
            "client-certificate-data": _inline(identity.certificate),
            "client-key-data": _inline(identity.key),
        }
        return self._kubeconfig(server, user)

    def kubelet_kubeconfig(self, server: str, identity_file: str) -> str:
        """A kubeconfig as kubeadm leaves it on a node: one file holds certificate and key."""
        return self._kubeconfig(
            server, {"client-certificate": identity_file, "client-key": identity_file}
        )

    def _kubeconfig(self, server: str, user: dict[str, str]) -> str:
        # JSON is YAML too.
        cluster = {"server": server, "certificate-authority-data": _inline(self.certificate)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "me"}}],
            "current-context": "test",
        }
        return json.dumps(document, indent=1)


def _inline(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _openssl(*arguments: str) -> None:
    # No configuration file of the machine is read: what it adds would depend on the machine.
    subprocess.run(
        ["openssl", *arguments],
        check=True,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "OPENSSL_CONF": "/dev/null"},
    )
