"""Per-interface settings under ``/proc/sys/net``, which show the namespace of the calling thread.

Named ``ipv4/<name>`` and ``ipv6/<name>``. Read by plain descriptors, since a look at all settings
of a link is some two hundred files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from berth.errors import HostError

_ROOT: Final = "/proc/sys/net"
_FAMILIES: Final = ("ipv4", "ipv6")
_LONGEST_BYTES: Final = 64

# The kernel makes these from the link itself, or takes them from nobody.
_COMPUTED: Final = frozenset({"mtu", "mc_forwarding", "stable_secret"})


def read_settings(link: str, names: Iterable[str]) -> dict[str, int]:
    """The values of a link's settings; those that it does not have are left out.

    Args:
        link: Its name in the namespace of this thread.
        names: As ``ipv6/accept_ra``.
    """
    return dict(_read(names, link))


def read_all(link: str) -> dict[str, int]:
    """The values of all settings of a link that somebody may set.

    Args:
        link: Its name in the namespace of this thread; ``default`` tells what a new link gets.
    """
    return {
        f"{family}/{name}": value for family in _FAMILIES for name, value in _all_of(family, link)
    }


def write_settings(link: str, values: Mapping[str, int]) -> None:
    """Set a link's settings and see that each took; one that it does not have counts as set.

    Raises:
        HostError: The kernel refused one, or shows another value after it was set.
    """
    for name, value in values.items():
        path = _path(name, link)
        try:
            _write(path, value)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostError(
                path, f"cannot be set to {value}: {error.strerror}", errno=error.errno or 0
            ) from error
    for name, seen in _read(values, link):
        if seen != values[name]:
            raise HostError(_path(name, link), f"is {seen} after it was set to {values[name]}")


def _read(names: Iterable[str], link: str) -> Iterator[tuple[str, int]]:
    for name in names:
        value = _value(_path(name, link))
        if value is not None:
            yield name, value


def _all_of(family: str, link: str) -> Iterator[tuple[str, int]]:
    """All settings of one family; their folder is opened once, which halves the time."""
    try:
        folder = os.open(f"{_ROOT}/{family}/conf/{link}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # Without the family there is no such folder.
        return
    try:
        for name in os.listdir(folder):  # noqa: PTH208 - a descriptor has no path
            value = None if name in _COMPUTED else _value(name, folder=folder)
            if value is not None:
                yield name, value
    finally:
        os.close(folder)


def _value(path: str, *, folder: int | None = None) -> int | None:
    """What is no number, or is not there, is no setting that we would put back."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        return int(os.read(descriptor, _LONGEST_BYTES))
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)


def _write(path: str, value: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"%d\n" % value)
    finally:
        os.close(descriptor)


def _path(name: str, link: str) -> str:
    family, _, setting = name.partition("/")
    return f"{_ROOT}/{family}/conf/{link}/{setting}"
