"""Grammars and schemas of whole calls: what they let a model write is read back as a call that fits."""

from __future__ import annotations

import json
import random

import pytest

from handrail.core.errors import UsageError
from handrail.core.messages import Conversation
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.models.grammar.call_grammar import call_schema, tool_call_grammar
from handrail.models.grammar.server_fields import Server, schema_fields, tool_call_fields
from handrail.models.prompted.formats import FORMATS, format_named
from handrail.tools.schema.validator import Validator
from tests.models.grammar.grammar_walk import walk
from tests.models.prompted.text_codec import SEARCH, TOOLS, WEATHER, calls_of, events

TREE = ToolOffer(
    "plant",
    "",
    {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "required": ["tree"],
        "$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}},
    },
)


@pytest.mark.requirement("hearthnet.backends.grammar")
@pytest.mark.parametrize("format", sorted(FORMATS))
def test_every_call_that_the_grammar_lets_through_is_read_and_fits_its_schema(format: str) -> None:
    tools = (*TOOLS, TREE)
    grammar = tool_call_grammar(tools, format, parallel=False)
    schemas = {tool.name: Validator(tool.input_schema, tool.name) for tool in tools}

    for seed in range(60):
        text = walk(grammar, random.Random(seed))
        (call,) = calls_of(events(format, [text], *tools))
        assert schemas[call.name].problems(json.loads(str(call.arguments))) == []


def test_several_calls_are_let_through_only_if_they_are_wanted() -> None:
    several = tool_call_grammar(TOOLS, "hermes")
    lengths = {len(calls_of(events("hermes", [walk(several, random.Random(seed))]))) for seed in range(60)}

    assert max(lengths) > 1


def test_text_instead_of_a_call_is_let_through_if_it_is_allowed_and_can_be_told_apart() -> None:
    grammar = tool_call_grammar(TOOLS, "hermes", words=True)
    found = [len(calls_of(events("hermes", [walk(grammar, random.Random(seed))]))) for seed in range(60)]

    assert 0 in found and max(found) > 0
    with pytest.raises(UsageError):
        tool_call_grammar(TOOLS, "react", words=True)
    with pytest.raises(UsageError):
        tool_call_grammar((), "hermes")


def test_one_schema_of_all_calls_keeps_references_within_each_tool() -> None:
    validator = Validator(call_schema((WEATHER, TREE)), "calls")

    assert validator.problems({"name": "plant", "arguments": {"tree": {"next": {"next": {}}}}}) == []
    assert validator.problems({"name": "plant", "arguments": {"tree": {"next": 1}}}) != []
    assert validator.problems({"name": "get_weather", "arguments": {"tree": {}}}) != []


def asked(choice: ToolChoice) -> ModelRequest:
    return ModelRequest(messages=Conversation().say("x").messages, tools=TOOLS, tool_choice=choice)


@pytest.mark.parametrize(
    ("server", "format", "choice", "fields"),
    [
        ("llama.cpp", "hermes", "required", ["grammar"]),
        ("llama.cpp", "hermes", "auto", ["grammar"]),
        ("llama.cpp", "react", "auto", []),
        ("vllm", "hermes", "required", ["structured_outputs"]),
        ("vllm", "hermes", "auto", ["structured_outputs"]),
        ("ollama", "json", "required", ["format"]),
        ("ollama", "json", "auto", []),
        ("openai", "json", NamedTool("search"), ["response_format"]),
        ("openai", "hermes", "auto", []),
        ("llama.cpp", "hermes", "none", []),
    ],
)
def test_each_server_is_held_by_the_fields_that_it_takes(
    server: Server, format: str, choice: ToolChoice, fields: list[str]
) -> None:
    constraint = tool_call_fields(asked(choice), format_named(format), server)

    assert list(constraint.fields) == fields
    assert constraint.notices == ()


def test_a_choice_that_a_server_cannot_be_held_to_comes_with_a_notice() -> None:
    assert tool_call_fields(asked("required"), format_named("hermes"), "ollama").notices != ()
    assert tool_call_fields(asked("required"), format_named("hermes"), None).notices != ()


def test_what_the_grammar_does_not_enforce_comes_with_a_notice() -> None:
    tool = ToolOffer("f", "", {"type": "object", "properties": {"n": {"type": "number", "minimum": 1}}})
    request = ModelRequest(messages=(), tools=(tool,), tool_choice="required")

    (notice,) = tool_call_fields(request, format_named("hermes"), "llama.cpp").notices

    assert "f/n: minimum" in notice


def test_vllm_gets_a_structural_tag_that_lets_text_be() -> None:
    fields = tool_call_fields(asked("auto"), format_named("hermes"), "vllm").fields
    tag = json.loads(fields["structured_outputs"]["structural_tag"])

    assert tag["triggers"] == ['<tool_call>\n{"name": "']
    assert tag["structures"][1] == {
        "begin": '<tool_call>\n{"name": "search", "arguments": ',
        "schema": SEARCH.input_schema,
        "end": "}\n</tool_call>",
    }


@pytest.mark.parametrize(
    ("server", "fields"),
    [
        ("llama.cpp", {"json_schema": {}}),
        ("vllm", {"structured_outputs": {"json": {}}}),
        ("ollama", {"format": {}}),
        ("openai", {"response_format": {"type": "json_schema",
                                        "json_schema": {"name": "reply", "schema": {}, "strict": True}}}),
    ],
)  # fmt: skip
def test_a_server_that_reads_schemas_is_given_the_schema(server: Server, fields: dict[str, object]) -> None:
    assert schema_fields({}, server) == fields
