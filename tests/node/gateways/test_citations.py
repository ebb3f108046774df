"""The official clients get the sources of an answer in the form of their own API."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from handrail.core.events import CitationAdded
from handrail.core.messages import Citation
from handrail.node.gateways.anthropic.write import cited_text_blocks
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import finished, scene

HELLO: Any = [{"role": "user", "content": "Hello"}]
MENU = Citation(url="https://paris.example/menu", title="Menu", quote="9 €", start=3, end=10)
REPLIES = (
    [text("Let me see."), call("add", a=1, b=2), finished("tool_calls")],
    [text("It costs 9 €."), CitationAdded(citation=MENU), finished()],
)


async def test_openais_client_gets_them_as_annotations_of_the_whole_answer() -> None:
    async with scene(ScriptedModel(*REPLIES, *REPLIES)) as there:
        client = there.openai()
        whole = await client.chat.completions.create(model="m", messages=HELLO)
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
        chunks = [chunk async for chunk in stream]
    message = whole.choices[0].message
    (annotation,) = message.annotations or []
    found = annotation.url_citation
    assert (found.url, found.title) == (MENU.url, MENU.title)
    assert (message.content or "")[found.start_index : found.end_index] == "costs 9"
    deltas = [chunk.choices[0].delta.model_dump().get("annotations") for chunk in chunks if chunk.choices]
    assert [each for each in deltas if each] == [[annotation.model_dump()]]


async def test_anthropics_client_gets_them_on_blocks_of_text() -> None:
    async with scene(ScriptedModel(*REPLIES, *REPLIES)) as there:
        client = there.anthropic()
        asked: Any = {"model": "m", "max_tokens": 50, "messages": HELLO}
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
    blocks = [block.model_dump() for block in whole.content]
    assert [block["text"] for block in blocks] == ["Let me see.\n\nIt ", "costs 9", " €."]
    (source,) = blocks[1]["citations"]
    assert (source["source"], source["title"], source["cited_text"]) == (MENU.url, MENU.title, MENU.quote)
    assert streamed.content[0].model_dump()["citations"] == [source]


async def test_a_source_whose_range_has_no_end_or_a_wrong_one_does_not_cost_the_answer() -> None:
    odd = [Citation(url="u", start=start, end=end) for start, end in ((3, None), (3, 5), (-2, -1), (9, 2))]
    model = ScriptedModel([text("It costs."), *(CitationAdded(citation=each) for each in odd), finished()])
    async with scene(model) as there:
        said: Any = await there.anthropic().messages.create(model="m", max_tokens=50, messages=HELLO)
    assert "".join(block.text for block in said.content) == "It costs."


places = st.tuples(st.integers(-3, 20), st.none() | st.integers(-3, 20))


@given(st.text(max_size=20), st.lists(places, max_size=5))
def test_the_blocks_of_an_answer_are_its_text_whatever_is_cited(
    answer: str, ranges: list[tuple[int, int | None]]
) -> None:
    citations = [Citation(url="u", start=start, end=end) for start, end in ranges]
    blocks = cited_text_blocks(answer, citations)
    assert "".join(block["text"] for block in blocks) == answer
    assert all(block["text"] for block in blocks)
