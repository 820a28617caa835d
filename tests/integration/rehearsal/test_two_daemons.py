"""A second daemon is started while the first runs, and the first ends in various ways (case 3)."""

from __future__ import annotations

import pytest
import trio

from berth.rehearsal.kubelet import Act
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import start_pod, until


@pytest.mark.slow
async def test_second_daemon_refuses_and_names_the_first(stages: Stages) -> None:
    """It ends by itself with the holder's pid and the lock; the first goes on undisturbed."""

    stage = await stages(nics=2, held=False)
    second = stage.another_berthd(name="second")
    await stage.nursery.start(second.listen)

    await second.start()
    # As soon as it is loaded, which takes a second, on a busy machine several.
    with trio.fail_after(15):
        code = await second.wait()

    assert code == 1
    assert f"held by process {stage.berthd.pid}" in second.log_text()
    assert str(stage.world.state / "lock") in second.log_text()
    assert stage.runtime.connections == 1
    assert stage.count(Act.REGISTERED) == 1
    await start_pod(stage, "one")


async def test_second_daemon_follows_a_polite_stop(stages: Stages) -> None:
    """After the first was stopped the second serves its sockets, which the first did not remove."""

    stage = await stages(nics=2, held=False)
    second = stage.another_berthd(name="second")
    await stage.nursery.start(second.listen)

    assert await stage.stop() == 0
    await second.start()
    await second.wait_ready()
    # Sockets made anew are a driver made anew: kubelet forgets it, and finds it again.
    await until(lambda: stage.count(Act.REGISTERED) == 2)
    await stage.kubelet.wait_driver("berth.dev")
    await stage.runtime.wait_plugins()

    assert stage.places.dra_socket.is_socket()
    await start_pod(stage, "one")
    assert stage.runtime.plugins == 1


async def test_kill_needs_no_cleaning(stages: Stages) -> None:
    """After kill -9 the next start takes lock and sockets by itself, and pods kept their NICs."""

    stage = await stages(nics=2, held=False)
    first = await start_pod(stage, "one")

    await stage.berthd.kill()
    await stage.start()
    # Sockets made anew are a driver made anew: kubelet forgets it, and finds it again.
    await until(lambda: stage.count(Act.REGISTERED) == 2)
    await stage.kubelet.wait_driver("berth.dev")

    await start_pod(stage, "two")
    await stage.pods.stop(first, stage.kubelet)
    assert stage.runtime.plugins == 1
