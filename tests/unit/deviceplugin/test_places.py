"""Names of the sockets in kubelet's folder, and whose they are."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from berth.deviceplugin.places import FOLDER, places_for
from berth.errors import HostError
from berth.runtime.sockets import PATH_LIMIT


def bind(path: Path) -> socket.socket:
    """Bind a socket; closing it leaves its file dead."""
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    bound.listen()
    return bound


def test_places_give_another_socket_each_time() -> None:
    """Kubelet wants a new path for each registration, and people want to read whose it is."""

    first = places_for(FOLDER, driver="berth.dev", resource="nvidia.com/mig-1g.10gb")
    second = places_for(FOLDER, driver="berth.dev", resource="nvidia.com/mig-1g.10gb")

    assert first.own != second.own
    assert first.kin == second.kin
    assert first.own.name.startswith("berth-mig-1g.10gb-")
    assert first.own.name.startswith(f"{first.kin}{os.getpid()}-")
    assert first.kubelet == FOLDER / "kubelet.sock"


def test_places_of_other_resources_and_drivers_have_no_kin() -> None:
    """Neither removes the other's dead sockets."""

    pairs = [("berth.dev", "a.com/gpu"), ("berth.dev", "b.com/gpu"), ("other.dev", "a.com/gpu")]

    kins = {places_for(FOLDER, driver=driver, resource=name).kin for driver, name in pairs}

    assert len(kins) == 3


def test_socket_of_the_longest_names_fits_the_kernels_limit() -> None:
    """A name as long as Kubernetes allows, and odd characters, still give a path to bind."""

    places = places_for(FOLDER, driver="d" * 63, resource="e" * 190 + "/" + "Ü_" + "x" * 61)

    assert len(os.fsencode(places.own)) <= PATH_LIMIT - 8
    assert "Ü" not in places.own.name


def test_remove_dead_takes_dead_kin_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Living kin, and dead sockets of others, stay; so does what is no socket."""

    monkeypatch.chdir(tmp_path)
    places = places_for(Path(), driver="berth.dev", resource="a.com/gpu")
    dead, living = Path(f"{places.kin}1-1.sock"), Path(f"{places.kin}2-1.sock")
    foreign, file = Path("foreign.sock"), Path(f"{places.kin}3.sock")
    file.touch()
    bind(dead).close()
    bind(foreign).close()
    with bind(living):
        places.remove_dead()

        assert not dead.exists()
        assert living.exists()
        assert foreign.exists()
        assert file.exists()


def test_kubelet_listens_only_while_somebody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket of a kubelet that was killed stays, and says nothing."""

    monkeypatch.chdir(tmp_path)
    places = places_for(Path(), driver="berth.dev", resource="a.com/gpu")
    assert not places.kubelet_listens()
    with bind(places.kubelet):
        assert places.kubelet_listens()
    assert not places.kubelet_listens()
    too_long = places_for(Path("x" * 300), driver="berth.dev", resource="a.com/gpu")
    assert not too_long.kubelet_listens()


def test_rivals_are_the_sockets_that_came_after_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older sockets, kubelet's own and what is no socket are no rivals."""

    monkeypatch.chdir(tmp_path)
    places = places_for(Path(), driver="berth.dev", resource="a.com/gpu")
    names = ("old.sock", "kubelet.sock", "new.sock", places.own.name)
    for name in names:
        bind(Path(name)).close()
    for age, name in enumerate(names):
        os.utime(name, ns=(0, age))
    os.utime("new.sock", ns=(0, 9))
    Path("checkpoint").touch()

    assert places.rivals() == ("new.sock",)
    with pytest.raises(HostError, match="cannot list"):
        places_for(tmp_path / "none", driver="d", resource="a/b").rivals()
