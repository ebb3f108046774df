"""Every field that the official clients can send is honoured, ignored as documented, or refused by its name.

The fields are read from the installed packages: one that a new version adds fails here until somebody decides on it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import message_count_tokens_params, message_create_params
from anthropic.types.beta import (
    beta_output_config_param,
    message_count_tokens_params as beta_count_tokens_params,
    message_create_params as beta_message_create_params,
)
from hypothesis import given, strategies as st
from msgspec import Struct
from openai.types import completion_create_params, embedding_create_params
from openai.types.chat import chat_completion_stream_options_param, completion_create_params as chat_params
from openai.types.responses import response_create_params, response_text_config_param

from handrail.core.errors import BusError
from handrail.core.events import ModelEvent
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.node.gateways.anthropic.body import COUNT, HEADERS, MESSAGES, OUTPUT_CONFIG
from handrail.node.gateways.field_rules import EXTENSION, FieldTable, check_fields
from handrail.node.gateways.gateway import GatewayEmbedder
from handrail.node.gateways.openai.body import CHAT, STREAM_OPTIONS
from handrail.node.gateways.openai.completions import COMPLETIONS
from handrail.node.gateways.openai.embeddings import EMBEDDINGS
from handrail.node.gateways.openai_responses.body import RESPONSE, TEXT
from handrail.testing.embedding import WordEmbedder
from handrail.testing.model import text
from tests.node.gateways.gateway_server import ServedGateway, finished, scene

HELLO: Any = [{"role": "user", "content": "Hello"}]


class Api(Struct, frozen=True):
    """A path, the official client's types for it, and our table."""

    path: str
    types: tuple[Any, ...]
    table: FieldTable
    body: dict[str, Any]
    beyond: frozenset[str] = frozenset()
    """Fields that we know and the installed client does not: older clients, and other languages, send them."""


CHAT_API = Api(
    "/v1/chat/completions",
    (chat_params.CompletionCreateParamsNonStreaming, chat_params.CompletionCreateParamsStreaming),
    CHAT,
    {"model": "m", "messages": HELLO},
)
MESSAGES_API = Api(
    "/v1/messages",
    (
        message_create_params.MessageCreateParamsNonStreaming,
        message_create_params.MessageCreateParamsStreaming,
        beta_message_create_params.MessageCreateParamsNonStreaming,
        beta_message_create_params.MessageCreateParamsStreaming,
    ),
    MESSAGES,
    {"model": "m", "max_tokens": 9, "messages": HELLO},
    frozenset({"temperature", "top_k", "top_p"}),
)
COMPLETIONS_API = Api(
    "/v1/completions",
    (
        completion_create_params.CompletionCreateParamsNonStreaming,
        completion_create_params.CompletionCreateParamsStreaming,
    ),
    COMPLETIONS,
    {"model": "m", "prompt": "Once"},
)
EMBEDDINGS_API = Api(
    "/v1/embeddings",
    (embedding_create_params.EmbeddingCreateParams,),
    EMBEDDINGS,
    {"model": "words", "input": "Hello"},
)
COUNT_API = Api(
    "/v1/messages/count_tokens",
    (message_count_tokens_params.MessageCountTokensParams, beta_count_tokens_params.MessageCountTokensParams),
    COUNT,
    {"model": "m", "messages": HELLO},
)
RESPONSES_API = Api(
    "/v1/responses",
    (response_create_params.ResponseCreateParamsNonStreaming, response_create_params.ResponseCreateParamsStreaming),
    RESPONSE,
    {"model": "m", "input": "Hello"},
    frozenset({"frequency_penalty", "presence_penalty"}),  # of Open Responses
)
APIS = [CHAT_API, MESSAGES_API, COMPLETIONS_API, EMBEDDINGS_API, COUNT_API, RESPONSES_API]
by_path = pytest.mark.parametrize("api", APIS, ids=lambda api: api.path)

NESTED = {
    "stream_options": (chat_completion_stream_options_param.ChatCompletionStreamOptionsParam, STREAM_OPTIONS),
    "output_config": (beta_output_config_param.BetaOutputConfigParam, OUTPUT_CONFIG),
    "text": (response_text_config_param.ResponseTextConfigParam, TEXT),
}


def fields_of(*types: Any) -> set[str]:
    return {name for each in types for name in (*each.__required_keys__, *each.__optional_keys__)}


@by_path
def test_every_field_of_the_official_client_has_a_rule_and_every_rule_a_field(api: Api) -> None:
    headers = HEADERS if api.path.startswith("/v1/messages") else {}
    sent = fields_of(*api.types) - set(headers)

    assert sent - set(api.table) == set()
    assert set(api.table) - sent - set(EXTENSION) == api.beyond


@pytest.mark.parametrize("name", NESTED)
def test_the_fields_inside_of_a_field_have_rules_too(name: str) -> None:
    kind, table = NESTED[name]

    assert set(table) == fields_of(kind)


class Answering:
    """A model that always answers."""

    name = "m"

    @property
    def text_model(self) -> Model:
        return self

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield text("Hello.")
        yield finished()


WORDS = GatewayEmbedder("words", WordEmbedder)

SAMPLES: Mapping[str, Any] = {
    "access_programs": {"cyber": "standard"},
    "audio": {"voice": "alloy", "format": "wav"},
    "best_of": 2,
    "cache_control": {"type": "ephemeral"},
    "compaction": {"type": "enabled"},
    "container": "container_1",
    "conversation": "conv_1",
    "context_management": {"edits": []},
    "diagnostics": {"previous_message_id": "msg_1"},
    "fallback_credit_token": "token",
    "fallbacks": "default",
    "frequency_penalty": 0.5,
    "function_call": "auto",
    "functions": [{"name": "f"}],
    "image": {"context_compression": "auto"},
    "inference_geo": "eu",
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "max_tool_calls": 3,
    "metadata": {"user_id": "alice"},
    "modalities": ["text", "audio"],
    "moderation": {"model": "omni-moderation-latest"},
    "n": 2,
    "prediction": {"type": "content", "content": "Hello."},
    "presence_penalty": 0.5,
    "prompt": {"id": "pmpt_1"},
    "prompt_cache_key": "key",
    "prompt_cache_options": {"ttl": "30m"},
    "prompt_cache_retention": "24h",
    "reasoning": {"effort": "high"},
    "reasoning_effort": "high",
    "safety_identifier": "alice",
    "service_tier": "auto",
    "speed": "fast",
    "store": True,
    "stream_options": {"include_obfuscation": False},
    "suffix": "the end",
    "thread": {"type": "create"},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "top_k": 3,
    "top_logprobs": 2,
    "truncation": "auto",
    "user": "alice",
    "verbosity": "low",
    "web_search_options": {},
}


async def asked(there: ServedGateway, api: Api, **fields: Any) -> Any:
    """What the official client makes of the answer, or the error that it raises."""
    body = {**api.body, **fields}
    if api.path.startswith("/v1/messages"):
        return await there.anthropic().post(api.path, body=body, cast_to=object)
    return await there.openai().post(api.path.removeprefix("/v1"), body=body, cast_to=object)


def _named(error: Exception, field: str) -> bool:
    assert isinstance(error, openai.BadRequestError | anthropic.BadRequestError)
    body: Any = error.body
    if isinstance(error, anthropic.BadRequestError):
        details = body["error"]
        assert (body["type"], details["type"]) == ("error", "invalid_request_error")
        return bool(details["message"].startswith(f"{field}: "))
    assert body["type"] == "invalid_request_error"
    return bool(body["message"].startswith(f"{field}: ") and body["param"] == field)


REFUSED = (openai.BadRequestError, anthropic.BadRequestError)


@by_path
async def test_a_field_that_cannot_be_honoured_is_refused_by_its_name_in_the_form_of_the_client(api: Api) -> None:
    async with scene(Answering(), embedder=WORDS) as there:
        for name in [name for name, rule in api.table.items() if rule.treatment == "refused"]:
            with pytest.raises(REFUSED) as error:
                await asked(there, api, **{name: SAMPLES[name]})
            assert _named(error.value, name), (name, error.value)
        for name in ("mesages", "x" * 500):
            with pytest.raises(REFUSED, match=f"{name[:60]}: is not a field of this API"):
                await asked(there, api, **{name: 1})


@by_path
async def test_a_field_that_asks_for_nothing_is_not_refused(api: Api) -> None:
    neutral = {name: value for name, rule in api.table.items() for value in rule.neutral}
    absent = {name: None for name in api.table if name not in api.body}
    async with scene(Answering(), embedder=WORDS) as there:
        for fields in (neutral, absent, {"no_such_field": None}):
            assert "no effect" not in str(await asked(there, api, **fields))


@by_path
async def test_a_hint_has_no_effect_and_a_notice_says_so_and_what_is_ignored_needs_none(api: Api) -> None:
    hints = [name for name, rule in api.table.items() if rule.treatment == "hint"]
    ignored = [name for name, rule in api.table.items() if rule.treatment == "ignored"]
    async with scene(Answering(), embedder=WORDS) as there:
        answer = await asked(there, api, **{name: SAMPLES[name] for name in (*hints, *ignored)})

    told = answer.get("handrail", {}).get("notices", [])
    told = [notice for notice in told if "estimate" not in notice]
    assert sorted(told) == sorted(f"{name} has no effect here" for name in hints)


async def test_a_field_inside_of_another_is_refused_by_its_place() -> None:
    async with scene(Answering(), embedder=WORDS) as there:
        with pytest.raises(openai.BadRequestError, match=r"stream_options\.include_obfuscation: "):
            await asked(there, CHAT_API, stream=True, stream_options={"include_obfuscation": True})
        with pytest.raises(anthropic.BadRequestError, match=r"output_config\.task_budget: "):
            await asked(there, MESSAGES_API, output_config={"task_budget": {"type": "tokens", "total": 5}})
        answer = await asked(there, MESSAGES_API, output_config={"effort": "low"})
    assert answer["handrail"]["notices"] == ["output_config.effort has no effect here"]


PAGE = (Path(__file__).parents[3] / "docs" / "gateways.md").read_text()
ROWS = {"honoured": "honoured", "ignored": "ignored", "hint": "hints, with a notice", "refused": "refused"}


@pytest.mark.parametrize("api", [api for api in APIS if api is not COUNT_API], ids=lambda api: api.path)
def test_the_page_about_the_gateways_has_every_field_in_the_row_of_its_rule(api: Api) -> None:
    section = re.split(r"\n(?:\*\*`POST|## )", PAGE.partition(f"**`POST {api.path}`**")[2])[0]
    rows = {label: line for label in ROWS.values() for line in section.splitlines() if line.startswith(f"| {label} |")}

    for name, rule in api.table.items():
        assert f"`{name}`" in re.sub(r"\[(`\w+`)\]\([^)]*\)", r"\1", rows[ROWS[rule.treatment]]), (name, rule.treatment)
    assert all(f"`{name}`" in PAGE for name in HEADERS)


values = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers(), max_size=2)


@given(st.dictionaries(st.sampled_from(sorted(CHAT)) | st.text(max_size=9), values))
def test_a_body_is_refused_if_and_only_if_some_field_of_it_is(body: dict[str, Any]) -> None:
    def wrong() -> Iterator[str]:
        for name, value in body.items():
            rule = CHAT.get(name)
            neutral = rule is not None and any(type(value) is type(each) and value == each for each in rule.neutral)
            if value is not None and not neutral and (rule is None or rule.treatment == "refused"):
                yield name

    found = list(wrong())
    if not found:
        check_fields(body, CHAT)
        return
    with pytest.raises(BusError) as error:
        check_fields(body, CHAT)
    assert error.value.details["param"] == found[0]
