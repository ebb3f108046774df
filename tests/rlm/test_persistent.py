"""One REPL for several questions."""

from __future__ import annotations

import pytest

from handrail.core.errors import UsageError
from handrail.rlm import RLM
from tests.rlm.rooted import Echo, Root, ready, repl


@pytest.mark.parametrize("kind", ("process", "monty"))
async def test_variables_contexts_and_what_was_said_stay(kind: str) -> None:
    code = "print(found, context_0, context_1, context, history_0[0]['role'], answer)"
    root = Root(repl("found = 7", 'FINAL("one")'))
    async with RLM(root, environment=kind, persistent=True) as rlm:
        first = await rlm.acompletion("first context", "first question")
        root._replies = (repl(code), ready("'two'"))
        second = await rlm.acompletion("second context", "second question")

    assert (first.response, second.response) == ("one", "two")
    assert first.run == second.run
    assert "7 first context second context first context user {'content': '', 'ready': False}" in root.read(2)
    assert "first question" not in root.read(1) and "question number 2" in root.read(1)
    assert len(root.requests[1].messages) == 2


async def test_an_interpreter_that_is_lost_is_made_again_with_everything_before() -> None:
    sub = Echo()
    root = Root(repl("found = llm_query('a')", "FINAL(found)"))
    async with RLM(root, environment="process", persistent=True, other_backends=[sub]) as rlm:
        await rlm.acompletion("one", "first")
        root._replies = (repl("import os\nos._exit(1)"), repl("print(found, context_0, context_1)"), ready("found"))
        second = await rlm.acompletion("two", "second")

    assert second.response == "A" and sub.asked == ["a"]
    assert "A one two\n" in root.read(3)


def test_blocking_completions_share_the_repl() -> None:
    root = Root(repl("found = 7", "FINAL(found)"))
    with RLM(root, environment="process", persistent=True) as rlm:
        rlm.completion("one", "first")
        root._replies = (ready("found + 1"),)
        assert rlm.completion("two", "second").response == "8"


async def test_another_loop_is_refused_in_words() -> None:
    rlm = RLM(Root(ready("1")), environment="process", persistent=True)
    try:
        await rlm.acompletion("one", "first")
        with pytest.raises(UsageError, match="another event loop"):
            rlm.completion("two", "second")
    finally:
        await rlm.aclose()
        rlm._portal.close()
