"""Proxies by environment, as Go's programs choose them."""

from __future__ import annotations

import pytest

from berth.kube.proxies import environment_proxy

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("rules", "url", "proxied"),
    [
        ("", "https://10.0.0.1:6443", True),
        ("10.0.0.0/8", "https://10.0.0.1:6443", False),
        ("10.0.0.0/8", "https://11.0.0.1:6443", True),
        ("fd00::/8", "https://[fd00::1]:6443", False),
        ("10.0.0.1", "https://10.0.0.1:6443", False),
        ("10.0.0.1", "https://10.0.0.10:6443", True),
        ("10.0.0.1:6443", "https://10.0.0.1:6443", False),
        ("10.0.0.1:443", "https://10.0.0.1:6443", True),
        ("[fd00::1]", "https://[fd00::1]:6443", False),
        ("fd00::1", "https://[fd00::1]:6443", False),
        ("example.org", "https://api.example.org", False),
        ("example.org", "https://example.org", False),
        ("example.org", "https://badexample.org", True),
        (".example.org", "https://example.org", True),
        (".example.org", "https://api.example.org", False),
        ("*.example.org", "https://api.example.org", False),
        ("Example.ORG:6443", "https://API.example.org:6443", False),
        ("other, api", "https://api", False),
        ("*", "https://api", False),
        (",,", "https://api", True),
        ("10.0.0.0/99", "https://10.0.0.1", True),
        ("10.0.0.0/8", "https://api", True),
        (":6443", "https://api:6443", True),
    ],
)
def test_no_proxy_excepts_what_it_names(rules: str, url: str, *, proxied: bool) -> None:
    """Networks, addresses, domains and ports, each alone."""

    found = environment_proxy(url, {"HTTPS_PROXY": PROXY, "NO_PROXY": rules})

    assert found == (PROXY if proxied else "")


@pytest.mark.parametrize("url", ["https://127.0.0.1:6443", "https://localhost", "https://[::1]"])
def test_loopback_is_never_proxied(url: str) -> None:
    """A proxy could not reach it."""

    assert environment_proxy(url, {"HTTPS_PROXY": PROXY}) == ""


def test_scheme_and_lower_case_names_count() -> None:
    """Each scheme has its variable; a bare address is an HTTP proxy."""

    assert environment_proxy("http://api", {"HTTPS_PROXY": PROXY}) == ""
    assert environment_proxy("http://api", {"http_proxy": "proxy:1"}) == "http://proxy:1"
    assert environment_proxy("https://api", {"https_proxy": PROXY, "no_proxy": "api"}) == ""


def test_unix_socket_is_not_proxied() -> None:
    """It has no host."""

    assert environment_proxy("unix:///run/api.sock", {"UNIX_PROXY": PROXY}) == ""
