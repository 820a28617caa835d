"""What a rehearsal plays, from the files that are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.config import document
from berth.config.load import load
from berth.errors import ConfigError, Faults
from berth.rehearsal.script import CONFIG, write_script
from berth.rehearsal.stage import tied, toml_document

CONFIGS = Path(__file__).parents[3] / "configs"


def test_embedded_play_has_few_lines_and_one_pod() -> None:
    """A newcomer sees a configuration that can be read at a glance, one pod and one device."""

    script = write_script(config=None, claim=None)

    assert len(CONFIG.splitlines()) == 21
    assert script.text == CONFIG
    assert [link.name for link in script.cast.links] == ["nic0", "nic1", "nic2"]
    assert len(script.manifests.pods) == 1
    assert script.groups == ("null",)
    assert script.with_groups


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("nic-node", ["ens2f0", "ens2f1"]),
        ("shared-parent-node", ["ens1f0"]),
        ("sriov-node", ["rehearsal0"]),
        ("agent", ["rehearsal0"]),
    ],
)
def test_shipped_configurations_can_be_played(name: str, links: list[str]) -> None:
    """Groups of links are played; a file without one gets a group of the rehearsal's own."""

    script = write_script(config=CONFIGS / f"{name}.toml", claim=None)

    assert [link.name for link in script.cast.links] == links
    assert len(script.manifests.pods) == len({link.group for link in script.cast.links})


def test_generic_groups_are_played_unless_claims_are_given() -> None:
    """Each group gets pods of the rehearsal's own; who brings claims asks how those fare."""

    config = CONFIGS / "generic-node.toml"
    claim = CONFIGS / "kubernetes" / "examples" / "generic" / "modem.yaml"

    own = write_script(config=config, claim=None)
    theirs = write_script(config=config, claim=claim)

    assert own.groups == theirs.groups == ("kvm", "serial", "capture")
    assert (own.with_groups, theirs.with_groups) == (True, False)


def test_gpus_are_told_as_not_rehearsed() -> None:
    """Where the file says something of them."""

    told = write_script(config=CONFIGS / "gpu-node.toml", claim=None).notes
    untold = write_script(config=CONFIGS / "nic-node.toml", claim=None).notes

    assert "GPUs are NOT rehearsed" in told
    assert untold == ()


def test_embedded_play_has_gpus_where_they_can_be_had() -> None:
    """Else the daemon looks for none, so that it meets no driver of this machine."""

    script = write_script(config=None, claim=None)

    having = script.having_gpus(Path("/l.so"), {"0000:1b:00.0": "/dev/nvidia0"})
    lacking = script.lacking_gpus("there is no C compiler")

    assert script.with_gpus
    assert having.groups == ("null", "")
    assert having.config["gpu"]["library"] == "/l.so"
    assert having.config["gpu"]["door"] == "both"
    assert lacking.groups == ("null",)
    assert lacking.config["gpu"] == {"enabled": False}
    assert lacking.notes == ("GPUs are NOT rehearsed: there is no C compiler",)


def test_hardware_is_told_as_not_rehearsed() -> None:
    """An operator must not take a group for rehearsed that was not."""

    script = write_script(config=CONFIGS / "sriov-node.toml", claim=None)

    assert script.notes == (
        "group 'storage' is NOT rehearsed: it asks for hardware by pf, vendor",
        "group 'tenant' is NOT rehearsed: it asks for hardware by pf, vendor",
        "a group of the rehearsal's own is played in their place, on one link",
    )


def test_all_faults_of_a_configuration_are_told(tmp_path: Path) -> None:
    """A file with faults is refused as the daemon would refuse it, before anything begins."""

    path = tmp_path / "agent.toml"
    path.write_text("[nri]\ntimeout_s = -1\n[nic]\nbogus = 1\n", encoding="utf-8")

    with pytest.raises(Faults) as refused:
        write_script(config=path, claim=None)

    assert len(refused.value.faults) == 2


@pytest.mark.parametrize("table", ["dra", "nic"])
def test_switched_off_table_leaves_nothing_to_play(tmp_path: Path, table: str) -> None:
    """Without claims or NICs there is no play, and the key is named."""

    path = tmp_path / "agent.toml"
    path.write_text(f"[{table}]\nenabled = false\n", encoding="utf-8")

    with pytest.raises(ConfigError, match="there is nothing to rehearse") as refused:
        write_script(config=path, claim=None)

    assert f"[{table}] enabled" in refused.value.where


@pytest.mark.parametrize("name", ["nic-node", "shared-parent-node", "sriov-node", "agent"])
def test_tied_configuration_keeps_everything_but_the_machine(name: str, tmp_path: Path) -> None:
    """What the daemon reads is the operator's file, with only its places replaced."""

    path = CONFIGS / f"{name}.toml"
    values = document.parse(path.read_text(encoding="utf-8"))
    root, kubeconfig = tmp_path / "kubelet", tmp_path / "kubeconfig"
    tied_path = tmp_path / "agent.toml"

    text = toml_document(tied(values, kubelet_root=root, kubeconfig=kubeconfig))
    tied_path.write_text(text, encoding="utf-8")

    before, after = load(path), load(tied_path)
    assert after.nic == before.nic
    assert after.dra == before.dra
    assert after.kubelet.root == root
    assert after.kubernetes.kubeconfig == kubeconfig
    assert after.node.name == "rehearsal"
