"""Point 5: what a container gets by our own list is enough to compute, and like nvidia-ctk's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.gpu.edits import Draft, gpu_draft
from berth.gpu.toolkit import checked, paths_of, read_answer, taken_over
from berth.host.nvidiactk import ask_tool, find_tool
from berth.host.nvidiafiles import NodeFacts, NvidiaFiles
from berth.model.edits import Edits
from berth.model.gpu import Gpu
from tests.hardware import bareroot
from tests.hardware.conftest import ROOT, Report
from tests.hardware.cuda import NUMBER
from tests.hardware.nvmltrace import Call

SMI = "/usr/bin/nvidia-smi"


@pytest.fixture(scope="session")
def facts(calls: tuple[Call, ...], addresses: tuple[str, ...]) -> NodeFacts:
    """The files of the machine."""
    (version,) = (call.value for call in calls if call.symbol == "nvmlSystemGetDriverVersion")
    return NvidiaFiles().read(version=version, addresses=addresses)


@pytest.fixture(scope="session")
def whole(calls: tuple[Call, ...], addresses: tuple[str, ...]) -> Gpu:
    """The first GPU that is not divided."""
    by_key = {(call.symbol, call.of): call.value for call in calls if not call.error}
    for of in addresses:
        if not (by_key.get(("nvmlDeviceGetMigMode", of)) or [0])[0]:
            uuid = by_key["nvmlDeviceGetUUID", of]
            minor = by_key["nvmlDeviceGetMinorNumber", of]
            return Gpu(address=of, uuid=uuid, minor=minor)
    pytest.skip("SKIPPED FOR WANT OF A WHOLE GPU: every one is in MIG mode")


@pytest.fixture(scope="session")
def draft(whole: Gpu, facts: NodeFacts) -> Draft:
    """What a container gets of that GPU."""
    return gpu_draft(whole, facts)


def test_bare_root_has_what_a_container_gets_and_nothing_more(
    draft: Draft, report: Report, tmp_path: Path
) -> None:
    """The nodes of the list with their numbers, beside four plain ones."""

    _need_root()
    code = "import json, os; print(json.dumps(sorted(os.listdir('/dev'))))"
    done = bareroot.run(
        bareroot.plan(tmp_path, _edits(draft), (bareroot.PYTHON, "-c", code)), timeout_s=60
    )
    assert done.returncode == 0, done.stderr
    wanted = {node.path for one in _edits(draft) for node in one.nodes}
    report("nodes", sorted(wanted))
    report("nodes that the host lacks", draft.missing)
    plain = {"null", "zero", "random", "urandom"}

    assert set(json.loads(done.stdout)) == plain | {Path(path).name for path in wanted}


def test_kernel_runs_with_what_a_container_gets(
    draft: Draft, compute: None, report: Report, tmp_path: Path
) -> None:
    """It writes a number, which is read back; one GPU is seen, whatever the machine has."""

    _need_root()
    command = (bareroot.PYTHON, "-m", "tests.hardware.cuda", "probe")
    document = bareroot.plan(tmp_path, _edits(draft), command, [ROOT / "tests"])
    document["environment"]["PYTHONPATH"] = str(ROOT)
    done = bareroot.run(document, timeout_s=60)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    told = json.loads(done.stdout.splitlines()[-1])
    report("kernel in a bare root", told)

    assert told == {"devices": 1, "number": NUMBER}


def test_nvidia_smi_runs_with_what_a_container_gets(
    facts: NodeFacts, whole: Gpu, draft: Draft, report: Report, tmp_path: Path
) -> None:
    """It lists the one GPU."""

    _need_root()
    if SMI not in facts.extras:
        pytest.skip(f"SKIPPED FOR WANT OF {SMI}: the driver is installed without")
    document = bareroot.plan(tmp_path, _edits(draft), (SMI, "-L"))
    done = bareroot.run(document, timeout_s=60)
    report("nvidia-smi in a bare root", [done.returncode, done.stdout, done.stderr])

    assert done.returncode == 0
    assert whole.uuid in done.stdout
    assert done.stdout.count("UUID: GPU-") == 1


@pytest.fixture
def tool() -> str:
    """Path of nvidia-ctk."""
    found = find_tool()
    if not found:
        pytest.skip("SKIPPED FOR WANT OF nvidia-ctk: it is not installed")
    return found


async def test_nvidia_ctk_passes_the_checks_and_differs_as_told(
    facts: NodeFacts, tool: str, whole: Gpu, draft: Draft, report: Report
) -> None:
    """What either has and the other has not is kept."""

    try:
        answer = read_answer(await ask_tool(tool))
        existing = NvidiaFiles().existing(paths_of(answer))
        toolkit = checked(answer, facts, existing)
    except BerthError as error:
        report("nvidia-ctk", str(error))
        raise
    theirs = taken_over(toolkit, whole.uuid, draft)
    report("nvidia-ctk", {"theirs": _more(theirs, draft), "ours": _more(draft, theirs)})

    assert {node.path for one in _edits(theirs) for node in one.nodes} >= {
        f"/dev/nvidia{whole.minor}",
        "/dev/nvidiactl",
    }


def _need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("SKIPPED FOR WANT OF ROOT: makes nodes in a namespace of its own")


def _edits(draft: Draft) -> tuple[Edits, ...]:
    return (draft.common, draft.edits)


def _more(one: Draft, other: Draft) -> dict[str, list[str]]:
    """What one has and the other has not."""
    return {
        name: sorted(set(of(_edits(one))) - set(of(_edits(other))))
        for name, of in (("nodes", _nodes), ("files", _files), ("env", _env), ("hooks", _hooks))
    }


def _nodes(edits: Iterable[Edits]) -> list[str]:
    return [node.path for one in edits for node in one.nodes]


def _files(edits: Iterable[Edits]) -> list[str]:
    return [mount.container_path for one in edits for mount in one.mounts]


def _env(edits: Iterable[Edits]) -> list[str]:
    return [entry for one in edits for entry in one.env]


def _hooks(edits: Iterable[Edits]) -> list[str]:
    return [" ".join((hook.path, *hook.args)) for one in edits for hook in one.hooks]
