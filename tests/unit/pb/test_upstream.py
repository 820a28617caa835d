"""Our .proto files agree with upstream's where a Go module cache on this machine has those."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from berth.pb import core_v1_pb2

KUBELET = "k8s.io/kubelet@v*/pkg/apis"
NRI = "github.com/containerd/nri@v*/pkg/api/api.proto"

UPSTREAM = {
    "deviceplugin_v1beta1": f"{KUBELET}/deviceplugin/v1beta1/api.proto",
    "dra_health_v1": f"{KUBELET}/dra-health/v1/api.proto",
    "dra_health_v1alpha1": f"{KUBELET}/dra-health/v1alpha1/api.proto",
    "dra_v1": f"{KUBELET}/dra/v1/api.proto",
    "dra_v1beta1": f"{KUBELET}/dra/v1beta1/api.proto",
    "nri": NRI,
    "pluginregistration": f"{KUBELET}/pluginregistration/v1/api.proto",
    "pods_v1alpha1": f"{KUBELET}/pods/v1alpha1/api.proto",
    "podresources_v1": f"{KUBELET}/podresources/v1/api.proto",
    "core_v1": "k8s.io/api@v*/core/v1/generated.proto",
    "ttrpc": "github.com/containerd/ttrpc@v*/request.proto",
}

# Added upstream after the version that a cache may hold.
YOUNG = {
    "nri": "NRI_version",
    "dra_v1": "share_id",
    "podresources_v1": "share_id",
    "dra_health_v1alpha1": "health_check_timeout_seconds",
}

Fields = dict[str, tuple[object, ...]]


@cache
def module_cache() -> Path | None:
    """Gives Go's module cache: as the environment says, as Go says, or at its usual place."""
    told = os.environ.get("GOMODCACHE", "")
    go = shutil.which("go")
    if not told and go:
        command = [go, "env", "GOMODCACHE"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    folder = Path(told) if told else Path.home() / "go" / "pkg" / "mod"
    return folder if folder.is_dir() else None


def _version(path: Path) -> tuple[int, ...]:
    version = next(part for part in path.parts if "@v" in part).partition("@v")[2]
    return tuple(int(number) for number in version.partition("-")[0].split("."))


def upstream_file(name: str) -> Path:
    """Gives the newest upstream file in the cache, or skips the test."""
    folder = module_cache()
    found = sorted(folder.glob(UPSTREAM[name]), key=_version) if folder else []
    for path in reversed(found):
        if YOUNG.get(name, "") in path.read_text():
            return path
    pytest.skip(f"no Go module cache here holds {UPSTREAM[name]}: not compared with upstream")


def _compile(path: Path, scratch: Path) -> FileDescriptorSet:
    """Compiles upstream's file alone: imports of option files are of no use to its fields."""
    lines = path.read_text().splitlines()
    options = ("import ", "option ")
    kept = [line for line in lines if not line.lstrip().startswith(options)]
    source = "\n".join(kept).replace("google.rpc.Status status", "bytes status")
    (scratch / "api.proto").write_text(_without_field_options(source))
    target = scratch / "set"
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc"),
        *(f"--proto_path={scratch}", f"--descriptor_set_out={target}", "api.proto"),
    ]
    subprocess.run(command, check=True)
    return FileDescriptorSet.FromString(target.read_bytes())


def _without_field_options(source: str) -> str:
    kept = []
    inside = False
    for line in source.splitlines():
        code, slashes, comment = line.partition("//")
        opened = code.find("[")
        if inside or opened >= 0:
            closed = code.rfind("]")
            start = "" if inside else code[:opened]
            inside = closed < 0
            code = start if inside else start + code[closed + 1 :]
        kept.append(code + slashes + comment)
    return "\n".join(kept)


def _fields(prefix: str, message: descriptor_pb2.DescriptorProto) -> Fields:
    name = f"{prefix}.{message.name}"
    fields: Fields = {
        f"{name}.{field.name}": (
            field.number,
            field.label,
            field.type,
            field.type_name,
            field.proto3_optional,
        )
        for field in message.field
    }
    for nested in message.nested_type:
        fields |= _fields(name, nested)
    return fields


def _contents(file: descriptor_pb2.FileDescriptorProto) -> Fields:
    contents: Fields = {}
    for message in file.message_type:
        contents |= {f".{file.package}.{message.name}": ("message",)}
        contents |= _fields(f".{file.package}", message)
    for enum in file.enum_type:
        contents |= {f"{enum.name}.{value.name}": (value.number,) for value in enum.value}
    for service in file.service:
        contents |= {
            f"{service.name}/{method.name}": (
                method.input_type,
                method.output_type,
                method.client_streaming,
                method.server_streaming,
            )
            for method in service.method
        }
    return contents


@pytest.mark.parametrize("name", sorted(UPSTREAM.keys() - {"core_v1"}))
def test_fields_equal_upstreams(name: str, tmp_path: Path) -> None:
    """Each name, number and type of ours is upstream's; upstream may have more."""
    upstream = _contents(_compile(upstream_file(name), tmp_path).file[0])
    own_file = descriptor_pb2.FileDescriptorProto()
    importlib.import_module(f"berth.pb.{name}_pb2").DESCRIPTOR.CopyToProto(own_file)
    own = _contents(own_file)
    own.pop(".ttrpc.Response.status", None)

    assert own == {key: upstream.get(key) for key in own}


def test_fields_of_a_pod_have_upstreams_numbers() -> None:
    """Its file is proto2 and imports others, so it is read, not compiled."""
    source = upstream_file("core_v1").read_text()
    for message in core_v1_pb2.DESCRIPTOR.message_types_by_name.values():
        block = re.search(
            rf"^message {message.name} {{$(.*?)^}}$", source, re.MULTILINE | re.DOTALL
        )
        assert block is not None
        for field in message.fields:
            kind = field.message_type.name if field.message_type is not None else "string"
            label = "repeated" if field.is_repeated else "optional"
            assert f"  {label} {kind} {field.name} = {field.number};\n" in block[1]
