"""Compatibility groups are of parts alone."""

from __future__ import annotations

from berth.gpu.compatibility import grouped
from tests.unit.gpu.machine import divided, function, gpu, look, part


def test_parts_that_draw_on_counters_are_in_one_group() -> None:
    """A whole GPU is in none, and neither is a part whose GPU has no counters."""

    parts = (part(7, "1g.10gb", 0, gi_id=9), part(8, "1g.10gb", 1, gi_id=10))
    uncounted = divided(2, part(9, "1g.10gb", 0, gi_id=9, gi_placement=None))
    gpus = (gpu(0), divided(1, *parts), uncounted)
    found = look(gpus, [function(number) for number in range(3)]).peripherals

    told = {
        (one.type, one.path): [drawn.groups for drawn in one.consumes] for one in grouped(found)
    }

    assert set(map(tuple, map(tuple, told.values()))) == {(), (("mig",),)}
    assert {type_ for (type_, _), groups in told.items() if groups} == {"mig"}
    assert not any(drawn.groups for one in found for drawn in one.consumes)
