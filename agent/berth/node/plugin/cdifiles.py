"""CDI files for what the device plugin gives: one per kind, with every id that it lists.

Kubelet keeps the plugin's answers over restarts and reboots, so the names in these files are the
ids, which last; and each file is written before the list that tells of its ids.

Source: gpu-and-health.md §3.1, §5.1 (``inject``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from berth.cdi.document import CdiDevice
from berth.cdi.store import CdiStore
from berth.errors import BerthError
from berth.model.edits import joined
from berth.model.peripheral import Peripheral
from berth.runtime.logs import get_log

_log = get_log(__name__)


class PluginFiles:
    """Keeps the files at what is listed.

    Args:
        cdi: The driver's CDI files.
    """

    def __init__(self, cdi: CdiStore) -> None:
        self._cdi = cdi
        self._written: dict[str, tuple[Peripheral, ...]] = {}

    async def write(self, peripherals: Iterable[Peripheral]) -> None:
        """Write the files of those that may be given by them; what fails is told."""
        by_kind: dict[str, list[Peripheral]] = {}
        for one in peripherals:
            if one.ids and one.is_by_cdi and one.edits:
                by_kind.setdefault(one.kind, []).append(one)
        for kind in {*by_kind, *self._written}:
            wanted = tuple(by_kind.get(kind, ()))
            if wanted == self._written.get(kind):
                continue
            try:
                common = joined(one.common for one in wanted)
                await self._cdi.write_lasting(f"plugin-{kind}", _devices(wanted), common)
            except BerthError as error:
                _log.warning("CDI file of the device plugin not written", kind=kind, reason=error)
            else:
                self._written[kind] = wanted

    def id(self, one: Peripheral, id_: str) -> str:
        """The qualified name of an id."""
        return self._cdi.id(f"plugin-{one.kind}", id_)


def _devices(wanted: Sequence[Peripheral]) -> list[CdiDevice]:
    return [CdiDevice(name=id_, edits=one.edits) for one in wanted for id_ in one.ids]
