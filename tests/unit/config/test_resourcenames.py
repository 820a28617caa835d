"""Resources that would be of two sorts, whether groups name them or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.reading import check_text

LINK = '[[nic.group]]\nname = "a"\nmatch.name = "x0"\ndoor = "plugin"\n'
LIKE = '[[nic.group]]\nname = "c"\nmatch.name = "x1"\ndoor = "plugin"\n'
BOUND = '[[nic.group]]\nname = "b"\nmatch.pci = "0000:41:*"\nmode = "vfio"\ndoor = "plugin"\n'
NODE = '[[generic]]\nname = "a"\nmatch.path = "/dev/kvm"\ndoor = "both"\n'
WHOLE = '[[gpu.group]]\nname = "a"\nmatch.type = "gpu"\ndoor = "plugin"\n'
MACHINE = '[[gpu.group]]\nname = "b"\nmatch.type = "vfio"\ndoor = "both"\n'
NAMED = 'resource = "x.example/y"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"{LINK}{NAMED}{BOUND}{NAMED}",
            (
                '[[nic.group]] 2 "b": resource makes the resource "x.example/y", as does '
                '[[nic.group]] "a": it would be of NICs of mode "exclusive" with attach "cni" and '
                'of NICs of mode "vfio"; choose another resource'
            ),
        ),
        (f'{LINK}{BOUND}resource = "berth.dev/a"\n', '"berth.dev/a", as does [[nic.group]] "a"'),
        (
            f'{LINK}{NAMED}{LIKE}{NAMED}attach = "nri"\n',
            'with attach "cni" and of NICs of mode "exclusive" with attach "nri"',
        ),
        (f"{LINK}{NODE}", '[[generic]] 1 "a": name makes the resource "berth.dev/a"'),
        (f"{LINK}{NAMED}{WHOLE}{NAMED}", "and of GPUs of NVIDIA's driver"),
        (f"{WHOLE}{NAMED}{MACHINE}{NAMED}", "GPUs of NVIDIA's driver and of GPUs of vfio-pci"),
    ],
)
def test_resource_of_two_sorts_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """Whoever asks for it could get either."""

    (fault,) = check_text(tmp_path, text).faults
    assert said in str(fault)


@pytest.mark.parametrize(
    "text",
    [
        f"{LINK}{NODE}".replace('"both"', '"dra"'),
        f"{LINK}{BOUND}",
        f"{LINK}{NAMED}{LIKE}{NAMED}",
        f"{WHOLE}{NAMED}{MACHINE}",
        NODE + NAMED + NODE.replace("kvm", "fuse").replace('"a"', '"c"') + NAMED,
    ],
    ids=["one is for claims", "own names", "like NICs", "the usual name", "nodes"],
)
def test_resource_of_one_sort_may_be_of_several_groups(tmp_path: Path, text: str) -> None:
    """What the pod gets is the same to it."""

    assert check_text(tmp_path, text).faults == ()
