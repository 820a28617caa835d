"""What the cluster can do for devices, learned in one place and told to whoever asks.

Three witnesses: the server's version, a slice that it is shown and does not store
(`berth.features.probe`), and what the Node declares. Where the server takes no such slice (an
admission hook that knows no ``dryRun``), what it drops of our writes is the second.

They are asked at the start, and again when a watch of the server broke: whoever answers then may be
another server, or the same with other gates. While nothing changes nothing is asked.

Source: KC §4.5, §8, §9.10.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
import trio

from berth.dra.pacing import Pace
from berth.errors import KubeError
from berth.features.feature import Number, find_number
from berth.features.probe import ROUNDS, Probe
from berth.features.servers import Server, Servers
from berth.features.states import Evidence, Fate, FeatureStates, Verdict, fold
from berth.kube.api import KubeApi, Node
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

_INVALID: Final = 422
_WITHHELD: Final = frozenset({403, 404})
"""Answers of a server that tells nobody, or not us, its version."""
_TIMES: Final = 6
"""How often in a row a server tells no version, or keeps nothing for show, until it is believed.

One that has just been started does so too, until it has made its own roles: seen on 1.37.2."""
_DEFINITE: Final = frozenset({400, _INVALID})
"""Answers that time does not change: an admission hook that supports no ``dryRun`` gives 400."""
_BUSY: Final = 429
_FAILING: Final = 500
"""Answers from which on a server, or a hook behind it, fails for a while. Seen on 1.37.2 for some
seconds after its start: 503 ``wait for storage version registration to complete``."""

_log = get_log(__name__)


class Capabilities:
    """The one owner of what is known of the cluster's features.

    Args:
        api: The API server.
        driver: Name of the driver.
        node_name: Name of the node.
    """

    def __init__(self, api: KubeApi, *, driver: str, node_name: str) -> None:
        self.states: Latest[FeatureStates] = Latest(fold(Evidence()))
        """How far the cluster has each feature."""
        self._api = api
        self._probe = Probe(driver=driver, node_name=node_name)
        self._servers = Servers()
        self._evidence = Evidence()
        self._pace = Pace()
        self._due = True
        self._hooked = False
        self._withheld = 0
        self._unshown = 0
        self._text = ""

    @property
    def is_due(self) -> bool:
        """Whether the server has to be asked."""
        return self._due

    def look_again(self) -> None:
        """Whoever answers from now on may be another server."""
        self._due = True

    def ready_at_s(self, now_s: float) -> float:
        """When it may be asked; a server that comes and goes is not asked each time."""
        return self._pace.ready_at_s(now_s)

    def changes_at_s(self, now_s: float) -> float:
        """When a state may change without anything being seen; infinity for never."""
        return self._servers.due_s(now_s)

    def tries(self, key: str) -> bool:
        """Whether what a feature needs is written: it is on, or nothing speaks against it.

        Of a server that nothing is known of nothing is tried.
        """
        state = self.states.get().of(key)
        return state.is_on or (bool(self._servers.sightings) and not state.is_off)

    def is_since(self, first: Number) -> bool:
        """Whether every server whose word holds is known to be of this version or a later one."""
        heard = self._servers.heard(trio.current_time())
        return all(one.version is not None and one.version >= first for one in heard)

    async def look(self) -> bool:
        """Ask the server what it is and what it keeps.

        Returns:
            Whether it is another one than before, or keeps something else.

        Raises:
            KubeError: It did not answer; nothing has changed.
        """
        self._pace = self._pace.spent(trio.current_time())
        version = await self._ask_version()
        fates = await self._show()
        before = self._servers.present
        if fates is None:
            # What it dropped of our writes is known until another version answers.
            fates = before.fates if before.version == version else {}
        self._due = False
        present = Server(version=version, fates=fates)
        self._servers = self._servers.saw(present, trio.current_time())
        self.settle()
        return present != before

    def saw_node(self, node: Node) -> None:
        """The Node was read: what kubelet is, and what it declares."""
        kubelet = find_number(node.kubelet_version)
        self._evidence = attrs.evolve(self._evidence, kubelet=kubelet, declared=node.declared)
        self.settle()

    def saw_dropped(self, fields: Iterable[str]) -> bool:
        """A write of ours lost these fields; gives whether that says anything new."""
        return self._saw(fields, Fate.DROPPED)

    def saw_refused(self, fields: Iterable[str]) -> bool:
        """A write of ours was refused for these fields; gives whether that says anything new."""
        return self._saw(fields, Fate.REFUSED)

    def _saw(self, fields: Iterable[str], fate: Fate) -> bool:
        present = self._servers.present
        fates = {**present.fates, **dict.fromkeys(fields, fate)}
        if fates == present.fates:
            return False
        changed = attrs.evolve(present, fates=fates)
        self._servers = self._servers.saw(changed, trio.current_time())
        return self.settle()

    def settle(self) -> bool:
        """Draw the states of now from what is known; gives whether one has changed."""
        if not self._servers.sightings:
            return False
        before = self.states.get()
        now = self._servers.states(self._evidence, trio.current_time())
        if not self.states.set(now):
            return False
        _tell(before, now, self._text)
        return True

    async def _ask_version(self) -> Number | None:
        try:
            found = await self._api.server_version()
        except KubeError as error:
            self._withheld += 1
            if error.status not in _WITHHELD or self._withheld < _TIMES:
                raise
            self._text = "of no version that it would tell"
            return None
        self._text, self._withheld = found.text, 0
        return (found.major, found.minor)

    async def _show(self) -> Mapping[str, Fate] | None:
        try:
            fates = await show(self._api, self._probe)
        except KubeError as error:
            if not error.status or error.status == _BUSY or error.status >= _FAILING:
                raise
            self._unshown += 1
            doubtful = error.status not in _DEFINITE and not self._hooked
            if doubtful and self._unshown < _TIMES:
                raise
            if not self._hooked:
                _log.info("what the server keeps will be learned from writes", reason=error)
            self._hooked = True
            return None
        self._hooked, self._unshown = False, 0
        return fates


async def show(api: KubeApi, probe: Probe) -> Mapping[str, Fate]:
    """Show a server the slice of a probe; gives what becomes of every field in it.

    Raises:
        KubeError: It did not answer, or refuses more than single features.
    """
    for _ in range(ROUNDS):
        try:
            return probe.fates(await api.try_slice(probe.slice()))
        except KubeError as error:
            less = probe.without(error)
            if less is None:
                raise
            probe = less
    raise KubeError("API server", "it refuses something of each slice", status=_INVALID)


def _tell(before: FeatureStates, now: FeatureStates, server: str) -> None:
    """One line for all that has changed."""
    changed = [state for state in now if state.verdict is not before.of(state.key).verdict]
    if changed:
        told = {
            verdict.value: ", ".join(one.key for one in changed if one.verdict is verdict)
            for verdict in Verdict
        }
        _log.info("features of the cluster", server=server, **{k: v for k, v in told.items() if v})
