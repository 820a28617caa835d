"""Conditions on device nodes: how each is written, and what is refused."""

from __future__ import annotations

import pytest

from berth.config.decode import Table, keys_of
from berth.config.document import parse
from berth.config.finding import Cursor
from berth.config.genericmatch import (
    CLASS,
    HEX_PATTERN,
    PATH_GLOB,
    SUBSYSTEM,
    TEXT_PATTERN,
    GenericMatch,
    Pattern,
)
from berth.config.match import PciPattern
from berth.model.pathglob import PathGlob
from tests.unit.config.reading import read_table, read_value

HEX_RULE = 'it must be 4 hex digits in quotes, such as "0403", or a pattern of them with *'
WHOLE = """
    path = "/dev/ttyUSB*"
    subsystem = ["tty", "hidraw"]
    usb = { vendor = "0403", product = "60*", serial = "A*" }
    pci = { vendor = "8086", device = ["A36D", "*"], class = "0c03", address = "0000:00:14.*" }
    properties = { ID_MODEL = "FT232R*" }
    attributes = { manufacturer = ["FTDI", "ACME"] }
"""


def test_every_condition_is_read() -> None:
    """Each one reaches its attribute, ids in lower case; one item may stand without brackets."""
    match, said = read_table(GenericMatch, WHOLE)

    assert said == []
    assert match is not None
    assert match.path == (PathGlob("/dev/ttyUSB*"),)
    assert match.subsystem == ("tty", "hidraw")
    assert match.usb.vendor == (Pattern("0403"),)
    assert match.pci.device == (Pattern("a36d"), Pattern("*"))
    assert (match.pci.class_, match.pci.address) == (("0c03",), (PciPattern("0000:00:14.*"),))
    assert match.properties == {"ID_MODEL": (Pattern("FT232R*"),)}
    assert match.attributes == {"manufacturer": (Pattern("FTDI"), Pattern("ACME"))}


def test_text_of_conditions_can_be_read_again() -> None:
    """What is shown of a match may be written into a file."""
    match, _ = read_table(GenericMatch, WHOLE)
    shown = parse(f"m = {match}")["m"]
    cursor = Cursor()

    assert Table(GenericMatch).read(shown, cursor) == match
    assert [key.name for key in keys_of(GenericMatch)] == list(shown)
    assert cursor.findings == []
    assert str(GenericMatch()) == "{}"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (403, f'is the number 403: {HEX_RULE}; write "0403"'),
        ("0x403", f'is "0x403": {HEX_RULE}; write "0403"'),
        ("04031", f'is "04031": {HEX_RULE}'),
        ("*******", f'is "*******": {HEX_RULE}'),
        ("zzzz", f'is "zzzz": {HEX_RULE}'),
    ],
)
def test_id_that_is_none_is_refused_with_the_right_one(value: object, words: str) -> None:
    """A number matches nothing in other programs without a word; here it is told (row 23)."""

    assert (None, [words]) == read_value(HEX_PATTERN, value)


@pytest.mark.parametrize(
    ("value", "mend"),
    [("300", '; write "0300"'), (300, '; write "0300"'), ("0x0300", '; write "0300"'), ("x", "")],
)
def test_class_that_is_none_is_refused(value: object, mend: str) -> None:
    """Whole bytes are needed, since a class is compared from its beginning on."""
    _, said = read_value(CLASS, value)

    assert said[0].endswith(f'it must be 2, 4 or 6 hex digits in quotes, such as "0300"{mend}')


@pytest.mark.parametrize(
    "path",
    ["/dev/**", "/dev/../x", "/dev/", "", "/dev/[a", "/dev/[z-a]", "/dev/" + "?" * 10, "/dev/a\tb"],
)
def test_path_that_is_no_pattern_is_refused(path: str) -> None:
    """Ways upwards, folders, patterns that end nowhere, and too many wildcards."""
    _, said = read_value(PATH_GLOB, path)

    assert len(said) == 1


def test_path_without_a_folder_is_mended() -> None:
    """The usual slip is told with what it should be."""
    _, said = read_value(PATH_GLOB, "ttyUSB*")

    assert said[0].endswith('; write "/dev/ttyUSB*"')


def test_subsystem_takes_no_wildcard() -> None:
    """A subsystem is looked up, not searched for."""
    _, said = read_value(SUBSYSTEM, "tty*")

    assert said[0].endswith("; wildcards are not taken here; name each one")


@pytest.mark.parametrize("text", ["", "x" * 257, "*" * 9])
def test_pattern_without_bounds_is_refused(text: str) -> None:
    """Many stars would take long to try."""

    assert read_value(TEXT_PATTERN, text)[0] is None


def test_names_that_cannot_be_are_refused() -> None:
    """Of properties and of files in sysfs; an empty table asks for nothing."""
    _, said = read_table(
        GenericMatch, 'properties = { "a-b" = "x" }\nattributes = { "../x" = "y" }\nusb = 3'
    )

    assert said == [
        "[properties] a-b is no such name: it must be the name of a udev property such as ID_MODEL",
        (
            "[attributes] ../x is no such name: it must be a sysfs attribute such as manufacturer, "
            "without leading slash and .."
        ),
        "usb is 3: it must be a table",
    ]
    assert read_table(GenericMatch, 'path = "/dev/x"\nproperties = {}')[1] == [
        "[properties] is empty: it must name at least one; or drop the line"
    ]
    assert read_table(GenericMatch, 'properties = { A = "x", B = 3 }')[1][0].startswith(
        "[properties] B is the number 3: it must be text of 1 to 256 bytes"
    )
    assert read_table(GenericMatch, "properties = 3")[1] == [
        'properties is 3: it must be a table of udev properties such as { ID_MODEL = "Camera*" }'
    ]


@pytest.mark.parametrize("text", ["", "usb = {}", "usb = {}\npci = {}"])
def test_match_without_condition_is_refused(text: str) -> None:
    """It would take every node of the machine."""
    _, said = read_table(GenericMatch, text)

    assert said == [
        (
            "has no condition: it would select every device node; "
            "give at least one of path, subsystem, usb, pci, properties and attributes"
        )
    ]


def test_unknown_condition_is_told_with_the_nearest() -> None:
    """Names of other programs lead to ours."""
    _, said = read_table(GenericMatch, 'usb = { idVendor = "0403" }')

    assert said[0].startswith("[usb] idVendor is unknown: the keys here are vendor")
    assert said[0].endswith("nearest is vendor")
