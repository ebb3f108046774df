"""What a service does itself in a reply: kept, shown, and sent back in its place. From recordings of each wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from handrail.core.events import CitationAdded, MediaAdded, ServiceCallMade
from handrail.core.messages import AssistantMessage, Message, ServiceCall, Text as Said, UserMessage
from handrail.core.model_request import ModelScratch
from handrail.models.openai_responses import OpenAIResponsesCodec
from handrail.models.openai_responses.replay import items_to_send
from handrail.models.profiles import profile_for
from tests.models.anthropic.sdk_checks import accepts as anthropic_accepts
from tests.models.bedrock.botocore_checks import accepts as bedrock_accepts
from tests.models.gemini.sdk_checks import accepts as gemini_accepts
from tests.models.openai_chat.sdk_checks import check_responses
from tests.models.reply_rounds import asked, decoded, end_of, notices_of
from tests.wires.recorded_replies import CODECS, message_of, replied, wire_data

RECORDED = {
    "anthropic": ("citations", "code-execution", "compacted", "mcp", "web-search"),
    "bedrock": ("nova-grounding",),
    "gemini": ("code-execution", "google-search"),
    "openai_chat": ("web-search",),
    "openai_responses": ("code-interpreter", "image-generation", "mcp", "web-search"),
}
"""By wire: recordings that are there whole and streamed."""
WHOLE = {
    "anthropic": ("web-search-error",),
    "gemini": ("image", "server-side-tools", "url-context"),
    "openai_chat": ("openrouter-image",),
    "openai_responses": (
        *("apply-patch", "compaction", "computer", "custom-tool", "file-search", "local-shell"),
        *("mcp-approval", "shell-in-container", "unknown-item"),
    ),
}
"""And those that are there only whole."""


def streamed(wire: str, name: str) -> str:
    return f"{wire}/{name}-stream.{'jsonl' if wire == 'bedrock' else 'sse'}"


PAIRS = [(f"{wire}/{name}.json", streamed(wire, name)) for wire, names in RECORDED.items() for name in names]
NAMES = [*(name for pair in PAIRS for name in pair), *(f"{wire}/{name}.json" for wire in WHOLE for name in WHOLE[wire])]
NOW = UserMessage((Said("And now?"),))


def sent(wire: str, *messages: Message, **settings: Any) -> dict[str, Any]:
    codec, model = CODECS[wire]
    return codec.encode(asked(UserMessage((Said("Go."),)), *messages, **settings), model, stream=False).body


def sent_back(name: str) -> list[dict[str, Any]]:
    """What goes back of a recorded reply, piece by piece."""
    wire = name.partition("/")[0]
    body = sent(wire, message_of(replied(name)), NOW)
    if wire == "openai_responses":
        return list(body["input"][1:-1])
    key, inner = ("contents", "parts") if wire == "gemini" else ("messages", "content")
    return list(body[key][1][inner])


@pytest.mark.parametrize(("whole", "stream"), PAIRS)
def test_a_stream_shows_and_keeps_what_the_whole_reply_does(whole: str, stream: str) -> None:
    assert message_of(replied(stream)) == message_of(replied(whole))
    assert notices_of(replied(stream)) == notices_of(replied(whole))


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("openai_responses/")])
def test_every_item_of_a_response_goes_back_as_it_came_and_in_its_place(name: str) -> None:
    data = wire_data(name)[-1]
    output = data.get("response", data)["output"]
    back = [item for item in sent_back(name) if item.get("type") in {each["type"] for each in output} - {"message"}]
    expected = [item for item in output if item["type"] != "message"]
    if name.endswith("computer.json"):
        expected = []  # nobody made the screenshot that would answer it; and the thought led to it
    assert [item["id"] for item in back] == [item["id"] for item in expected]
    for ours, theirs in zip(back, expected, strict=True):
        lost = theirs.keys() - ours.keys()
        assert lost <= {"status"}, "only a field that the service refuses"
        assert {**theirs, **ours}.keys() == theirs.keys()
        if ours["type"] != "web_search_call":  # whose sources the service does not take back
            assert {**theirs, **ours} == theirs


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("openai_responses/")])
def test_openais_types_take_back_every_reply(name: str) -> None:
    if not name.endswith("unknown-item.json"):
        check_responses(sent("openai_responses", message_of(replied(name)), NOW))


@pytest.mark.parametrize(
    "name", ["anthropic/web-search-stream.sse", "anthropic/citations-stream.sse", "anthropic/code-execution-stream.sse"]
)
def test_anthropics_types_take_back_its_own_calls_and_citations(name: str) -> None:
    assert anthropic_accepts(sent("anthropic", message_of(replied(name)), NOW))


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("gemini/")])
def test_geminis_types_take_back_every_reply(name: str) -> None:
    assert gemini_accepts(sent("gemini", message_of(replied(name)), NOW))


def test_botocore_takes_back_a_grounded_reply() -> None:
    assert bedrock_accepts(sent("bedrock", message_of(replied("bedrock/nova-grounding-stream.jsonl")), NOW))


def test_anthropics_blocks_go_back_in_their_order_with_their_citations() -> None:
    (data,) = wire_data("anthropic/web-search.json")
    first, use, result, *rest = sent_back("anthropic/web-search-stream.sse")
    assert (first["text"], use, result) == (data["content"][0]["text"], *data["content"][1:3])
    assert rest == data["content"][3:]


def test_a_citation_goes_back_without_the_field_that_the_service_refuses() -> None:
    cited = [block for block in sent_back("anthropic/citations.json") if "citations" in block]
    assert [block["text"] for block in cited] == ["the grass is green", "the sky is blue", "water is wet"]
    assert all("file_id" not in each for block in cited for each in block["citations"])


@pytest.mark.parametrize("name", ["anthropic/compacted.json", "anthropic/compacted-stream.sse"])
def test_a_summary_that_anthropic_made_of_the_conversation_goes_back_first(name: str) -> None:
    assert sent_back(name)[0] == {"type": "compaction", "content": "## Summary\nThe user asked about tests."}


def test_geminis_code_and_picture_go_back_as_they_came() -> None:
    (data,) = wire_data("gemini/code-execution.json")
    assert sent_back("gemini/code-execution-stream.sse") == data["candidates"][0]["content"]["parts"]
    (data,) = wire_data("gemini/image.json")
    assert sent_back("gemini/image.json") == data["candidates"][0]["content"]["parts"]


@pytest.mark.parametrize("name", NAMES)
def test_another_service_is_not_sent_them_and_says_so(name: str) -> None:
    message = message_of(replied(name))
    kept = [artefact.data["block"] for artefact in message.artefacts if artefact.data.get("alone")]
    for wire, (codec, model) in CODECS.items():
        if wire == name.partition("/")[0]:
            continue
        request = asked(UserMessage((Said("Go."),)), message, NOW)
        written = codec.encode(request, model, stream=False)
        assert any("they are left out" in notice for notice in written.notices) == bool(kept)
        text = str(written.body)
        assert not any(str(block) in text for block in kept)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("openai_responses/")])
def test_what_one_service_of_responses_sealed_is_not_sent_to_another(name: str) -> None:
    _, model = CODECS["openai_responses"]
    azure = OpenAIResponsesCodec(service="azure at shop.example", profile=profile_for("openai", model))
    message = message_of(replied(name))
    blocks = [artefact.data["block"] for artefact in message.artefacts if "block" in artefact.data]
    written = azure.encode(asked(UserMessage((Said("Go."),)), message, NOW), model, stream=False)

    sealed = [str(block["id"]) for block in blocks if block.get("id")]
    assert not [id for id in sealed if id in str(written.body)]
    assert any("they are left out" in notice for notice in written.notices)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai_responses/web-search-stream.sse", ["([paris.example](https://paris.example/menu))"]),
        ("openai_responses/code-interpreter-stream.sse", ["[Download](sandbox:/mnt/data/sums.txt)"]),
        ("openai_chat/web-search-stream.sse", ["([paris.example](https://paris.example/menu))"]),
        ("anthropic/web-search-stream.sse", ["crème brûlée costs 9 €"]),
        (
            "anthropic/citations-stream.sse",
            ["the grass is green", *["the sky is blue"] * 2, "water is wet"],
        ),
        ("gemini/google-search-stream.sse", ["In Paris a crème brûlée costs 9 €.", *["It is 20 °C there."] * 2]),
        ("gemini/server-side-tools.json", ["The capital is **Paris**."]),
        ("bedrock/nova-grounding-stream.jsonl", ["Crème brûlée costs 9 €."]),
    ],
)
def test_a_citation_names_the_characters_of_the_replys_text(name: str, expected: list[str]) -> None:
    message = message_of(replied(name))
    assert [message.text[each.start : each.end] for each in message.citations] == expected
    assert all(each.url or each.file or each.title for each in message.citations)


def test_a_source_of_no_part_in_particular_has_no_place() -> None:
    (citation,) = message_of(replied("openai_chat/openrouter-web-search-stream.sse")).citations
    assert (citation.url, citation.start, citation.end) == ("https://paris.example/menu", None, None)


def test_a_file_is_cited_by_its_name_and_id() -> None:
    first, second = message_of(replied("openai_responses/file-search.json")).citations
    assert (first.title, first.file, first.start, first.end) == ("ai.pdf", "file-Ebzhf8H4", 30, 30)
    assert second.file == "file-9xQ"
    (made,) = message_of(replied("openai_responses/code-interpreter.json")).citations
    assert (made.title, made.file) == ("sums.txt", "cntr_6903bf2c/cfile_6903bf45")


@pytest.mark.parametrize(
    "name",
    [
        "openai_responses/image-generation-stream.sse",
        "openai_responses/code-interpreter.json",
        "gemini/image.json",
        "openai_chat/openrouter-image.json",
    ],
)
def test_a_picture_that_the_model_made_is_a_part_of_its_message(name: str) -> None:
    (picture,) = message_of(replied(name)).media
    assert picture.media_type == "image/png"
    assert picture.data is not None and picture.data.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai_responses/web-search-stream.sse", [("web_search", False), ("web_search", False)]),
        ("openai_responses/code-interpreter-stream.sse", [("code_interpreter", False)]),
        ("openai_responses/mcp-stream.sse", [("dmcp:list_tools", False), ("dmcp:web_search_exa", False)]),
        ("openai_responses/shell-in-container.json", [("shell", False)]),
        ("openai_responses/image-generation.json", [("image_generation", False)]),
        ("anthropic/web-search-stream.sse", [("web_search", False)]),
        ("anthropic/web-search-error.json", [("web_search", True)]),
        ("anthropic/code-execution-stream.sse", [("bash_code_execution", False)]),
        ("anthropic/mcp-stream.sse", [("echo:echo", False)]),
        ("anthropic/paused-stream.sse", [("web_search", False)]),
        ("gemini/code-execution-stream.sse", [("code_execution", False)]),
        ("gemini/server-side-tools.json", [("file_search", False)]),
        ("gemini/google-search-stream.sse", [("google_search", False)]),
        ("gemini/url-context.json", [("url_context", False)]),
        ("bedrock/nova-grounding-stream.jsonl", [("nova_grounding", False)]),
    ],
)
def test_a_call_that_the_service_ran_is_shown(name: str, expected: list[tuple[str, bool]]) -> None:
    assert [(call.name, call.failed) for call in message_of(replied(name)).service_calls] == expected


def test_a_call_of_the_service_has_its_arguments_and_its_result_without_what_is_sealed() -> None:
    (call,) = message_of(replied("anthropic/web-search-stream.sse")).service_calls
    page = {"type": "web_search_result", "title": "Menu", "url": "https://paris.example/menu", "page_age": None}
    arguments = {"query": "crème brûlée price"}
    assert call == ServiceCall(id="srvtoolu_01Qx", name="web_search", arguments=arguments, result=[page])
    (call,) = message_of(replied("openai_responses/shell-in-container.json")).service_calls
    assert call.result[0]["stdout"] == "Linux\n"


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("openai_responses/local-shell.json", "local_shell_call_output"),
        ("openai_responses/custom-tool.json", "custom_tool_call_output"),
        ("openai_responses/apply-patch.json", "apply_patch_call_output"),
        ("openai_responses/mcp-approval.json", "mcp_approval_response"),
    ],
)
def test_a_call_that_the_service_leaves_to_the_program_is_answered_as_not_run(name: str, output: str) -> None:
    events = replied(name)
    assert len(notices_of(events)) == 1
    assert not any(isinstance(event, ServiceCallMade) for event in events if output != "mcp_approval_response")
    assert sent_back(name)[-1]["type"] == output


def test_an_item_of_an_unknown_kind_is_noticed_and_kept() -> None:
    (notice,) = notices_of(replied("openai_responses/unknown-item.json"))
    assert "hologram_projection" in notice


ITEMS: dict[str, dict[str, Any]] = {
    "reasoning": {"type": "reasoning", "id": "rs", "encrypted_content": "x", "summary": []},
    "web_search_call": {"type": "web_search_call", "id": "ws", "action": {"type": "search"}, "status": "completed"},
    "computer_call": {"type": "computer_call", "id": "cu", "call_id": "c"},
    "tool_search_call": {"type": "tool_search_call", "id": "ts"},
    "text": {"role": "assistant", "content": "Hello."},
}


@given(st.lists(st.sampled_from(sorted(ITEMS)), max_size=8))
def test_a_thought_never_goes_back_without_the_item_that_it_led_to(kinds: list[str]) -> None:
    items = [{**ITEMS[kind], "at": at} for at, kind in enumerate(kinds)]
    back = items_to_send(items, ("tool_search_call",), [])
    for at, item in enumerate(back):
        if item.get("type") == "reasoning":
            after = next(each for each in items[item["at"] + 1 :] if each.get("type") != "reasoning")
            assert after in back[at + 1 :]


def test_a_paused_call_goes_back_while_the_reply_goes_on_and_not_after_the_user_spoke() -> None:
    paused = message_of(replied("anthropic/paused-stream.sse"))
    assert sent("anthropic", paused)["messages"][-1]["content"][-1]["type"] == "server_tool_use"
    codec, model = CODECS["anthropic"]
    written = codec.encode(asked(UserMessage((Said("Go."),)), paused, NOW), model, stream=False)
    assert [block["type"] for block in written.body["messages"][1]["content"]] == ["text"]
    assert any("did not finish a call" in notice for notice in written.notices)


def test_a_reply_that_goes_on_after_a_pause_keeps_each_block_in_its_place() -> None:
    paused, resumed = (
        message_of(replied("anthropic/paused-stream.sse")),
        message_of(replied("anthropic/web-search-error.json")),
    )
    result = [artefact for artefact in resumed.artefacts if artefact.data["block"]["type"] != "server_tool_use"]
    blocks = sent("anthropic", paused, replace(resumed, artefacts=tuple(result)), NOW)["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["text", "server_tool_use", "web_search_tool_result", "text"]


def test_the_container_of_the_last_reply_is_used_again_unless_it_expired() -> None:
    ran = message_of(replied("anthropic/code-execution-stream.sse"))
    tools = ({"type": "code_execution_20250825", "name": "code_execution"},)
    assert sent("anthropic", ran, NOW, builtin_tools=tools)["container"] == "container_011CUJ"
    assert "container" not in sent("anthropic", ran, NOW)
    late = replace(NOW, at=1_760_959_495_000)
    assert "container" not in sent("anthropic", ran, late, builtin_tools=tools)
    early = replace(NOW, at=1_760_959_400_000)
    assert sent("anthropic", ran, early, builtin_tools=tools)["container"] == "container_011CUJ"
    skills = {"container": {"skills": [{"type": "anthropic", "skill_id": "pptx"}]}}
    assert sent("anthropic", ran, NOW, builtin_tools=tools, extra=skills)["container"] == {
        "id": "container_011CUJ",
        **skills["container"],
    }


@given(st.text(max_size=30), st.text(min_size=1, max_size=30), st.text(max_size=30))
def test_geminis_bytes_become_characters_whatever_the_text(before: str, cited: str, after: str) -> None:
    codec, _ = CODECS["gemini"]
    first = len(before.encode("utf-8", "surrogatepass"))
    segment = {"startIndex": first, "endIndex": first + len(cited.encode("utf-8", "surrogatepass")), "text": cited}
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a.example"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }
    parts = [{"text": before + cited + after}]
    candidate = {"content": {"parts": parts}, "finishReason": "STOP", "groundingMetadata": grounding}
    decoder = codec.decoder(asked())
    events = [*decoder.feed({"candidates": [candidate]}), *decoder.finish()]
    (citation,) = (event.citation for event in events if isinstance(event, CitationAdded))
    assert (citation.start, citation.end) == (len(before), len(before) + len(cited))


def test_a_picture_alone_is_worth_sending_back() -> None:
    events = replied("gemini/image.json")
    assert any(isinstance(event, MediaAdded) for event in events)
    assert end_of(events).artefacts
    assert sent("gemini", AssistantMessage(artefacts=end_of(events).artefacts), NOW)["contents"][1]["role"] == "model"


@pytest.mark.parametrize("wire", sorted(CODECS))
def test_a_long_run_sends_and_notices_the_same_as_a_request_without_memory(wire: str) -> None:
    codec, model = CODECS[wire]
    scratch = ModelScratch()
    messages: tuple[Message, ...] = ()
    for turn in range(3):
        for name in NAMES:
            messages = (*messages, UserMessage((Said(f"{turn} {name}"),)), message_of(replied(name)))
        request = asked(*messages, NOW, scratch=scratch)
        remembered = codec.encode(request, model, stream=False)
        afresh = codec.encode(replace(request, scratch=None), model, stream=False)
        assert remembered.text() == afresh.text()
        assert sorted(remembered.notices) == sorted(afresh.notices)


def changed(value: Any, fields: Mapping[str, Any]) -> Any:
    """The same with other values in these fields, wherever they stand."""
    match value:
        case dict():
            return {key: fields.get(key, changed(item, fields)) for key, item in value.items()}
        case list():
            return [changed(item, fields) for item in value]
    return value


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("gemini/image.json", {"data": "Bäume"}),
        ("openai_chat/openrouter-image.json", {"url": "data:image/png;base64,Bäume"}),
        ("openai_responses/image-generation.json", {"result": "Bäume"}),
    ],
)
def test_a_picture_that_is_not_in_base64_is_a_notice_and_the_reply_goes_on(name: str, fields: dict[str, str]) -> None:
    codec, _ = CODECS[name.partition("/")[0]]
    events = decoded(codec, [changed(data, fields) for data in wire_data(name)])

    assert any("not in base64" in notice for notice in notices_of(events))
    assert not any(isinstance(event, MediaAdded) for event in events)
    assert end_of(events).stop == "end"


@pytest.mark.parametrize("name", ["openai_chat/web-search.json", "openai_responses/web-search.json"])
@pytest.mark.parametrize("place", [10**30, 2**63, -1])
def test_a_citation_of_a_place_that_no_text_has_can_be_recorded_and_names_none(name: str, place: int) -> None:
    codec, _ = CODECS[name.partition("/")[0]]
    wire = [changed(data, {"start_index": place, "end_index": place}) for data in wire_data(name)]
    found = [event.citation for event in decoded(codec, wire) if isinstance(event, CitationAdded)]

    assert found and all((each.start, each.end) == (None, None) for each in found)
    assert msgspec.json.encode(found)
