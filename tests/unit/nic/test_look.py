"""What sysfs says of a link at home beside netlink."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.nic import look
from berth.nic.look import driver_of, has_made_up_address


@pytest.mark.parametrize(("kind", "made_up"), [("0", False), ("1", True), ("3", False)])
def test_address_that_a_driver_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *, made_up: bool
) -> None:
    """Not one that it found, nor one that somebody set; of a virtual link nothing is known."""

    monkeypatch.setattr(look, "_LINKS", tmp_path)
    (tmp_path / "ens1v0").mkdir()
    (tmp_path / "ens1v0" / "addr_assign_type").write_text(f"{kind}\n")

    assert has_made_up_address("ens1v0") is made_up
    assert not has_made_up_address("v0")


def test_driver_of_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the device that carries it; a virtual link has none."""

    monkeypatch.setattr(look, "_LINKS", tmp_path)
    (tmp_path / "ens1v0" / "device").mkdir(parents=True)
    (tmp_path / "ens1v0" / "device" / "driver").symlink_to("../../drivers/igbvf")

    assert driver_of("ens1v0") == "igbvf"
    assert driver_of("v0") == ""
