"""Slices that this machine published when its Node had another name: found, and removed.

Only names that this machine itself went by are looked at (`berth.dra.history`); slices of other
nodes are never touched. Kubelet's own credentials reach their own node only, so there the removal
is refused, and the operator is told once.

Source: cases.md 9; KC §4.5.
"""

from __future__ import annotations

from typing import Final

import trio

from berth.dra.history import NodeHistory
from berth.errors import KubeError
from berth.kube.api import KubeApi, SliceQuery
from berth.kube.slices import Slice
from berth.runtime.backoff import BackOff
from berth.runtime.logs import get_log

RETRY: Final = BackOff(first_s=1.0, most_s=60.0)
"""Pauses while the server does not answer."""

_DENIED: Final = frozenset({401, 403})
_log = get_log(__name__)


async def remove_former(api: KubeApi, *, driver: str, node: str, history: NodeHistory) -> None:
    """Remove what was published under other names than ``node``, then forget those names.

    Tries again while the server fails; ends when all is done or refused for good.
    """
    names = set(await history.read() or ())
    if names != {node}:
        await history.write_or_note(frozenset({*names, node}))
    for former in sorted(names - {node}):
        if await _remove(api, SliceQuery(driver=driver, node_name=former)):
            names.discard(former)
            await history.write_or_note(frozenset({*names, node}))


async def _remove(api: KubeApi, query: SliceQuery) -> bool:
    retry = RETRY
    found: tuple[Slice, ...] = ()
    while True:
        try:
            found = await api.list_slices(query)
            for item in found:
                await api.delete_slice(item)
        except KubeError as error:
            if error.status in _DENIED:
                _log.warning(
                    "slices of this machine's former node cannot be removed, an administrator may",
                    node=query.node_name,
                    slices=",".join(item.name for item in found) or "not even listed",
                    reason=error,
                )
                return False
            retry, delay_s = retry.next_delay()
            _log.warning("former node is not cleaned up yet", reason=error, retry_s=delay_s)
        else:
            if found:
                _log.info("slices of former node removed", node=query.node_name, count=len(found))
            return True
        await trio.sleep(delay_s)
