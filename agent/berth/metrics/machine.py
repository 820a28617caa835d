"""What there is to say of the machine: events of devices, and the session with the GPUs' driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from berth.gpu.naming import gpu_name
from berth.host.nvml.registry import RegistryStatistics
from berth.host.nvml.session import SessionState
from berth.host.uevents import Heard
from berth.metrics.page import Page
from berth.node.watches.gpucases import GpuFigures
from berth.node.watches.xids import XidJournal


class SessionFigures(Protocol):
    """What NVML's owner tells of itself; see `berth.host.nvml.owner.NvmlStatistics`."""

    @property
    def calls(self) -> RegistryStatistics:
        """Of the calls."""

    @property
    def sessions(self) -> int:
        """How many were opened."""

    @property
    def dropped(self) -> int:
        """Events that nobody could be told."""


class Counted(Protocol):
    """NVML's owner, to whoever reads its figures: its module loads NVIDIA's bindings."""

    def statistics(self) -> SessionFigures:
        """Give the figures of now."""
        ...


def put_gpus(page: Page, journal: XidJournal, figures: Mapping[str, GpuFigures]) -> None:
    """What GPUs of the driver reported, and what they said last.

    Args:
        figures: What each said last, by its identity.
    """
    xids = {
        (gpu_device(xid.address), str(xid.code), xid.xid_class.value): count
        for xid, count in journal.xids.items()
    }
    page.put_all("berth_gpu_xid_total", xids)
    errors = {(gpu_device(at), type_): n for (at, type_), n in journal.ecc_errors.items()}
    page.put_all("berth_gpu_ecc_errors_total", errors)
    for identity, gpu in figures.items():
        device = gpu_device(identity.partition(":")[2])
        if gpu.action is not None:
            page.put("berth_gpu_recovery_action", gpu.action, device)
        page.put("berth_gpu_rows_remap_pending", gpu.remap_pending, device)


def gpu_device(address: str) -> str:
    """The slice name of a whole GPU, offered as such or in parts; of none that is known a word."""
    return gpu_name(address) if address else "unknown"


def put_uevents(page: Page, heard: Heard) -> None:
    """Events of devices."""
    page.put_figure("berth_uevents_total", heard.events)
    page.put_figure("berth_uevent_overflows_total", heard.overflows)


def put_session(page: Page, state: SessionState, source: str, figures: SessionFigures) -> None:
    """The session with NVIDIA's library, and what it is asked.

    Args:
        source: Who says what a container gets of a GPU.
    """
    page.put("berth_nvml_session", 1, state.value)
    page.put("berth_cdi_source", 1, source)
    page.put_figure("berth_nvml_calls_total", figures.calls.ended)
    for call, count in figures.calls.unanswered.items():
        page.put("berth_nvml_calls_total", count, call, "unanswered")
    page.put_figure("berth_nvml_call_seconds", figures.calls.seconds)
    page.put("berth_nvml_events_dropped_total", figures.dropped)
