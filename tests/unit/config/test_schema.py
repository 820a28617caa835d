"""The tables outside the devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.config.load import load
from berth.config.schema import Config, Credentials, DraVersion, KubernetesTable
from tests.unit.config.reading import read_table


def test_every_key_has_the_default_of_its_contract() -> None:
    """The values of daemon.md §1."""
    config = Config()

    assert (
        ("", Path("/var/lib/berth"), Path("/var/lib/kubelet")),
        (Credentials.AUTO, None, "", None, None),
        (True, "berth.dev", False, (DraVersion.V1, DraVersion.V1BETA1)),
        (Path("/var/run/nri/nri.sock"), 1.5),
        (False, None, None),
    ) == (
        (config.node.name, config.node.state_dir, config.kubelet.root),
        (
            config.kubernetes.credentials,
            config.kubernetes.kubeconfig,
            config.kubernetes.server,
            config.kubernetes.token_file,
            config.kubernetes.ca_file,
        ),
        (config.dra.enabled, config.dra.driver, config.dra.lists, config.dra.versions),
        (config.nri.socket, config.nri.timeout_s),
        (config.plugin.enabled, config.metrics.listen, config.metrics.textfile),
    )


def test_folder_of_device_plugins_does_not_follow_kubelets_root(tmp_path: Path) -> None:
    """Kubelet has it where it always was, whatever its ``--root-dir``."""
    file = tmp_path / "agent.toml"
    file.write_text('[kubelet]\nroot = "/mnt/kubelet"\n', encoding="utf-8")
    config = load(file)

    assert config.kubelet.root == Path("/mnt/kubelet")
    assert config.plugin.folder == Path("/var/lib/kubelet/device-plugins")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'node.name = "Worker_7"',
            '[node] name is "Worker_7": it must be the name of a Node object, or ""',
        ),
        (
            f'node.name = "{"x." * 127}"',
            f'[node] name is "{"x." * 29}…: it must be the name of a Node object, or ""',
        ),
        ('kubelet.root = "kubelet"', '[kubelet] root is "kubelet": it must be an absolute path'),
        (
            'dra.driver = "berth"',
            (
                '[dra] driver is "berth": it must be a DNS name with a dot, in lower case, '
                "at most 63 bytes"
            ),
        ),
        (
            'dra.versions = ["v1", "v2"]',
            '[dra] versions holds "v2": it must be "v1" or "v1beta1"',
        ),
        ("dra.versions = []", "[dra] versions is []: it must name at least one; or drop the line"),
        (
            "nri.timeout_s = -3",
            (
                "[nri] timeout_s is -3: it must be above 0 and at most 60; "
                "drop the line for the default"
            ),
        ),
        (
            "plugin.enabled = true",
            (
                "[plugin] enabled is true, which is not available in this version: it must be "
                'false; drop it: a group with door = "plugin" opens the door'
            ),
        ),
        (
            'metrics.listen = ":9100"',
            (
                '[metrics] listen is ":9100": it must be an address and a port such as '
                '"127.0.0.1:9471", "[::1]:9471" or "localhost:9471", or ""; write "127.0.0.1:9100"'
            ),
        ),
    ],
)
def test_value_is_refused(text: str, words: str) -> None:
    """Table, key, value, rule."""

    assert [words] == read_table(Config, text)[1]


def test_own_attribute_in_the_driver_s_domain_is_refused() -> None:
    """It is the bare name, which may be berth's own; another domain is free."""
    group = '[[nic.group]]\nname = "a"\nmatch.name = "x"\n'
    text = f'{group}attributes = {{ "lab.example/mtu" = 1, "nic.example/mtu" = 1 }}\n'

    assert read_table(Config, f'dra.driver = "nic.example"\n{text}')[1] == [
        (
            '[[nic.group]] 1 "a": attributes.nic.example/mtu lies in nic.example, '
            "the driver's own domain; write mtu"
        )
    ]
    assert len(read_table(Config, f'dra.driver = "bad"\n{text}')[1]) == 1


SERVER_RULE = 'it must be an address such as "https://10.0.0.1:6443", or ""'


@pytest.mark.parametrize(
    ("server", "read"),
    [
        ("https://10.0.0.1:6443", "https://10.0.0.1:6443"),
        ("https://[fd00::1]:6443/", "https://[fd00::1]:6443"),
        ("https://api.lab.example/cluster/a", "https://api.lab.example/cluster/a"),
        ("", ""),
    ],
)
def test_server_is_an_address(server: str, read: str) -> None:
    """A path is allowed, a slash at the end is of no meaning."""
    text = f'server = "{server}"\ntoken_file = "/t"' if server else 'server = ""'
    table = KubernetesTable(server=read, token_file=Path("/t") if server else None)

    assert (table, []) == read_table(KubernetesTable, text)


@pytest.mark.parametrize(
    "server",
    [
        "http://10.0.0.1",
        "10.0.0.1:6443",
        "https://",
        "https://a@b",
        "https://a?b=c",
        "https://a:port",
        "https://[fd00::1",
    ],
)
def test_server_is_nothing_else(server: str) -> None:
    """Without TLS, host or with anything around it, it is refused."""

    assert [f'server is "{server}": {SERVER_RULE}'] == read_table(
        KubernetesTable, f'server = "{server}"\ntoken_file = "/t"'
    )[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'credentials = "kubeconfig"',
            (
                'credentials is "kubeconfig": kubeconfig must then name a file; '
                "give kubeconfig, or drop the line"
            ),
        ),
        (
            'credentials = "token"',
            (
                'credentials is "token": token_file must then name a file; '
                "give token_file, or drop the line"
            ),
        ),
        (
            'token_file = "/t"',
            "token_file is given without server: a token does not say which server it is for",
        ),
        (
            'server = "https://a"',
            "server is given without token_file: it goes with a token; a kubeconfig brings its own",
        ),
        (
            'ca_file = "/ca"',
            (
                "ca_file is given without token_file: "
                "it goes with a token; a kubeconfig brings its own"
            ),
        ),
        (
            'credentials = "kubeconfig"\nkubeconfig = "relative"',
            'kubeconfig is "relative": it must be an absolute path, or ""',
        ),
        (
            'server = "https://a"\ntoken_file = "relative"',
            'token_file is "relative": it must be an absolute path, or ""',
        ),
        ('server = "a"\ntoken_file = "/t"', f'server is "a": {SERVER_RULE}'),
    ],
)
def test_credentials_need_what_they_are_made_of(text: str, words: str) -> None:
    """One message for what is missing, none that follows from another fault."""

    assert [words] == read_table(KubernetesTable, text)[1]
