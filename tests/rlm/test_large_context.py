"""A needle in ten million characters: found by code, read by a model, and never held here as a whole."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path

import pytest

from handrail.rlm import RLM
from tests.rlm.root_models import Echo, Root, ready, repl

LINE = "All work and no play makes a long and dull text, and there is much of it.\n"
NEEDLE = "The secret word is kestrel.\n"
LOOK = 'found = context.search("secret word")\nprint(found[0]["line"], context.size)'
READ = 'at = found[0]["at"]\nreply = llm_query("What is it? " + context.lines(found[0]["line"], 1)[0])'


@pytest.mark.parametrize("kind", ("monty", "os"))
async def test_it_is_found_in_bounded_memory(kind: str, tmp_path: Path) -> None:
    lines = 10_000_000 // len(LINE)
    with (tmp_path / "hay.txt").open("w") as file:
        file.write(LINE * (lines * 2 // 3))
        file.write(NEEDLE)
        file.write(LINE * (lines // 3))
    root = Root(repl(LOOK), repl(READ), ready("reply"))
    tracemalloc.start()
    try:
        async with asyncio.timeout(60), RLM(root, environment=kind, other_backends=[Echo()]) as rlm:
            found = await rlm.acompletion(tmp_path / "hay.txt", "What is the secret word?")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found.response == "WHAT IS IT? THE SECRET WORD IS KESTREL."
    assert f"{lines * 2 // 3} " in root.read(1)
    assert "kestrel" not in root.read(0) + root.read(2)
    assert most < 5_000_000, f"{most:,} bytes"
