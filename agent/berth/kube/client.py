"""Requests to the API server over HTTP: the one module that knows the HTTP library.

Each call has its own limit, and its own connection while it runs, so that one that hangs holds up
no other. Connections are shared as long as the credentials keep the same server, certificates and
proxy; when these change, new calls use new connections and old calls end on the old ones.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import attrs
import httpx2
import trio

import berth
from berth.errors import KubeError, RemoteProtocolError
from berth.kube import fields
from berth.kube.api import CALL_LIMIT_S, NOT_RELATED
from berth.kube.credentials import Credentials
from berth.kube.logins import Login
from berth.kube.tls import make_context
from berth.model import jsontext
from berth.model.names import excerpt

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

CONNECT_LIMIT_S: Final = 5.0
"""Longest time for a connection to come up, and to wait for a free one, in seconds."""

SILENCE_LIMIT_S: Final = 10.0
"""Longest silence of the server within a call, in seconds."""

RESPONSE_LIMIT: Final = 32 * 1024 * 1024
"""Largest answer that is read, in bytes."""

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_LIMITS: Final = httpx2.Limits(
    max_connections=16, max_keepalive_connections=4, keepalive_expiry=60.0
)
# A peer that vanished without a word is noticed within 30 s, also under a watch that is silent for
# minutes; the kernel does it, so it costs the process no wake-up.
_SOCKET_OPTIONS: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
)
_BROKEN: Final = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
"""What a kept connection gives when the server has closed it in the same moment."""


@attrs.frozen(kw_only=True)
class Request:
    """One request.

    Attributes:
        path: Below the server's address, beginning with a slash.
        body: JSON; ``None`` for none.
    """

    method: str
    path: str
    params: Mapping[str, str] = attrs.field(factory=dict)
    body: Any = None
    content_type: str = JSON

    @property
    def where(self) -> str:
        """The request as messages name it."""
        return f"API server, {self.method} {self.path}"


@attrs.define(eq=False)
class _Session:
    """Connections that share server, certificates and proxy."""

    http: httpx2.AsyncClient
    key: tuple[object, ...]
    users: int = 0
    replaced: bool = False


class KubeClient:
    """The API server as one that answers requests. Close it with `aclose`.

    Args:
        credentials: Whom to be.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self._session: _Session | None = None
        self._sockets: list[Any] = []

    async def request(self, request: Request) -> Any:
        """Send a request and give the JSON of the answer.

        Safe to cancel: the connection is closed then, and the server may or may not have acted.

        Raises:
            KubeError: The server refused, or did not answer within `CALL_LIMIT_S`.
            ConfigError: The credentials cannot be used.
        """
        try:
            with trio.fail_after(CALL_LIMIT_S):
                status, data = await self._exchange(request)
        except trio.TooSlowError:
            raise KubeError(request.where, f"no answer within {CALL_LIMIT_S:.0f} s") from None
        if status >= 300:
            raise refusal(request.where, status, data)
        return _parsed(request, data)

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Request, *, silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a request and give the answer's bytes as they come.

        Args:
            request: The request.
            silence_s: Longest silence of the server between two pieces, in seconds.

        Raises:
            KubeError: The server refused, or the connection broke; also from within the iterator.
        """
        login = await self.credentials.login()
        async with self._using(login) as http:
            with _no_answer(request):
                response = await _open(http, request, login, silence_s=silence_s)
                try:
                    self._note(response)
                    await self._check_stream(request, response, login)
                    async with _pieces(response) as pieces:
                        yield pieces
                finally:
                    await response.aclose()

    def local_endpoints(self) -> tuple[str, ...]:
        """Own IP addresses of the connections that are open now, each once."""
        self._sockets = [item for item in self._sockets if item.fileno() != -1]
        names = [
            item.getsockname()
            for item in self._sockets
            if item.family in {socket.AF_INET, socket.AF_INET6}
        ]
        return tuple(dict.fromkeys(name[0].partition("%")[0] for name in names))

    async def aclose(self) -> None:
        """Close every connection that no call uses; those in use close when their call ends."""
        if self._session is not None:
            await self._retire(self._session)
            self._session = None

    async def _exchange(self, request: Request) -> tuple[int, bytes]:
        """Send, once more when the log-in has to be renewed or a kept connection was closed."""
        for last in (False, True):
            login = await self.credentials.login()
            try:
                with _no_answer(request):
                    status, data = await self._attempt(request, login)
            except KubeError as error:
                again = request.method == "GET" and isinstance(error.__cause__, _BROKEN)
                if last or not again:
                    raise
                continue
            if status != 401 or last:
                break
            await self.credentials.refuse(login)
        return status, data

    async def _attempt(self, request: Request, login: Login) -> tuple[int, bytes]:
        async with self._using(login) as http:
            response = await _open(http, request, login, silence_s=SILENCE_LIMIT_S)
            try:
                self._note(response)
                return response.status_code, await _read(request, response)
            finally:
                await response.aclose()

    async def _check_stream(
        self, request: Request, response: httpx2.Response, login: Login
    ) -> None:
        if response.status_code == 200:
            return
        if response.status_code == 401:
            await self.credentials.refuse(login)
        raise refusal(request.where, response.status_code, await _read(request, response))

    @contextlib.asynccontextmanager
    async def _using(self, login: Login) -> AsyncIterator[httpx2.AsyncClient]:
        key = (login.server, login.tls, login.proxy)
        session, old = self._session, None
        if session is None or session.key != key:
            old = session
            session = _Session(_make_http(login, self.credentials.identity.source), key)
            self._session = session
        session.users += 1
        try:
            if old is not None:
                await self._retire(old)
            yield session.http
        finally:
            session.users -= 1
            with trio.move_on_after(CONNECT_LIMIT_S, shield=True):
                if session.replaced:
                    await self._retire(session)

    async def _retire(self, session: _Session) -> None:
        """Close ``session`` once nobody uses it: now, or when its last user comes by here."""
        session.replaced = True
        if session.users == 0:
            await session.http.aclose()

    def _note(self, response: httpx2.Response) -> None:
        """Remember the connection's socket, for `local_endpoints`."""
        stream = response.extensions.get("network_stream")
        found = stream.get_extra_info("socket") if stream is not None else None
        open_ones = [item for item in self._sockets if item.fileno() != -1]
        if found is not None and found not in open_ones:
            open_ones.append(found)
        self._sockets = open_ones


def refusal(where: str, status: int, data: bytes) -> KubeError:
    """The error for an answer with a ``Status``, or with whatever a proxy put there.

    Source: ``apimachinery/pkg/apis/meta/v1/types.go``, ``Status``.
    """
    try:
        value = json.loads(data)
        message, reason = fields.text(value, "message"), fields.text(value, "reason")
        causes = fields.mappings(fields.mapping(value, "details"), "causes")
        paths = [fields.text(cause, "field") for cause in causes]
    except (ValueError, RecursionError, RemoteProtocolError):
        message, reason, paths = data[:200].decode("utf-8", "replace").strip(), "", []
    if status == 403 and "no relationship found" in message:
        reason = NOT_RELATED
    return KubeError(
        where,
        f"{excerpt(message) or 'refused without a word'} ({status})",
        status=status,
        reason=reason,
        fields=[path for path in paths if path],
    )


def _make_http(login: Login, source: str) -> httpx2.AsyncClient:
    uds = login.server.removeprefix("unix://") if login.server.startswith("unix://") else None
    plain = uds is not None or login.server.startswith("http://")
    transport = httpx2.AsyncHTTPTransport(
        verify=make_context(login.tls, source=source, plain=plain),
        trust_env=False,
        limits=_LIMITS,
        proxy=login.proxy or None,
        uds=uds,
        socket_options=None if uds else _SOCKET_OPTIONS,
    )
    return httpx2.AsyncClient(
        transport=transport,
        base_url="http://localhost" if uds else login.server,
        # Compressed answers would have to be bounded twice, and the server spends time on them.
        headers={
            "Accept": JSON,
            "Accept-Encoding": "identity",
            "User-Agent": f"berthd/{berth.__version__}",
        },
        trust_env=False,
    )


async def _open(
    http: httpx2.AsyncClient, request: Request, login: Login, *, silence_s: float
) -> httpx2.Response:
    """Send, and come back with the answer's head."""
    headers = {"Authorization": f"Bearer {login.token}"} if login.token else {}
    content = None
    if request.body is not None:
        headers["Content-Type"] = request.content_type
        # Without spaces: the server keeps opaque parameters as they come, and refuses changes of a
        # claim's status by JSON when it would have written them otherwise (seen on 1.37.2).
        content = json.dumps(request.body, ensure_ascii=False, separators=(",", ":")).encode()
    built = http.build_request(
        request.method,
        request.path,
        params=dict(request.params),
        headers=headers,
        content=content,
        timeout=httpx2.Timeout(CONNECT_LIMIT_S, read=silence_s, write=SILENCE_LIMIT_S),
        extensions={"sni_hostname": login.tls.server_name} if login.tls.server_name else {},
    )
    try:
        with trio.fail_after(CONNECT_LIMIT_S + SILENCE_LIMIT_S):
            return await http.send(built, stream=True)
    except trio.TooSlowError:
        raise KubeError(request.where, "no answer: the server is silent") from None


@contextlib.asynccontextmanager
async def _pieces(response: httpx2.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """The bytes of an answer; whoever leaves early leaves nothing half read behind.

    The library's iterators lie within each other, and closing the outermost leaves the others to
    the garbage collector. A read that is cancelled ends them all, from the innermost outwards.
    """
    pieces = response.aiter_raw()
    try:
        yield pieces
    finally:
        with trio.move_on_after(0, shield=True) as scope:
            scope.cancel()
            async for _ in pieces:
                pass


async def _read(request: Request, response: httpx2.Response) -> bytes:
    data = bytearray()
    async with _pieces(response) as pieces:
        async for piece in pieces:
            data += piece
            if len(data) > RESPONSE_LIMIT:
                raise KubeError(request.where, f"the answer is longer than {RESPONSE_LIMIT} bytes")
    return bytes(data)


def _parsed(request: Request, data: bytes) -> Any:
    try:
        return jsontext.loads(data)
    except (ValueError, RecursionError) as error:
        raise KubeError(request.where, "the answer is no JSON") from error


@contextlib.contextmanager
def _no_answer(request: Request) -> Iterator[None]:
    """Turn the library's errors, all of which mean that no answer came, into ours."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
        raise KubeError(request.where, f"no answer: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """What went wrong at the bottom: the library's own text is often empty or says little."""
    text = str(error) or type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno:
            return str(cause)
        # One error for each address that was tried; the first stands for all.
        tried = cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        text = str(cause) or text
        cause = tried[0] if tried else cause.__cause__ or cause.__context__
    return text
