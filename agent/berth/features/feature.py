"""One feature of Kubernetes: its gate by version, and what shows whether it is on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

import attrs

VERSIONS: Final = ("1.34", "1.35", "1.36", "1.37")
"""Versions of Kubernetes that berth speaks with; a newer one counts as the last of these."""

Number: TypeAlias = "tuple[int, int]"
"""A version by its two numbers: ``(1, 37)``."""


class Stage(Enum):
    """How a version has a feature, and whether its gate is open when nobody says otherwise."""

    ABSENT = "absent"
    ALPHA_OFF = "alpha, off"
    BETA_OFF = "beta, off"
    BETA_ON = "beta, on"
    STABLE = "stable, on"

    @property
    def is_on(self) -> bool:
        """Whether the gate is open by default."""
        return self in {Stage.BETA_ON, Stage.STABLE}


class Part(Enum):
    """A part of the cluster whose own version and gate decide."""

    SERVER = "server"
    """The API server; scheduler and controllers are taken to be of its version."""
    KUBELET = "kubelet"


@attrs.frozen(kw_only=True)
class Feature:
    """A feature, as Kubernetes made it and as berth uses it.

    Attributes:
        key: Its name here, in figures and in what ``berth check`` says.
        title: What it does, for a person; begins with a capital letter.
        gate: Name of its feature gate.
        stages: How each of `VERSIONS` has it.
        parts: Whose versions decide.
        config: Settings by which an administrator opts in; empty: berth uses it where it is there.
        cost: What it costs to turn it on; for what is alpha.
        proof: Names of fields of a slice that a server keeps only if it has the feature. A server
            may refuse them instead.
        declared: Kubelet tells in the Node's ``status.declaredFeatures`` whether its gate is open.
        test: The test that shows it on a real cluster: ``test_file.py::test_name``, below
            ``tests/cluster``; empty while there is none.
    """

    key: str
    title: str
    gate: str
    stages: Mapping[str, Stage]
    parts: tuple[Part, ...] = (Part.SERVER,)
    config: str = ""
    cost: str = ""
    proof: tuple[str, ...] = ()
    declared: bool = False
    test: str = ""

    def stage(self, version: Number) -> Stage:
        """How a version has it; what is older than all of `VERSIONS` does not."""
        oldest, newest = number(VERSIONS[0]), number(VERSIONS[-1])
        if version < oldest:
            return Stage.ABSENT
        return self.stages[text(min(version, newest))]


def number(version: str) -> Number:
    """The two numbers of a version such as ``1.37``."""
    major, minor = version.split(".")
    return int(major), int(minor)


def find_number(told: str) -> Number | None:
    """The two numbers in what a program says of its version, such as ``Kubernetes v1.37.2``."""
    found = re.search(r"v?(\d+)\.(\d+)", told)
    return (int(found[1]), int(found[2])) if found else None


def text(version: Number) -> str:
    """A version as people write it."""
    return f"{version[0]}.{version[1]}"


def since(**changes: Stage) -> Mapping[str, Stage]:
    """The stages of all versions from those at which they changed: ``since(v1_36=BETA_ON)``."""
    named = {name.removeprefix("v").replace("_", "."): stage for name, stage in changes.items()}
    stages, stage = {}, Stage.ABSENT
    for version in VERSIONS:
        stage = named.pop(version, stage)
        stages[version] = stage
    if named:
        raise ValueError(f"no such versions: {', '.join(named)}")
    return stages
