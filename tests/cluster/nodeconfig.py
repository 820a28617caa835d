"""The files that a node's kubelet, containerd and pod network are configured with."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.cluster.images import PAUSE

CNI_BIN = "/usr/lib/cni"
CA_FILE = "/etc/kubernetes/pki/ca.crt"
KUBELET_KUBECONFIG = "/etc/kubernetes/kubelet.conf"
KUBELET_IDENTITY = "/var/lib/kubelet/pki/kubelet-client-current.pem"
SECOND_HANDLER = "isolated"
"""A second runtime handler, which runs pods as the first does: by runc."""

VALIDATOR = """[plugins."io.containerd.nri.v1.nri".default_validator]
  enable = true
"""
"""Lets a pod ask for a plugin without which none of its containers is made; from 2.2 on."""


def kubelet(*, cgroup_root: str, gates: Mapping[str, bool], **more: object) -> str:
    """The configuration of kubelet, for 1.34 and 1.37 alike.

    Args:
        more: Further fields in its own spelling.
    """
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": CA_FILE},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "enforceNodeAllocatable": [],
        # Zero is refused, and the defaults would evict on a disk that is merely well filled.
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
            "imagefs.inodesFree": "1%",
        },
        # 1.35 and later refuse cgroup v1 otherwise.
        "failCgroupV1": False,
        "failSwapOn": False,
        "featureGates": dict(gates),
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "readOnlyPort": 0,
        "resolvConf": "",
        **more,
    }
    return json.dumps(document, indent=1)


def containerd(version: tuple[int, int]) -> str:
    """The configuration of containerd, CDI and NRI on, for that version."""
    return _containerd_1() if version < (2, 0) else _containerd_2(version)


def _containerd_1() -> str:
    return f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  enable_cdi = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    # Whoever names one handler here has no other.
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{SECOND_HANDLER}]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_BIN}"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
"""


def _containerd_2(version: tuple[int, int]) -> str:
    binaries = f'bin_dirs = ["{CNI_BIN}"]' if version >= (2, 4) else f'bin_dir = "{CNI_BIN}"'
    return f"""version = 3
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE runc cannot lower it and every sandbox fails, with a message that
  # speaks of something else (`can't get final child's PID from pipe: EOF`).
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    {binaries}
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{SECOND_HANDLER}]
    runtime_type = "io.containerd.runc.v2"
{VALIDATOR if version >= (2, 2) else ""}"""


def pod_network(subnet: str) -> str:
    """A CNI list that gives each pod a veth pair to the node and an address of the subnet."""
    document = {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": subnet}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }
        ],
    }
    return json.dumps(document, indent=1)
