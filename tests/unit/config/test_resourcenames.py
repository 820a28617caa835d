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
OPEN = '[gpu]\ndoor = "plugin"\n'
PART = '[[gpu.group]]\nname = "p"\nmatch.profile = "1g.10gb+me"\ndoor = "plugin"\n'
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
        (
            f'{NODE}resource = "nvidia.com/gpu"\n{OPEN}',
            (
                '[[generic]] 1 "a": resource makes the resource "nvidia.com/gpu", as does [gpu]: '
                "it would be of GPUs of NVIDIA's driver and of generic devices"
            ),
        ),
        (f'{LINK}resource = "nvidia.com/vfio"\n{OPEN}', "as does [gpu]: it would be of GPUs of"),
        (
            f'{LINK}resource = "nvidia.com/gpu.shared"\n{WHOLE}share.slots = 2\n',
            'as does [[gpu.group]] "a"',
        ),
        (f'{LINK}resource = "nvidia.com/vfio"\n{MACHINE}', 'as does [[gpu.group]] "b"'),
        (f'{NODE}resource = "nvidia.com/mig-1g.10gb.me"\n{PART}', 'as does [[gpu.group]] "p"'),
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
        f"[nic]\nenabled = false\n{LINK}{NODE}",
        f"[gpu]\nenabled = false\n{LINK}{NAMED}{WHOLE}{NAMED}",
        f'{NODE}resource = "nvidia.com/gpu"\n{OPEN}enabled = false\n',
        f'{NODE}resource = "nvidia.com/gpu"\n{MACHINE}',
        f'{NODE}resource = "nvidia.com/gpu"\n{OPEN}{WHOLE}{NAMED}',
        f'{OPEN}{MACHINE}resource = "nvidia.com/gpu"\n',
    ],
    ids=[
        *("one is for claims", "own names", "like NICs", "the usual name", "nodes"),
        *("no NICs", "no GPUs", "no GPUs at all", "GPUs are for claims", "no GPU is left over"),
        "GPUs are all for machines",
    ],
)
def test_resource_of_one_sort_may_be_of_several_groups(tmp_path: Path, text: str) -> None:
    """What the pod gets is the same to it."""

    assert check_text(tmp_path, text).faults == ()
