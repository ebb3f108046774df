"""Services that continue a text: the bodies that their API references show, both ways.

Sources: OpenAI's API reference (Completions), vLLM's OpenAI-compatible server, Ollama's docs/api.md ("Generate a
completion", "Request (Raw Mode)").
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import ModelUnavailable, ProtocolError, UsageError
from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import SupervisorMessage, Text, Usage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.models.codec import Codec
from handrail.models.ollama import OllamaCodec
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.profiles import profile_for
from handrail.sessions.create import create_llm

ASKED = ModelRequest(
    messages=(UserMessage((Text("Say this is a test"),)),), max_tokens=7, temperature=0.0, stop=("\n",)
)

OPENAI_WHOLE = {
    "id": "cmpl-uqkvlQyYK7bGYrRHQ0eXlWi7",
    "object": "text_completion",
    "created": 1589478378,
    "model": "gpt-3.5-turbo-instruct",
    "system_fingerprint": "fp_44709d6fcb",
    "choices": [{"text": "\n\nThis is indeed a test", "index": 0, "logprobs": None, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
}
VLLM_STREAM = [
    {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": [choice], "usage": None}
    for choice in (
        {"index": 0, "text": "\n\nThis is", "logprobs": None, "finish_reason": None, "stop_reason": None},
        {"index": 0, "text": " indeed a test", "logprobs": None, "finish_reason": None, "stop_reason": None},
        {"index": 0, "text": "", "logprobs": None, "finish_reason": "length", "stop_reason": None},
    )
] + [{"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": [], "usage": {}}]
OLLAMA_STREAM = [
    {"model": "llama3.2", "created_at": "2023-08-04T08:52:19.385406455-07:00", "response": "The", "done": False},
    {"model": "llama3.2", "created_at": "2023-08-04T08:52:19.385406455-07:00", "response": " sky", "done": False},
    {
        "model": "llama3.2",
        "created_at": "2023-08-04T19:22:45.499127Z",
        "response": "",
        "done": True,
        "done_reason": "stop",
        "context": [1, 2, 3],
        "total_duration": 10706818083,
        "load_duration": 6338219291,
        "prompt_eval_count": 26,
        "prompt_eval_duration": 130079000,
        "eval_count": 259,
        "eval_duration": 4232710000,
    },
]


def codec_of(codec: Any, model: str) -> Codec:
    found: Codec | None = codec.text_codec(model)
    assert found is not None
    return found


VLLM = codec_of(OpenAIChatCodec(server="vllm"), "m")
OLLAMA = codec_of(OllamaCodec(), "llama3.2")


def decoded(codec: Codec, *events: dict[str, Any]) -> list[ModelEvent]:
    decoder = codec.decoder(ASKED)
    return [*(event for data in events for event in decoder.feed(data)), *decoder.finish()]


def test_the_text_and_its_settings_are_sent() -> None:
    wire = VLLM.encode(ASKED, "m", stream=True)
    assert (wire.path, wire.framing) == ("/completions", "sse")
    assert wire.body == {
        "model": "m",
        "prompt": "Say this is a test",
        "max_tokens": 7,
        "temperature": 0.0,
        "stop": ["\n"],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    wire = OLLAMA.encode(ASKED, "llama3.2", stream=False)
    assert (wire.path, wire.framing) == ("/api/generate", "json")
    assert wire.body == {
        "model": "llama3.2",
        "prompt": "Say this is a test",
        "raw": True,
        "stream": False,
        "options": {"num_predict": 7, "temperature": 0.0, "stop": ["\n"]},
    }


@pytest.mark.parametrize("codec", [VLLM, OLLAMA])
@pytest.mark.parametrize(
    "messages",
    [(), (SupervisorMessage("Be brief."), UserMessage((Text("a"),))), (UserMessage((Text("a"), Text("b"))),)],
)
def test_a_conversation_is_not_taken_for_a_text(codec: Codec, messages: Any) -> None:
    with pytest.raises(UsageError, match="one text"):
        codec.encode(ModelRequest(messages=messages), "m", stream=False)


def test_replies_whole_and_streamed_are_read() -> None:
    end = ReplyFinished(stop="max_tokens", model="gpt-3.5-turbo-instruct", usage=Usage(input_tokens=5, output_tokens=7))
    assert decoded(VLLM, OPENAI_WHOLE) == [TextDelta(text="\n\nThis is indeed a test"), end]
    *pieces, last = decoded(VLLM, *VLLM_STREAM)
    assert pieces == [TextDelta(text="\n\nThis is"), TextDelta(text=" indeed a test")]
    assert isinstance(last, ReplyFinished) and last.stop == "max_tokens"
    *pieces, last = decoded(OLLAMA, *OLLAMA_STREAM)
    assert pieces == [TextDelta(text="The"), TextDelta(text=" sky")]
    assert last == ReplyFinished(stop="end", model="llama3.2", usage=Usage(input_tokens=26, output_tokens=259))


@pytest.mark.parametrize(("codec", "events"), [(VLLM, VLLM_STREAM[:2]), (OLLAMA, OLLAMA_STREAM[:2])])
def test_a_reply_that_was_cut_off_is_an_error(codec: Codec, events: list[dict[str, Any]]) -> None:
    with pytest.raises(ProtocolError, match="cut off"):
        decoded(codec, *events)


@pytest.mark.parametrize("codec", [VLLM, OLLAMA])
def test_an_error_in_the_stream_is_one(codec: Codec) -> None:
    with pytest.raises(ModelUnavailable):
        decoded(codec, {"error": {"message": "later", "code": 503}})
    with pytest.raises(ProtocolError):
        decoded(codec, {"error": "model 'x' not found"})


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)
unknown = st.dictionaries(st.text(min_size=1).map(lambda name: f"x_{name}"), json_values, max_size=3)


@given(unknown)
def test_unknown_fields_change_nothing(more: dict[str, Any]) -> None:
    choices = [{**OPENAI_WHOLE["choices"][0], **more}]  # type: ignore[index]  # a literal's parts
    assert decoded(VLLM, {**OPENAI_WHOLE, **more, "choices": choices}) == decoded(VLLM, OPENAI_WHOLE)
    assert decoded(OLLAMA, *({**line, **more} for line in OLLAMA_STREAM)) == decoded(OLLAMA, *OLLAMA_STREAM)


def test_which_models_continue_texts_is_known() -> None:
    assert profile_for("openai", "gpt-3.5-turbo-instruct").completions
    assert not profile_for("openai", "gpt-3.5-turbo").completions
    assert not profile_for("openai", "gpt-4o").completions
    for service in ("vllm", "llamacpp", "lmstudio", "ollama"):
        assert profile_for(service, "whatever").completions


async def test_a_model_with_prompted_tools_continues_texts_as_well() -> None:
    async with create_llm("ollama", model="llama2") as llm:
        assert llm.model.text_model is not None  # type: ignore[attr-defined]  # a CodecModel has it
