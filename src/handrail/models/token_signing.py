"""Signing in with a token that expires, as Azure and Google Cloud want it.

A token is asked for before each request, from a function of the caller's or from google-auth. What gives it
keeps it while it is valid: so do Azure's and Google's own packages. A service that refuses a token as
expired (401) is asked once more, with a new one. No error, record or `repr` shows a token.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Protocol

from handrail.core.errors import HandrailError, ModelUnavailable, RequestRefused, UsageError, describe_exception
from handrail.core.redact import Secret, remember_secret
from handrail.models.codec import WireRequest
from handrail.models.service_errors import masked_excerpt
from handrail.models.transport import Endpoint, Transport
from handrail.models.wire_events import WireEvent

AskToken = Callable[[], str | Awaitable[str]]
"""A function that returns a token, or a coroutine function."""
CLOUD_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_EXPIRED = 401


class TokenSource(Protocol):
    async def token(self, refused: str | None = None) -> str:
        """A token that is valid now; not the one that the service has just `refused`, if there is another."""
        ...


class CallableTokenSource:
    """Tokens from a function. One that blocks is run in a thread."""

    def __init__(self, ask: AskToken) -> None:
        if not callable(ask):
            raise UsageError("token= takes a function that returns a token; a key that does not change is key=")
        self._ask = ask

    async def token(self, refused: str | None = None) -> str:
        if inspect.iscoroutinefunction(self._ask):
            return str(await self._ask())
        given = await asyncio.to_thread(self._ask)
        return given if isinstance(given, str) else await given


class GoogleTokenSource:
    """Tokens of google-auth's default credentials: those of a service account, of gcloud, or of the machine."""

    def __init__(self, credentials: Any = None) -> None:
        """Without credentials, the default ones are looked for when the first request is made.

        Raises:
            UsageError: google-auth is not installed.
        """
        if find_spec("google") is None or find_spec("google.auth") is None or find_spec("requests") is None:
            raise UsageError(
                "vertex needs a token: give token=, a function that returns one, or install google-auth[requests]"
            )
        self._credentials = credentials
        self._lock = threading.Lock()

    async def token(self, refused: str | None = None) -> str:
        return await asyncio.to_thread(self._valid, refused)

    def _valid(self, refused: str | None) -> str:
        import google.auth
        import google.auth.transport.requests

        with self._lock:
            if self._credentials is None:
                self._credentials, _ = google.auth.default(scopes=[CLOUD_SCOPE])
            if not self._credentials.valid or self._credentials.token == refused:
                self._credentials.refresh(google.auth.transport.requests.Request())
            return str(self._credentials.token)


class SignedTransport:
    """A `Transport` that signs each request with a token, and sends it by another."""

    def __init__(self, inner: Transport, tokens: TokenSource) -> None:
        self._inner = inner
        self._tokens = tokens
        self._signed: tuple[Endpoint, Endpoint] | None = None
        """An endpoint as it was given and as it was signed last: while the token is the same, so is the value."""

    async def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
        signed = await self._sign(endpoint)
        begun = False
        try:
            async with aclosing(self._inner.send(request, signed)) as events:
                async for event in events:
                    begun = True
                    yield event
            return
        except RequestRefused as error:
            if begun or error.status != _EXPIRED:
                raise
            refused = error
        again = await self._sign(endpoint, refused=signed)
        if again.key == signed.key:
            raise refused
        async with aclosing(self._inner.send(request, again)) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _sign(self, endpoint: Endpoint, refused: Endpoint | None = None) -> Endpoint:
        try:
            token = await self._tokens.token(None if refused is None else refused.key)
        except HandrailError:
            raise
        except Exception as error:
            wrong = ModelUnavailable(f"no token for {endpoint.origin}: {masked_excerpt(describe_exception(error))}")
        else:
            return self._with(endpoint, token)
        # Raised here, not in the handler: what a package for signing in raises may hold the token.
        raise wrong

    def _with(self, endpoint: Endpoint, token: str) -> Endpoint:
        token = token.strip()
        known = self._signed
        if known is not None and known[0] is endpoint and known[1].key == token:
            return known[1]
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            raise UsageError("the token is empty, or has spaces or characters that no header takes")
        remember_secret(token)
        signed = replace(endpoint, key=Secret(token), key_header="authorization", key_prefix="Bearer ")
        self._signed = endpoint, signed
        return signed
