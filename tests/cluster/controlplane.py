"""The control plane: etcd, API server, scheduler and controller manager in one box."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

from berth.errors import HostError, KubeError
from tests.cluster import parts
from tests.cluster.api import Api
from tests.cluster.boxes import LIMIT_S, Box, Daemon
from tests.cluster.gobuild import build
from tests.cluster.pki import Authority

ADDRESS = "10.98.0.1"
PORT = 6443
SERVER = f"https://{ADDRESS}:{PORT}"
# The service network has this first address; nothing routes there, but the certificate names it.
SERVER_NAMES = f"IP:{ADDRESS},IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc"


def gates_flag(gates: Mapping[str, bool]) -> list[str]:
    """The feature gates as a command line flag; none when all stand at their defaults."""
    if not gates:
        return []
    told = ",".join(f"{name}={'true' if on else 'false'}" for name, on in sorted(gates.items()))
    return [f"--feature-gates={told}"]


class ControlPlane:
    """One control plane; several may be up at once, since each has its own network.

    Args:
        folder: Where certificates, data and logs are put.
        gates: Feature gates that differ from their defaults, for every component and every
            kubelet of the same version.

    Attributes:
        emulated: The older version that its components act as; empty for their own.
    """

    def __init__(self, folder: Path, gates: Mapping[str, bool]) -> None:
        self.folder = folder
        self.gates = dict(gates)
        self.emulated = ""
        self.box = Box("control-plane", folder, node=False)
        self.authority = Authority(folder / "pki")
        self.kubeconfig = folder / "admin.kubeconfig"
        self.api = Api(self.box, (ADDRESS, PORT), self._admin())
        self._kubelet_client = self.authority.sign(
            "kubelet-client", "/O=system:masters/CN=apiserver-kubelet-client"
        )
        self._serving = self.authority.sign("apiserver", "/CN=apiserver", addresses=SERVER_NAMES)
        self._tokens = self.authority.signing_key("service-accounts")

    def start(self) -> None:
        """Bring it all up; returns when the API server is ready."""
        self.box.start()
        self.box.run("ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0")
        self.box.run("ip", "address", "add", f"{ADDRESS}/24", "dev", "br0")
        self.box.run("ip", "link", "set", "br0", "up")
        self._start_etcd()
        self._start_components()

    def _start_components(self) -> None:
        self._start_apiserver()
        self.wait_ready()
        # Before the server is ready its roles are not there, and the controller manager ends.
        self._start_scheduler()
        self._start_controller_manager()

    @property
    def apiserver(self) -> Daemon:
        """The API server's process."""
        return self.box.daemons["kube-apiserver"]

    def wait_ready(self, limit_s: float = LIMIT_S) -> None:
        """Wait until the API server calls itself ready.

        Raises:
            HostError: It ended, or was not ready within the limit.
        """
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if not self.apiserver.alive:
                break
            with contextlib.suppress(OSError, http.client.HTTPException, KubeError):
                self.api.request("GET", "/readyz")
                return
            # Nothing tells of readiness but the question.
            time.sleep(0.05)
        raise HostError("API server", "not ready", rule=self.apiserver.log_text()[-3000:])

    def change(self, gates: Mapping[str, bool], *, emulated: str = "") -> None:
        """End every component but etcd, and start it with other gates; the data stay.

        Args:
            emulated: A version such as ``1.36`` whose gates and fields it has from now on.
        """
        self.gates, self.emulated = dict(gates), emulated
        for name in ("kube-controller-manager", "kube-scheduler", "kube-apiserver"):
            self.box.daemons[name].kill()
        self._start_components()

    def stop(self) -> None:
        """End everything at once."""
        self.box.kill()

    def node_kubeconfig(self, name: str, *, identity_file: str) -> tuple[str, str]:
        """What a node's kubelet is given.

        Args:
            name: The node's.
            identity_file: Where certificate and key will lie on the node, in one file.

        Returns:
            The kubeconfig, and the contents of that file.
        """
        made = self.authority.sign(name, f"/O=system:nodes/CN=system:node:{name}")
        both = made.certificate.read_text() + made.key.read_text()
        return self.authority.kubelet_kubeconfig(SERVER, identity_file), both

    def api_as(self, name: str, subject: str) -> Api:
        """A client under another identity, such as `/O=system:nodes/CN=system:node:a`."""
        made = self.authority.sign(name, subject)
        return Api(self.box, (ADDRESS, PORT), self._tls(made.certificate, made.key))

    def _admin(self) -> ssl.SSLContext:
        made = self.authority.sign("admin", "/O=system:masters/CN=admin")
        self.kubeconfig.write_text(self.authority.kubeconfig(SERVER, made))
        return self._tls(made.certificate, made.key)

    def _tls(self, certificate: Path, key: Path) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.load_cert_chain(certificate, key)
        return context

    def _component(self, name: str, *flags: str) -> None:
        kube = str(build(parts.KUBERNETES) / "kube")
        emulated = [f"--emulated-version={self.emulated}"] if self.emulated else []
        self.box.spawn(name, [kube, name, *flags, *gates_flag(self.gates), *emulated])

    def _start_etcd(self) -> None:
        etcd = str(build(parts.ETCD) / "etcd")
        data = f"--data-dir={self.folder}/etcd"
        self.box.spawn("etcd", [etcd, data, "--unsafe-no-fsync", "--log-level=warn"])

    def _start_apiserver(self) -> None:
        self._component(
            "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=0.0.0.0",
            f"--advertise-address={ADDRESS}",
            f"--secure-port={PORT}",
            f"--cert-dir={self.folder}/apiserver",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self.authority.certificate}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._tokens.certificate}",
            f"--service-account-signing-key-file={self._tokens.key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # No aggregated API here; without the two, scheduler and controller manager complain
            # for ever that this authority is missing.
            f"--requestheader-client-ca-file={self.authority.certificate}",
            "--requestheader-allowed-names=nobody",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--kubelet-client-certificate={self._kubelet_client.certificate}",
            f"--kubelet-client-key={self._kubelet_client.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--endpoint-reconciler-type=none",
            "--runtime-config=api/all=true",
        )

    def _start_scheduler(self) -> None:
        self._component("kube-scheduler", *self._as("kube-scheduler"))

    def _start_controller_manager(self) -> None:
        self._component(
            "kube-controller-manager",
            *self._as("kube-controller-manager"),
            "--use-service-account-credentials=true",
            # Its defaults (20 and 30) hold its own start back for 5 s.
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
            f"--service-account-private-key-file={self._tokens.key}",
            f"--root-ca-file={self.authority.certificate}",
        )

    def _as(self, user: str) -> list[str]:
        made = self.authority.sign(user, f"/CN=system:{user}")
        file = self.folder / f"{user}.kubeconfig"
        file.write_text(self.authority.kubeconfig(SERVER, made))
        kinds = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        return [
            *(f"--{kind}={file}" for kind in kinds),
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder}/{user}",
        ]
