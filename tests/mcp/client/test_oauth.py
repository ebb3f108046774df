"""Signing in: once, kept safely, renewed by itself, and refused where it should be."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider, OAuthFlowError

from handrail.core.errors import McpError, SignInFailed
from handrail.mcp.client.ensemble import mcp_ensemble
from handrail.mcp.client.oauth import SignIn, oauth_for
from handrail.mcp.client.sign_in_addresses import SignInAddresses
from handrail.mcp.client.sign_in_redirect import listen_for_redirect
from handrail.mcp.values import HttpEndpoint, OAuth
from handrail.testing.clock import FixedClock
from tests.mcp.client.authorization_server import AuthorizationServer, PersonWithBrowser, return_of, serving
from tests.network import free_port


@pytest.fixture
async def service() -> AsyncIterator[AuthorizationServer]:
    async with serving(AuthorizationServer()) as started:
        yield started


def sign_in(folder: Path, show: Any = None, patience: float = 20) -> SignIn:
    return SignIn(store=folder / "tokens", show=show or PersonWithBrowser(), patience=patience)


async def ask(service: AuthorizationServer, how: SignIn, oauth: OAuth | None = None, times: int = 1) -> list[int]:
    """Ask the protected server, as one process would; the answers' status codes."""
    endpoint = HttpEndpoint(url=service.url, oauth=oauth or OAuth())
    async with httpx2.AsyncClient(auth=oauth_for(endpoint, how), timeout=20) as client:
        return [(await client.get(service.url)).status_code for _ in range(times)]


def kept(how: SignIn, service: AuthorizationServer) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(how.file(service.url).path.read_bytes())
    return read


def change(how: SignIn, service: AuthorizationServer, **changes: Any) -> None:
    how.file(service.url).path.write_text(json.dumps(kept(how, service) | changes))


async def test_a_person_signs_in_once_and_every_request_after_that_is_theirs(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    person = PersonWithBrowser()
    assert await ask(service, sign_in(tmp_path, person), times=3) == [200, 200, 200]
    assert len(person.shown) == 1
    assert person.pages == [200]
    assert [form["grant_type"] for form in service.asked] == ["authorization_code"]
    assert service.asked[0]["resource"] == service.url


async def test_another_process_uses_what_was_kept_and_asks_nobody(service: AuthorizationServer, tmp_path: Path) -> None:
    await ask(service, sign_in(tmp_path))
    later = PersonWithBrowser()
    assert await ask(service, sign_in(tmp_path, later)) == [200]
    assert later.shown == []
    assert len(service.registered) == 1


async def test_what_is_kept_can_be_read_by_its_owner_only(service: AuthorizationServer, tmp_path: Path) -> None:
    how = sign_in(tmp_path)
    await ask(service, how)
    path = how.file(service.url).path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]


async def test_a_token_that_ended_while_nobody_looked_is_renewed_without_asking(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    how = sign_in(tmp_path)
    await ask(service, how)
    change(how, service, expires=1.0)
    service.access.clear()
    later = PersonWithBrowser()
    assert await ask(service, sign_in(tmp_path, later)) == [200]
    assert later.shown == []
    assert [form["grant_type"] for form in service.asked] == ["authorization_code", "refresh_token"]
    assert service.asked[1]["resource"] == service.url


async def test_two_processes_renew_with_the_newest_refresh_token(service: AuthorizationServer, tmp_path: Path) -> None:
    """A refresh token is good for one use: the second process must take what the first was given."""
    how = sign_in(tmp_path)
    one, two = (oauth_for(HttpEndpoint(url=service.url), how) for _ in range(2))
    for process in (one, two, one, two):
        async with httpx2.AsyncClient(auth=process, timeout=20) as client:
            assert (await client.get(service.url)).status_code == 200
        cast(Any, process).context.token_expiry_time = 1.0
        change(how, service, expires=1.0)
    assert [form["grant_type"] for form in service.asked] == ["authorization_code", *3 * ["refresh_token"]]


async def test_a_refresh_that_is_refused_leads_to_the_person(service: AuthorizationServer, tmp_path: Path) -> None:
    how = sign_in(tmp_path)
    await ask(service, how)
    change(how, service, expires=1.0)
    service.access.clear()
    service.refresh.clear()
    later = PersonWithBrowser()
    assert await ask(service, sign_in(tmp_path, later), times=2) == [200, 200]
    assert len(later.shown) == 1


async def test_a_service_that_is_out_of_order_costs_nobody_their_sign_in(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    how = sign_in(tmp_path)
    await ask(service, how)
    change(how, service, expires=1.0)
    service.access.clear()
    service.token_status = 503
    later = PersonWithBrowser()
    with pytest.raises(McpError, match="out of order") as raised:
        await ask(service, sign_in(tmp_path, later))
    assert not isinstance(raised.value, SignInFailed)  # trying again later does help
    assert later.shown == []
    service.token_status = 200
    assert await ask(service, sign_in(tmp_path, later)) == [200]
    assert later.shown == []


async def test_a_browser_that_comes_with_another_state_changes_nothing(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    pages: list[int] = []

    async def attacked(address: str) -> None:
        place = return_of(address)
        async with httpx2.AsyncClient(timeout=10) as browser:
            for forged in (f"{place}?code=stolen&state=guessed", f"{place}?code=stolen", f"{place}?error=no&state="):
                pages.append((await browser.get(forged)).status_code)
        await PersonWithBrowser()(address)

    assert await ask(service, sign_in(tmp_path, attacked)) == [200]
    assert pages == [400, 400, 400]


async def test_a_person_who_says_no_ends_it_with_their_words_and_no_traceback(
    service: AuthorizationServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service.refuses = "access_denied"
    with pytest.raises(SignInFailed, match="access_denied the person said no"):
        await ask(service, sign_in(tmp_path))
    assert service.asked == []
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_person_who_said_no_is_not_asked_again_at_once(service: AuthorizationServer, tmp_path: Path) -> None:
    service.refuses = "access_denied"
    person, clock = PersonWithBrowser(), FixedClock()
    how = SignIn(store=tmp_path, show=person, pause=60, clock=clock)
    async with httpx2.AsyncClient(auth=oauth_for(HttpEndpoint(url=service.url), how), timeout=20) as client:
        for _ in range(3):
            with pytest.raises(SignInFailed, match="access_denied"):
                await client.get(service.url)
        assert len(person.shown) == 1
        clock.advance(61)
        service.refuses = ""
        assert (await client.get(service.url)).status_code == 200
    assert len(person.shown) == 2


async def test_a_server_to_which_nobody_signs_in_asks_once_and_says_why(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    """Whatever is tried on the way: the newer revision, the older one, another connection."""
    service.refuses = "access_denied"
    person = PersonWithBrowser()
    far = mcp_ensemble(
        "far", HttpEndpoint(url=service.url, oauth=OAuth()), required=True, sign_in=sign_in(tmp_path, person)
    )
    with pytest.raises(SignInFailed, match="access_denied"):
        await far.prepare()
    assert len(person.shown) == 1


async def test_an_answer_in_the_name_of_another_service_is_refused(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    service.stamps = "https://attacker.example"
    with pytest.raises(SignInFailed, match=r"attacker\.example"):
        await ask(service, sign_in(tmp_path))
    assert service.asked == []


async def test_a_description_in_the_name_of_another_service_is_refused(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    service.describes = {"issuer": "https://attacker.example"}
    person = PersonWithBrowser()
    with pytest.raises(SignInFailed, match="issuer"):
        await ask(service, sign_in(tmp_path, person))
    assert person.shown == []


@pytest.mark.parametrize(
    ("described", "why"),
    [
        ({"token_endpoint": "http://auth.example/token"}, "without encryption"),
        ({"authorization_endpoint": "http://auth.example/authorize"}, "without encryption"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"code_challenge_methods_supported": None}, "PKCE"),
    ],
)
async def test_a_service_to_which_a_code_would_be_lost_is_never_shown(
    service: AuthorizationServer, tmp_path: Path, described: dict[str, Any], why: str
) -> None:
    service.describes = described
    person = PersonWithBrowser()
    with pytest.raises(SignInFailed, match=why):
        await ask(service, sign_in(tmp_path, person))
    assert person.shown == []


async def test_nobody_is_waited_for_for_ever(service: AuthorizationServer, tmp_path: Path) -> None:
    shown: list[str] = []
    how = sign_in(tmp_path, shown.append, patience=0.05)
    with pytest.raises(SignInFailed, match="nobody signed in"):
        await ask(service, how)
    assert not how.waiting(service.url)
    await free(return_of(shown[0]))


async def test_whoever_gives_up_leaves_no_open_port(service: AuthorizationServer, tmp_path: Path) -> None:
    shown: asyncio.Queue[str] = asyncio.Queue()
    how = sign_in(tmp_path, shown.put_nowait)
    asking = asyncio.create_task(ask(service, how))
    address = await asyncio.wait_for(shown.get(), 20)
    assert how.waiting(service.url)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not how.waiting(service.url)
    await free(return_of(address))


async def free(address: str) -> None:
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", urlsplit(address).port)


async def test_a_port_that_somebody_else_has_is_named(service: AuthorizationServer, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SignInFailed, match=f"127.0.0.1:{port}.*redirect_port"):
            await ask(service, sign_in(tmp_path), OAuth(redirect_port=port))


async def test_a_later_sign_in_comes_back_to_the_port_that_was_registered(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    first, later = PersonWithBrowser(), PersonWithBrowser()
    await ask(service, sign_in(tmp_path, first))
    service.access.clear()
    service.refresh.clear()
    assert await ask(service, sign_in(tmp_path, later)) == [200]
    assert return_of(later.shown[0]) == return_of(first.shown[0])
    assert len(service.registered) == 1


async def test_a_client_that_was_registered_beforehand_registers_nothing_and_its_secret_stays_in_the_settings(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    how = sign_in(tmp_path)
    assert await ask(service, how, OAuth(client_id="known", client_secret="hush-hush")) == [200]
    assert service.registered == []
    assert service.asked[0]["authorization"].startswith("Basic ")
    assert b"hush-hush" not in how.file(service.url).path.read_bytes()


async def test_the_secret_of_a_client_goes_to_the_service_it_was_first_used_with_and_no_other(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    client = OAuth(client_id="known", client_secret="hush-hush")
    await ask(service, sign_in(tmp_path), client)
    async with serving(AuthorizationServer()) as thief:
        service.names = thief.origin
        service.access.clear()
        service.refresh.clear()
        with pytest.raises(SignInFailed, match="belongs to"):
            await ask(service, sign_in(tmp_path), client)
        assert thief.asked == []


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("https://127.0.0.1/x", "on this machine"),
        ("https://localhost/x", "on this machine"),
        ("https://169.254.169.254/latest/meta-data", "private network"),
        ("https://10.1.2.3/x", "private network"),
        ("https://[::ffff:10.1.2.3]/x", "private network"),
        ("https://[64:ff9b::a01:203]/x", "private network"),
        ("https://[fd00::1]/x", "private network"),
        ("http://auth.example/x", "without encryption"),
    ],
)
async def test_a_server_of_the_outside_world_sends_nobody_inside(place: str, why: str, tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{place}"'})

    endpoint = HttpEndpoint(url="https://192.0.78.1/mcp", oauth=OAuth())
    transport = httpx2.MockTransport(answer)
    async with httpx2.AsyncClient(auth=oauth_for(endpoint, sign_in(tmp_path)), transport=transport) as client:
        with pytest.raises(SignInFailed, match=why):
            await client.get(endpoint.url)
    assert asked == [endpoint.url]


@pytest.mark.parametrize(
    ("server", "host", "fine"),
    [
        ("mcp.outside", "auth.outside", True),
        ("mcp.outside", "auth.inside", False),
        ("mcp.outside", "both.inside", False),
        ("mcp.outside", "nowhere", True),  # who connects will say so
        ("mcp.inside", "auth.inside", True),
        ("mcp.inside", "mcp.inside", True),
        ("192.168.1.7", "127.0.0.1", True),
    ],
)
async def test_a_name_is_where_it_leads(server: str, host: str, fine: bool) -> None:
    async def resolve(name: str) -> list[str]:
        if name == "nowhere":
            raise OSError("no such host")
        inside = ["10.0.0.1"] if name.endswith("inside") else []
        return [*inside, "8.8.8.8"] if name != "auth.inside" else inside

    try:
        await SignInAddresses(server, resolve).check("https", host, secret=True)
    except OAuthFlowError:
        assert not fine
    else:
        assert fine


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888"])
async def test_a_name_that_leads_elsewhere_after_it_was_checked_is_not_asked_there(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of the outside world whose authorization server has another address at each look (DNS rebinding)."""
    looked: list[str] = []

    async def look_up(host: str, *_: Any, **__: Any) -> Any:
        looked.append(host)
        found = address if looked.count(host) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, 0))]

    asked: list[tuple[str, str, str | None]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append((request.url.host, request.headers["host"], request.extensions.get("sni_hostname")))
        place = 'Bearer resource_metadata="https://auth.example/meta"'
        return httpx2.Response(401, headers={"WWW-Authenticate": place}) if len(asked) == 1 else httpx2.Response(404)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    endpoint = HttpEndpoint(url="https://192.0.78.1/mcp", oauth=OAuth())
    transport = httpx2.MockTransport(answer)
    async with httpx2.AsyncClient(auth=oauth_for(endpoint, sign_in(tmp_path)), transport=transport) as client:
        with pytest.raises(SignInFailed):
            await client.get(endpoint.url)

    assert asked[1] == (address, "auth.example", "auth.example")
    assert all(host in (address, "192.0.78.1") for host, _, _ in asked)


async def test_where_a_proxy_connects_it_looks_names_up_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(host: str, *_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 0))]

    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        place = 'Bearer resource_metadata="https://auth.example/meta"'
        return httpx2.Response(401, headers={"WWW-Authenticate": place}) if len(asked) == 1 else httpx2.Response(404)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    endpoint = HttpEndpoint(url="https://192.0.78.1/mcp", oauth=OAuth(), proxy="http://proxy.example:3128")
    transport = httpx2.MockTransport(answer)
    async with httpx2.AsyncClient(auth=oauth_for(endpoint, sign_in(tmp_path)), transport=transport) as client:
        with pytest.raises(SignInFailed):
            await client.get(endpoint.url)

    assert asked[1] == "auth.example"


async def test_a_server_in_the_clear_describes_itself_and_is_sent_no_secret() -> None:
    places = SignInAddresses("10.0.0.1")
    await places.check("http", "10.0.0.1", secret=False)
    with pytest.raises(OAuthFlowError, match="without encryption"):
        await places.check("http", "10.0.0.1", secret=True)


async def test_what_others_log_about_their_sign_in_stays_theirs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    oauth_for(HttpEndpoint(url="https://mcp.example", oauth=OAuth()), sign_in(tmp_path))
    try:
        raise OAuthFlowError("somebody else's")
    except OAuthFlowError:
        logging.getLogger(OAuthClientProvider.__module__).exception("OAuth flow error")
    assert "somebody else's" in caplog.text


async def test_the_service_of_a_client_can_be_named_from_the_start(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    client = OAuth(client_id="known", client_secret="hush-hush", issuer="https://auth.example")
    with pytest.raises(SignInFailed, match=r"auth\.example"):
        await ask(service, sign_in(tmp_path), client)
    assert service.asked == []


async def test_another_client_id_does_not_get_the_tokens_of_the_last(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    await ask(service, sign_in(tmp_path), OAuth(client_id="one"))
    person = PersonWithBrowser()
    await ask(service, sign_in(tmp_path, person), OAuth(client_id="two"))
    assert len(person.shown) == 1


async def test_a_program_signs_in_with_its_own_credentials(service: AuthorizationServer, tmp_path: Path) -> None:
    service.secrets["robot"] = "hush-hush"
    service.describes = {"code_challenge_methods_supported": None}  # there is no code that could be stolen
    person = PersonWithBrowser()
    client = OAuth(client_id="robot", client_secret="hush-hush", grant="client_credentials", scopes=("read",))
    assert await ask(service, sign_in(tmp_path, person), client, times=2) == [200, 200]
    assert person.shown == []
    assert [(form["grant_type"], form["scope"]) for form in service.asked] == [("client_credentials", "read")]


async def test_a_program_without_a_secret_is_told_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SignInFailed, match="client_secret"):
        oauth_for(
            HttpEndpoint(url="https://mcp.example", oauth=OAuth(client_id="robot", grant="client_credentials")),
            sign_in(tmp_path),
        )


async def test_more_rights_are_asked_for_beside_those_that_were_given(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    person = PersonWithBrowser()
    oauth = OAuth(scopes=("read",))
    how = sign_in(tmp_path, person)
    await ask(service, how, oauth)
    service.wants = "write"
    assert await ask(service, how, oauth) == [200]
    assert [given.get("scope") for given in service.authorised] == ["read", "read write"]


async def test_a_server_that_never_has_enough_is_asked_no_more_than_twice(
    service: AuthorizationServer, tmp_path: Path
) -> None:
    service.wants = "more"
    person = PersonWithBrowser()

    async def greedy(address: str) -> None:
        await person(address)
        service.wants += " and more"

    assert await ask(service, sign_in(tmp_path, greedy)) in ([403], [401])
    assert len(person.shown) <= 2


async def test_no_secret_is_ever_logged(
    service: AuthorizationServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    how = sign_in(tmp_path)
    client = OAuth(client_id="known", client_secret="hush-hush")
    await ask(service, how, client)
    change(how, service, expires=1.0)
    await ask(service, how, client)
    service.refuses = "access_denied"
    service.access.clear()
    service.refresh.clear()
    with pytest.raises(SignInFailed):
        await ask(service, how, client)
    never = {"hush-hush", *service.access, *service.refresh}
    never |= {form[name] for form in service.asked for name in ("code_verifier", "refresh_token") if name in form}
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("uvicorn"))
    assert not [secret for secret in never if secret in ours]


@pytest.mark.parametrize("written", ["", "{", "[]", '{"server": 1}', "\x00", '{"server": "https://other.example"}'])
async def test_a_file_that_nobody_understands_means_signing_in_again(
    service: AuthorizationServer, tmp_path: Path, written: str
) -> None:
    how = sign_in(tmp_path)
    path = how.file(service.url).path
    path.parent.mkdir()
    path.write_text(written)
    assert await ask(service, how) == [200]
    assert kept(how, service)["server"] == service.url


async def test_signing_out_forgets_the_server_and_only_it(service: AuthorizationServer, tmp_path: Path) -> None:
    person = PersonWithBrowser()
    how = sign_in(tmp_path, person)
    await ask(service, how)
    assert not how.forget("https://other.example")
    assert how.forget(service.url)
    assert not how.forget(service.url)
    await ask(service, how)
    assert len(person.shown) == 2


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET /callback?code=1&state=secret HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /callback?code=1&state=Secret HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /callback?code=1&state=%ff%00 HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /favicon.ico HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /callback?code=1&state=secret HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /callback?" + b"a&=" * 100 + b" HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://[/callback HTTP/1.1\r\n\r\n", b"400"),
        (b"\xff\xfe\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
    ],
)
async def test_only_the_one_request_counts_at_the_place_to_return_to(said: bytes, status: bytes) -> None:
    port = free_port()
    async with listen_for_redirect(port, "secret") as answer:
        assert (await say(port, said)).split(b" ")[1] == status
        assert answer.done() is (status == b"200")


async def test_an_answer_is_taken_once(tmp_path: Path) -> None:
    port = free_port()
    async with listen_for_redirect(port, "secret") as answer:
        assert b"200 OK" in await say(port, b"GET /callback?code=first&state=secret HTTP/1.1\r\n\r\n")
        assert b"409 Conflict" in await say(port, b"GET /callback?code=second&state=secret HTTP/1.1\r\n\r\n")
        assert (await answer)["code"] == "first"


async def test_whoever_says_nothing_does_not_keep_the_place_open() -> None:
    port = free_port()
    async with asyncio.timeout(30):
        async with listen_for_redirect(port, "secret"):
            _, silent = await asyncio.open_connection("127.0.0.1", port)
            assert b"404" in await say(port, b"GET / HTTP/1.1\r\n\r\n")
        silent.close()


async def say(port: int, said: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer
