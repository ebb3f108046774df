"""Anthropic's models on Vertex AI: the model is in the address, and the version in the body."""

from __future__ import annotations

import json

from handrail.models.anthropic import AnthropicCodec, VertexAnthropicCodec
from tests.models.reply_rounds import WEATHER, asked

MODEL = "claude-sonnet-4-5@20250929"
VERSION = "vertex-2023-10-16"


def test_a_request_is_the_same_but_for_its_address_and_version() -> None:
    request = asked(tools=(WEATHER,))
    there = VertexAnthropicCodec().encode(request, MODEL, stream=True)
    plain = json.loads(AnthropicCodec().encode(request, MODEL, stream=True).text())

    assert there.path == f"/models/{MODEL}:streamRawPredict"
    assert plain.pop("model") == MODEL
    assert json.loads(there.text()) == {"anthropic_version": VERSION, **plain}


def test_tokens_are_counted_at_an_address_of_its_own() -> None:
    counting = VertexAnthropicCodec().encode_count(asked(), MODEL)

    assert counting.path == "/models/count-tokens:rawPredict"
    assert (counting.body["anthropic_version"], counting.body["model"]) == (VERSION, MODEL)
