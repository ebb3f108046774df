"""A model behind a node: what its service adds to a reply arrives whole, by every way to a node, and within bounds."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail import CapabilityBus, Conversation, Executor, Runner
from handrail.core.errors import ProtocolError
from handrail.core.events import CitationAdded, MediaAdded, ModelEvent, Notice, ServiceCallMade
from handrail.core.messages import AssistantMessage, Citation, Media, ServiceCall
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.chat.frames import LARGEST_MEDIA, ChatFrameReader, ChatFrameWriter
from handrail.node.chat.model import BusModel
from handrail.node.chat.schema import RESPONSE, STREAM
from handrail.node.services.llm import LlmService
from handrail.testing.model import ScriptedModel, text
from handrail.tools.schema.validator import Validator
from tests.node.bus.transports import TRANSPORTS

PICTURE = bytes(range(256)) * 12_000
"""3 MB."""
CITED = Citation(url="https://a.example/", title="A", quote="so it is", start=0, end=3)
DRAWN = Media(media_type="image/png", data=PICTURE, name="a.png")
ELSEWHERE = Media(media_type="image/png", url="https://b.example/b.png")
SEARCHED = ServiceCall(id="ws_1", name="web_search", arguments={"query": "a"}, result={"hits": [1, None]})
FAILED = ServiceCall(id="ci_1", name="code_interpreter", failed=True)

_TEXT = st.text(max_size=20)
_JSON = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | _TEXT, lambda each: st.lists(each, max_size=2))
_PLACE = st.none() | st.integers(0, 9)
_EXTRAS: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        CitationAdded, citation=st.builds(Citation, url=_TEXT, title=_TEXT, quote=_TEXT, start=_PLACE, end=_PLACE)
    ),
    st.builds(MediaAdded, media=st.builds(Media, media_type=_TEXT, name=_TEXT, data=st.binary())),
    st.builds(
        ServiceCallMade,
        call=st.builds(ServiceCall, id=_TEXT, name=_TEXT, arguments=_JSON, result=_JSON, failed=st.booleans()),
    ),
)


def replying() -> ScriptedModel:
    events: list[ModelEvent] = [ServiceCallMade(call=SEARCHED), ServiceCallMade(call=FAILED), text("So.")]
    return ScriptedModel([*events, CitationAdded(citation=CITED), MediaAdded(media=DRAWN), MediaAdded(media=ELSEWHERE)])


@pytest.mark.parametrize("way", TRANSPORTS)
async def test_a_reply_of_a_model_behind_a_node_is_recorded_with_all_that_its_service_added(way: str) -> None:
    async with CapabilityBus() as node:
        node.register_service(LlmService({"m": replying()}))
        async with TRANSPORTS[way](node) as bus, Executor([]) as executor:
            ended = await Runner(BusModel(bus, {"model": "m"}), executor).run(Conversation().say("?"))

    said = ended.messages[-1]
    assert isinstance(said, AssistantMessage)
    assert (said.citations, said.media, said.service_calls) == ((CITED,), (DRAWN, ELSEWHERE), (SEARCHED, FAILED))


async def test_a_response_without_a_stream_has_them_in_its_message() -> None:
    body = {"params": {"model": "m"}, "input": {"messages": [{"role": "user", "content": "?"}], "stream": False}}
    async with CapabilityBus() as node:
        node.register_service(LlmService({"m": replying()}))
        output = (await node.call("llm.chat", (2, 0), body))["output"]

    message = output["message"]
    assert [len(message[name]) for name in ("citations", "media", "service_calls")] == [1, 2, 2]
    assert Validator(RESPONSE, "the response").problems(output) == []


@given(_EXTRAS)
def test_what_is_written_fits_the_schema_of_its_frame_and_is_read_as_the_same(event: ModelEvent) -> None:
    ((name, data),) = ChatFrameWriter().frames(event)

    assert Validator(STREAM[name], name).problems(data) == []
    assert list(ChatFrameReader().events(StreamFrame(name, data))) == [event]


def test_a_file_that_is_too_large_for_the_bus_is_left_out_with_a_notice() -> None:
    huge = MediaAdded(media=Media(media_type="video/mp4", data=bytes(LARGEST_MEDIA + 1)))

    ((name, data),) = ChatFrameWriter().frames(huge)

    assert name == "notice"
    assert "video/mp4" in data["text"] and f"{LARGEST_MEDIA:,}" in data["text"]


def test_a_result_that_is_too_large_for_the_bus_is_left_out_with_a_notice() -> None:
    made = ServiceCall(id="1", name="web_search", arguments={"q": 1}, result="x" * 2_000_000)

    (call, notice) = ChatFrameWriter().frames(ServiceCallMade(call=made))

    assert call == ("service_call", {"id": "1", "name": "web_search", "arguments": {"q": 1}})
    assert "the result of web_search" in notice[1]["text"]


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("citation", {"url": 5}),
        ("citation", {"start": "0"}),
        ("media", {}),
        ("media", {"media_type": "image/png", "data": "no base64!"}),
        ("service_call", {"name": "x"}),
    ],
)
def test_a_frame_that_cannot_be_read_is_a_broken_protocol(event: str, data: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match=f"'{event}' frame"):
        list(ChatFrameReader().events(StreamFrame(event, data)))


def test_a_node_cannot_send_more_than_the_most() -> None:
    data = {"media_type": "video/mp4", "data": base64.b64encode(bytes(LARGEST_MEDIA + 1)).decode()}

    (heard,) = ChatFrameReader().events(StreamFrame("media", data))

    assert isinstance(heard, Notice)
