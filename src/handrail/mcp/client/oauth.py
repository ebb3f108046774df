"""OAuth for MCP servers: the SDK's client, with what it leaves out.

The SDK finds the authorization server, checks its issuer, registers, proves
possession of the code and steps up scopes. Ours: where the person is shown the
address and the browser comes back, what is kept between runs (so that a token
that ended while nobody looked is refreshed and not asked for again), clients
that were registered beforehand and the one service they belong to, and plain
words for what went wrong. No token is ever logged.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import issuers_match, union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from handrail.core.errors import McpError, SignInFailed
from handrail.core.redact import redact_text
from handrail.core.timeouts import time_limit
from handrail.mcp.client.sign_in import SignIn, StoredSignIn, TokenFile
from handrail.mcp.client.sign_in_addresses import SignInAddresses, on_this_machine
from handrail.mcp.client.sign_in_redirect import free_port, listen_for_redirect, redirect_address
from handrail.mcp.sdk_internals import OpenOAuthProvider
from handrail.mcp.values import HttpEndpoint, OAuth

__all__ = ["SignIn", "oauth_for"]

_LONGEST_REASON = 400
_Shape = TypeVar("_Shape", bound=BaseModel)
_signing_in: ContextVar[bool] = ContextVar("handrail_mcp_signing_in", default=False)
"""Whether what runs now is a step of a sign-in of ours."""


def oauth_for(http: HttpEndpoint, sign_in: SignIn) -> httpx2.Auth:
    """What makes each request to this server one of a person, or of a program, that signed in.

    Raises:
        SignInFailed: the settings cannot work. Everything else that goes wrong is raised by the request.
    """
    oauth = http.oauth or OAuth()
    logging.getLogger(OAuthClientProvider.__module__).addFilter(_silence_sdk_log)
    if oauth.grant == "client_credentials" and not (oauth.client_id and oauth.client_secret):
        raise SignInFailed(http.url, "the grant 'client_credentials' needs client_id and client_secret")
    try:
        return _SignInProvider(http.url, oauth, sign_in, by_proxy=http.proxy is not None)
    except ValueError as error:
        raise SignInFailed(http.url, str(error)) from error


def _silence_sdk_log(record: logging.LogRecord) -> bool:
    """Keep the SDK from logging, with a traceback, what whoever sent a request of ours is told in words."""
    if not _signing_in.get():
        return True
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, OAuthFlowError | McpError)


class _TokenStorage:
    """The SDK's storage: whatever it sets, the file then holds the whole sign-in as it is."""

    def __init__(self, file: TokenFile) -> None:
        self.file = file
        self.port = 0
        self.context: OAuthContext | None = None
        self.given_secret = False

    async def get_tokens(self) -> OAuthToken | None:
        return _shaped(OAuthToken, (await self.file.read()).tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return _shaped(OAuthClientInformationFull, (await self.file.read()).client)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self._keep()

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._keep()

    async def _keep(self) -> None:
        assert self.context is not None
        now = self.context
        kept = StoredSignIn(
            server=self.file.server,
            # A secret from the settings stays there.
            client=_plain(now.client_info, {"client_secret"} if self.given_secret else set()),
            tokens=_plain(now.current_tokens),
            expires=now.token_expiry_time,
            service=_plain(now.oauth_metadata),
            resource=_plain(now.protected_resource_metadata),
            port=self.port,
        )
        await self.file.write(kept)


class _SignInProvider(OpenOAuthProvider):
    def __init__(self, url: str, oauth: OAuth, sign_in: SignIn, *, by_proxy: bool) -> None:
        self._by_proxy = by_proxy
        self._keeper = _TokenStorage(sign_in.file(url))
        self._keeper.given_secret = oauth.client_id is not None
        self._url, self._oauth, self._sign_in = url, oauth, sign_in
        self._issuer = oauth.issuer
        self._places = SignInAddresses(httpx2.URL(url).host)
        self._answer: Mapping[str, str] = {}
        self._refused: tuple[str, float] | None = None
        """Why it failed last, and until when nobody is asked again."""
        program = oauth.grant == "client_credentials"
        described = OAuthClientMetadata(
            client_name=sign_in.client_name,
            redirect_uris=None,
            grant_types=["client_credentials"] if program else ["authorization_code", "refresh_token"],
            scope=" ".join(oauth.scopes) or None,
        )
        super().__init__(url, described, self._keeper, self._ask, self._answered, oauth.metadata_url)
        self._keeper.context = self.context

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._refused is not None and self._sign_in.clock.monotonic() < self._refused[1]:
            raise self._failed(self._refused[0])
        async with aclosing(super().async_auth_flow(request)) as flow:
            try:
                response = None
                while True:
                    outgoing = await _step(flow, response)
                    if outgoing is not request:
                        await self._check(outgoing)
                    response = yield outgoing
            except StopAsyncIteration:
                return
            except (OAuthFlowError, ValidationError) as error:
                self._refused = (str(error), self._sign_in.clock.monotonic() + self._sign_in.pause)
                raise self._failed(str(error)) from error

    async def _check(self, outgoing: httpx2.Request) -> None:
        """Check where a step of the sign-in goes, and let the connection go to the address that was checked. A proxy
        looks names up by itself, in its own network."""
        host = outgoing.url.host
        at = await self._places.check(outgoing.url.scheme, host, secret=outgoing.method != "GET")
        if at is None or self._by_proxy:
            return
        outgoing.extensions = {**outgoing.extensions, "sni_hostname": host}  # whose certificate it has to be
        outgoing.url = outgoing.url.copy_with(host=f"[{at}]" if ":" in at else at)  # the header Host keeps the name

    async def restore(self) -> None:
        """Take up what an earlier run left: with when the token ends, and where it can be renewed."""
        kept = await self._keeper.file.read()
        client = self._registered() or _shaped(OAuthClientInformationFull, kept.client)
        if client is None or client.client_id != (kept.client or {}).get("client_id"):
            kept = StoredSignIn(server=self._url)
        context = self.context
        context.client_info = client
        context.current_tokens = _shaped(OAuthToken, kept.tokens)
        context.token_expiry_time = kept.expires
        context.oauth_metadata = _shaped(OAuthMetadata, kept.service)
        context.protected_resource_metadata = _shaped(ProtectedResourceMetadata, kept.resource)
        if context.oauth_metadata is not None:
            issuer = str(context.oauth_metadata.issuer)
            context.auth_server_url = issuer if context.protected_resource_metadata is not None else None
            # A client that was registered beforehand is known to one service; no server sends it to another.
            self._issuer = self._issuer or (issuer if self._oauth.client_id else None)
        if self._oauth.grant == "authorization_code":
            # The registration names the port. Where it is taken, most services let any port of this machine pass.
            wanted = self._oauth.redirect_port or kept.port
            self._keeper.port = free_port(wanted) or self._oauth.redirect_port or free_port(0) or wanted
            context.client_metadata.redirect_uris = [AnyUrl(redirect_address(self._keeper.port))]

    def _registered(self) -> OAuthClientInformationFull | None:
        if self._oauth.client_id is None:
            return None
        return OAuthClientInformationFull(client_id=self._oauth.client_id, client_secret=self._oauth.client_secret)

    def choose_service(self, advertised: list[str]) -> str:
        if self._issuer is None:
            return advertised[0]
        for service in advertised:
            if issuers_match(service, self._issuer):
                return service
        raise OAuthFlowError(f"it now names {advertised[0]}, but the client id belongs to {self._issuer}")

    async def authorize(self) -> httpx2.Request:
        context, service = self.context, self.context.oauth_metadata
        _check_service(service, self._url, code=self._oauth.grant == "authorization_code")
        if self._issuer is not None and (service is None or not issuers_match(str(service.issuer), self._issuer)):
            raise OAuthFlowError(f"no description of {self._issuer} was found, to which the client id belongs")
        context.client_metadata.scope = union_scopes(context.client_metadata.scope, " ".join(self._oauth.scopes))
        self._choose_method()
        if self._oauth.grant == "authorization_code":
            return await super().authorize()
        form: dict[str, str] = {"grant_type": "client_credentials"}
        if context.should_include_resource_param(context.protocol_version):
            form["resource"] = context.get_resource_url()
        if context.client_metadata.scope:
            form["scope"] = context.client_metadata.scope
        form, headers = context.prepare_token_auth(form, {"Content-Type": "application/x-www-form-urlencoded"})
        return httpx2.Request("POST", self.token_endpoint(), data=form, headers=headers)

    def _choose_method(self) -> None:
        """The method by which a client that was registered beforehand proves itself, as the service prefers."""
        client, service = self.context.client_info, self.context.oauth_metadata
        if self._oauth.client_id is None or client is None:
            return
        liked = (service and service.token_endpoint_auth_methods_supported) or ["client_secret_basic"]
        secret = "client_secret_post" if "client_secret_basic" not in liked else "client_secret_basic"
        client.token_endpoint_auth_method = secret if self._oauth.client_secret else "none"

    async def refresh(self) -> httpx2.Request:
        # Another process may have renewed it, and a refresh token is often good for one use.
        newer = await self._keeper.get_tokens()
        if newer is not None and newer.refresh_token:
            self.context.current_tokens = newer
        self._choose_method()
        return await super().refresh()

    async def take_refreshed(self, response: httpx2.Response) -> bool:
        if response.status_code == 429 or response.status_code >= 500:
            raise McpError(self._url, f"its authorization server is out of order (HTTP {response.status_code})")
        return await super().take_refreshed(response)

    async def _ask(self, url: str) -> None:
        """Show the address and wait until the browser is back."""
        state = parse_qs(urlsplit(url).query)["state"][0]
        patience = self._sign_in.patience
        try:
            async with listen_for_redirect(self._keeper.port, state) as answer, time_limit(patience):
                with self._sign_in.asking(self._url):
                    shown = self._sign_in.show(url)
                    if inspect.isawaitable(shown):
                        await shown
                    self._answer = await answer
        except TimeoutError:
            raise OAuthFlowError(f"nobody signed in within {patience:.0f} s") from None
        except OSError as error:
            place = redirect_address(self._keeper.port)
            raise OAuthFlowError(f"the browser cannot come back to {place}: {error}; set redirect_port") from error

    async def _answered(self) -> AuthorizationCodeResult:
        answer, self._answer = self._answer, {}
        if "error" in answer:
            why = " ".join(filter(None, (answer["error"], answer.get("error_description"))))
            raise OAuthFlowError(f"the sign-in was refused: {why}")
        return AuthorizationCodeResult(code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss"))

    def _failed(self, why: str) -> SignInFailed:
        words = redact_text("".join(letter if letter.isprintable() else " " for letter in why))
        return SignInFailed(self._url, f"signing in did not work: {words[:_LONGEST_REASON]}")


async def _step(
    flow: AsyncGenerator[httpx2.Request, httpx2.Response], response: httpx2.Response | None
) -> httpx2.Request:
    """What the SDK wants to send next."""
    ours = _signing_in.set(True)
    try:
        return await (anext(flow) if response is None else flow.asend(response))
    finally:
        _signing_in.reset(ours)


def _check_service(service: OAuthMetadata | None, server: str, *, code: bool) -> None:
    """Refuse a service that would take a code or a secret in the clear, or a `code` from whoever stole it.

    Where it does not describe itself, it is at the server.
    """
    places = (server,) if service is None else (service.authorization_endpoint, service.token_endpoint)
    for place in map(str, places):
        parts = urlsplit(place)
        if parts.scheme != "https" and not on_this_machine(parts.hostname or ""):
            raise OAuthFlowError(f"its authorization server would be spoken to without encryption, at {place}")
    if code and service is not None and "S256" not in (service.code_challenge_methods_supported or ()):
        raise OAuthFlowError("its authorization server does not say that it supports PKCE with S256")


def _plain(value: BaseModel | None, without: set[str] | None = None) -> dict[str, Any] | None:
    return None if value is None else value.model_dump(mode="json", exclude_none=True, exclude=without or None)


def _shaped(shape: type[_Shape], value: dict[str, Any] | None) -> _Shape | None:
    """What a file held, if it still is what it says."""
    try:
        return None if value is None else shape.model_validate(value)
    except ValidationError:
        return None
