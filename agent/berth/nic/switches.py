"""What ethtool switches on and off on a link of this thread's namespace: features, driver's flags.

Both travel with the link, so that what a pod switched is still so when the link is home.
A kernel without ethtool's netlink family (before 5.6) has none to tell.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from berth.errors import HostError
from berth.host.netlink.generic import (
    ETHTOOL,
    get_family,
    get_features,
    get_private_flags,
    parse_family,
    parse_features,
    parse_private_flags,
    parse_refused_features,
    set_features,
    set_private_flags,
)
from berth.host.netlink.socket import NETLINK_GENERIC, Netlink, Sender
from berth.nic.steps import FEATURE, FLAG

_NONE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOENT})


def read_switches(index: int, *, send: Sender) -> dict[str, bool]:
    """Every switch of a link that can be turned, as ``feature/<name>`` and ``flag/<name>``.

    A feature counts as on when somebody wants it, whether or not the device can have it now.
    """
    with Netlink(NETLINK_GENERIC, send=send) as netlink:
        try:
            family = _family(netlink)
            features = parse_features(netlink.request(get_features(family, index))[0])
        except HostError as error:
            if error.errno in _NONE:
                return {}
            raise
        found = {f"{FEATURE}{n}": n in features.wanted for n in sorted(features.changeable)}
        return {**found, **_flags(netlink, family, index)}


def write_switches(index: int, values: Mapping[str, bool], *, send: Sender) -> None:
    """Turn switches, all of them.

    Raises:
        HostError: The driver refused, or the device cannot have a feature as it is.
    """
    refused = leave_switches(index, values, send=send)
    if refused:
        raise HostError(
            f"link {index}",
            f"does not take {', '.join(sorted(refused))}",
            rule="a feature may need another one, or the device lacks it",
            mend="drop it",
            errno=errno.EOPNOTSUPP,
        )


def leave_switches(index: int, values: Mapping[str, bool], *, send: Sender) -> frozenset[str]:
    """Turn switches; what a device cannot have now it has as soon as it can.

    Returns:
        Features that the device has not as they were asked for.

    Raises:
        HostError: The driver refused.
    """
    features = _named(FEATURE, values)
    flags = _named(FLAG, values)
    with Netlink(NETLINK_GENERIC, send=send) as netlink:
        family = _family(netlink)
        if flags:
            netlink.request(set_private_flags(family, index, flags))
        if not features:
            return frozenset()
        answers = netlink.request(set_features(family, index, features))
        return frozenset().union(*map(parse_refused_features, answers))


def _family(netlink: Netlink) -> int:
    return parse_family(netlink.request(get_family(ETHTOOL))[0])


def _flags(netlink: Netlink, family: int, index: int) -> dict[str, bool]:
    try:
        answer = netlink.request(get_private_flags(family, index))[0]
    except HostError as error:
        if error.errno in _NONE:
            return {}
        raise
    return {f"{FLAG}{name}": on for name, on in parse_private_flags(answer).items()}


def _named(prefix: str, values: Mapping[str, bool]) -> dict[str, bool]:
    return {n.removeprefix(prefix): on for n, on in values.items() if n.startswith(prefix)}
