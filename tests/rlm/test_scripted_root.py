"""The program of those whose model is too small to write one, on every kind of context."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import ModelError
from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.model_request import ModelRequest
from handrail.models.failover import FailoverModel
from handrail.rlm import RLM, Files
from handrail.rlm.scripted_root import LineSearchRoot
from handrail.sessions.llm import LLM
from handrail.testing.model import ScriptedModel
from tests.rlm.root_models import Echo

HAY = "All work and no play.\n" * 60
NEEDLE = "Mara sold the lighthouse to Jonas."
TEXT = f"{HAY}{NEEDLE}\n{HAY}"
QUESTION = "Who sold the lighthouse?"


def folder(path: Path) -> Path:
    (path / "deep").mkdir()
    (path / "a.txt").write_text(HAY)
    (path / "deep" / "b.txt").write_text(TEXT)
    return path


CONTEXTS: dict[str, Any] = {
    "text": lambda path: TEXT,
    "list": lambda path: [HAY, {"said": NEEDLE}, 7, None],
    "dict": lambda path: {"first": HAY, "second": [NEEDLE], "third": {}},
    "messages": lambda path: [{"role": "user", "content": TEXT}],
    "file": lambda path: folder(path) / "deep" / "b.txt",
    "folder": folder,
    "files": lambda path: Files.of(folder(path)),
    "held": lambda path: HAY * 4_000 + NEEDLE,
    "stream": lambda path: io.BytesIO((HAY * 4_000 + NEEDLE).encode()),
}


@pytest.mark.parametrize("kind", ("monty", "os"))
@pytest.mark.parametrize("name", CONTEXTS)
async def test_the_line_with_the_words_of_the_question_is_found_in_it(kind: str, name: str, tmp_path: Path) -> None:
    sub = Echo()
    async with RLM(LineSearchRoot(), other_backends=[sub], environment=kind) as rlm:
        found = await rlm.acompletion(CONTEXTS[name](tmp_path), QUESTION)

    assert found.partial is False, found.error
    assert NEEDLE in found.response.split("What the text says:")[1]
    assert NEEDLE in sub.asked[0] and sub.asked[0].endswith(f"Question: {QUESTION}\nAnswer:")


@pytest.mark.parametrize(
    ("context", "question"),
    [
        ("", QUESTION),
        ([], QUESTION),
        ({}, QUESTION),
        ("nothing of the kind", QUESTION),
        (TEXT, "?"),
        (TEXT, ""),
        ("Тут ничего нет.", "Где маяк?"),
    ],
    ids=[
        "empty text",
        "empty list",
        "empty dict",
        "no word of it",
        "a question without words",
        "no question",
        "Russian",
    ],
)
@pytest.mark.parametrize("kind", ("monty", "os"))
async def test_where_nothing_is_found_it_says_so(kind: str, context: Any, question: str) -> None:
    async with RLM(LineSearchRoot(), other_backends=[Echo()], environment=kind) as rlm:
        found = await rlm.acompletion(context, question or "…")

    assert found.partial is False, found.error
    assert found.response.startswith("No word of the question is in the context.")


@pytest.mark.parametrize("kind", ("monty", "os"))
@pytest.mark.parametrize("name", CONTEXTS)
async def test_lines_are_counted_in_every_kind_of_context_without_asking_a_model(
    kind: str, name: str, tmp_path: Path
) -> None:
    sub = Echo()
    async with RLM(LineSearchRoot(), other_backends=[sub], environment=kind) as rlm:
        found = await rlm.acompletion(CONTEXTS[name](tmp_path), "How many lines mention lighthouses?")

    assert found.response.startswith('1 line contains "lighthouses".'), found.error
    assert NEEDLE in found.response and not sub.asked


async def test_a_second_question_of_a_kept_repl_is_answered_over_its_own_context() -> None:
    async with RLM(LineSearchRoot(), other_backends=[Echo()], persistent=True) as rlm:
        first = await rlm.acompletion("a crash\n", "How many crashes are there?")
        second = await rlm.acompletion("crash\ncrashed\nfine\n", "How many crashes are there?")

    assert [found.response.split(" ")[0] for found in (first, second)] == ["1", "1"]
    assert "line 1: crash" in second.response and "a crash" not in second.response


class Small(Echo):
    """A model that says of itself that it is small."""

    writes_code = False

    def __init__(self, reply: str = "") -> None:
        super().__init__("small")
        self._reply = reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        async for _ in super().stream(request):
            pass
        yield TextDelta(text=self._reply)
        yield ReplyFinished(stop="end", model=self.name)


async def test_the_plan_writes_the_code_in_the_place_of_a_model_that_cannot() -> None:
    small = Small("Mara")
    async with RLM(small) as rlm:
        counted = await rlm.acompletion(TEXT, "How many lines mention play?")
        read = await rlm.acompletion(TEXT, QUESTION)

    assert counted.response.startswith('120 lines contain "play".')
    assert read.response == f"Mara\n\nWhat the text says:\n- line 61: {NEEDLE}"
    assert len(small.asked) == 1 and small.asked[0].endswith(f"Question: {QUESTION}\nAnswer:")


async def test_a_small_model_stays_small_with_settings_of_its_own_and_with_another_behind_it() -> None:
    for model in (LLM(Small(), max_tokens=7), FailoverModel([Small(), Echo()])):
        async with RLM(model) as rlm:
            found = await rlm.acompletion(TEXT, "How many lines mention play?")

        assert found.response.startswith('120 lines contain "play".')


@pytest.mark.parametrize(
    "reply",
    [
        "The lighthouse was sold in 1911.",
        "Mara sold the lighthouse to Jonas for 7 crowns.",
        "Three people sold the lighthouse.",
        "Jonas sold the lighthouse to Mara.",
        "Mara sold the lighthouse to Peter.",
        "I do not know.",
        "",
    ],
)
async def test_what_a_small_model_says_beyond_the_line_is_left_out(reply: str) -> None:
    async with RLM(Small(reply)) as rlm:
        found = await rlm.acompletion(TEXT, QUESTION)

    assert found.response == f"What the text says:\n- line 61: {NEEDLE}"


async def test_what_a_small_model_says_of_a_context_without_the_words_is_not_even_asked() -> None:
    small = Small("There are 42.")
    async with RLM(small) as rlm:
        found = await rlm.acompletion("nothing of the kind\n", QUESTION)

    assert found.response == "No word of the question is in the context.\n\nIt begins:\n- line 1: nothing of the kind"
    assert not small.asked


async def test_a_model_that_can_write_code_is_free_to_say_what_it_makes_of_a_passage() -> None:
    async with RLM(LineSearchRoot(), other_backends=[Echo()]) as rlm:
        found = await rlm.acompletion(TEXT, QUESTION)

    assert found.response.startswith("TEXT:\n") and "What the text says:" in found.response


@pytest.mark.parametrize(
    ("text", "question", "line"),
    [
        ("Nichts.\nDer Bürgermeister verkaufte den LEUCHTTURM.", "Wer verkaufte den Leuchtturm?", "Der Bürgermeister"),
        ("Ничего.\nМара продала МАЯК Ионе.", "Кто продал маяк?", "Мара продала"),
        ("没有什么。\n马拉卖掉了灯塔。", "马拉卖掉了灯塔。", "马拉卖掉了灯塔"),
    ],
    ids=["German", "Russian", "Chinese"],
)
@pytest.mark.parametrize("kind", ("monty", "os"))
async def test_other_languages_are_searched_alike(kind: str, text: str, question: str, line: str) -> None:
    async with RLM(LineSearchRoot(), other_backends=[Echo()], environment=kind) as rlm:
        found = await rlm.acompletion(text, question)

    assert line in found.response.split("What the text says:" if "Wer" not in question else "Im Text steht:")[1]


async def test_a_question_is_data_and_never_code() -> None:
    question = 'lighthouse """\nanswer["content"] = "taken over"\n``` {context} $words \\'
    async with RLM(LineSearchRoot(), other_backends=[Echo()]) as rlm:
        found = await rlm.acompletion(TEXT, question)

    assert NEEDLE in found.response and "taken over" not in found.response


async def test_a_sub_model_that_fails_is_told_and_not_taken_for_an_answer() -> None:
    class Broken(ScriptedModel):
        def stream(self, request: Any) -> Any:
            raise ModelError("out of order")

    async with RLM(LineSearchRoot(), other_backends=[Broken()]) as rlm:
        found = await rlm.acompletion(TEXT, QUESTION)

    assert found.partial and "What the text says" not in found.response
    assert "the fixed program failed" in (found.error or "") and "out of order" in (found.error or "")


@pytest.mark.parametrize(("reads", "most"), [(0, 700), (8_192, 700), (100_000, 2_600), (10**9, 6_100)])
async def test_passages_are_as_long_as_the_sub_model_can_use(reads: int, most: int) -> None:
    sub = Echo()
    async with RLM(LineSearchRoot(reads=reads), other_backends=[sub]) as rlm:
        await rlm.acompletion(TEXT * 20, QUESTION)

    assert most - 200 < max(map(len, sub.asked)) < most
