"""Which proxy stands before the API server, by the environment that the daemon was started with.

Neither the HTTP library nor Python's own ``urllib`` understands a network in ``NO_PROXY``, and on
Kubernetes nodes that is how the cluster is excepted. So the rules of Go's programs, which every
other component of the node follows, are applied here.

Source: ``golang.org/x/net/http/httpproxy``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def environment_proxy(url: str, environment: Mapping[str, str]) -> str:
    """The proxy for ``url``; empty for none.

    Loopback is never proxied; lower-case variables are read when the upper-case ones are absent.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    proxy = _variable(environment, f"{parts.scheme.upper()}_PROXY")
    if not proxy or not host or _is_loopback(host):
        return ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    rules = _variable(environment, "NO_PROXY").split(",")
    if any(_excepts(rule.strip().lower(), host, port) for rule in rules):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower(), "")


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _excepts(rule: str, host: str, port: int) -> bool:
    """Whether one entry of ``NO_PROXY`` names ``host``: ``*``, a network, an address, a domain."""
    if rule == "*":
        return True
    address = _address(host)
    if "/" in rule:
        return address is not None and _in_network(address, rule)
    name, colon, digits = rule.rpartition(":")
    if colon and digits.isdigit() and _address(rule) is None:
        if int(digits) != port:
            return False
        rule = name
    if not rule:
        return False
    if address is not None:
        return _address(rule) == address
    domain = rule.removeprefix("*").removeprefix(".")
    bare = not rule.startswith((".", "*"))
    return host.endswith(f".{domain}") or (bare and host == domain)


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, rule: str) -> bool:
    try:
        return address in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False
