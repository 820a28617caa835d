"""Names and bits of NRI's events."""

from __future__ import annotations

from berth.nri.events import Event, mask
from berth.nri.versions import EVENTS_BEFORE_0_10, EVENTS_SINCE_0_10
from berth.pb import nri_pb2


def test_events_are_the_protocols() -> None:
    """Numbers and names are those of the .proto file."""
    known = {name: number for name, number in nri_pb2.Event.items() if number}

    assert {event.name: event.value for event in Event} == known


def test_masks_are_those_that_runtimes_take() -> None:
    """All events are 14 bits, those before 0.10 are 11."""
    assert mask(Event) == EVENTS_SINCE_0_10
    assert mask(event for event in Event if event <= Event.REMOVE_CONTAINER) == EVENTS_BEFORE_0_10


def test_methods_are_the_services() -> None:
    """Each method of an event we know is one of the Plugin service in the .proto file."""
    service = nri_pb2.DESCRIPTOR.services_by_name["Plugin"]
    others = {"Configure", "Synchronize", "Shutdown", "StateChange"}

    assert {method.name for method in service.methods} - others <= {e.method for e in Event}


def test_nine_events_come_by_state_change() -> None:
    """These are the ones that NRI before 0.12 tells without a call of their own."""
    expected = {
        Event.RUN_POD_SANDBOX,
        Event.STOP_POD_SANDBOX,
        Event.REMOVE_POD_SANDBOX,
        Event.POST_UPDATE_POD_SANDBOX,
        Event.POST_CREATE_CONTAINER,
        Event.START_CONTAINER,
        Event.POST_START_CONTAINER,
        Event.POST_UPDATE_CONTAINER,
        Event.REMOVE_CONTAINER,
    }

    assert expected == {event for event in Event if event.is_state_change}
