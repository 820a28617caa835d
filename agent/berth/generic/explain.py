"""What each group says of a node: which one takes it, or the first condition that failed.

For ``berth why DEVICE-OR-PATH``. Source: GH §4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from berth.config.generic import GenericGroup
from berth.errors import printable
from berth.generic.matching import fit, refusal
from berth.host.nodefacts import DevNode, NodeScan
from berth.model.peripheral import Peripheral


@attrs.frozen(kw_only=True)
class Opinion:
    """What one group says of one node.

    Attributes:
        takes: Whether all conditions hold and it may be handed out.
        says: The first condition that failed, or why it is refused; empty when it is taken.
    """

    group: str
    takes: bool
    says: str = ""


@attrs.frozen(kw_only=True)
class Explanation:
    """What becomes of what lies at a path.

    Attributes:
        path: The node's own path, or the path that was asked for.
        says: Why no group can have it; empty for a device node.
        opinions: In the order of the groups.
    """

    path: str
    says: str = ""
    opinions: tuple[Opinion, ...] = ()


def explain(scan: NodeScan, groups: Sequence[GenericGroup]) -> tuple[Explanation, ...]:
    """What the groups say of the nodes of a scan, such as `NodeReader.look_at` gives."""
    nodes = [
        Explanation(
            path=printable(node.path), opinions=tuple(opinion(node, group) for group in groups)
        )
        for node in scan.nodes
    ]
    oddities = [
        Explanation(path=printable(oddity.path), says=f"it {oddity.found}, no device node")
        for oddity in scan.oddities
    ]
    return (*nodes, *oddities)


def opinion(node: DevNode, group: GenericGroup) -> Opinion:
    """What one group says of a node."""
    found = fit(node, group.match)
    if not found:
        return Opinion(group=group.name, takes=False, says=printable(found.failed))
    reason = refusal(node, group)
    says = printable(str(reason)) if reason else ""
    return Opinion(group=group.name, takes=reason is None, says=says)


def path_of(asked: str, peripherals: Iterable[Peripheral]) -> str:
    """The path that a question means: that of a device by name or identity, else the words."""
    for each in peripherals:
        if asked in {each.name, each.identity, *each.ids}:
            return each.path
    return asked
