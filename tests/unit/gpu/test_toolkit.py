"""The answer of nvidia-ctk, taken over as far as it holds."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import RemoteProtocolError
from berth.gpu.edits import mig_draft
from berth.gpu.toolkit import Toolkit, checked, key_of, paths_of, read_answer, taken_over
from tests.unit.gpu.machine import divided, facts, function, gpu, look, part, uuid_of

HOOK = "/usr/bin/nvidia-cdi-hook"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06"


def document(**changes: Any) -> dict[str, Any]:
    """An answer as version 1.17 gives it, for two GPUs."""
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            *(
                {
                    "name": uuid_of(number),
                    "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{number}"}]},
                }
                for number in range(2)
            ),
            {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
        ],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void", "X=1"],
            "deviceNodes": [{"path": "/dev/nvidiactl", "major": 195, "minor": 255}],
            "mounts": [
                {
                    "hostPath": LIBRARY,
                    "containerPath": LIBRARY,
                    "options": ["ro", "nosuid", "nodev", "bind"],
                }
            ],
            "hooks": [
                {
                    "hookName": "createContainer",
                    "path": HOOK,
                    "args": ["nvidia-cdi-hook", "update-ldcache"],
                    "env": ["NVIDIA_CTK_DEBUG=false"],
                }
            ],
            "additionalGids": [44],
        },
        **changes,
    }


def toolkit(value: Any, existing: tuple[str, ...] = (HOOK, LIBRARY)) -> Toolkit:
    """What holds of an answer on the machine of these tests."""
    return checked(read_answer(json.dumps(value).encode()), facts(), existing)


def test_answer_is_taken_over_with_the_numbers_of_now() -> None:
    """Common edits and those of each UUID; what stands for all of them is dropped."""

    found = toolkit(document())

    assert found.devices.keys() == {uuid_of(0), uuid_of(1)}
    assert found.refused == {}
    (one,) = found.devices[uuid_of(1)].nodes
    assert (one.path, one.major, one.minor, one.file_mode) == ("/dev/nvidia1", 195, 1, 0o666)
    assert found.common.env == ("NVIDIA_VISIBLE_DEVICES=void", "X=1")
    assert found.common.hooks[0].args == ("nvidia-cdi-hook", "update-ldcache")
    assert found.common.gids == (44,)


def test_answer_names_the_files_that_it_needs() -> None:
    """They are looked for before it is used."""

    assert paths_of(read_answer(json.dumps(document()).encode())) == {HOOK, LIBRARY}


@pytest.mark.parametrize("existing", [(HOOK,), (LIBRARY,)])
def test_answer_about_files_that_are_gone_is_of_no_use(existing: tuple[str, ...]) -> None:
    """A container with it would not start."""

    with pytest.raises(RemoteProtocolError, match="which does not exist"):
        toolkit(document(), existing)


def test_device_without_its_node_is_left_out() -> None:
    """The others are used, and the reason is told."""

    value = document()
    value["devices"][1]["containerEdits"]["deviceNodes"] = [{"path": "/dev/nvidia99"}]

    found = toolkit(value)

    assert found.devices.keys() == {uuid_of(0)}
    assert found.refused == {uuid_of(1): "needs /dev/nvidia99, which does not exist"}


def test_numbers_of_another_boot_are_refused() -> None:
    """They would give the container another device."""

    node = {"path": "/dev/nvidia-uvm", "major": 510, "minor": 0}
    edits = {**document()["containerEdits"], "deviceNodes": [node]}

    with pytest.raises(RemoteProtocolError, match="as 510:0, and it is 511:0"):
        toolkit(document(containerEdits=edits))


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (b"", "not one JSON document"),
        (b"\xff", "not one JSON document"),
        (b"{} {}", "not one JSON document"),
        (b"[" * 100000, "not one JSON document"),
        (b"[]", "is no object"),
        (b"{}", "is no list"),
        (b'{"devices": []}', "holds no device"),
        (b'{"devices": [{"name": "all", "containerEdits": {}}]}', "holds no device"),
        (b" " * (4 * 1024 * 1024 + 1), "bytes"),
    ],
)
def test_rubbish_is_refused(output: bytes, found: str) -> None:
    """What is no answer is none."""

    with pytest.raises(RemoteProtocolError, match=found):
        read_answer(output)


@pytest.mark.parametrize(
    "edits",
    [
        {"netDevices": [{}]},
        {"env": [1]},
        {"env": "A=1"},
        {"deviceNodes": [{"path": "dev/x"}]},
        {"deviceNodes": [{"path": "/dev/../etc/shadow"}]},
        {"deviceNodes": [{"path": "/dev/x", "type": "p"}]},
        {"deviceNodes": [{"path": "/dev/x", "major": -1}]},
        {"deviceNodes": [{"path": "/dev/x", "permissions": "rwx"}]},
        {"mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "tmpfs"}]},
        {"mounts": [{"hostPath": "/a"}]},
        {"hooks": [{"path": "/a"}]},
        {"additionalGids": [True]},
        {"deviceNodes": 7},
        7,
    ],
)
def test_edits_of_an_unknown_form_are_refused(edits: Any) -> None:
    """What is not understood is not carried out in part."""

    with pytest.raises(RemoteProtocolError, match="nvidia-ctk"):
        read_answer(json.dumps(document(containerEdits=edits)).encode())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["devices", "containerEdits", "name", "env", "mounts", "path", "x"]),
            inner,
            max_size=4,
        )
    ),
)


@given(st.one_of(st.binary(max_size=60), _JSON.map(lambda value: json.dumps(value).encode())))
def test_anything_is_an_answer_or_refused(output: bytes) -> None:
    """Never anything else."""

    with contextlib.suppress(RemoteProtocolError):
        checked(read_answer(output), facts(), ())


def test_part_keeps_its_capabilities_beside_the_tools_edits() -> None:
    """The tool leaves them out where they have no node."""

    mig = part(1, "1g.10gb", 0, gi_id=9)
    one = divided(0, mig)
    ours = mig_draft(one, mig, facts())
    value = document()
    value["devices"][1]["name"] = mig.uuid
    value["devices"][1]["containerEdits"]["deviceNodes"] = [{"path": "/dev/nvidia0"}]
    theirs = toolkit(value)

    draft = taken_over(theirs, mig.uuid, ours)

    assert [each.path for each in draft.edits.nodes] == [each.path for each in ours.edits.nodes]
    assert draft.common == theirs.common
    assert taken_over(theirs, "MIG-unknown", ours) == ours


def test_survey_takes_the_tools_edits() -> None:
    """Where there are any."""

    theirs = toolkit(document())

    (one,) = look([gpu(0)], [function(0)], toolkit=theirs).peripherals

    assert one.common == theirs.common


def test_key_changes_with_what_the_answer_depends_on() -> None:
    """Boot, driver, devices, modes and the tool itself; not the order of the devices."""

    gpus = [gpu(0), divided(1, part(1, "1g.10gb", 0, gi_id=1))]
    key = key_of(gpus, boot_id="b", version="1", stamps=())

    assert key == key_of(gpus[::-1], boot_id="b", version="1", stamps=())
    assert key != key_of(gpus[:1], boot_id="b", version="1", stamps=())
    assert key != key_of(gpus, boot_id="c", version="1", stamps=())
    other = [attrs.evolve(gpus[0], mig_current=True), gpus[1]]
    assert key != key_of(other, boot_id="b", version="1", stamps=())
