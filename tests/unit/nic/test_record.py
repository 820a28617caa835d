"""What the stage of a record says of the NIC."""

from __future__ import annotations

import attrs
import pytest

from berth.nic.attach import begun
from berth.nic.record import Stage
from tests.unit.nic.links import SANDBOX, link_of, record_of


@pytest.mark.parametrize("stage", list(Stage))
def test_stages(stage: Stage) -> None:
    """Away is in a pod or on the way; touched is whatever may have to be undone."""

    nic = record_of(link_of(), stage=stage)

    assert nic.is_away is (stage in {Stage.ATTACHING, Stage.ATTACHED, Stage.RETURNING})
    assert nic.is_touched is (stage not in {Stage.HOME, Stage.LOST})


def test_reserved_before_anything_was_read() -> None:
    """Without originals nothing can have been done."""

    assert not record_of(None, stage=Stage.RESERVED).is_touched


def test_announced_for_a_new_sandbox() -> None:
    """An index of another namespace is forgotten; a fault of the last try too."""

    old = attrs.evolve(SANDBOX, id="old")
    nic = record_of(link_of(), stage=Stage.HOME, sandbox=old, pod_index=7, fault="x")
    now = begun(nic, SANDBOX)

    assert (now.stage, now.sandbox, now.pod_index, now.fault) == (
        Stage.ATTACHING,
        SANDBOX,
        0,
        "",
    )


def test_announced_again_for_the_same_sandbox() -> None:
    """What is attached stays as it is recorded; a try that was begun keeps what it knows."""

    nic = record_of(link_of(), stage=Stage.ATTACHED, sandbox=SANDBOX, pod_index=7)
    on_its_way = attrs.evolve(nic, stage=Stage.ATTACHING)

    assert begun(nic, SANDBOX) is nic
    assert begun(on_its_way, SANDBOX) == on_its_way
