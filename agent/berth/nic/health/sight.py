"""What was seen of a NIC's link, at one moment, where it should be."""

from __future__ import annotations

import attrs

from berth.host.netlink.link import Link

_DOWN = frozenset({"down", "lowerlayerdown"})


@attrs.frozen(kw_only=True)
class LinkSight:
    """One link.

    Attributes:
        link: As it is there; ``None`` when it is not.
        where: Where it is instead, in words; empty when it was found nowhere.
        ended: The sandbox's namespace has ended, and with it the link's stay there.
        nsid: By what number the namespace's events are heard; ``None`` for home.
        lacking: Wanted addresses and routes that the pod does not show, by their fields.
        duplicates: Its addresses that another station holds, in text.
        pf: Address of the PF that it is a VF of; empty for others.
        pf_link: That PF's link, if it is at home.
        children: The same of a parent's links in pods, in the order of the post's.
        in_former: The sandbox that it was in last is there still.
    """

    link: Link | None = None
    where: str = ""
    ended: bool = False
    nsid: int | None = None
    lacking: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    pf: str = ""
    pf_link: Link | None = None
    children: tuple[LinkSight, ...] = ()
    in_former: bool = False

    @property
    def keys(self) -> frozenset[tuple[int | None, int]]:
        """Namespaces and indexes by which events tell of it: its own, its PF's, its children's."""
        own = {(self.nsid, self.link.index)} if self.link is not None else set()
        pf = {(None, self.pf_link.index)} if self.pf_link is not None else set()
        return frozenset(own | pf).union(*(child.keys for child in self.children))


def has_carrier(link: Link) -> bool:
    """Whether it can carry data: a link that is set down has none, whatever its driver says.

    A driver may tell carrier while what is under the link has none.
    """
    return link.up and link.carrier and link.operstate not in _DOWN
