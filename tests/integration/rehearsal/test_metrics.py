"""The whole daemon tells figures: of a pod's life with a NIC, by HTTP and in a file."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from berth.runtime.threads import run_in_thread
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import start_pod, until
from tests.unit.metrics.exposition import Told, read

LISTEN = "127.0.0.1:9471"


async def scrape() -> dict[str, Told]:
    """What a scraper reads."""

    def get() -> bytes:
        with urllib.request.urlopen(f"http://{LISTEN}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            page: bytes = answer.read()
            return page

    return read(await run_in_thread("scrape", get))


def value(page: dict[str, Told], name: str, **labels: str) -> float:
    """The sum of a family's samples with these labels; of a histogram how many there were."""
    family = page.get(name)
    wanted = f"{name}_count" if family is not None and family.kind == "histogram" else name
    return sum(
        sample.value
        for sample in (family.samples if family is not None else ())
        if sample.name == wanted and labels.items() <= sample.labels.items()
    )


@pytest.mark.slow
async def test_figures_tell_the_life_of_a_pod(stages: Stages, tmp_path: Path) -> None:
    """Prepared, moved, seen, brought home; nobody's name is in it."""
    file = tmp_path / "berth.prom"
    stage = await stages(1, config={"metrics": {"listen": LISTEN, "textfile": str(file)}})

    async def works() -> bool:
        page = await scrape()
        parts = ("api", "dra", "nri", "monitors")
        up = [value(page, "berth_component_up", component=each) for each in parts]
        return up == [1] * len(parts) and value(page, "berth_ready") == 1

    await until(works)
    pod = await start_pod(stage, "web")

    async def is_told() -> bool:
        return value(await scrape(), "berth_claims_prepared", kind="nic") == 1

    # A page is given again for a second.
    await until(is_told)
    page = await scrape()
    assert value(page, "berth_prepare_seconds", kind="nic", result="ok") == 1
    assert value(page, "berth_nri_hook_seconds", hook="run_pod_sandbox", result="ok") == 1
    assert value(page, "berth_nic_moves_total", direction="pod", result="ok") == 1
    assert (value(page, "berth_nics_away"), value(page, "berth_holds", door="dra")) == (1, 1)
    assert value(page, "berth_slices") == 1
    assert value(page, "berth_slice_writes_total", verb="create", result="ok") == 1
    assert value(page, "berth_api_requests_total", resource="resourceclaims", code="200") >= 1
    assert value(page, "berth_cdi_files", kind="nic") == 1
    assert value(page, "berth_state_bytes") > 100
    assert value(page, "berth_device_info", kind="nic", group="spare") == 1

    await stage.pods.stop(pod, stage.kubelet)

    async def is_home() -> bool:
        page = await scrape()
        return value(page, "berth_nic_moves_total", direction="home", result="ok") == 1

    await until(is_home)
    page = await scrape()
    assert value(page, "berth_unprepare_seconds", kind="nic", result="ok") == 1
    assert (value(page, "berth_nics_away"), value(page, "berth_holds", door="dra")) == (0, 0)
    assert value(page, "berth_prepare_errors_total") == 0
    labels = {
        value for told in page.values() for one in told.samples for value in one.labels.values()
    }
    assert not any("web" in label for label in labels)
    assert read(file.read_bytes()).keys() <= page.keys()
    await stage.stop()
