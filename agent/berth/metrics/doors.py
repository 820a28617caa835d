"""What there is to say of the doors: kubelet's two, the runtime's, and the API server's slices."""

from __future__ import annotations

from berth.deviceplugin.plugin import PluginDoorStatistics
from berth.deviceplugin.podresources import PodResources
from berth.dra.plugin import DraPluginStatistics
from berth.dra.publication import PublisherStatistics
from berth.metrics.api import Traffic
from berth.metrics.hooks import MeteredHooks
from berth.metrics.page import Page
from berth.metrics.words import ERROR, OK


def put_dra(page: Page, dra: DraPluginStatistics) -> None:
    """What kubelet said of the driver."""
    page.put("berth_dra_registrations_total", dra.registration.times, OK)
    page.put("berth_dra_registrations_total", dra.registration.refusals, ERROR)


def put_plugin(page: Page, door: PluginDoorStatistics, pods: PodResources) -> None:
    """How resources fare at kubelet, and how it answers."""
    for one in door.resources:
        page.put_all(
            "berth_plugin_registrations_total",
            {(one.name, *result): count for result, count in one.tries.items()},
        )
        service = one.service
        page.put("berth_plugin_allocations_total", service.allocated, one.name, OK)
        page.put("berth_plugin_allocations_total", service.refused, one.name, ERROR)
        page.put("berth_plugin_list_updates_total", service.lists, one.name, OK)
        page.put("berth_plugin_list_updates_total", service.faulty, one.name, ERROR)
    page.put_figure("berth_podresources_seconds", pods.seconds)
    page.put_all("berth_podresources_lists_total", pods.seconds.counts())


def put_slices(page: Page, published: PublisherStatistics) -> None:
    """The slices as they stand on the server."""
    for pool, state in published.pools.items():
        page.put("berth_slices", state.slices, pool)
        page.put("berth_slice_generation", state.generation, pool)
    page.put_all("berth_slice_restored_total", published.restored)
    dropped = published.dropped.items()
    page.put_all("berth_slice_fields_dropped", {(field,): count for field, count in dropped})
    page.put_all("berth_taints", published.taints)
    page.put_all(
        "berth_feature_state", {(one.key, one.verdict.value): 1 for one in published.features}
    )


def put_traffic(page: Page, traffic: Traffic) -> None:
    """What was asked of the API server."""
    page.put_figure("berth_api_requests_total", traffic.requests)
    page.put_figure("berth_api_request_seconds", traffic.seconds)
    page.put_figure("berth_api_watch_restarts_total", traffic.watch_restarts)
    page.put_figure("berth_slice_write_seconds", traffic.slice_writes)
    page.put_all("berth_slice_writes_total", traffic.slice_writes.counts())
    page.put_figure("berth_claim_status_writes_total", traffic.status_writes)


def put_nri(page: Page, hooks: MeteredHooks, *, connected: bool) -> None:
    """Whether the runtime asks, and how it is answered."""
    page.put("berth_nri_connected", connected)
    page.put_figure("berth_nri_hook_seconds", hooks.seconds)
    page.put_figure("berth_nri_refusals_total", hooks.refusals)
