"""The tool `repl`: runs the code of one reply, block by block, and says whether there is a final answer.

It changes nothing by itself. Whatever its code does to the world, it does by calls of other tools, each under a key; so
after a crash it runs again from its beginning, and what was done is answered from the record.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import msgspec

from handrail.core.calls import ToolResult
from handrail.core.errors import UsageError
from handrail.core.invocation import Invocation
from handrail.rlm import prompts
from handrail.rlm.progress import CellRan, CellRunning, Progress, ReplRebuilt
from handrail.rlm.repl import final_answers
from handrail.rlm.repl.bridge import ReplBridge
from handrail.rlm.repl.notebook import ReplNotebook, finished_repl_call
from handrail.rlm.repl.turns import REPL, ReplArguments, ReplBlock, ReplFinal, ReplQuery, ReplResult
from handrail.run.code.callers import CallVolume, LiveCaller
from handrail.run.code.notebook import InterpreterLost
from handrail.sandbox.port import JSON, Cell
from handrail.tools.definition import ToolDefinition
from handrail.tools.tool import Tool

DAY = 86_400.0
_MOST = 2**30
"""Characters of a result: the limits of the sandbox are what counts."""
_NAME = re.compile(r"[^\W\d]\w*")

_SCHEMA = {
    "type": "object",
    "properties": {
        "blocks": {"type": "array", "items": {"type": "string"}},
        "final": {"type": ["string", "null"]},
        "final_var": {"type": ["string", "null"]},
        "cut": {"type": "boolean"},
        "unclosed": {"type": "boolean"},
        "contexts": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["blocks"],
    "additionalProperties": False,
}

Tell = Callable[[Progress], Awaitable[None]]


@dataclass(slots=True)
class ReplTool:
    """The handler of the tool, with the notebook of its run."""

    notebook: ReplNotebook
    tell: Tell
    depth: int = 0
    pauses: bool = False
    """A call that waits for a person leaves its cell without a result, to be run again."""
    carried: CallVolume = field(default_factory=CallVolume)

    def tool(self) -> Tool:
        definition = ToolDefinition(
            REPL, "Run Python in the REPL of this run.", _SCHEMA, timeout=DAY, untrusted=True, tags=("rlm",)
        )
        return Tool(
            definition,
            self.perform,
            style="invocation",
            isolation="loop",
            concurrency=1,
            max_output=_MOST,
            share=False,
            replays=True,
        )

    async def perform(self, invocation: Invocation) -> dict[str, Any]:
        asked = ReplArguments.read(invocation.arguments)
        live = LiveCaller(invocation, pauses=self.pauses, carried=self.carried)
        async with self.notebook.bridge(live, invocation.id) as bridge:
            ran = await self._run_or_lost(asked, bridge, invocation.context.run)
            if ran is None:  # by its own doing or not: nothing is done twice, so it may be tried once more
                self.notebook.was_lost()
                bridge.again()
                ran = await self._run(asked, bridge, invocation.context.run)
        await self.notebook.settled(finished_repl_call(invocation.id, asked, ran))
        return {"output": ran.to_dict()}

    async def _run_or_lost(self, asked: ReplArguments, bridge: ReplBridge, run: str) -> ReplResult | None:
        """The result of the code; None if the interpreter ended while it ran."""
        try:
            ran = await self._run(asked, bridge, run)
        except InterpreterLost:
            return None
        return None if ran.lost else ran

    async def _run(self, asked: ReplArguments, bridge: ReplBridge, run: str) -> ReplResult:
        notebook = self.notebook
        notices = list(await notebook.ready())
        if notebook.rebuilt is not None:
            whole = not notices
            await self.tell(ReplRebuilt(run=run, calls=notebook.rebuilt, whole=whole, depth=self.depth))
        blocks, seen = await self._blocks(asked.blocks, bridge, run)
        final, more = await self._final(asked, blocks, seen)
        if final is None and seen.keys() & {"text", "name"}:  # it was not taken, and must not be the next time either
            await notebook.read(final_answers.UNREADY, *final_answers.SEEN)
        return ReplResult(
            blocks=tuple(blocks),
            skipped=len(asked.blocks) - len(blocks),
            final=final,
            draft=seen.get("draft", ""),
            notices=(*notices, *more),
        )

    async def _blocks(
        self, codes: tuple[str, ...], bridge: ReplBridge, run: str
    ) -> tuple[list[ReplBlock], dict[str, str]]:
        """Runs each block until one fails or answers; returns the last answer."""
        blocks: list[ReplBlock] = []
        seen: dict[str, str] = {}
        for number, code in enumerate(codes, 1):
            await self.tell(CellRunning(run=run, block=number, of=len(codes), code=code, depth=self.depth))
            asked = len(bridge.completions)
            cell = await self.notebook.run(code, bridge, peek=final_answers.PEEK)
            queries = tuple(map(ReplQuery.of, bridge.completions[asked:]))
            blocks.append(ReplBlock.of(cell, self.notebook.names, queries))
            ran = CellRan(run=run, block=number, ending=cell.ending, seconds=cell.seconds, depth=self.depth)
            await self.tell(ran)
            seen = await self._find_answer(cell)
            if cell.ending != "ok" or seen.keys() & {"text", "name"}:
                break
        return blocks, seen

    async def _find_answer(self, cell: Cell) -> dict[str, str]:
        """What the code has answered: `text` or `name` of a final answer, or the `draft` of one."""
        answer, said = cell.values.get("answer"), cell.values.get("_final")
        if cell.state == "gone":
            return {}
        if isinstance(answer, dict) and not answer.get("ready") and said == {}:
            content = answer.get("content")
            if not content or isinstance(content, str):
                return {"draft": content} if content else {}
        found = await self.notebook.read(final_answers.LOOK, *final_answers.SEEN)
        if not _is_told(found):
            found = await self.notebook.read(final_answers.LOOK_AGAIN, *final_answers.SEEN)
        if not _is_told(found):
            return {"unread": ""}
        if cell.ending != "ok" and found.keys() & {"text", "name"}:
            await self.notebook.read(final_answers.UNREADY, *final_answers.SEEN)
            return {"failed": "", "draft": found.get("text", "")}
        return found

    async def _final(
        self, asked: ReplArguments, blocks: list[ReplBlock], seen: dict[str, str]
    ) -> tuple[ReplFinal | None, list[str]]:
        """The final answer, or what to tell the model about why there is none."""
        if blocks and blocks[-1].ending != "ok":
            wanted = "failed" in seen or asked.final is not None or asked.final_var is not None
            return None, [*([prompts.AFTER_FAILURE] if wanted else []), *_cut(asked)]
        if "unread" in seen:
            return None, [prompts.UNREAD, *_cut(asked)]
        if "text" in seen:
            return self._taken(seen["text"])
        if (name := seen.get("name")) is not None:
            # Code that says FINAL_VAR(result) where it should say "result" has given the value itself.
            return await self._variable(name) if _NAME.fullmatch(name) else self._taken(name)
        if asked.final is None and asked.final_var is None:
            return None, _cut(asked) or ([] if blocks or asked.contexts else [prompts.NO_CODE])
        if not blocks and not self.notebook.has_run:
            return None, [prompts.TOO_EARLY]
        if asked.final_var is not None:
            return await self._variable(asked.final_var)
        return await self._variable(asked.final) if asked.final in self.notebook.names else self._taken(asked.final)

    async def _variable(self, name: str | None) -> tuple[ReplFinal | None, list[str]]:
        found = await self.notebook.read(final_answers.as_text(name or ""), *final_answers.SEEN) if name else None
        if not _is_told(found) or "text" not in found:
            return None, [prompts.missing(name or "", self.notebook.names)]
        return self._taken(found["text"])

    def _taken(self, text: str | None) -> tuple[ReplFinal | None, list[str]]:
        return (ReplFinal(text), []) if text and text.strip() else (None, [prompts.EMPTY])


def _is_told(found: JSON) -> TypeGuard[dict[str, str]]:
    return isinstance(found, dict) and all(isinstance(text, str) for text in found.values())


def _cut(asked: ReplArguments) -> list[str]:
    return [*([prompts.CUT] if asked.cut else []), *([prompts.UNCLOSED] if asked.unclosed else [])]


def check_setup(run: str, result: ToolResult) -> None:
    """Checks the call that makes the REPL ready.

    Raises:
        UsageError: It could not, for a reason that is the user's to mend.
    """
    if result.error is not None and result.error.code == "duplicate_id":
        raise UsageError(
            f"run {run!r} was begun with another context, or other setup code; give what it was begun with, or begin "
            "another run"
        )
    if result.is_error:
        raise UsageError(
            f"the REPL of run {run!r} could not be made ready: {result.text}; fix that, and start another run"
        )
    ran = msgspec.convert(result.content, ReplResult)
    failed = next((block for block in ran.blocks if block.ending != "ok"), None)
    if failed is not None:
        raise UsageError(f"setup_code failed ({failed.ending}): {failed.error or failed.stderr}")
