"""Generates agent/berth/pb from proto/, the same bytes every time.

The compiler and the stub generator are those of the locked development environment, so that the
generated code belongs to the protobuf it runs with. Only messages are generated: of services the
daemon needs no more than their names, which the descriptors carry.

    python tools/proto.py [FOLDER]     FOLDER: where berth/pb goes, agent by default
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
AGENT = ROOT / "agent"


def names() -> list[str]:
    """Gives the .proto files as their imports name them, sorted."""
    return sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.proto"))


def generate(target: Path) -> int:
    """Writes the modules and stubs of every .proto file under ``target``.

    Args:
        target: The folder that holds, or will hold, ``berth/pb``.

    Returns:
        The compiler's exit code; it has told its faults on stderr.
    """
    stubs = shutil.which("protoc-gen-mypy", path=str(Path(sys.executable).parent))
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc"),
        f"--plugin=protoc-gen-mypy={stubs}",
        f"--proto_path={SOURCES}",
        f"--python_out={target}",
        f"--mypy_out=quiet:{target}",
        *names(),
    ]
    return subprocess.run(command, check=False).returncode


def main(arguments: list[str]) -> int:
    """Generates into the folder given, or into the package; removes what has no source any more."""
    target = Path(arguments[0]) if arguments else AGENT
    for old in (target / "berth" / "pb").glob("*_pb2.py*"):
        old.unlink()
    return generate(target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
