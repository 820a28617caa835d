"""A look at this machine by the command itself, for when there is no daemon to ask."""

from __future__ import annotations

import errno
from pathlib import Path

from berth.cli.apiaccess import credential_settings, find_access
from berth.cli.outlook import Gear, outlook
from berth.config.load import Report, check
from berth.config.schema import Config
from berth.errors import BerthError, Faults
from berth.generic.matching import wanted
from berth.host.devnodes import NodeReader
from berth.host.nodefacts import NodeScan
from berth.host.nvidiafiles import NvidiaFiles
from berth.host.scan import HostScan, Scanner
from berth.host.sysfs import Sysfs
from berth.nic.config.group import check_groups
from berth.node.inventory.sighting import Memory
from berth.node.inventory.snapshot import Snapshot, judge


def check_config(path: Path) -> Report:
    """Read a configuration as the daemon does, and give all that is wrong with it."""
    return check(path, also=(check_groups,))


def read_config(path: Path) -> Config:
    """Read a configuration.

    Raises:
        Faults: It is refused; every fault is named.
    """
    report = check_config(path)
    if report.config is None:
        raise Faults(str(path), report.faults)
    return report.config


def read_config_or_defaults(path: Path) -> tuple[Config, str]:
    """Read a configuration; a file that is not there is one without groups.

    Returns:
        The configuration, and what it is in words: its file, or that there is none.

    Raises:
        Faults: It is there, and refused.
    """
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ENOENT:
            return Config(), f"the defaults, since there is no {path}"
    return read_config(path), str(path)


def scan_machine(config: Config) -> HostScan:
    """Look at the machine as it is now.

    Raises:
        HostError: The kernel refused, or the machine could not be read.
    """
    return Scanner(Sysfs()).scan(toward=_toward(config))


def look(config: Config) -> Snapshot:
    """What the machine has, and what of it a daemon with this configuration would offer.

    Claims that are held are not known here, nor is what the API server refuses.

    Raises:
        HostError: The kernel refused, or the machine could not be read.
    """
    return judge(scan_machine(config), outlook(config, read_gear(config)), Memory())


def read_gear(config: Config) -> Gear:
    """What lies beside NICs, as far as the configuration means it; blocks.

    Raises:
        HostError: It could not be read.
    """
    nodes = NodeReader().read(wanted(config.generic)) if config.generic else NodeScan()
    if not config.gpu.enabled:
        return Gear(nodes=nodes)
    functions = Sysfs().chosen(lambda function: function.is_nvidia_gpu)
    if not functions:
        return Gear(nodes=nodes)
    addresses = [function.address for function in functions]
    files = NvidiaFiles().read(version="", addresses=addresses)
    return Gear(nodes=nodes, functions=functions, files=files)


def _toward(config: Config) -> tuple[str, ...]:
    """The API server's address, whose way out is an uplink; none where nothing says it."""
    try:
        host = find_access(credential_settings(config)).host
    except BerthError:
        return ()
    return (host,) if host else ()
