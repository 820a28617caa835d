"""What the operator's command may ask of the daemon, verb by verb."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import trio

from berth import __version__
from berth.control import Event, Verb
from berth.daemon.configfile import ConfigFile, read_config
from berth.daemon.healthverbs import HealthVerbs
from berth.daemon.parts import Parts
from berth.daemon.topologyverb import TopologyVerb
from berth.deviceplugin.plugin import ResourceStatistics
from berth.errors import ConfigError, Faults, HostError, KubeError
from berth.generic.explain import explain, path_of
from berth.generic.matching import wanted
from berth.host.devnodes import NodeReader
from berth.model.meter import Tally
from berth.node.forgetting import forget
from berth.node.gpus.gpus import Gpus
from berth.node.records.record import ClaimRecord
from berth.node.views import (
    GpuSession,
    Knowledge,
    Kubelet,
    ResourceState,
    Status,
    as_used,
    devices_view,
    holds_view,
    nodes_view,
    reload_view,
    status_view,
    why_view,
)
from berth.runtime.logs import get_log
from berth.runtime.supervisor import Supervisor
from berth.runtime.systemd import Systemd

RELEASE_LIMIT_S: Final = 24 * 3600
"""Longest that the driver may be let go of."""

RULES_S: Final = 2.0
"""Longest that whoever looks at devices waits for the API server."""

USERS_S: Final = 1.0
"""Longest that whoever looks at holds waits for kubelet."""

_log = get_log(__name__)


class Operator:
    """Answers the verbs of the control socket, from the state of now.

    Args:
        file: The configuration in force.
        supervisor: Whose plugins are told.

    Attributes:
        reloads: Counts reloads, by result: ``taken`` or ``refused``.
    """

    def __init__(
        self,
        parts: Parts,
        file: ConfigFile,
        *,
        supervisor: Supervisor,
        systemd: Systemd,
    ) -> None:
        self.reloads = Tally("result").begin("taken", "refused")
        self._parts = parts
        self._file = file
        self._supervisor = supervisor
        self._systemd = systemd
        self._started = trio.current_time()

    @property
    def digest(self) -> str:
        """The beginning of the SHA-256 of the file in force."""
        return self._file.digest

    def verbs(self) -> Mapping[str, Verb]:
        """What the operator's command may ask."""
        return {
            "device": self._device,
            "devices": self._devices,
            "gpu": self._gpu,
            "holds": self._holds,
            "reload": self._reload,
            "status": _answer(lambda _: status_view(self._state())),
            "why": self._why,
            **HealthVerbs(self._parts.care, self._parts.held.discovery.inventory).verbs(),
            **TopologyVerb(self._parts, kubelet=self._parts.pods).verbs(),
        }

    async def _device(self, request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        """Forget a device that is gone.

        Raises:
            ConfigError: The request is odd, or nothing is remembered of that device.
            HostError: It is held or seen, or the disk refused.
        """
        action, name = request.get("action"), request.get("device")
        if action != "forget" or not isinstance(name, str) or not name:
            raise ConfigError(
                "device", f"is asked to {action!r}", rule="it is forget, with the device's name"
            )
        held = self._parts.held
        done = await forget(
            name,
            inventory=held.discovery.inventory.get(),
            ledger=held.ledger,
            gpus=held.gpus,
            stock=held.stock,
            forgotten=self._parts.care.health.forget,
        )
        _log.info("device forgotten by the operator", device=name)
        return {"done": done}

    async def _gpu(self, request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        """Let go of the driver, or take it up again.

        Raises:
            BerthError: GPUs are off, the request is odd, or the driver does not let go.
        """
        gpus = self._parts.held.gpus
        if gpus is None:
            raise ConfigError("[gpu] enabled", "is false", rule="there is nothing to let go of")
        action, for_s = request.get("action"), request.get("for_s", 0)
        if action == "release" and isinstance(for_s, int | float) and 0 < for_s <= RELEASE_LIMIT_S:
            await gpus.grip.release(float(for_s))
        elif action == "resume":
            gpus.grip.resume()
        else:
            raise ConfigError(
                "gpu", f"is asked to {action!r}", rule="it is release, for up to a day, or resume"
            )
        session = gpus.grip.session
        return {"session": f"{session.state.value} {session.detail}".strip()}

    async def _devices(self, _request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        ruled = await self._ruled()
        view = devices_view(
            self._parts.held.discovery.inventory.get(), self._parts.care.health.state.get()
        )
        return {**view, "warnings": [*view["warnings"], *self._remarks(), *ruled]}

    async def _ruled(self) -> tuple[str, ...]:
        """What rules of the cluster do to devices; they are read when somebody looks."""
        await trio.lowlevel.checkpoint()
        publisher = self._parts.publisher.get()
        if publisher is None:
            return ()
        why = f"the API server gave no answer within {RULES_S:g} s"
        with trio.move_on_after(RULES_S):
            try:
                return publisher.ruled(await self._parts.gateway.list_taint_rules())
            except KubeError as error:
                why = "these credentials may not list them" if error.status == 403 else str(error)
        return (f"DeviceTaintRules are not seen: {why}",)

    def _remarks(self) -> tuple[str, ...]:
        """What is to be known of the slices on the server, and of how devices are watched."""
        publisher = self._parts.publisher.get()
        slices = publisher.statistics().remarks if publisher is not None else ()
        return (*slices, *self._parts.care.remarks(), *self._parts.work.waits.remarks())

    async def _holds(self, _request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        held, records = self._parts.held, await self._records()
        return holds_view(
            records, held.ledger.holds(), held.given.all(), skipped=held.skipped.all()
        )

    async def _records(self) -> Sequence[ClaimRecord]:
        """What is prepared, with the pods that use it, as far as kubelet says so in time."""
        await trio.lowlevel.checkpoint()
        records = self._parts.held.records.all()
        if records:
            with trio.move_on_after(USERS_S), contextlib.suppress(HostError):
                return as_used(records, (await self._parts.pods.list_pods()).claims)
        return records

    async def reload_by_signal(self) -> None:
        """Read the settings again; a refusal is told to the journal alone."""
        with contextlib.suppress(Faults):
            await self._reload({}, _tell_nobody)

    async def _reload(self, _request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        """Take the file's devices; a bad file changes nothing.

        Raises:
            Faults: The file is refused; all of it is told.
        """
        self._systemd.reloading()
        try:
            file = await trio.to_thread.run_sync(read_config, self._file.path)
        except Faults as error:
            self.reloads.add("refused")
            _log.error("reload refused, the old settings stay", reason=error)
            raise
        finally:
            self._systemd.ready(str(self._supervisor.statistics()))
        view = reload_view(self._parts.config, file.config, path=file.path, warnings=file.warnings)
        self._file = file
        self.reloads.add("taken")
        self._parts.reload(file.config)
        _log.info(
            "reloaded",
            applied="; ".join(view["applied"]) or "-",
            at_next_start="; ".join(view["at_next_start"]) or "-",
        )
        return view

    def _state(self) -> Status:
        publisher = self._parts.publisher.get()
        dra = self._parts.dra.statistics()
        return Status(
            version=__version__,
            pid=os.getpid(),
            uptime_s=trio.current_time() - self._started,
            config=self._file.path,
            state_dir=self._parts.config.node.state_dir,
            driver=self._parts.config.dra.driver,
            plugins=self._supervisor.statistics(),
            inventory=self._parts.held.discovery.inventory.get(),
            records=self._parts.held.records.all(),
            given=self._parts.held.given.all(),
            node=publisher.choice if publisher is not None else None,
            nri=self._parts.nri.get(),
            nri_socket=self._parts.config.nri.socket,
            kubelet=(
                Kubelet(registered=dra.registration.registered, state=str(dra))
                if self._parts.config.dra.enabled
                else None
            ),
            api=self._parts.gateway.identity,
            publication=publisher.statistics() if publisher is not None else None,
            gpu=_gpu_session(self._parts.held.gpus),
            resources=tuple(map(_resource, self._parts.door.statistics().resources)),
            warnings=(*self._file.warnings, *self._remarks()),
        )

    async def _why(self, request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        """Tell what is known of a pod, claim or device, or what the groups say of a path.

        Raises:
            HostError: The path cannot be looked at.
        """
        asked, known = str(request.get("what", "")), await self._known()
        answer = why_view(asked, known)
        groups = self._parts.config.generic
        if asked.startswith("/"):
            path = path_of(asked, known.inventory.peripherals)
            scan = await trio.to_thread.run_sync(
                lambda: NodeReader().look_at(path, wanted(groups).attributes)
            )
            answer["found"] += nodes_view(explain(scan, groups))
        return answer

    async def _known(self) -> Knowledge:
        records = await self._records()
        publisher = self._parts.publisher.get()
        return Knowledge(
            records=records,
            skipped=[one for one in self._parts.held.skipped.all() if one.devices],
            inventory=self._parts.held.discovery.inventory.get(),
            given=self._parts.held.given.all(),
            troubles=self._parts.troubles.all(),
            nri=self._parts.nri.get(),
            publication=publisher.statistics() if publisher is not None else None,
            api=self._parts.gateway.identity,
            health=self._parts.care.health.state.get(),
            remarks=publisher.not_in_force if publisher is not None else (),
        )


def _gpu_session(gpus: Gpus | None) -> GpuSession | None:
    if gpus is None:
        return None
    session = gpus.grip.session
    return GpuSession(
        state=session.state.value,
        detail=session.detail,
        driver=session.driver.version if session.driver is not None else "",
        functions=session.functions,
    )


def _resource(found: ResourceStatistics) -> ResourceState:
    return ResourceState(
        name=found.name,
        units=found.units,
        healthy=found.healthy,
        registered=found.state.registered,
        reason=found.state.reason,
        rivals=found.state.rivals,
    )


def _answer(view: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Verb:
    """A verb that is answered at once, from the state of now."""

    async def verb(request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        return view(request)

    return verb


async def _tell_nobody(_event: Mapping[str, Any]) -> None:
    await trio.lowlevel.checkpoint()
