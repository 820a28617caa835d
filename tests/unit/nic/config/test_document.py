"""A resolved configuration goes to disk and comes back the same, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given

from berth.errors import BerthError, StateError
from berth.model.claim import ConfigSource
from berth.nic.config import NicConfig, from_document, to_document
from berth.nic.config.build import build
from berth.nic.config.decode import decode
from berth.nic.config.report import Place, Report
from tests.unit.nic.config.claims import entry, resolved
from tests.unit.nic.config.strategies import ANYTHING, READABLE, SHAPED, copied

WHERE = "/var/lib/berth/claims/x.json: nic"


def _config(document: Mapping[str, Any]) -> NicConfig:
    """A configuration as it is read, whether it makes sense or not."""
    report = Report()
    layer = decode(document, Place(report=report, root="x"))
    assert report.faults(StateError) == ()
    return build({path: setting.value for path, setting in layer.settings.items()})


@given(document=READABLE)
def test_config_when_written_and_read(document: Mapping[str, Any]) -> None:
    """What is written is read as an equal value, and written the same again."""

    config = _config(document)
    written = copied(to_document(config))

    assert from_document(written, where=WHERE) == config
    assert to_document(from_document(written, where=WHERE)) == to_document(config)


def test_config_when_all_defaults() -> None:
    """A configuration that says nothing keeps saying nothing."""

    assert from_document(to_document(NicConfig()), where=WHERE) == NicConfig()


def test_config_when_resolved() -> None:
    """A resolved configuration is read for what it is: nothing is added, nothing is derived."""

    parameters = {
        "addresses": [{"address": "10.0.0.5/24"}, {"address": "fd00::5/64", "noDAD": False}],
        "routes": [{"to": "default", "via": "10.0.0.1", "metric": 5}],
        "inherit": ["neighbors"],
        "announce": False,
    }
    config = resolved(entry(parameters, source=ConfigSource.CLASS))[0].config

    assert copied(to_document(config)) == {
        "schema": 1,
        "mode": "move",
        "interface": {"name": "net1", "up": True},
        "macvlan": {"mode": "bridge"},
        "ipvlan": {"mode": "l2", "flag": "bridge"},
        "vlan": {"protocol": "802.1Q"},
        "vf": {"adminMAC": False},
        "vfio": {"iommufd": False, "apiDevice": True, "vhost": False},
        "ethtool": {},
        "addresses": [
            {"address": "10.0.0.5/24", "noDAD": True, "noPrefixRoute": False},
            {"address": "fd00::5/64", "noDAD": False, "noPrefixRoute": False},
        ],
        "routes": [
            {
                "to": "0.0.0.0/0",
                "via": "10.0.0.1",
                "scope": "global",
                "table": 254,
                "metric": 5,
                "onLink": False,
            }
        ],
        "rules": [],
        "neighbors": [],
        "sysctls": {"ipv4": {"arp_notify": 0}, "ipv6": {"accept_ra": 0, "ndisc_notify": 0}},
        "vrf": {},
        "rdma": "auto",
        "announce": False,
        "inherit": ["neighbors"],
    }
    assert from_document(to_document(config), where=WHERE) == config


def test_field_when_reset_in_a_document() -> None:
    """A null in a document is the default, as in a claim."""

    assert from_document({"schema": 1, "interface": None, "mode": None}, where=WHERE) == NicConfig()


@pytest.mark.parametrize("schema", [2, 0, "1", None, 1.5, True])
def test_document_when_of_another_schema(schema: object) -> None:
    """A document of a newer program is refused, not read half."""

    with pytest.raises(StateError) as caught:
        from_document({**to_document(NicConfig()), "schema": schema}, where=WHERE)

    assert str(caught.value) == (
        f"{WHERE}: schema {schema!r}: this program reads 1; "
        "start the program that wrote it, or end the claim's pod under it"
    )


@pytest.mark.parametrize("document", [None, 5, [], "x"])
def test_document_when_no_object(document: object) -> None:
    """Anything else is refused."""

    with pytest.raises(StateError, match="no object: a NIC's configuration is one"):
        from_document(document, where=WHERE)


def test_document_when_a_field_is_broken() -> None:
    """The first fault is told with its place in the file."""

    with pytest.raises(StateError) as caught:
        from_document({"schema": 1, "interface": {"mtu": "x"}, "zzz": 1}, where=WHERE)

    assert str(caught.value) == (
        f'{WHERE}.interface.mtu: "x": it must be a whole number from 68 to 65535'
    )


@given(document=ANYTHING | SHAPED)
def test_document_when_anything(document: Any) -> None:
    """Whatever stands in the file, there is a configuration or a state error."""

    if isinstance(document, dict):
        document = {**document, "schema": 1}
    try:
        config = from_document(document, where=WHERE)
    except BerthError as fault:
        assert type(fault) is StateError  # noqa: PT017 - the class is the claim, not the raising
    else:
        assert from_document(to_document(config), where=WHERE) == config
