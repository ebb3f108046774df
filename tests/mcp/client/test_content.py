"""What a server sends back, as values of ours."""

from __future__ import annotations

import base64
from typing import Any

import mcp_types
import pytest
from hypothesis import given, strategies as st

from handrail import Attachment, Output, ToolError
from handrail.core.errors import InvalidOutput, UsageError
from handrail.mcp.client.content import decode_base64, output_of

WORDS = {"type": "text", "text": "two kilos"}
IMAGE = {"type": "image", "data": base64.b64encode(b"\x89PNG").decode(), "mimeType": "image/png"}
SOUND = {"type": "audio", "data": base64.b64encode(b"RIFF").decode(), "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "shop://a", "name": "a", "mimeType": "text/plain", "description": "apples"}
PAGE = {"type": "resource", "resource": {"uri": "shop://b", "text": "pears", "mimeType": "text/markdown"}}
FILE = {"type": "resource", "resource": {"uri": "shop://c", "blob": base64.b64encode(b"\x00").decode()}}


def result(*content: dict[str, Any], **facts: Any) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult.model_validate({"content": list(content), **facts})


def test_one_text_is_itself_and_several_are_lines() -> None:
    assert output_of(result(WORDS), structured=False) == Output("two kilos")
    assert output_of(result(WORDS, WORDS), structured=False) == Output("two kilos\ntwo kilos")
    assert output_of(result(), structured=False) == Output("")


def test_pictures_and_sounds_are_attachments() -> None:
    assert output_of(result(WORDS, IMAGE, SOUND), structured=False) == Output(
        "two kilos",
        attachments=(
            Attachment("image-1.png", "image/png", b"\x89PNG"),
            Attachment("audio-2.wav", "audio/wav", b"RIFF"),
        ),
    )


def test_resources_are_text_with_their_address_or_attachments() -> None:
    output = output_of(result(LINK, PAGE, FILE), structured=False)
    assert output.output == "[resource shop://a] a (text/plain, apples)\n[resource shop://b]\npears"
    assert output.attachments == (Attachment("shop://c", "application/octet-stream", b"\x00"),)


def test_structured_content_is_the_value_and_what_it_does_not_say_is_kept_beside_it() -> None:
    output = output_of(result(WORDS, LINK, PAGE, IMAGE, structuredContent={"kg": 2}), structured=True)
    assert output.output == {"kg": 2}
    assert output.attachments == (
        Attachment("a", "text/uri-list", b"shop://a"),
        Attachment("shop://b", "text/markdown", b"pears"),
        Attachment("image-3.png", "image/png", b"\x89PNG"),
    )


@pytest.mark.parametrize("value", [None, 0, "", [], {}, {"output": 1}])
def test_any_json_value_is_structured_content_and_is_given_as_it_is(value: Any) -> None:
    assert output_of(result(WORDS, structuredContent=value), structured=True).output == value


def test_a_promise_of_structure_is_held() -> None:
    with pytest.raises(InvalidOutput, match="no structured content"):
        output_of(result(WORDS), structured=True)


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        (result(WORDS, isError=True), "two kilos"),
        (result(isError=True), "the server says that it failed, and nothing else"),
        (result(isError=True, structuredContent={"why": 1}), '{"why":1}'),
        (result(PAGE, isError=True), "[resource shop://b]\npears"),
    ],
)
def test_a_failure_has_the_servers_words_and_needs_no_structure(failed: mcp_types.CallToolResult, words: str) -> None:
    with pytest.raises(ToolError) as raised:
        output_of(failed, structured=True)
    assert (raised.value.code, raised.value.message) == ("failed", words)


def test_what_is_not_base64_is_left_out_and_said() -> None:
    output = output_of(result(WORDS, {**IMAGE, "data": "n!"}), structured=False)
    assert (output.output, output.attachments) == ("two kilos", ())
    assert output.warnings == ("image-1.png was left out: it is not valid base64",)


@given(st.binary())
def test_any_bytes_arrive_as_they_were_sent(data: bytes) -> None:
    sent = {**IMAGE, "data": base64.b64encode(data).decode()}
    (attachment,) = output_of(result(sent), structured=False).attachments
    assert attachment.data == data


@given(st.text())
def test_any_text_is_base64_or_refused(text: str) -> None:
    try:
        data = decode_base64(text)
    except UsageError as error:
        assert str(error) == "it is not valid base64"
    else:
        assert base64.b64decode(base64.b64encode(data)) == data == base64.b64decode(text)


@given(st.lists(st.text()), st.booleans())
def test_any_texts_are_read_in_their_order(texts: list[str], failed: bool) -> None:
    given = result(*({"type": "text", "text": text} for text in texts), isError=failed)
    try:
        assert output_of(given, structured=False).output == "\n".join(texts)
    except ToolError as error:
        assert failed
        assert not any(texts) or error.message == "\n".join(texts)
