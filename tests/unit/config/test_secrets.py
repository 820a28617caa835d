"""What looks like a secret is found, told without being shown, and taken out."""

from __future__ import annotations

import pytest

from berth.config.finding import Cursor
from berth.config.secrets import looks_secret, without_secrets

LOGIN = "eyJhbGciOiJSUzI1NiIs.eyJpc3MiOiJrdWJlcm5ldGVz.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token", "x"),
        ("bearerToken", "x"),
        ("password", "x"),
        ("api_key", "x"),
        ("client-key-data", "x"),
        ("clientSecret", "x"),
        ("private_key", ["x"]),
        ("server", "https://user:pass@host"),
        ("kubeconfig", LOGIN),
        ("name", "-----BEGIN EC PRIVATE KEY-----\nabc"),
        ("aliases", ["ok", LOGIN]),
        ("header", "Bearer abc"),
    ],
)
def test_secret_is_seen_by_its_name_or_its_text(name: str, value: object) -> None:
    """Either is enough."""

    assert looks_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token", ""),
        ("token", 3),
        ("token_file", "/var/run/token"),
        ("credentials", "token"),
        ("server", "https://host:6443/a@b"),
        ("name", "passwordless"),
        ("monkey", "x"),
        ("ca_file", "-----BEGIN CERTIFICATE-----"),
        ("rails", [1, 2]),
    ],
)
def test_what_is_no_secret_is_left_alone(name: str, value: object) -> None:
    """Names of files, certificates and words that only look alike."""

    assert not looks_secret(name, value)


def test_secrets_are_taken_out_wherever_they_stand() -> None:
    """Tables, arrays of tables and lists are searched; the text is in no message."""
    cursor = Cursor()
    document = {
        "token": "s3cret",
        "a": {"password": "s3cret", "b": 1},
        "c": [{"d": 2, "secret": "s3cret"}, 3, ["x"]],
    }

    assert without_secrets(document, cursor) == {"a": {"b": 1}, "c": [{"d": 2}, 3, ["x"]]}
    assert [finding.steps for finding in cursor.findings] == [
        ("token",),
        ("a", "password"),
        ("c", 0, "secret"),
    ]
    assert not any("s3cret" in str(finding) for finding in cursor.findings)
