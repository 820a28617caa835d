"""The reference page is current, and its example works."""

from __future__ import annotations

import yaml

from berth.nic.config import resolve
from berth.nic.config.fields import FIELDS
from tests.unit.nic.config.claims import FAST, NIC, claim_of, entry, nic_result, targets_of
from tools import claim_reference
from tools.page import make


def test_page_when_compared_with_the_table() -> None:
    """The page on disk is the one that the table of fields makes."""

    assert make(claim_reference.PAGE, claim_reference.page, ["--check"]) == 0


def test_page_when_searched_for_a_field() -> None:
    """Every field stands on the page."""

    page = claim_reference.page()

    for field in FIELDS:
        assert f"| `{field.name}` |" in page or f"| `{field.path}` |" in page


def test_example_when_used() -> None:
    """The page's example is a claim that is prepared without fault."""

    spec = yaml.safe_load(claim_reference.EXAMPLE)["spec"]["devices"]
    config = spec["config"][0]
    claim = claim_of(
        entry(config["opaque"]["parameters"], requests=config["requests"]),
        results=[nic_result(spec["requests"][0]["name"])],
    )
    nics = resolve(
        claim,
        targets=targets_of(claim, NIC),
        policies={"fast": FAST},
        driver=config["opaque"]["driver"],
    )

    assert nics[0].name == "storage0"
