"""The DRA door on real sockets, and kubelets that come, go, restart and misbehave."""

import logging
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from berth.errors import BerthError, ClaimError, RemoteProtocolError
from berth.rehearsal.kubelet import Act
from berth.runtime.sockets import connect_unix
from berth.runtime.supervisor import Phase
from tests.descriptors import open_descriptors
from tests.integration.dra.conftest import DRIVER, LIMIT_S, Door, OpenDoor, ref


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what nobody reports, such as a connection's end in the kernel."""
    while True:
        if condition():
            return
        await trio.sleep(0.01)


async def test_prepare_over_the_socket_gives_what_the_claim_service_gave(
    open_door: OpenDoor,
) -> None:
    """Kubelet registers the newest version, and devices arrive verbatim with 45 s to work in."""

    with trio.fail_after(LIMIT_S):
        async with open_door() as door, door.kubelet_running() as kubelet:
            await kubelet.wait_driver(DRIVER)
            devices = await kubelet.prepare(DRIVER, [ref("a"), ref("b")])
            await kubelet.unprepare(DRIVER, [ref("a"), ref("unknown")])

            assert [item.cdi_ids for item in devices["b"]] == [(f"{DRIVER}/nic=b",)]
            assert devices["a"][0].share_id == "share-1"
            assert [note.detail for note in door.acts(Act.REGISTERED)] == ["v1.DRAPlugin"]
            assert str(door.plugin.statistics()) == "registered"
            assert door.plugin.statistics().claims.prepared == 2
            assert [*door.claims.beside] == [ref("a"), ref("b")]


async def test_old_version_alone_is_spoken_when_asked_for(open_door: OpenDoor) -> None:
    """A door that offers v1beta1 alone is registered by it, and shares are left out."""

    with trio.fail_after(LIMIT_S):
        async with open_door(versions=("v1beta1",)) as door, door.kubelet_running() as kubelet:
            await kubelet.wait_driver(DRIVER)
            devices = await kubelet.prepare(DRIVER, [ref()])

            assert [note.detail for note in door.acts(Act.REGISTERED)] == ["v1beta1.DRAPlugin"]
            assert devices["uid-1"][0].share_id is None


async def test_refused_claim_is_told_in_kubelets_words(open_door: OpenDoor) -> None:
    """The text of a claim's error arrives whole in the pod's event."""

    async def refuse(_ref: object) -> None:
        await trio.lowlevel.checkpoint()
        raise ClaimError("device nic-0000", "is held by ns/other", mend="wait for it")

    with trio.fail_after(LIMIT_S):
        async with open_door() as door, door.kubelet_running() as kubelet:
            door.claims.act = refuse
            await kubelet.wait_driver(DRIVER)
            with pytest.raises(RemoteProtocolError) as caught:
                await kubelet.prepare(DRIVER, [ref()])

    assert str(caught.value) == (
        "NodePrepareResources failed for ResourceClaim claim-uid-1: "
        "device nic-0000: is held by ns/other; wait for it"
    )


@pytest.mark.slow
async def test_kubelet_restarts_twenty_times(open_door: OpenDoor) -> None:
    """Case 1: registered again each time, slices healed, and nothing is left open."""

    files: list[int] = []
    threads: list[int] = []
    async with open_door() as door:
        for number in range(20):
            with trio.fail_after(10):
                if number % 2:
                    # Twice within a second: the first of the two may not even have registered.
                    async with door.kubelet_running():
                        await trio.lowlevel.checkpoint()
                async with door.kubelet_running() as kubelet:
                    await kubelet.wait_driver(DRIVER)
                    await kubelet.prepare(DRIVER, [ref(f"u{number}")])
            with trio.fail_after(5):
                await until(lambda: not door.plugin.statistics().door.connections)
            files.append(len(open_descriptors()))
            threads.append(len(os.listdir("/proc/self/task")))  # noqa: PTH208 - names alone are wanted

        # Each life begins with a wipe; more than 20 rounds a minute are not written.
        with trio.fail_after(10):
            await door.api.wait_devices(3)
        assert door.plugin.statistics().registration.times >= 20
        assert str(door.plugin.statistics()) == "registered, kubelet is away"
        assert door.supervisor.statistics().plugins[0].failures == 0

    # A connection of the last round may be closing yet; a leak in each round leaves none so low.
    assert min(files[10:]) <= files[1]
    assert min(threads[10:]) <= threads[1] + 1
    assert {note.detail for note in door.acts(Act.REFUSED)} == set()


async def test_two_kubelets_in_a_row_and_at_once(open_door: OpenDoor) -> None:
    """A kubelet that comes while the one before still holds its connection is served as well."""

    with trio.fail_after(LIMIT_S):
        async with open_door() as door, door.kubelet_running() as first:
            await first.wait_driver(DRIVER)
            async with door.kubelet_running() as second:
                await second.wait_driver(DRIVER)
                await first.prepare(DRIVER, [ref("a")])
                await second.prepare(DRIVER, [ref("a")])
            await first.prepare(DRIVER, [ref("b")])

        assert door.claims.begun == ["a", "a", "b"]


async def test_half_open_connections_hold_nobody_up(open_door: OpenDoor) -> None:
    """Clients that connect and say nothing, or begin and stop, are no burden to kubelet."""

    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    with trio.fail_after(LIMIT_S):
        async with open_door() as door, door.kubelet_running() as kubelet:
            idle = []
            for number in range(20):
                for path in (door.places.dra_socket, door.places.registration_socket):
                    stream = await connect_unix(path)
                    await stream.send_all(preface[: number * 2])
                    idle.append(stream)
            await kubelet.wait_driver(DRIVER)
            await kubelet.prepare(DRIVER, [ref()])
            for stream in idle:
                await stream.aclose()


async def test_garbage_on_the_sockets_hurts_nobody(
    open_door: OpenDoor, caplog: pytest.LogCaptureFixture
) -> None:
    """Random bytes, and HTTP/1, end their own connection only; no traceback is logged."""

    chance = random.Random(7)  # noqa: S311 - noise, no secret
    with trio.fail_after(LIMIT_S):
        async with open_door() as door, door.kubelet_running() as kubelet:
            await kubelet.wait_driver(DRIVER)
            for number in range(30):
                for path in (door.places.dra_socket, door.places.registration_socket):
                    data = chance.randbytes(chance.randrange(1, 20000))
                    if number % 3 == 0:
                        data = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + data
                    elif number % 3 == 1:
                        data = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
                    stream = await connect_unix(path)
                    try:
                        await stream.send_all(data)
                    except trio.BrokenResourceError:
                        continue
                    finally:
                        await stream.aclose()
            await kubelet.prepare(DRIVER, [ref()])

            assert len(door.acts(Act.REGISTERED)) == 1
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.slow
async def test_missing_root_is_waited_for_and_not_made(
    open_door: OpenDoor, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Case 2: the log names path and setting, nothing is made, and registration follows later."""

    root = folder / "data" / "kubelet"
    with trio.fail_after(LIMIT_S):
        async with open_door(root=root) as door:
            assert not root.parent.exists()
            assert str(door.plugin.statistics()) == (
                f"not registered, {root} is missing ([kubelet] root)"
            )
            assert "[kubelet] root" in str([getattr(r, "berth_fields", "") for r in caplog.records])
            assert door.supervisor.statistics().plugins[0].phase is Phase.SERVING

            root.mkdir(parents=True)
            async with door.kubelet_running() as kubelet:
                await kubelet.wait_driver(DRIVER)

                assert (root / "plugins_registry" / f"{DRIVER}-reg.sock").is_socket()
                assert (root / "plugins" / DRIVER / "dra.sock").is_socket()


async def test_state_names_the_folder_until_kubelet_comes(open_door: OpenDoor) -> None:
    """Without a kubelet the state says which folder is watched."""

    with trio.fail_after(LIMIT_S):
        async with open_door() as door:
            assert str(door.plugin.statistics()) == (
                f"not registered, watching {door.root}/plugins_registry"
            )


@pytest.mark.slow
async def test_emptied_root_gets_its_sockets_back(open_door: OpenDoor) -> None:
    """A node that is reset and joined again needs no restart of the daemon."""

    with trio.fail_after(LIMIT_S):
        async with open_door() as door:
            async with door.kubelet_running() as kubelet:
                await kubelet.wait_driver(DRIVER)
            for folder in ("plugins", "plugins_registry"):
                shutil.rmtree(door.root / folder)
            async with door.kubelet_running() as kubelet:
                await kubelet.wait_driver(DRIVER)
                await kubelet.prepare(DRIVER, [ref()])


async def test_call_waits_while_the_plugin_restarts_behind_kept_sockets(
    open_door: OpenDoor, folder: Path
) -> None:
    """KC §1.8: with sockets held by a parent, a restart of the daemon is unseen by kubelet."""

    root = folder / "kubelet"
    held: dict[Path, socket.socket] = {}
    for path in (
        root / "plugins" / DRIVER / "dra.sock",
        root / "plugins_registry" / f"{DRIVER}-reg.sock",
    ):
        path.parent.mkdir(parents=True)
        held[path] = socket.socket(socket.AF_UNIX)
        held[path].bind(str(path))
        held[path].listen(16)

    def hand_in() -> dict[Path, socket.socket]:
        return {path: parent.dup() for path, parent in held.items()}

    with trio.fail_after(LIMIT_S):
        async with open_door(inherited=hand_in()) as first, first.kubelet_running() as kubelet:
            await kubelet.wait_driver(DRIVER)
            async with trio.open_nursery() as nursery:
                await first.supervisor.stop(grace_s=1)
                first.plugin.close()
                nursery.start_soon(kubelet.prepare, DRIVER, [ref("meanwhile")])
                async with open_door(inherited=hand_in()) as second:
                    await second.plugin.wait_kubelet()
                    await second.claims.wait_begun("meanwhile")
                    await kubelet.prepare(DRIVER, [ref("after")])

                    assert second.plugin.statistics().claims.prepared == 2
            assert len(first.acts(Act.REGISTERED)) == 1
            assert first.acts(Act.UNREGISTERED) == []
    for parent in held.values():
        parent.close()


async def test_call_waits_while_the_plugin_runs_anew(open_door: OpenDoor) -> None:
    """A run that fails and starts again keeps the sockets it bound: kubelet sees no gap."""

    with trio.fail_after(LIMIT_S):
        async with open_door() as door, door.kubelet_running() as kubelet:
            await kubelet.wait_driver(DRIVER)
            await door.supervisor.stop(grace_s=1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(kubelet.prepare, DRIVER, [ref("meanwhile")])
                await nursery.start(door.plugin.run)
                await door.claims.wait_begun("meanwhile")
                await kubelet.prepare(DRIVER, [ref("after")])
                nursery.cancel_scope.cancel()

            # Which answer is taken first is for kubelet to say.
            assert sorted(note.detail for note in door.acts(Act.PREPARED)) == [
                "ns/claim-after",
                "ns/claim-meanwhile",
            ]
            assert len(door.acts(Act.REGISTERED)) == 1


async def test_drain_lets_a_claim_end_and_answers_it(open_door: OpenDoor) -> None:
    """A stop waits for the prepare under way; its answer still reaches kubelet."""

    go = trio.Event()

    async def wait(_ref: object) -> None:
        await go.wait()

    with trio.fail_after(LIMIT_S):
        async with open_door() as door, door.kubelet_running() as kubelet:
            door.claims.act = wait
            await kubelet.wait_driver(DRIVER)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(kubelet.prepare, DRIVER, [ref("slow")])
                await door.claims.wait_begun("slow")
                nursery.start_soon(_stop, door)
                await trio.testing.wait_all_tasks_blocked(0.05)
                assert door.acts(Act.CALL_FAILED) == []
                go.set()

            assert [note.detail for note in door.acts(Act.PREPARED)] == ["ns/claim-slow"]


async def test_drain_answers_a_claim_that_waits_on_and_on(open_door: OpenDoor) -> None:
    """Before the time of the stop is over kubelet is told why, so that the pod's event says it."""

    async def wait(_ref: object) -> None:
        await trio.sleep_forever()

    with trio.fail_after(LIMIT_S):
        async with open_door() as door, door.kubelet_running() as kubelet:
            door.claims.act = wait
            await kubelet.wait_driver(DRIVER)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_stop_within, door, 2.0)
                with pytest.raises(RemoteProtocolError, match="berthd is stopping; kubelet asks"):
                    await kubelet.prepare(DRIVER, [ref("slow")])


async def _stop_within(door: Door, grace_s: float) -> None:
    await door.claims.wait_begun("slow")
    await door.supervisor.stop(grace_s=grace_s)


async def _stop(door: Door) -> None:
    await door.supervisor.stop(grace_s=10)


async def test_kubelet_that_gives_up_cancels_its_claim(open_door: OpenDoor) -> None:
    """A kubelet that dies within a call leaves no task of ours behind."""

    ended = trio.Event()

    async def wait(_ref: object) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    with trio.fail_after(LIMIT_S):
        async with open_door() as door:
            door.claims.act = wait
            async with door.kubelet_running() as kubelet, trio.open_nursery() as nursery:
                await kubelet.wait_driver(DRIVER)
                nursery.start_soon(kubelet.prepare, DRIVER, [ref("a")])
                await door.claims.wait_begun("a")
                nursery.cancel_scope.cancel()
            await ended.wait()

            assert door.plugin.statistics().claims.active == 0


async def test_second_daemon_is_refused_the_sockets(open_door: OpenDoor) -> None:
    """Case 3: of two daemons that bind for themselves the running one keeps its sockets."""

    with trio.fail_after(LIMIT_S):
        async with open_door() as first, first.kubelet_running() as kubelet:
            await kubelet.wait_driver(DRIVER)
            async with open_door() as second:
                status = second.supervisor.statistics().plugins[0]
                assert status.phase is Phase.RESTING
                assert "a socket on which a process listens" in status.reason
            await kubelet.prepare(DRIVER, [ref()])

            assert len(first.acts(Act.REGISTERED)) == 1


async def test_unregistered_driver_is_told_in_kubelets_words(open_door: OpenDoor) -> None:
    """Before it is registered, kubelet calls nobody."""

    with trio.fail_after(LIMIT_S):
        async with open_door() as door:
            with pytest.raises(BerthError, match=f"DRA driver {DRIVER} is not registered"):
                await door.kubelet().prepare(DRIVER, [ref()])


async def test_every_claim_is_one_line_in_the_log(
    open_door: OpenDoor, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator reads claim, devices and duration in one line."""

    caplog.set_level(logging.INFO, logger="berth")
    with trio.fail_after(LIMIT_S):
        async with open_door() as door, door.kubelet_running() as kubelet:
            await kubelet.wait_driver(DRIVER)
            await kubelet.prepare(DRIVER, [ref()])

    (line,) = [r for r in caplog.records if r.getMessage() == "claim prepared"]
    fields = line.berth_fields  # type: ignore[attr-defined] # runtime.logs puts it there
    assert str(fields["claim"]) == "ns/claim-uid-1"
    assert fields["devices"] == "nic-0000"
    assert 0 <= fields["took_s"] < 1


async def test_wait_kubelet_ends_when_kubelet_would_send_claims(open_door: OpenDoor) -> None:
    """Publication waits for it: a pod that is scheduled earlier pays 60 to 90 s."""

    with trio.fail_after(LIMIT_S):
        async with open_door() as door:
            # As kubelet does that knows the driver from before the sockets were made anew.
            async with await connect_unix(door.places.dra_socket):
                with trio.move_on_after(0.2) as early:
                    await door.plugin.wait_kubelet()
            async with door.kubelet_running():
                await door.plugin.wait_kubelet()

            assert early.cancelled_caught
            assert door.plugin.statistics().registration.times == 1
