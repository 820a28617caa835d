"""The two container images of the bed, made here: pause and busybox, in one OCI archive."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from tests.cluster import cache

PAUSE = "docker.io/lab/pause:1"
BUSYBOX = "docker.io/lab/busybox:1"
# A shell that waits and ends on TERM; as first process it also collects orphans.
WAIT_FOR_TERM = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"]
_PROGRAM = Path("/usr/bin/busybox")


def archive() -> Path:
    """The archive with both images, for `ctr image import`; made when the cache lacks it."""
    key = hashlib.sha256(_PROGRAM.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    return cache.entry(f"images-{key}", lambda folder: _write(folder / "images.tar")) / "images.tar"


def _write(file: Path) -> None:
    with tarfile.open(file, "w") as tar:
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        layer = _layer()
        _add_blob(tar, layer)
        manifests = [_add_image(tar, name, layer) for name in (PAUSE, BUSYBOX)]
        index = {"schemaVersion": 2, "manifests": manifests}
        _add(tar, "index.json", json.dumps(index).encode())


def _layer() -> bytes:
    """A root file system with busybox and a link for each of its programs."""
    listed = subprocess.run([_PROGRAM, "--list"], check=True, capture_output=True, text=True)
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for folder in ("bin", "etc", "tmp", "root"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        _add(tar, "bin/busybox", _PROGRAM.read_bytes(), mode=0o755)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        for program in listed.stdout.split():
            if program != "busybox":
                link = tarfile.TarInfo(f"bin/{program}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return written.getvalue()


def _add_image(tar: tarfile.TarFile, name: str, layer: bytes) -> dict[str, Any]:
    """Add one image; gives its entry of the archive's index."""
    configuration = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": WAIT_FOR_TERM, "Env": ["PATH=/bin"], "Labels": {"name": name}},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    ).encode()
    _add_blob(tar, configuration)
    kind = "application/vnd.oci.image"
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": f"{kind}.manifest.v1+json",
            "config": _descriptor(f"{kind}.config.v1+json", configuration),
            "layers": [_descriptor(f"{kind}.layer.v1.tar", layer)],
        }
    ).encode()
    _add_blob(tar, manifest)
    entry = _descriptor(f"{kind}.manifest.v1+json", manifest)
    return {**entry, "annotations": {"io.containerd.image.name": name}}


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _add_blob(tar: tarfile.TarFile, blob: bytes) -> None:
    _add(tar, "blobs/" + _digest(blob).replace(":", "/"), blob)


def _add(tar: tarfile.TarFile, name: str, contents: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(contents), mode
    tar.addfile(entry, io.BytesIO(contents))
