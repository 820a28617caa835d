"""The committed code is what the .proto files say, and all of it loads in one process."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.internal import api_implementation

ROOT = Path(__file__).resolve().parents[3]
COMMITTED = ROOT / "agent" / "berth" / "pb"
NAMES = sorted(path.stem for path in (ROOT / "proto" / "berth" / "pb").glob("*.proto"))

PACKAGES = {
    "core_v1": "k8s.io.api.core.v1",
    "deviceplugin_v1beta1": "v1beta1",
    "dra_health_v1": "v1",
    "dra_health_v1alpha1": "v1alpha1",
    "dra_v1": "k8s.io.kubelet.pkg.apis.dra.v1",
    "dra_v1beta1": "k8s.io.kubelet.pkg.apis.dra.v1beta1",
    "nri": "nri.pkg.api.v1alpha1",
    "pluginregistration": "pluginregistration",
    "podresources_v1": "v1",
    "pods_v1alpha1": "v1alpha1",
    "rpcstatus": "google.rpc",
    "ttrpc": "ttrpc",
}


def _descriptor(name: str) -> FileDescriptor:
    descriptor: FileDescriptor = importlib.import_module(f"berth.pb.{name}_pb2").DESCRIPTOR
    return descriptor


def _generated(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*_pb2.py*")}


def test_committed_code_equals_what_the_generator_gives(tmp_path: Path) -> None:
    """A .proto file changed without `make proto`, or edited code, is found."""
    (tmp_path / "berth" / "pb").mkdir(parents=True)
    command = [sys.executable, str(ROOT / "tools" / "proto.py"), str(tmp_path)]
    subprocess.run(command, check=True, cwd=tmp_path)

    assert _generated(tmp_path / "berth" / "pb") == _generated(COMMITTED)


def test_generator_removes_code_without_source(tmp_path: Path) -> None:
    """A .proto file that is no more leaves nothing behind."""
    folder = tmp_path / "berth" / "pb"
    folder.mkdir(parents=True)
    (folder / "gone_pb2.py").write_text("")
    command = [sys.executable, str(ROOT / "tools" / "proto.py"), str(tmp_path)]
    subprocess.run(command, check=True, cwd=tmp_path)

    assert not (folder / "gone_pb2.py").exists()


@pytest.mark.parametrize("name", NAMES)
def test_package_is_the_one_on_the_wire(name: str) -> None:
    """Packages name the services; the file's name is ours alone."""
    assert _descriptor(name).package == PACKAGES[name]


def test_protobuf_runs_on_upb() -> None:
    """The pure Python implementation needs a hundred times as long for a big message."""
    assert api_implementation.Type() == "upb"
