"""A container to look at by hand: `python -m tests.nspawn.up` opens a shell beside berthd.

Everything ends with the shell.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.nspawn import bed as beds
from tests.nspawn.bed import Bed
from tests.nspawn.container import ENVIRONMENT
from tests.nspawn.rootfs import SUITES


def main() -> int:
    """Boot what is asked for, install the package, open the shell, end everything after it."""
    parser = argparse.ArgumentParser(prog="python -m tests.nspawn.up", description=__doc__)
    parser.add_argument("--release", default="12", choices=sorted(SUITES), help="of Debian")
    parser.add_argument("--bare", action="store_true", help="install nothing")
    parser.add_argument("command", nargs="*", help="run this instead of a shell")
    wanted = parser.parse_args()
    beds.install_tools()
    bed = Bed([])
    try:
        node = bed.boot(wanted.release)
        if not wanted.bare:
            node.provision(beds.package())
        command = [*node.container.enter(), *(wanted.command or ["bash"])]
        return subprocess.run(command, check=False, env=ENVIRONMENT).returncode
    finally:
        bed.close()


if __name__ == "__main__":
    sys.exit(main())
