"""Log-ins that are kept fresh: changed files, plugins, refusals."""

from __future__ import annotations

import json
import logging
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from berth.errors import ConfigError, KubeError
from berth.kube import credentials
from berth.kube.credentials import Credentials
from berth.kube.sources import Choice

GIVES_TOKEN = """\
    #!/bin/sh
    echo run >> {log}
    read -r token < {answer}
    cat << END
    {{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
      "status": {{"token": "$token" {more}}}}}
    END
"""


class Clock:
    """Unix time that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


def write_config(path: Path, **user: Any) -> Choice:
    """A kubeconfig of one user."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document))
    return Choice(kind="kubeconfig", path=str(path))


def token_choice(tmp_path: Path, token: str = "one") -> Choice:
    """A token in a file."""
    (tmp_path / "token").write_text(token)
    return Choice(kind="token", path=str(tmp_path / "token"), server="https://api")


def write_plugin(tmp_path: Path, script: str, **names: str) -> dict[str, Any]:
    """A plugin that notes each of its runs; gives the entry for a kubeconfig."""
    path = tmp_path / "plugin"
    log, answer = tmp_path / "runs", tmp_path / "answer"
    answer.write_text("first\n")
    path.write_text(textwrap.dedent(script).format(log=log, answer=answer, **names))
    path.chmod(0o755)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path)}


def runs(tmp_path: Path) -> int:
    """How often the plugin ran."""
    log = tmp_path / "runs"
    return len(log.read_text().splitlines()) if log.exists() else 0


async def test_unchanged_files_give_the_same_log_in(tmp_path: Path) -> None:
    """Nothing is read again, so connections can be kept."""

    made = Credentials(token_choice(tmp_path), environment={})

    assert await made.login() is await made.login()


async def test_changed_token_is_read_again(tmp_path: Path) -> None:
    """A token that turned over is used with the next request."""

    made = Credentials(token_choice(tmp_path), environment={})
    before = await made.login()

    (tmp_path / "new").write_text("two")
    (tmp_path / "new").replace(tmp_path / "token")
    after = await made.login()

    assert (before.token, after.token) == ("one", "two")
    assert before.tls == after.tls


async def test_vanished_file_leaves_the_former_log_in_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that is away for a moment is told once, and taken up when it is back."""

    made = Credentials(token_choice(tmp_path), environment={})
    before = await made.login()
    (tmp_path / "token").unlink()

    with caplog.at_level(logging.WARNING):
        gone = [await made.login() for _ in range(3)]
    (tmp_path / "token").write_text("two")
    back = await made.login()

    assert gone == [before] * 3
    assert len(caplog.records) == 1
    assert "stay in use" in caplog.text
    assert back.token == "two"


async def test_file_that_was_never_there_is_an_error(tmp_path: Path) -> None:
    """At the start there is nothing to fall back to."""

    made = Credentials(Choice(kind="kubelet", path=str(tmp_path / "absent")), environment={})

    with pytest.raises(KubeError, match="absent"):
        await made.login()
    (tmp_path / "absent").write_text("[]")
    with pytest.raises(ConfigError):
        await made.login()


async def test_refused_log_in_is_made_anew_but_only_once(tmp_path: Path) -> None:
    """Of several requests that were refused together, the first renews for all."""

    made = Credentials(token_choice(tmp_path), environment={})
    first = await made.login()

    await made.refuse(first)
    second = await made.login()
    await made.refuse(first)
    third = await made.login()

    assert second is not first
    assert second == first
    assert third is second


async def test_identity_is_complete_after_the_first_log_in(tmp_path: Path) -> None:
    """Kind and file are known before, server after."""

    choice = write_config(tmp_path / "config", token="t")
    made = Credentials(choice, environment={"HTTPS_PROXY": "http://proxy:1"})
    before = made.identity

    login = await made.login()

    assert (before.kind, before.source, before.server) == ("kubeconfig", choice.path, "")
    assert made.identity.server == login.server == "https://10.0.0.1:6443"
    assert login.proxy == "http://proxy:1"


async def test_plugin_runs_again_only_near_the_end_of_its_word(tmp_path: Path) -> None:
    """A credential with an end is used until shortly before it."""

    ends = ', "expirationTimestamp": "1970-01-01T00:18:20Z"'
    plugin = write_plugin(tmp_path, GIVES_TOKEN, more=ends)
    clock = Clock()
    made = Credentials(write_config(tmp_path / "config", exec=plugin), now=clock)

    first = await made.login()
    assert await made.login() is first
    (tmp_path / "answer").write_text("second\n")
    clock.now = 1095
    second = await made.login()

    assert (first.token, second.token, runs(tmp_path)) == ("first", "second", 2)


async def test_plugin_without_an_end_runs_again_when_the_server_refuses(tmp_path: Path) -> None:
    """A 401 is the only sign that it is over."""

    plugin = write_plugin(tmp_path, GIVES_TOKEN, more="")
    made = Credentials(write_config(tmp_path / "config", exec=plugin))
    first = await made.login()
    (tmp_path / "answer").write_text("second\n")
    assert await made.login() is first

    await made.refuse(first)

    assert (await made.login()).token == "second"
    assert runs(tmp_path) == 2


async def test_plugin_is_told_what_it_needs(tmp_path: Path) -> None:
    """It gets KUBERNETES_EXEC_INFO, its own variables and ours."""

    script = """\
        #!/bin/sh
        printf '%s|%s|%s' "$KUBERNETES_EXEC_INFO" "$OWN" "$GIVEN" > {log}
        echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {{"clientCertificateData": "C", "clientKeyData": "K"}}}}'
    """
    plugin = write_plugin(tmp_path, script)
    plugin |= {"env": [{"name": "OWN", "value": "a"}], "provideClusterInfo": True}
    choice = write_config(tmp_path / "config", exec=plugin)

    login = await Credentials(choice, environment={**os.environ, "GIVEN": "b"}).login()
    info, own, given = (tmp_path / "runs").read_text().split("|")

    assert json.loads(info)["spec"]["cluster"]["server"] == "https://10.0.0.1:6443/"
    assert (own, given) == ("a", "b")
    assert (login.tls.certificate, login.tls.key) == (b"C", b"K")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("#!/bin/sh\necho 'no such user' >&2; exit 3\n", "exit status 3: no such user"),
        ("#!/bin/sh\nexit 1\n", "exit status 1: no message"),
        ("#!/bin/sh\necho SECRET\n", "printed no JSON"),
    ],
)
async def test_plugin_that_fails_is_told_with_its_last_words(
    script: str, told: str, tmp_path: Path
) -> None:
    """What it printed is not repeated, what it complained of is."""

    plugin = write_plugin(tmp_path, script)
    made = Credentials(write_config(tmp_path / "config", exec=plugin))

    with pytest.raises(KubeError, match=told) as error:
        await made.login()

    assert "SECRET" not in str(error.value)


async def test_plugin_that_is_not_there_is_told_with_its_hint(tmp_path: Path) -> None:
    """The kubeconfig's own hint is the mend."""

    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(tmp_path / "absent"),
        "installHint": "apt install it",
    }
    made = Credentials(write_config(tmp_path / "config", exec=plugin))

    with pytest.raises(KubeError, match=r"No such file.*; apt install it"):
        await made.login()


async def test_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request does not wait for ever, and the program does not stay."""

    monkeypatch.setattr(credentials, "PLUGIN_LIMIT_S", 0.5)
    script = "#!/bin/sh\necho $$ > {log}\nexec sleep 1000\n"
    plugin = write_plugin(tmp_path, script)
    made = Credentials(write_config(tmp_path / "config", exec=plugin))

    with pytest.raises(KubeError, match="gave nothing within"):
        await made.login()

    pid = int((tmp_path / "runs").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_calls_that_come_together_run_the_plugin_once(tmp_path: Path) -> None:
    """Ten claims at once are no reason for ten programs."""

    plugin = write_plugin(tmp_path, GIVES_TOKEN, more="")
    made = Credentials(write_config(tmp_path / "config", exec=plugin))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(made.login)

    assert runs(tmp_path) == 1
