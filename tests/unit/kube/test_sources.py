"""Which credentials are taken, and what is told when there are none."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from berth.errors import ConfigError, KubeError
from berth.kube.sources import KUBELET_KUBECONFIGS, Choice, CredentialSettings, choose


@pytest.fixture
def kubelets(tmp_path: Path) -> CredentialSettings:
    """Settings under which kubelet's second place is the first that exists."""
    second = tmp_path / "second"
    second.write_text("x")
    return CredentialSettings(kubelet_kubeconfigs=(str(tmp_path / "first"), str(second)))


def test_auto_prefers_what_is_given_to_what_is_found(kubelets: CredentialSettings) -> None:
    """An explicit kubeconfig, else a token, else kubelet's own."""

    token = attrs.evolve(kubelets, server="https://api", token_file="/t", ca_file="/ca")
    both = attrs.evolve(token, kubeconfig="/k")

    assert choose(both) == Choice(kind="kubeconfig", path="/k")
    assert choose(token) == Choice(kind="token", path="/t", server="https://api", ca_path="/ca")
    assert choose(kubelets) == Choice(kind="kubelet", path=kubelets.kubelet_kubeconfigs[1])


def test_named_kind_is_taken_whatever_else_is_given(kubelets: CredentialSettings) -> None:
    """The setting outranks the order of auto."""

    both = attrs.evolve(kubelets, kubeconfig="/k", credentials="kubelet")

    assert choose(both).kind == "kubelet"


def test_missing_kubelet_names_every_path_that_was_tried(tmp_path: Path) -> None:
    """A node that has not joined yet is no mistake in the settings."""

    paths = (str(tmp_path / "a"), str(tmp_path / "f" / "b"), str(tmp_path / "c"))
    (tmp_path / "f").write_bytes(b"")

    with pytest.raises(KubeError) as error:
        choose(CredentialSettings(kubelet_kubeconfigs=paths))

    assert error.value.status == 0
    # Each reason once, so that the line stays short enough to be read.
    assert error.value.rule == (
        f"tried {paths[0]}, {paths[2]} (No such file or directory); {paths[1]} (Not a directory)"
    )


def test_kubeadm_is_looked_for_first() -> None:
    """The order of the specification, kubeadm's path at its head."""

    assert KUBELET_KUBECONFIGS[0] == "/etc/kubernetes/kubelet.conf"


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (CredentialSettings(credentials="magic"), "credentials"),
        (CredentialSettings(credentials="kubeconfig"), "kubeconfig"),
        (CredentialSettings(credentials="token"), "server"),
        (CredentialSettings(token_file="/t"), "server"),
        (CredentialSettings(server="https://api"), "token_file"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(
    settings: CredentialSettings, place: str
) -> None:
    """The message names the key that is wrong."""

    with pytest.raises(ConfigError, match=rf"\[kubernetes\] {place}"):
        choose(settings)
