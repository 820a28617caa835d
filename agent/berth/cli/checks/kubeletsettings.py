"""What kubelet was started with: its command line, and the files that it reads.

Later files go over earlier ones, and the command line over all of them.

Source: kubelet's ``--help`` and ``KubeletConfiguration`` v1beta1 of 1.37; KC §9.10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from berth.cli.checks.machine import Machine

CONFIGS: Final = ("/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet/config.json")
"""Where kubelet's configuration lies when its command line says nothing: kubeadm, EKS."""


@attrs.frozen(kw_only=True)
class Gates:
    """Feature gates that somebody wrote down.

    Attributes:
        states: On or off.
        places: Where each was written.
    """

    states: Mapping[str, bool] = attrs.field(factory=dict)
    places: Mapping[str, str] = attrs.field(factory=dict)


def command_line(machine: Machine) -> tuple[str, ...]:
    """The words of the running kubelet; empty when none is seen."""
    for folder in machine.files("/proc", "[0-9]*"):
        words = (machine.read(f"{folder}/cmdline") or "").split("\0")
        if Path(words[0]).name == "kubelet":
            return tuple(words)
    return ()


def option(words: tuple[str, ...], name: str) -> str:
    """The value of an option, with one or two dashes; the last one counts. Empty without it."""
    found = ""
    for word, following in zip(words, (*words, "")[1:], strict=True):
        given, mark, value = word.partition("=")
        if given in {f"--{name}", f"-{name}"}:
            found = value if mark else following
    return found


def gates(machine: Machine) -> Gates:
    """The feature gates that kubelet's files and command line name."""
    states: dict[str, bool] = {}
    places: dict[str, str] = {}
    words = command_line(machine)
    for path in _files(machine, words):
        for name, state in _written(machine.read(path) or ""):
            states[name], places[name] = state, f"{path}: featureGates"
    for pair in option(words, "feature-gates").split(","):
        name, mark, value = pair.partition("=")
        if mark:
            states[name.strip()] = value.strip().lower() == "true"
            places[name.strip()] = "kubelet's --feature-gates"
    return Gates(states=states, places=places)


def setting(machine: Machine, key: str) -> Any:
    """One key of kubelet's configuration; ``None`` when no file has it."""
    found: Any = None
    for path in _files(machine, command_line(machine)):
        document = _document(machine.read(path) or "")
        found = document.get(key, found)
    return found


def _files(machine: Machine, words: tuple[str, ...]) -> Iterator[str]:
    given = option(words, "config")
    yield from (path for path in ([given] if given else CONFIGS) if machine.at(path).is_file())
    if folder := option(words, "config-dir"):
        yield from machine.files(folder, "*.conf")


def _written(text: str) -> Iterator[tuple[str, bool]]:
    found = _document(text).get("featureGates")
    for name, state in found.items() if isinstance(found, Mapping) else ():
        if isinstance(state, bool):
            yield str(name), state


def _document(text: str) -> Mapping[str, Any]:
    # Imported here: what reads YAML is large, and no other command needs it.
    import yaml

    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}
