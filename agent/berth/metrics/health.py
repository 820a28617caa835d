"""What there is to say of those who watch devices, and of those who are told how they are."""

from __future__ import annotations

from collections.abc import Iterable

from berth.dra.health import HealthStatistics
from berth.health.changes import Changes
from berth.host.nvml.registry import RegistryStatistics
from berth.host.nvml.silence import overdue
from berth.metrics.page import Page
from berth.model.meter import Spread
from berth.node.health.rounds import Rounds


def put_changes(page: Page, changes: Changes, streams: HealthStatistics | None) -> None:
    """How verdicts changed, and how soon that was told.

    Args:
        streams: To kubelet; ``None`` where there are none.
    """
    page.put_figure("berth_device_health_changes_total", changes.count)
    page.put_figure("berth_health_publish_seconds", changes.seconds)
    for version, count in streams.streams.items() if streams is not None else ():
        page.put("berth_health_streams", count, version)


def put_probes(
    page: Page,
    rounds: Iterable[tuple[str, Rounds]],
    nvml: RegistryStatistics | None,
    now_s: float,
) -> None:
    """How probes fare, by the kind of what is probed.

    Args:
        nvml: The calls of NVML, whose owner keeps their deadlines: a probe of a GPU that does not
            answer is given up there, while its call is still out.
        now_s: On trio's clock.
    """
    timeouts: dict[tuple[str, ...], float] = {}
    stuck: dict[tuple[str, ...], float] = {}
    if nvml is not None:
        timeouts["gpu",] = nvml.unanswered.get("probe", 0)
        stuck["gpu",] = len(overdue(nvml.open, now_s))
    for kind, each in rounds:
        page.put_spread("berth_probe_seconds", each.seconds.series().get((), Spread()), kind)
        late = each.timeouts.series().get((), 0.0)
        timeouts[kind,] = timeouts.get((kind,), 0.0) + late
        stuck[kind,] = stuck.get((kind,), 0.0) + each.stuck
    page.put_all("berth_probe_timeouts_total", timeouts)
    page.put_all("berth_probes_stuck", stuck)
