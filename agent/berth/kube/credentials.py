"""Whom we are to the API server: read from files, and again when they change.

Kubelet renews its certificate in place and projected tokens turn over every hour, so every request
asks for a `Login` anew: a few ``stat`` calls when nothing changed. What cannot be read any more
leaves the former log-in in use, since a file may be half written for a moment; the server's 401 has
the last word. Secrets are kept out of every ``repr`` and message, and no key is written anywhere.
"""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Final

import attrs
import trio

from berth.errors import BerthError, KubeError, RemoteProtocolError
from berth.kube.api import Identity
from berth.kube.execplugin import ExecCredential, exec_info, read_answer
from berth.kube.kubeconfig import ExecPlugin
from berth.kube.logins import Files, Loaded, Login, Stamp, load, node_name, stamps_of
from berth.kube.proxies import environment_proxy
from berth.kube.sources import Choice

PLUGIN_LIMIT_S: Final = 15.0
"""Longest time that a credential plugin may take, in seconds."""

EXPIRY_MARGIN_S: Final = 10.0
"""How long before its end a plugin's credential is replaced, in seconds."""

_log = logging.getLogger(__name__)


class Credentials:
    """The log-in of one `Choice`, kept fresh.

    Args:
        choice: Which files.
        environment: Variables for proxies and for credential plugins.
        now: Unix time in seconds, for the expiry of a plugin's credential.
    """

    def __init__(
        self,
        choice: Choice,
        *,
        environment: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._choice = choice
        self._environment = environment
        self._now = now
        self._loaded: Loaded | None = None
        self._stamps: dict[str, Stamp] = {}
        self._issued: ExecCredential | None = None
        self._login: Login | None = None
        self._lock = trio.Lock()

    @property
    def identity(self) -> Identity:
        """Whom the files say we are; complete once `login` was called."""
        login, choice = self._login, self._choice
        return Identity(
            kind=choice.kind,
            source=choice.path,
            server=login.server if login else choice.server,
            node_name=node_name(login) if login else "",
        )

    async def login(self) -> Login:
        """The log-in of now.

        Raises:
            ConfigError: A file is not what it should be.
            KubeError: A file is missing or unreadable, or the credential plugin failed.
        """
        async with self._lock:
            loaded = await self._load()
            plugin = loaded.config.user.plugin
            if plugin is not None and self._is_stale():
                self._login = None
                self._issued = await _run_plugin(plugin, loaded, self._environment)
            if self._login is None:
                self._login = self._make_login(loaded, self._issued or ExecCredential())
            return self._login

    async def refuse(self, login: Login) -> None:
        """Take note that the server did not know ``login``: the next one is made anew."""
        async with self._lock:
            if login is self._login:
                self._issued = None
                self._stamps = dict.fromkeys(self._stamps)

    async def _load(self) -> Loaded:
        before = self._loaded
        if before is not None and self._stamps == stamps_of(self._stamps):
            return before
        files = Files()
        try:
            self._loaded = await trio.to_thread.run_sync(load, self._choice, files)
        except BerthError as error:
            if before is None:
                raise
            self._stamps |= files.stamps
            _log.warning("%s; the credentials read before stay in use", error)
            return before
        self._stamps, self._login = files.stamps, None
        return self._loaded

    def _is_stale(self) -> bool:
        """Whether the plugin has to be asked: for the first time, or near the end of its word."""
        issued = self._issued
        if issued is None:
            return True
        return issued.expires_at is not None and (
            self._now() >= issued.expires_at - EXPIRY_MARGIN_S
        )

    def _make_login(self, loaded: Loaded, issued: ExecCredential) -> Login:
        tls, cluster = loaded.tls, loaded.config.cluster
        if issued.certificate:
            tls = attrs.evolve(tls, certificate=issued.certificate, key=issued.key)
        return Login(
            server=cluster.server.rstrip("/"),
            tls=tls,
            token=issued.token or loaded.token,
            proxy=cluster.proxy_url or environment_proxy(cluster.server, self._environment),
        )


async def _run_plugin(
    plugin: ExecPlugin, loaded: Loaded, environment: Mapping[str, str]
) -> ExecCredential:
    """Ask a credential plugin; a cancel ends the program.

    Raises:
        KubeError: It is not there, fails, takes too long or gives nothing of use.
    """
    info = exec_info(plugin, loaded.config.cluster, loaded.tls.ca)
    try:
        with trio.fail_after(PLUGIN_LIMIT_S):
            done = await trio.run_process(
                [plugin.command, *plugin.args],
                env={**environment, **plugin.env, "KUBERNETES_EXEC_INFO": info},
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise KubeError(
            plugin.command, f"cannot be run: {reason}", mend=plugin.install_hint
        ) from error
    except trio.TooSlowError:
        raise KubeError(plugin.command, f"gave nothing within {PLUGIN_LIMIT_S:.0f} s") from None
    if done.returncode != 0:
        raise KubeError(plugin.command, _failure(done))
    try:
        return read_answer(done.stdout, plugin)
    except RemoteProtocolError as error:
        raise KubeError(plugin.command, error.found, rule=error.rule) from error


def _failure(done: subprocess.CompletedProcess[bytes]) -> str:
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:300]
    return f"exit status {done.returncode}: {last or 'no message'}"
