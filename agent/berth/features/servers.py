"""Which API servers answer a node, and whose word holds while several of them take turns.

During a rolling upgrade of a control plane a node meets now an older and now a newer server. What
only one of them has must not be written, taken back and written again at each turn. So a server
that comes back is heard together with the present one for a while: only what all of them have
counts as there. One that was met once and never again, as after an upgrade of a single server, has
no say.

Source: KC §4.5; issue of features, "two versions alternate: no flapping".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import attrs
from typing_extensions import Self

from berth.features.feature import Number
from berth.features.states import Evidence, Fate, FeatureStates, fold, lesser

HOLD_S: Final = 600.0
"""How long after its last answer a server that came back still counts, in seconds."""

LIMIT: Final = 8
"""Most servers that are remembered."""


@attrs.frozen(kw_only=True)
class Server:
    """An API server as it showed itself; two that show the same are the same here.

    Attributes:
        version: ``None`` where it tells none.
        fates: What became of fields that it was shown, by name.
    """

    version: Number | None = None
    fates: Mapping[str, Fate] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Sighting:
    """A server that answered.

    Attributes:
        last_s: When it did last, in seconds of one clock.
        returned: Whether another one had answered in between.
    """

    server: Server
    last_s: float
    returned: bool = False


@attrs.frozen(kw_only=True)
class Servers:
    """The servers that answered, the present one last."""

    sightings: tuple[Sighting, ...] = ()

    @property
    def present(self) -> Server:
        """The one that answered last."""
        return self.sightings[-1].server if self.sightings else Server()

    def saw(self, server: Server, now_s: float) -> Self:
        """The servers after one more answer."""
        known = [one for one in self.sightings if one.server == server]
        others = tuple(one for one in self.sightings if one.server != server)
        changed = bool(known) and known[0] is not self.sightings[-1]
        returned = changed or any(one.returned for one in known)
        seen = Sighting(server=server, last_s=now_s, returned=returned)
        return attrs.evolve(self, sightings=(*others, seen)[-LIMIT:])

    def heard(self, now_s: float) -> tuple[Server, ...]:
        """Those whose word holds now: the present one, and such as came back lately."""
        before = self.sightings[:-1]
        lately = (one for one in before if one.returned and one.last_s + HOLD_S > now_s)
        return (*(one.server for one in lately), self.present)

    def due_s(self, now_s: float) -> float:
        """When the next of them loses its say; infinity for never."""
        ends = (one.last_s + HOLD_S for one in self.sightings[:-1] if one.returned)
        return min((end for end in ends if end > now_s), default=math.inf)

    def states(self, evidence: Evidence, now_s: float) -> FeatureStates:
        """What all of them have, with what else is known."""
        each = [
            fold(attrs.evolve(evidence, server=one.version, fates=one.fates))
            for one in self.heard(now_s)
        ]
        return lesser(each)
