"""A small real authorization server with a protected resource behind it, on loopback, and a person with a browser."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import secrets
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route


@dataclass
class AuthorizationServer:
    """What it does wrong is set by the test."""

    origin: str = ""
    lifetime: int | None = 3600
    refuses: str = ""
    """The error that it sends the browser back with."""
    stamps: str | None = None
    """The `iss` that it gives; None: its own."""
    token_status: int = 200
    names: str = ""
    """The authorization server that the resource names; empty: this one."""
    describes: dict[str, Any] = field(default_factory=dict)
    wants: str = ""
    """A scope that a token must have."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """What the token endpoint was sent."""
    authorised: list[dict[str, str]] = field(default_factory=list)
    registered: list[dict[str, Any]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    access: dict[str, str] = field(default_factory=dict)
    """Access tokens that are good, with their scopes."""
    refresh: set[str] = field(default_factory=set)
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/mcp", self.resource, methods=["GET", "POST"]),
                Route("/.well-known/oauth-protected-resource/mcp", self.described_resource),
                Route("/.well-known/oauth-authorization-server", self.described),
                Route("/register", self.register, methods=["POST"]),
                Route("/authorize", self.authorize),
                Route("/oauth/token", self.token, methods=["POST"]),
            ]
        )

    async def resource(self, request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or token not in self.access:
            place = f"{self.origin}/.well-known/oauth-protected-resource/mcp"
            return Response(status_code=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{place}"'})
        if self.wants and self.wants not in self.access[token].split():
            challenge = f'Bearer error="insufficient_scope", scope="{self.wants}"'
            return Response(status_code=403, headers={"WWW-Authenticate": challenge})
        return JSONResponse({"hello": "you"})

    async def described_resource(self, request: Request) -> Response:
        return JSONResponse({"resource": self.url, "authorization_servers": [self.names or self.origin]})

    async def described(self, request: Request) -> Response:
        own = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/oauth/token",
            "registration_endpoint": f"{self.origin}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return JSONResponse(own | self.describes)

    async def register(self, request: Request) -> Response:
        wanted = await request.json()
        self.registered.append(wanted)
        number = len(self.registered)
        return JSONResponse({**wanted, "client_id": f"client-{number}", "token_endpoint_auth_method": "none"}, 201)

    async def authorize(self, request: Request) -> Response:
        given = dict(request.query_params)
        self.authorised.append(given)
        back = {"state": given["state"], "iss": self.origin if self.stamps is None else self.stamps}
        if self.refuses:
            back |= {"error": self.refuses, "error_description": "the person said no"}
        else:
            back["code"] = secrets.token_urlsafe(16)
            self.codes[back["code"]] = given
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode(back)}", status_code=302)

    async def token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.asked.append(form | {"authorization": request.headers.get("authorization", "")})
        if self.token_status != 200:
            return JSONResponse({"error": "server_error"}, self.token_status)
        problem = self._problem(form, request.headers.get("authorization", ""))
        if problem:
            return JSONResponse({"error": problem}, 400)
        return JSONResponse(self._issued(form))

    def _problem(self, form: dict[str, str], header: str) -> str:
        match form["grant_type"]:
            case "authorization_code":
                began = self.codes.pop(form["code"], None)
                proof = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
                if began is None or proof.rstrip("=") != began["code_challenge"]:
                    return "invalid_grant"
                return "" if began["redirect_uri"] == form["redirect_uri"] else "invalid_grant"
            case "refresh_token":
                used = form["refresh_token"] in self.refresh
                self.refresh.discard(form["refresh_token"])
                return "" if used else "invalid_grant"
            case "client_credentials":
                name, _, secret = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
                return "" if self.secrets.get(name) == secret else "invalid_client"
        return "unsupported_grant_type"

    def _issued(self, form: dict[str, str]) -> dict[str, Any]:
        began = self.authorised[-1] if form["grant_type"] == "authorization_code" else {}
        token, again = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.access[token] = began.get("scope", form.get("scope", ""))
        issued: dict[str, Any] = {"access_token": token, "token_type": "Bearer"}
        if self.lifetime is not None:
            issued["expires_in"] = self.lifetime
        if form["grant_type"] != "client_credentials":
            self.refresh.add(again)
            issued["refresh_token"] = again
        return issued


@dataclass
class PersonWithBrowser:
    """Opens every address that is shown, as a browser would."""

    shown: list[str] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)

    async def __call__(self, address: str) -> None:
        self.shown.append(address)
        async with httpx2.AsyncClient(timeout=10) as browser:
            page = await browser.get(address)
            self.pages.append((await browser.get(page.headers["location"])).status_code)


def return_of(address: str) -> str:
    return parse_qs(urlsplit(address).query)["redirect_uri"][0]


@contextlib.asynccontextmanager
async def serving(service: AuthorizationServer) -> AsyncIterator[AuthorizationServer]:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        service.origin = f"http://127.0.0.1:{place.getsockname()[1]}"
        config = uvicorn.Config(service.app(), log_level="warning", lifespan="off")
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        # Not `serve()`: signals stay with the test run.
        await server.startup([place])
        try:
            yield service
        finally:
            await server.shutdown([place])
