"""Azure and Vertex AI: where they are, and signing in with keys or with tokens that expire."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from handrail.core.errors import HandrailError, ModelUnavailable, RequestRefused, UsageError
from handrail.core.messages import Text, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.models.codec_model import CodecModel
from handrail.models.gemini import GeminiCodec
from handrail.models.retry_policy import RetryPolicy
from handrail.models.token_signing import GoogleTokenSource, SignedTransport
from handrail.models.transport import Endpoint, HttpTransport
from handrail.sessions.create import create_llm
from tests.models.raw_reply_server import serving, whole
from tests.sessions.wire_replies import TEXTS, OneReply

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
FIRST, SECOND = "eyJfirst.0123456789", "eyJsecond.0123456789"
EXPIRED = whole({"error": {"code": "401", "message": f"the token {FIRST} is expired"}}, status=401)
NAMES = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test must not find the settings of whoever runs it."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


async def sent_to(name: str, **options: Any) -> tuple[str, dict[str, str]]:
    """The address and the headers of a request."""
    kind = "gemini" if name.startswith("vertex:") else "anthropic" if "anthropic" in name else "chat"
    transport = OneReply(TEXTS[kind])
    async with create_llm(name, transport=transport, stream=False, **options) as llm:
        await llm.generate_async("Hello?")
    (request,), (endpoint,) = transport.requests, transport.endpoints
    return endpoint.url(request.path), endpoint.sent(request)


def token() -> str:
    return FIRST


async def test_azure_is_asked_at_its_v1_address_with_the_key_of_the_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key-1")
    url, headers = await sent_to("azure:gpt-4.1", resource="shop")
    assert url == "https://shop.openai.azure.com/openai/v1/chat/completions"
    assert headers["api-key"] == "azure-key-1"
    assert "authorization" not in headers

    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://east.openai.azure.com/")
    assert (await sent_to("azure:gpt-4.1"))[0] == "https://east.openai.azure.com/openai/v1/chat/completions"
    _, headers = await sent_to("azure:gpt-4.1", base_url="https://elsewhere.example")
    assert "api-key" not in headers, "the key of the environment goes nowhere else"


async def test_azures_older_address_names_the_deployment_and_a_date() -> None:
    url, headers = await sent_to("azure:my deployment", resource="shop", api_version="2024-10-21", token=token)
    path = "/openai/deployments/my%20deployment/chat/completions?api-version=2024-10-21"
    assert url == f"https://shop.openai.azure.com{path}"
    assert headers["authorization"] == f"Bearer {FIRST}"
    assert "api-key" not in headers
    url, _ = await sent_to("azure:gpt-4.1", resource="shop", api_version="preview", token=token)
    assert url == "https://shop.openai.azure.com/openai/v1/chat/completions?api-version=preview"


@pytest.mark.parametrize(
    ("location", "host"),
    [
        (None, "aiplatform.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
    ],
)
async def test_vertex_is_asked_for_a_project_in_a_location(location: str | None, host: str) -> None:
    where = f"projects/shop/locations/{location or 'global'}/publishers"
    url, headers = await sent_to("vertex:gemini-2.5-flash", project="shop", location=location, token=token)
    assert url == f"https://{host}/v1beta1/{where}/google/models/gemini-2.5-flash:generateContent"
    assert headers["authorization"] == f"Bearer {FIRST}"
    url, _ = await sent_to("vertex-anthropic:claude-opus-4-5", project="shop", location=location, token=token)
    assert url == f"https://{host}/v1/{where}/anthropic/models/claude-opus-4-5:rawPredict"


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("azure:gpt-4.1", {"key": "k"}, "AZURE_OPENAI_ENDPOINT"),
        ("azure:gpt-4.1", {"resource": "shop"}, "AZURE_OPENAI_API_KEY"),
        ("azure:gpt-4.1", {"resource": "shop", "base_url": "https://shop.example"}, "keep one"),
        ("azure:gpt-4.1", {"resource": "shop", "key": "k", "token": token}, "keep the one"),
        ("azure:gpt-4.1", {"resource": "shop", "token": "abc"}, "key="),
        ("vertex:gemini-2.5-flash", {"token": token}, "GOOGLE_CLOUD_PROJECT"),
        ("vertex:gemini-2.5-flash", {"token": token, "project": "p", "location": "x.example/"}, "not a location"),
        ("openai:gpt-5", {"key": "k", "project": "p"}, "no option 'project'"),
    ],
)
def test_what_is_missing_or_wrong_is_told_before_anything_is_sent(
    name: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        create_llm(name, **options)


async def test_a_token_that_expired_is_asked_for_again_and_the_request_goes_out_once_more() -> None:
    given = iter([FIRST, SECOND, SECOND])
    async with (
        serving(EXPIRED, whole(TEXTS["chat"]), whole(TEXTS["chat"])) as server,
        create_llm("azure:gpt-4.1", base_url=server.url, token=lambda: next(given), stream=False) as llm,
    ):
        assert await llm.generate_async("Hello?") == "Hello"
        assert await llm.generate_async("Hello?") == "Hello"
    assert [asked.headers["authorization"] for asked in server.asked] == [
        f"Bearer {each}" for each in (FIRST, SECOND, SECOND)
    ]


async def test_a_token_may_come_from_a_coroutine() -> None:
    async def ask() -> str:
        return FIRST

    _, headers = await sent_to("azure:gpt-4.1", resource="shop", token=ask)
    assert headers["authorization"] == f"Bearer {FIRST}"


async def test_a_service_that_refuses_the_token_and_its_successor_is_not_asked_for_ever() -> None:
    async with (
        serving(EXPIRED) as server,
        create_llm("azure:gpt-4.1", base_url=server.url, token=token, stream=False) as llm,
    ):
        with pytest.raises(RequestRefused) as refused:
            await llm.generate_async("Hello?")
    assert len(server.asked) == 1
    assert FIRST not in str(refused.value)


async def test_no_token_is_seen_in_errors_in_logs_or_in_what_is_printed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def fail() -> str:
        raise RuntimeError(f"the vault gave {JWT} and then closed")

    refused = whole({"error": {"message": f"no rights for Bearer {FIRST}"}}, status=403)
    async with serving(refused) as server:
        for ask in (token, fail):
            async with create_llm(
                "azure:gpt-4.1", base_url=server.url, token=ask, stream=False, retry=RetryPolicy(attempts=1)
            ) as llm:
                with pytest.raises(HandrailError) as wrong:
                    await llm.generate_async("Hello?")
                seen = f"{wrong.value!r} {wrong.value} {wrong.value.__context__!r} {llm!r} {llm.model!r}"
                assert FIRST not in seen
                assert JWT not in seen
    assert isinstance(wrong.value, ModelUnavailable)
    assert FIRST not in caplog.text


@pytest.fixture
def service_account(tmp_path: Path) -> Iterator[dict[str, str]]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    yield {
        "type": "service_account",
        "project_id": "shop",
        "private_key_id": "1",
        "private_key": private.decode(),
        "client_email": "shop@shop.example",
        "client_id": "1",
    }


async def test_google_auth_gives_the_token_of_a_service_account_and_another_when_it_is_refused(
    service_account: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = [whole({"access_token": each, "expires_in": 3600, "token_type": "Bearer"}) for each in (FIRST, SECOND)]
    async with serving(*tokens) as google, serving(EXPIRED, whole(TEXTS["gemini"])) as vertex:
        account = tmp_path / "account.json"
        account.write_text(json.dumps({**service_account, "token_uri": f"{google.url}/token"}), "utf-8")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        transport = SignedTransport(HttpTransport(), GoogleTokenSource())
        model = CodecModel(GeminiCodec(), transport, Endpoint(vertex.url), "gemini-2.5-flash", stream=False)
        request = ModelRequest(messages=(UserMessage((Text("Hello?"),)),))
        said = [event async for event in model.stream(request)]
        await model.aclose()

    assert said
    assert [asked.path for asked in google.asked] == ["/token", "/token"]
    assert [asked.headers["authorization"] for asked in vertex.asked] == [f"Bearer {FIRST}", f"Bearer {SECOND}"]


async def test_credentials_that_cannot_be_found_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nowhere.json"))
    async with create_llm("vertex:gemini-2.5-flash", project="shop", retry=RetryPolicy(attempts=1)) as llm:
        with pytest.raises(ModelUnavailable, match="no token for"):
            await llm.generate_async("Hello?")
