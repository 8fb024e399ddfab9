"""What is being judged: something that one can connect to, as often as one likes."""

from __future__ import annotations

import os
import ssl
from typing import Final, Protocol
from urllib.parse import urlsplit

import attrs
import trio

CONNECT_SECONDS: Final = 10.0


class Unreachable(Exception):
    """No connection, or no TLS; the text says why, in words for people."""


class Refused(Unreachable):
    """Nobody listens there, or not yet."""


class Gone(trio.BrokenResourceError):
    """What was behind a stream is gone, and not in a way that the protocol knows; the text says how."""


@attrs.frozen
class Endpoint:
    """How a target is addressed. ``root`` is the API root: ``/v1`` of ``/v1/responses``.

    ``other_key`` is a second valid key, of somebody else.
    """

    host: str = "localhost"
    path: str = "/v1/responses"
    root: str = "/v1"
    key: str | None = None
    model: str = "scripted"
    other_key: str | None = None

    def resolve(self, path: str) -> str:
        """A path of a transcript: what begins with ``/v1`` is relative to the API root."""
        if path == "/v1" or path.startswith(("/v1/", "/v1?")):
            return self.root + path[3:]
        return path


class Target(Protocol):
    """``connect`` gives a fresh byte stream each time; ``stop`` asks the server to stop, as SIGTERM does."""

    @property
    def endpoint(self) -> Endpoint: ...

    async def connect(self) -> trio.abc.Stream: ...

    async def stop(self) -> None: ...


class UsageError(Exception):
    """What the user asked for makes no sense; the text says why."""


@attrs.frozen
class Address:
    host: str
    port: int
    secure: bool


def parse_url(url: str, key: str | None = None, model: str = "scripted") -> tuple[Address, Endpoint]:
    """``ws://``, ``wss://``, ``http://`` or ``https://``; without a path, ``/v1/responses``.

    ``key`` may hold two keys, joined by a comma.
    """
    try:
        parts = urlsplit(url if "://" in url else f"ws://{url}")
    except ValueError as exc:
        raise UsageError(f"{url!r} is no URL: {exc}") from None
    if parts.scheme not in ("ws", "wss", "http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is no ws:// or wss:// URL")
    secure = parts.scheme in ("wss", "https")
    try:
        port = parts.port or (443 if secure else 80)
    except ValueError:
        raise UsageError(f"{url!r} has no valid port") from None
    path = parts.path.rstrip("/") or "/v1/responses"
    root = path.removesuffix("/responses") if path.endswith("/responses") else "/v1"
    host = parts.netloc.rpartition("@")[2]
    full = f"{path}?{parts.query}" if parts.query else path
    first, _, other = (key or "").partition(",")
    return Address(parts.hostname, port, secure), Endpoint(
        host, full, root, first or None, model, other or None
    )


@attrs.frozen
class TcpTarget:
    """A server at a URL."""

    address: Address
    endpoint: Endpoint

    @classmethod
    def of(cls, url: str, key: str | None = None, model: str = "scripted") -> TcpTarget:
        return cls(*parse_url(url, key, model))

    async def connect(self) -> trio.abc.Stream:
        """A TCP connection, with TLS if the URL says so; raises `Unreachable`."""
        where, what = f"{self.address.host}:{self.address.port}", "connection to"
        try:
            with trio.fail_after(CONNECT_SECONDS):
                tcp = await trio.open_tcp_stream(self.address.host, self.address.port)
            if not self.address.secure:
                return tcp
            what = "TLS with"
            with trio.fail_after(CONNECT_SECONDS):
                return await self._secure(tcp)
        except trio.TooSlowError:
            raise Unreachable(f"no {what} {where} within {CONNECT_SECONDS:.0f} s") from None
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            kind = Refused if isinstance(_first(exc), ConnectionRefusedError) else Unreachable
            raise kind(f"no {what} {where}: {_reason(exc)}") from None

    async def _secure(self, tcp: trio.SocketStream) -> trio.abc.Stream:
        context = ssl.create_default_context()
        stream = trio.SSLStream(tcp, context, server_hostname=self.address.host, https_compatible=True)
        try:
            await stream.do_handshake()
        except BaseException as exc:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(tcp)
            # Trio wraps the error of TLS, which is the one that says something.
            if isinstance(exc, trio.BrokenResourceError) and isinstance(exc.__cause__, OSError):
                raise exc.__cause__ from None
            raise
        return stream

    async def stop(self) -> None:
        raise Unreachable("a server at a URL cannot be stopped from here")


def _first(exc: BaseException) -> BaseException:
    """The error itself: Trio puts those of several attempts behind one."""
    cause = exc.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause if isinstance(cause, OSError) else exc


def _reason(exc: BaseException) -> str:
    """What went wrong, in a few words."""
    exc = _first(exc)
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"{exc.verify_message.lower()} (SSL_CERT_FILE names a file of certificates to trust)"
    if isinstance(exc, ssl.SSLError):
        text = exc.reason or str(exc)
    elif isinstance(exc, OSError) and (exc.errno or 0) > 0:
        text = os.strerror(exc.errno or 0)
    else:
        text = getattr(exc, "strerror", None) or "the connection broke"
    return str(text).replace("_", " ").lower()
