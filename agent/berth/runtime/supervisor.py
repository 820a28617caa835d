"""A task per plugin and a nursery per run: what fails is told, rests a while, and starts again.

Theory. A plugin goes through *starting*, *serving* (it has called ``started()``) and, when its run
fails or returns, *resting*; then it starts anew. Only exceptions of a run end that run: what
outlives runs lies in ``node``. A `ConfigError` goes up and ends the daemon, since no repetition
mends it.

Order. Plugins start in the order given, each when the one before serves or has failed once, so that
a peer that is missing holds up nobody. `Supervisor.stop` goes the other way: each is drained, ended
and waited for before the one that was started before it. So NRI, started first, still attaches for
the prepares that DRA answers last.

Left out on purpose: limits on restarts (a node agent that gives up helps nobody) and dependencies
other than order.
"""

from __future__ import annotations

import enum
import random
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, Protocol

import attrs
import trio

from berth.errors import BerthError, ClaimError, ConfigError
from berth.runtime.backoff import BackOff
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

_log = get_log(__name__)
_chance: Final = random.SystemRandom().random


class Phase(enum.Enum):
    """Where a plugin stands."""

    WAITING = "waiting"
    """For those before it."""
    STARTING = "starting"
    SERVING = "serving"
    RESTING = "resting"
    """After a failure, before the next start."""
    DRAINING = "draining"
    STOPPED = "stopped"


class Run(Protocol):
    """One run of a plugin: calls ``started()`` when it serves, and goes on until cancelled."""

    async def __call__(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run once."""
        ...


async def _drain_nothing() -> None:
    await trio.lowlevel.checkpoint()


@attrs.frozen(kw_only=True)
class Plugin:
    """What the supervisor knows of a plugin.

    Attributes:
        name: For logs and states.
        run: One run; a return counts as a failure.
        drain: Takes no new work and returns when none is under way; called beside ``run``, within
            a scope that may cut it short.
    """

    name: str
    run: Run
    drain: Callable[[], Awaitable[None]] = _drain_nothing


@attrs.frozen(kw_only=True)
class PluginStatus:
    """How a plugin fares.

    Attributes:
        name: Of the plugin.
        phase: Where it stands.
        reason: Why the last run failed; empty while all is well.
        failures: Runs that failed since the daemon began.
        retry_s: Pause before the next start, while resting.
    """

    name: str
    phase: Phase = Phase.WAITING
    reason: str = ""
    failures: int = 0
    retry_s: float | None = None

    def __str__(self) -> str:
        pause = "" if self.retry_s is None else f" {self.retry_s:.0f} s"
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.name} {self.phase.value}{pause}{reason}"


@attrs.frozen(kw_only=True)
class SupervisorStatistics:
    """What can be seen of all plugins from outside.

    Attributes:
        plugins: One status each, in the order of starting.
    """

    plugins: tuple[PluginStatus, ...]

    @property
    def serving(self) -> bool:
        """Whether every plugin serves now."""
        return all(status.phase is Phase.SERVING for status in self.plugins)

    def __str__(self) -> str:
        return "; ".join(str(status) for status in self.plugins)


class Supervisor:
    """Runs plugins in order, again and again, until it is stopped.

    Args:
        plugins: In the order of starting.
        chance: Gives random numbers from 0 up to 1, which spread the pauses.
    """

    def __init__(self, plugins: Sequence[Plugin], *, chance: Callable[[], float] = _chance) -> None:
        self.state: Latest[SupervisorStatistics] = Latest(SupervisorStatistics(plugins=()))
        """The newest state of all plugins."""
        self._charges = tuple(_Charge(plugin, self._tell, chance) for plugin in plugins)
        self._fatal: ConfigError | None = None
        self._tell()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the plugins until cancelled or stopped.

        ``started()`` once each was started and serves, or has failed for the first time.

        Raises:
            ConfigError: A plugin raised it.
        """
        async with trio.open_nursery() as nursery:
            for charge in self._charges:
                nursery.start_soon(self._keep, charge, nursery.cancel_scope, name=charge.name)
                await charge.settled.wait()
            task_status.started()
        if self._fatal is not None:
            raise self._fatal

    async def _keep(self, charge: _Charge, all_plugins: trio.CancelScope) -> None:
        try:
            await charge.keep()
        except ConfigError as error:
            self._fatal = error
            all_plugins.cancel()

    async def stop(self, *, grace_s: float) -> None:
        """Drain and end the plugins, the last started first; then `run` returns.

        Args:
            grace_s: For all drains together. When it is over, runs end undrained, still in order.
        """
        deadline = trio.current_time() + grace_s
        for charge in reversed(self._charges):
            await charge.stop(deadline=deadline)

    async def wait_serving(self) -> None:
        """Wait until every plugin serves at once."""
        await self.state.wait_value(lambda state: state.serving)

    def statistics(self) -> SupervisorStatistics:
        """Give the state of now."""
        return self.state.get()

    def _tell(self) -> None:
        statuses = tuple(charge.status for charge in self._charges)
        self.state.set(SupervisorStatistics(plugins=statuses))


class _Charge:
    """One plugin over all its runs.

    Args:
        plugin: What to run.
        tell: Called after each change of `status`.
        chance: Spreads the pauses.
    """

    def __init__(
        self, plugin: Plugin, tell: Callable[[], None], chance: Callable[[], float]
    ) -> None:
        self.name = plugin.name
        self.status = PluginStatus(name=plugin.name)
        self.settled = trio.Event()
        self._plugin = plugin
        self._tell = tell
        self._chance = chance
        self._back_off = BackOff()
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._begun = False
        self._serving_since: float | None = None

    def _mark(self, phase: Phase, *, reason: str = "", retry_s: float | None = None) -> None:
        failures = self.status.failures + (phase is Phase.RESTING)
        self.status = PluginStatus(
            name=self.name, phase=phase, reason=reason, failures=failures, retry_s=retry_s
        )
        if phase not in {Phase.WAITING, Phase.STARTING}:
            self.settled.set()
        self._tell()

    async def keep(self) -> None:
        """Run the plugin again and again, until `stop`."""
        self._begun = True
        try:
            with self._scope:
                while not self._scope.cancel_called:
                    await self._run_and_rest()
        finally:
            self._mark(Phase.STOPPED)
            self._ended.set()

    async def _run_and_rest(self) -> None:
        self._mark(Phase.STARTING, reason=self.status.reason)
        self._serving_since = None
        reason = await self._run_once()
        self._back_off, retry_s = self._back_off.next_delay(
            ran_s=self._served_s(), chance=self._chance()
        )
        _log.error("plugin failed", plugin=self.name, reason=reason, retry_s=retry_s)
        self._mark(Phase.RESTING, reason=reason, retry_s=retry_s)
        await trio.sleep(retry_s)

    def _served_s(self) -> float:
        since = self._serving_since
        return 0.0 if since is None else trio.current_time() - since

    async def _run_once(self) -> str:
        """Run until it fails, and say why; other than exceptions of the run go up."""
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._plugin.run)
                self._serving_since = trio.current_time()
                _log.info("plugin serves", plugin=self.name)
                self._mark(Phase.SERVING)
        except Exception as error:  # noqa: BLE001 - whatever a run raises ends that run alone
            return self._judge(error)
        except BaseExceptionGroup as group:
            # Cancelled, and failed while it ended: the failure is told, the rest goes up.
            failures, rest = group.split(Exception)
            if failures is not None:
                _log.error("plugin failed", plugin=self.name, reason=self._judge(failures))
            if rest is not None:
                raise rest from None
        return "its run ended by itself"

    def _judge(self, error: Exception) -> str:
        """Give the reason in words; an error of the daemon's configuration is raised instead."""
        leaves = tuple(_leaves(error))
        for leaf in leaves:
            # Faults of a claim are configuration too, but not the daemon's.
            if isinstance(leaf, ConfigError) and not isinstance(leaf, ClaimError):
                raise leaf
        if not all(isinstance(leaf, BerthError) for leaf in leaves):
            _log.exception("plugin has a defect", plugin=self.name)
        return "; ".join(_words(leaf) for leaf in leaves)

    async def stop(self, *, deadline: float) -> None:
        """Drain if it serves, end the run, and wait for its end."""
        if not self._begun:
            self._scope.cancel()
            self.settled.set()
            return
        if self.status.phase is Phase.SERVING:
            self._mark(Phase.DRAINING)
            with trio.move_on_at(deadline):
                await self._drain()
        self._scope.cancel()
        await self._ended.wait()

    async def _drain(self) -> None:
        try:
            await self._plugin.drain()
        except Exception:  # noqa: BLE001 - the others must be stopped in any case
            _log.exception("drain failed, its plugin ends undrained", plugin=self.name)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, BerthError) else repr(error)
