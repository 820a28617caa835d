"""The common name of client certificates made by OpenSSL, whole, cut and broken."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.certificate import common_name, node_name

# openssl req -x509 -newkey ec -subj "/O=system:nodes/CN=system:node:worker-7.lab" (3.0)
KUBELET = b"""-----BEGIN CERTIFICATE-----
MIIByTCCAW+gAwIBAgIUb826Jv1Fed4zjZCKv5CYFHNcWsowCgYIKoZIzj0EAwIw
OjEVMBMGA1UECgwMc3lzdGVtOm5vZGVzMSEwHwYDVQQDDBhzeXN0ZW06bm9kZTp3
b3JrZXItNy5sYWIwHhcNMjYxMTMwMDM1OTUxWhcNMzYxMTI3MDM1OTUxWjA6MRUw
EwYDVQQKDAxzeXN0ZW06bm9kZXMxITAfBgNVBAMMGHN5c3RlbTpub2RlOndvcmtl
ci03LmxhYjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABP9Zmu+RlteHmcHkWzxl
/YBhOl+RkVAhgMNj0SnYQ7qb3UJtxlSbgoXAe5wEp/ymcKSR4CAoQNGiFiT/ZfdG
TUmjUzBRMB0GA1UdDgQWBBQQvSyhsT8y3X1oq95IrAuTatQHiTAfBgNVHSMEGDAW
gBQQvSyhsT8y3X1oq95IrAuTatQHiTAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49
BAMCA0gAMEUCIA83nb5fq+9y6XYOsmeUYt45k3jUlXnehzb3iMdLG2RjAiEA53Fc
XgGlD0W+woY45zDTzIZ7qlk7wYJwJtnYB0dzZ3c=
-----END CERTIFICATE-----
"""
KEY = b"-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"
# -subj "/CN=first/O=x/CN=system:node:größe"
SEVERAL_NAMES = b"""-----BEGIN CERTIFICATE-----
MIIByjCCAW+gAwIBAgIUW2WdFSWhrkVXhP95zTkYthnQWHgwCgYIKoZIzj0EAwIw
OjEOMAwGA1UEAwwFZmlyc3QxCjAIBgNVBAoMAXgxHDAaBgNVBAMME3N5c3RlbTpu
b2RlOmdyw7bDn2UwHhcNMjYxMTMwMDM1OTUxWhcNMzYxMTI3MDM1OTUxWjA6MQ4w
DAYDVQQDDAVmaXJzdDEKMAgGA1UECgwBeDEcMBoGA1UEAwwTc3lzdGVtOm5vZGU6
Z3LDtsOfZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKSphnpxFnEwy8stAAZk
qiJP+JIk8azOF4zQtcXhIFS6Pjt/vp9qGvfZ8v9+JYieD8b702l5dSdbO0mnhyuZ
LjOjUzBRMB0GA1UdDgQWBBSojGeUpzQhCglZxJN7mCnKIcCWkjAfBgNVHSMEGDAW
gBSojGeUpzQhCglZxJN7mCnKIcCWkjAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49
BAMCA0kAMEYCIQCLMxByEZy767pCqjSk6uzxCxPlwCx656rW+1Eh55+wsAIhANpx
x4DB6lCA3WBnfmgjiVwI9bTWDzDcCsYyh8xlfZNG
-----END CERTIFICATE-----
"""


def der(pem: bytes) -> bytes:
    """The certificate's bytes."""
    return base64.b64decode(b"".join(pem.strip().splitlines()[1:-1]))


def pem(data: bytes) -> bytes:
    """Bytes as a certificate."""
    return (
        b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(data) + b"-----END CERTIFICATE-----\n"
    )


@pytest.mark.parametrize("text", [KUBELET, KEY + KUBELET, KUBELET + KEY, KUBELET + SEVERAL_NAMES])
def test_node_is_named_by_the_first_certificate_of_the_file(text: bytes) -> None:
    """Kubelet keeps certificate and key in one file, in either order."""

    assert node_name(text) == "worker-7.lab"


def test_last_common_name_counts() -> None:
    """As for Go's crypto/x509, by which the API server reads it."""

    assert common_name(SEVERAL_NAMES) == "system:node:größe"


@pytest.mark.parametrize("text", [b"", KEY, pem(b""), pem(b"\x30\x00"), b"garbage"])
def test_what_holds_no_certificate_names_nothing(text: bytes) -> None:
    """Another kind of credentials is no fault here."""

    assert (common_name(text), node_name(text)) == ("", "")


def test_certificate_of_somebody_else_names_no_node() -> None:
    """An administrator's name is no node's."""

    other = der(KUBELET).replace(b"system:node:", b"system:none:")

    assert common_name(pem(other)) == "system:none:worker-7.lab"
    assert node_name(pem(other)) == ""


def test_certificate_cut_anywhere_names_nothing_wrong() -> None:
    """A half-written file gives no name, or the whole one, and never an error."""

    whole = der(KUBELET)

    found = {node_name(pem(whole[:size])) for size in range(len(whole))}

    assert found == {""}


@given(st.integers(min_value=0, max_value=460), st.integers(min_value=0, max_value=255))
def test_certificate_with_any_byte_changed_is_no_error(place: int, byte: int) -> None:
    """Garbage inside is read as nothing or as a name."""

    data = bytearray(der(KUBELET))
    data[min(place, len(data) - 1)] = byte

    assert isinstance(common_name(pem(bytes(data))), str)


@given(st.binary(max_size=200))
def test_garbage_is_no_error(data: bytes) -> None:
    """Neither is garbage alone."""

    assert common_name(pem(data)) == ""
