"""The page of figures: every part is asked when somebody wants it, and not before.

A part whose figures have a defect is left out and told once, so that all others are still seen.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import trio

from berth import __version__
from berth.daemon.operator import Operator
from berth.daemon.parts import Parts
from berth.health.finding import Severity
from berth.host.nvml.session import SessionState
from berth.host.uevents import HEARD
from berth.metrics.departed import Departed
from berth.metrics.devices import put_devices, seen
from berth.metrics.doors import put_dra, put_nri, put_plugin, put_slices, put_traffic
from berth.metrics.health import put_changes, put_probes
from berth.metrics.holdings import put_claims, put_files, put_holds, put_looks, put_nics
from berth.metrics.lag import measure_lag
from berth.metrics.machine import gpu_device, put_gpus, put_session, put_uevents
from berth.metrics.page import Page
from berth.metrics.server import MetricsServer
from berth.metrics.textfile import Textfile
from berth.model.inventory import Inventory
from berth.model.meter import Timing
from berth.runtime.logs import get_log
from berth.runtime.supervisor import Phase, PluginStatus, Supervisor

FRESH_S: Final = 1.0
"""How old a page may be that is given again: so many clients cost no more than one."""

_SUPERVISED: Final = {
    "dra": "dra",
    "device-plugin": "plugin",
    "nri": "nri",
    "api": "api",
    "health": "monitors",
}
# Components by the names of the plugins that run them.

_log = get_log(__name__)


class Monitoring:
    """Reads the parts, and tells whoever monitors the node.

    Args:
        supervisor: Whose plugins are told.
        is_ready: Says whether the start is over and the stop has not begun.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        supervisor: Supervisor,
        operator: Operator,
        is_ready: Callable[[], bool],
    ) -> None:
        self._is_ready = is_ready
        self._parts = parts
        self._supervisor = supervisor
        self._operator = operator
        self._started_s = time.time()
        self._lag = Timing()
        self._text = b""
        self._made_at = -FRESH_S
        self._told: set[str] = set()
        self._departed = Departed()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve and write figures until cancelled.

        Raises:
            HostError: The address cannot be listened on; in an exception group.
        """
        table = self._parts.config.metrics
        async with trio.open_nursery() as nursery:
            if table.textfile is not None:
                await nursery.start(Textfile(table.textfile, self.text).run)
            if table.listen is not None:
                await nursery.start(MetricsServer(table.listen, self.text).run)
            nursery.start_soon(measure_lag, self._lag)
            task_status.started()

    def text(self) -> bytes:
        """The page of now, or of a moment ago."""
        now = trio.current_time()
        if now - self._made_at >= FRESH_S:
            self._made_at = now
            self._text = self.page().text()
        return self._text

    def page(self) -> Page:
        """Ask every part."""
        page = Page()
        for read in self._readings():
            try:
                read(page)
            except Exception:  # noqa: BLE001 - a defect of one part must not blind all others
                name = read.__name__
                if name not in self._told:
                    self._told.add(name)
                    _log.exception("figures of a part have a defect", part=name)
        return page

    def _readings(self) -> Iterator[Callable[[Page], None]]:
        yield self._daemon
        yield self._components
        yield self._devices
        yield self._holdings
        yield self._doors
        yield self._machine

    def _daemon(self, page: Page) -> None:
        page.put("berth_build_info", 1, __version__, platform.python_version())
        page.put("berth_config_info", 1, self._operator.digest)
        page.put_figure("berth_config_reloads_total", self._operator.reloads)
        page.put("berth_ready", self._is_ready())
        page.put("berth_start_time_seconds", self._started_s)
        page.put_figure("berth_event_loop_lag_seconds", self._lag)

    def _components(self, page: Page) -> None:
        """What works now, and how often it had to be begun anew."""
        parts, plugins = self._parts, self._plugins()
        restarts: dict[str, int] = {
            component: plugins[name].failures
            for name, component in _SUPERVISED.items()
            if name in plugins
        }
        up = {
            "monitors": "health" in plugins,
            "api": parts.gateway.server.get() is not None,
            "udev": HEARD.listeners > 0,
        }
        if "dra" in plugins:
            up["dra"] = parts.dra.statistics().registration.registered
        if "nri" in plugins:
            up["nri"] = parts.nri.get().synchronized
            restarts["nri"] += parts.nri_losses
        resources = parts.door.statistics().resources
        if resources:
            up["plugin"] = all(one.state.registered for one in resources)
        restarts["udev"] = int(sum(HEARD.overflows.series().values()))
        gpus, owner = parts.held.gpus, parts.held.nvml
        if gpus is not None and owner is not None:
            up["nvml"] = gpus.grip.session.state is SessionState.UP
            restarts["nvml"] = max(0, owner.statistics().sessions - 1)
        for name, component in _SUPERVISED.items():
            if component in up and name in plugins:
                up[component] = up[component] and plugins[name].phase is Phase.SERVING
        page.put_all("berth_component_up", {(name,): on for name, on in up.items()})
        counts = {(name,): count for name, count in restarts.items() if name in up}
        page.put_all("berth_component_restarts_total", counts)

    def _plugins(self) -> Mapping[str, PluginStatus]:
        """What was started: settings may say something else by now, for the next start."""
        return {one.name: one for one in self._supervisor.statistics().plugins}

    def _devices(self, page: Page) -> None:
        inventory = self._parts.held.discovery.inventory.get()
        health = self._parts.care.health
        self._drop_departed(inventory)
        put_devices(page, inventory, health.state.get(), self._causes_of)
        put_changes(page, health.changes, self._parts.dra.statistics().health)

    def _drop_departed(self, inventory: Inventory) -> None:
        """Drop the series of devices that have been gone for long."""
        changes, gpus = self._parts.care.health.changes.count, self._parts.care.gpus
        present = {one.device for one in seen(inventory)}
        named = {device for device, _ in changes.series()}
        if gpus is not None and self._parts.held.gpus is not None:
            # A GPU that is offered in parts stands in no list itself.
            present |= {gpu_device(one.address) for one in self._parts.held.gpus.layouts.get()}
            named |= {gpu_device(xid.address) for xid in gpus.journal.xids}
            named |= {gpu_device(address) for address, _ in gpus.journal.ecc_errors}
        kept = self._departed.kept(present, named, trio.current_time())
        changes.retain(lambda values: values[0] in kept)
        if gpus is not None:
            gpus.journal.retain(lambda address: gpu_device(address) in kept)

    def _causes_of(self, name: str) -> Iterator[Severity]:
        """How bad each thing is that speaks against a device or its whole."""
        for _, course in self._parts.care.health.courses_of(name):
            yield from (cause.severity for cause in course.causes)

    def _holdings(self, page: Page) -> None:
        held, work = self._parts.held, self._parts.work
        put_holds(page, held.ledger)
        put_claims(page, held.records.all(), self._parts.metered)
        put_files(
            page,
            cdi=work.cdi,
            metadata=work.metadata,
            state=(held.records.folder, held.given.folder, self._parts.care.folder),
        )
        put_nics(page, held.nics)
        looks = (held.discovery.rescans, held.stock.rescans)
        put_looks(page, *looks, *((held.gpus.rescans,) if held.gpus is not None else ()))

    def _doors(self, page: Page) -> None:
        parts, plugins = self._parts, self._plugins()
        if "dra" in plugins:
            put_dra(page, parts.dra.statistics())
        put_plugin(page, parts.door.statistics(), parts.pods)
        publisher = parts.publisher.get()
        if publisher is not None:
            put_slices(page, publisher.statistics())
        put_traffic(page, parts.traffic)
        if "nri" in plugins:
            put_nri(page, parts.metered_hooks, connected=parts.nri.get().synchronized)

    def _machine(self, page: Page) -> None:
        put_uevents(page, HEARD)
        gpus, owner, care = self._parts.held.gpus, self._parts.held.nvml, self._parts.care
        figures = owner.statistics() if owner is not None else None
        calls = figures.calls if figures is not None else None
        put_probes(page, care.rounds(), calls, trio.current_time())
        if gpus is not None and figures is not None:
            put_session(page, gpus.grip.session.state, gpus.cdi_source, figures)
        if care.gpus is not None:
            put_gpus(page, care.gpus.journal, care.gpus.figures())
