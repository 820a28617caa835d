"""What it costs to load the daemon's code, measured in turns with the bare interpreter."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.bench.conftest import Report
from tests.bench.figures import Row

ROUNDS = 10
_LOAD = "from berth.daemon.start import load_all; load_all()"
_TELL = f"{_LOAD}; import sys; print(*sorted({{n.partition('.')[0] for n in sys.modules}}))"


def _run_ms(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - began) * 1000


def test_import_time(report: Report) -> None:
    """The whole daemon against a Python that does nothing."""

    pairs = [(_run_ms(_LOAD), _run_ms("pass")) for _ in range(ROUNDS)]
    told = subprocess.run([sys.executable, "-c", _TELL], check=True, capture_output=True, text=True)
    packages = sorted(set(told.stdout.split()) - sys.stdlib_module_names - {"__main__"})

    report(
        Row(
            name="import of the whole daemon",
            unit="ms",
            samples=tuple(load for load, _ in pairs),
            beside=tuple(bare for _, bare in pairs),
            beside_name="bare interpreter",
            note=f"packages: {', '.join(packages)}",
        )
    )
