"""Where figures are served: how an address is written, and who could read them there."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.config.forms import OrEmpty
from berth.config.listen import LISTEN, Listen, parse_listen
from tests.unit.config.reading import check_text, read_value


@pytest.mark.parametrize(
    ("text", "addresses", "loopback"),
    [
        ("127.0.0.1:9471", ("127.0.0.1",), True),
        ("127.8.0.1:1", ("127.8.0.1",), True),
        ("[::1]:65535", ("::1",), True),
        ("localhost:9471", ("127.0.0.1", "::1"), True),
        ("0.0.0.0:9471", ("0.0.0.0",), False),  # noqa: S104 - the one that is warned of
        ("[::]:9471", ("::",), False),
        ("192.0.2.7:9471", ("192.0.2.7",), False),
        ("[2001:db8::7]:9471", ("2001:db8::7",), False),
    ],
)
def test_address_is_read_and_told_as_it_was_written(
    text: str, addresses: tuple[str, ...], loopback: bool
) -> None:
    """A reload compares the two, and a warning shows it."""
    listen = parse_listen(text)

    assert listen is not None
    assert (text, addresses, loopback) == (str(listen), listen.addresses, listen.is_loopback)


@pytest.mark.parametrize(
    "text",
    [
        *(":9471", "9471", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536"),
        *("127.0.0.1:+9", "127.0.0.1:٩", "127.0.0.1:999999", "127.1:9", "::1:9471", "[::1]"),
        *("[fe80::1%eth0]:9471", "monitoring.example:9471", "http://127.0.0.1:9", "[::1:9"),
    ],
)
def test_what_is_no_address_and_port_is_refused(text: str) -> None:
    """A name of the network may not be known yet when the machine starts."""

    assert parse_listen(text) is None
    assert len(read_value(OrEmpty(LISTEN), text)[1]) == 1


def test_port_alone_is_mended_by_the_loopback() -> None:
    """Whoever wants everybody to read has to write so."""

    mends = [read_value(OrEmpty(LISTEN), text)[1][0] for text in (":9100", "9100")]

    assert all(mend.endswith('or ""; write "127.0.0.1:9100"') for mend in mends)
    assert read_value(OrEmpty(LISTEN), 9100)[1][0].endswith('write "127.0.0.1:9100"')
    assert read_value(OrEmpty(LISTEN), "") == (None, [])
    assert read_value(OrEmpty(LISTEN), "[::1]:9") == (Listen(host="::1", port=9), [])


def test_what_others_may_read_is_warned_of(tmp_path: Path) -> None:
    """As is a file that no collector looks at; neither is a fault."""
    text = '[metrics]\nlisten = "0.0.0.0:9471"\ntextfile = "/srv/berth.txt"\n'
    report = check_text(tmp_path, text)

    assert report.config is not None
    assert [warning.partition(": ")[2] for warning in report.warnings] == [
        (
            '[metrics] listen is "0.0.0.0:9471": everybody who reaches this machine may read the '
            'figures; listen on "127.0.0.1:9471", or see to it by a firewall'
        ),
        ('[metrics] textfile is "/srv/berth.txt": node_exporter reads files in .prom alone'),
    ]
    good = '[metrics]\nlisten = "localhost:9471"\ntextfile = "/srv/berth.prom"\n'
    assert check_text(tmp_path, good).warnings == ()
