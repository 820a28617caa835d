"""The view of our slices: our own writes are not undone by events from before them."""

import attrs

from berth.dra.observed import ObservedSlices
from berth.errors import KubeError
from berth.kube.api import SliceGone, SliceQuery, SliceSeen, SlicesListed, WatchInterrupted
from berth.kube.slices import Slice

QUERY = SliceQuery(driver="berth.dev", node_name="n")
ONE = Slice(
    driver="berth.dev",
    pool="n/nic",
    generation=1,
    slice_count=1,
    node_name="n",
    devices=(),
    name="a",
    uid="u1",
    resource_version="10",
)
LATER = attrs.evolve(ONE, generation=2, resource_version="12")


def test_apply_says_whether_anything_is_new() -> None:
    """An echo of what is known, or news about others' slices, wakes nobody."""

    view = ObservedSlices(QUERY)

    assert not view.listed
    assert view.apply(SlicesListed(slices=()))
    assert not view.apply(SlicesListed(slices=()))
    assert view.apply(SliceSeen(slice=ONE))
    assert not view.apply(SliceSeen(slice=ONE))
    assert not view.apply(SliceSeen(slice=attrs.evolve(ONE, name="b", node_name="m")))
    assert not view.apply(SliceSeen(slice=attrs.evolve(ONE, name="b", driver="other")))
    assert not view.apply(SliceGone(slice=attrs.evolve(ONE, uid="another")))
    assert not view.apply(
        WatchInterrupted(error=KubeError("watch", "cut"), retry_s=1.0, attempts=1)
    )
    assert view.apply(SliceGone(slice=ONE))
    assert view.slices() == ()


def test_apply_keeps_our_write_when_an_older_event_comes_late() -> None:
    """Neither an event nor a list from before a write undoes it in the view."""

    view = ObservedSlices(QUERY)
    view.list([ONE])
    view.wrote(LATER)

    assert not view.apply(SliceSeen(slice=attrs.evolve(ONE, resource_version="11")))
    assert not view.apply(SlicesListed(slices=(ONE,)))
    assert view.slices() == (LATER,)


def test_apply_forgets_what_a_list_does_not_hold() -> None:
    """What was deleted while the watch was cut is gone from the view."""

    view = ObservedSlices(QUERY)
    view.list([ONE, attrs.evolve(ONE, name="b", uid="u2")])

    assert view.apply(SlicesListed(slices=(ONE,)))
    assert view.slices() == (ONE,)


def test_removed_slice_does_not_come_back_by_a_late_event() -> None:
    """After our delete an event from before it is ignored; another object of the name is not."""

    view = ObservedSlices(QUERY)
    view.list([ONE])
    view.removed(ONE)

    assert not view.apply(SliceSeen(slice=LATER))
    assert not view.apply(SliceGone(slice=LATER))
    assert view.apply(SliceSeen(slice=attrs.evolve(ONE, uid="u2")))


def test_apply_takes_the_event_when_versions_are_no_numbers() -> None:
    """A server with opaque versions is believed in the order in which it speaks."""

    view = ObservedSlices(QUERY)
    view.list([attrs.evolve(ONE, resource_version="zz")])

    assert view.apply(SliceSeen(slice=attrs.evolve(LATER, resource_version="aa")))
