"""`POST /v1/completions`, the older API: a text is continued by a model that can, without roles and tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from handrail.core.messages import Text, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.node.gateways.failures import GatewayFailure
from handrail.node.gateways.field_rules import (
    EXTENSION,
    NOT_PASSED_ON,
    FieldTable,
    check_fields,
    honoured_fields,
    refused_field,
)
from handrail.node.gateways.openai.body import OPENAI_REFUSED, STREAM_OPTIONS, ChatStreamOptions
from handrail.node.gateways.openai.write import DONE, REASONS, chat_usage_of, openai_error_body
from handrail.node.gateways.request import GatewayOutcome, GatewayRequest
from handrail.node.gateways.request_parsing import (
    convert_field,
    extension_of,
    read_json_object,
    refuse_field,
    stop_sequences_of,
)
from handrail.node.gateways.wire import AnswerWriter, encode, text_frame

PATH = "/v1/completions"


class CompletionsBody(Struct):
    """What is read of a Completions body."""

    prompt: str | list[str | int | list[int]]
    model: str | None = None
    echo: bool | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None


COMPLETIONS: FieldTable = {
    **EXTENSION,
    **honoured_fields(CompletionsBody),
    **OPENAI_REFUSED,
    "best_of": refused_field("one answer to a request is given here; leave it out", 1),
    "logit_bias": refused_field(NOT_PASSED_ON, {}),
    "logprobs": refused_field("log probabilities are not given here; leave it out"),
    "n": refused_field("one answer to a request is given here; leave it out, or ask again", 1),
    "suffix": refused_field("text is only continued here, not filled in; leave it out", ""),
}


def read_completions_request(data: bytes, headers: Mapping[str, str], most: int) -> GatewayRequest:
    """Reads a request to Completions.

    Raises:
        BusError: The request cannot be answered as it stands (`bad_request`), with the place that is wrong.
    """
    given = read_json_object(data, most)
    check_fields(given, COMPLETIONS)
    body = convert_field(given, CompletionsBody)
    check_fields(given.get("stream_options") or {}, STREAM_OPTIONS, "stream_options.")
    return GatewayRequest(
        model=body.model,
        messages=(UserMessage((Text(_prompt(body.prompt)),)),),
        settings=ModelRequest(
            messages=(),
            max_tokens=body.max_tokens,
            temperature=body.temperature,
            top_p=body.top_p,
            stop=stop_sequences_of(body.stop, "stop"),
            seed=body.seed,
        ),
        stream=bool(body.stream),
        usage=bool(body.stream_options and body.stream_options.include_usage),
        ours=replace(extension_of(given, headers), tools="none"),
        continues=True,
        repeats=bool(body.echo),
    )


def _prompt(said: str | list[str | int | list[int]]) -> str:
    items = [said] if isinstance(said, str) else said
    if any(not isinstance(item, str) for item in items):
        refuse_field("prompt", "send text; numbers of tokens mean something else to each model")
    if len(items) != 1:
        refuse_field("prompt", "one text is continued for each request; send one")
    return str(items[0])


class CompletionsWriter(AnswerWriter):
    def __init__(self, id: str, created: int, model: str, asked: GatewayRequest) -> None:
        self._head: dict[str, Any] = {"id": id, "object": "text_completion", "created": created, "model": model}
        self._usage = asked.usage
        texts = (each.text for each in asked.messages if isinstance(each, UserMessage))
        self._echo = "".join(texts) if asked.repeats else ""
        self._text = text_frame(self._chunk(0), b"text")

    def begin(self) -> bytes:
        return self.text(self._echo) if self._echo else b""

    def text(self, piece: str) -> bytes:
        return self._text(piece)

    def finish(self, ended: GatewayOutcome) -> bytes:
        frames = [self._chunk("", REASONS[ended.stop], ended.extension)]
        if self._usage:
            frames.append(self._frame([], {"usage": chat_usage_of(ended.usage)}))
        return b"".join((*frames, DONE))

    def whole(self, ended: GatewayOutcome) -> dict[str, Any]:
        choice = _choice(self._echo + ended.text, REASONS[ended.stop])
        return {**self._head, "choices": [choice], "usage": chat_usage_of(ended.usage), **ended.extension}

    def broken(self, failure: GatewayFailure, run: str) -> bytes:
        return b"data: " + encode(openai_error_body(failure, run)) + b"\n\n" + DONE

    def _chunk(self, text: object, reason: str | None = None, more: dict[str, Any] | None = None) -> bytes:
        return self._frame([_choice(text, reason)], {**({"usage": None} if self._usage else {}), **(more or {})})

    def _frame(self, choices: list[dict[str, Any]], more: dict[str, Any]) -> bytes:
        return b"data: " + encode({**self._head, "choices": choices, **more}) + b"\n\n"


def _choice(text: object, reason: str | None) -> dict[str, Any]:
    return {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
