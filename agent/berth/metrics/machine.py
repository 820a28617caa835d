"""What there is to say of the machine: events of devices, and the session with the GPUs' driver."""

from __future__ import annotations

from typing import Protocol

from berth.host.nvml.registry import RegistryStatistics
from berth.host.nvml.session import SessionState
from berth.host.uevents import Heard
from berth.metrics.page import Page


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
