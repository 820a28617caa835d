"""What the cluster is made of, and where each piece comes from.

`python -m tests.cluster.parts` builds and fetches everything and does nothing else: continuous
integration starts it first, beside the tests that need no cluster. A test run asks for the same
pieces one by one, waits for those that another run is making, and finds the rest in the cache.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import attrs

from tests.cluster import cache, debian
from tests.cluster.gobuild import GoPart, build

KUBERNETES = GoPart(
    name="kubernetes",
    version="1.37.2",
    binaries={"kube": ".", "kubectl": "k8s.io/kubernetes/cmd/kubectl"},
)
KUBELET_134 = GoPart(
    name="kubelet134", version="1.34.4", binaries={"kubelet": "k8s.io/kubernetes/cmd/kubelet"}
)
ETCD = GoPart(name="etcd", binaries={"etcd": "go.etcd.io/etcd/server/v3"})
CONTAINERD = GoPart(
    name="containerd",
    binaries={
        name: f"github.com/containerd/containerd/v2/cmd/{name}"
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    tags=("no_btrfs", "no_zfs", "no_devmapper"),
)
# Of the machine's own Debian: any release serves, runc 1.1.5 of Debian 12 included.
FROM_DEBIAN = {
    "/usr/sbin/runc": "runc",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "/usr/bin/busybox": "busybox-static",
    "/usr/bin/openssl": "openssl",
}


@attrs.frozen(kw_only=True)
class Kind:
    """A pair of kubelet and containerd that a node runs."""

    name: str
    kubelet: GoPart
    containerd_release: str
    """The Debian release whose containerd it is; empty for the one we build."""

    def kubelet_command(self) -> tuple[str, ...]:
        """How its kubelet is started."""
        if self.kubelet is KUBERNETES:
            return (str(build(KUBERNETES) / "kube"), "kubelet")
        return (str(build(self.kubelet) / "kubelet"),)

    def containerd_folder(self) -> Path:
        """Where its `containerd`, `containerd-shim-runc-v2` and `ctr` lie."""
        if self.containerd_release:
            return debian.unpack("containerd", release=self.containerd_release) / "usr/bin"
        return build(CONTAINERD)

    def containerd_version(self) -> tuple[int, int]:
        """Major and minor: testing's containerd moves on, and its configuration with it."""
        told = subprocess.run(
            [self.containerd_folder() / "containerd", "--version"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()[2]
        major, minor = told.removeprefix("v").split(".")[:2]
        return int(major), int(minor)


KINDS = {
    kind.name: kind
    for kind in (
        Kind(name="1.37+2.4", kubelet=KUBERNETES, containerd_release=""),
        Kind(name="1.37+2.1", kubelet=KUBERNETES, containerd_release="testing"),
        Kind(name="1.34+1.7", kubelet=KUBELET_134, containerd_release="trixie"),
    )
}


def promtool() -> Path:
    """Prometheus' tool that judges rules. Debian 12's runs on every later release."""
    only = "usr/bin/promtool"
    return debian.unpack("prometheus", release="bookworm", only=only) / only


def install_tools() -> None:
    """The tools of the machine's own Debian that nodes and the test bed run."""
    debian.install(FROM_DEBIAN)


def ensure() -> None:
    """Everything, in the order in which tests want it: what is missing is built or fetched."""
    install_tools()
    for part in (KUBERNETES, CONTAINERD, ETCD):
        build(part)
    for kind in KINDS.values():
        kind.containerd_folder()
    promtool()
    build(KUBELET_134)


def main() -> int:
    """Build everything, say where it lies and how long it took."""
    began = time.monotonic()
    ensure()
    cache.say(f"complete in {cache.root()} after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
