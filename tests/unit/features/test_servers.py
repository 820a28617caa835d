"""Whose word holds while servers take turns."""

from __future__ import annotations

import math

from berth.features.servers import HOLD_S, Server, Servers
from berth.features.states import Evidence, Fate

OLD = Server(version=(1, 36))
NEW = Server(version=(1, 37))
GROUPS = "compatibility-groups"
TAINTS = "device-taints"


def test_single_server_that_is_upgraded_is_believed_at_once() -> None:
    """The old one was met once and comes no more."""

    servers = Servers().saw(OLD, 0).saw(NEW, 5)

    assert servers.heard(5) == (NEW,)
    assert servers.due_s(5) == math.inf


def test_servers_that_take_turns_are_held_to_what_both_have() -> None:
    """However often they do, the states change once; some time after the last turn the new wins."""

    servers, seen = Servers(), []
    for turn in range(20):
        servers = servers.saw((OLD, NEW)[turn % 2], turn)
        seen.append(servers.states(Evidence(), turn).of(GROUPS).is_off)

    # Down, up, down and then held down.
    assert seen == [True, False, *(True,) * 18]
    end = 18 + HOLD_S
    assert servers.due_s(20) == end
    assert servers.states(Evidence(), end - 1).of(GROUPS).is_off
    assert not servers.states(Evidence(), end).of(GROUPS).is_off
    assert servers.due_s(end) == math.inf


def test_same_version_with_other_gates_is_another_server() -> None:
    """A server that was started anew with a gate closed shows it by what it drops."""

    kept = Server(version=(1, 37), fates={"taints": Fate.KEPT})
    dropped = Server(version=(1, 37), fates={"taints": Fate.DROPPED})
    servers = Servers().saw(kept, 0)
    assert servers.states(Evidence(), 0).of(TAINTS).is_on

    servers = servers.saw(dropped, 1)
    assert servers.states(Evidence(), 1).of(TAINTS).is_off

    servers = servers.saw(kept, 2)
    assert servers.states(Evidence(), 2).of(TAINTS).is_on


def test_few_servers_are_remembered() -> None:
    """One that never shows the same twice fills nothing."""

    servers = Servers()
    for minor in range(100):
        servers = servers.saw(Server(version=(1, minor)), minor)

    assert len(servers.sightings) == 8
    assert servers.present == Server(version=(1, 99))


def test_nobody_is_heard_before_one_answered() -> None:
    """What is not known is neither on nor off."""

    assert str(Servers().states(Evidence(), 0).of(TAINTS)) == (
        "unknown: the version of server is not known"
    )
