"""A root that is no model: it always writes the same program, for users whose model is too small to write code.

The question is read by rules (`lines/question.py`), and the program (`lines/cell/`) counts and searches by lines, in
the REPL, as code of a model would. The sub-model reads only what was found for a question that asks for neither. Of a
sub-model that is too small itself, nothing is said that does not stand in a line that is shown.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

from handrail.core.errors import ModelError
from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model, writes_code
from handrail.rlm import prompts
from handrail.rlm.contexts.describe import file_described, variable_described
from handrail.rlm.lines.program import program, search_for

NAME = "plan"
_PIECE = 600
"""Characters of a passage. Small models are lost in more."""
_LARGEST = 6_000
_GIVE_UP = "the fixed program failed; give a model that can write code"


def choose_root(model: Model, sub: Model | None, reads: int) -> Model:
    """The model that writes the code: the given one, or the fixed plan if that is too small; `sub` is the model that
    the code asks."""
    if writes_code(model):
        return model
    return LineSearchRoot(reads=reads, is_bound=not writes_code(sub or model))


class LineSearchRoot:
    """A `Model`. It says its program once; asked again, because that failed, it has nothing better."""

    name = NAME

    def __init__(self, *, reads: int = 0, passages: int = 3, is_bound: bool = False) -> None:
        """
        Args:
            reads: How many characters the sub-model can be given at once; by default it is a small one.
            passages: How many lines are shown where none is counted.
            is_bound: Whether the words of the sub-model are left out where they say more than the lines that are shown.
        """
        self._piece = min(max(reads // 40, _PIECE), _LARGEST)
        """Characters of the passage that it reads."""
        self._passages = passages
        self._is_bound = is_bound

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        said = [message.text for message in request.messages if isinstance(message, UserMessage)]
        if any(isinstance(message, AssistantMessage) for message in request.messages):
            raise ModelError(f"{_GIVE_UP}{_error_in(said[-1])}")
        yield TextDelta(text=f"```repl\n{self.program(said[0])}```\n")
        yield ReplyFinished(stop="end", model=self.name)

    def program(self, first: str) -> str:
        """What it has run, for what a run says to it first: the context in words, and the question."""
        search = search_for(
            prompts.asked_in(first),
            name=file_described(first),
            piece=self._piece,
            passages=self._passages,
            is_bound=self._is_bound,
        )
        return program(search, variable_described(first))


def _error_in(output: str) -> str:
    """The last line of what the REPL says of an error."""
    found = re.search(r"^`{3,}error\n(.*)^`{3,}$", output, re.MULTILINE | re.DOTALL)
    lines = found[1].strip().splitlines() if found else []
    return f". It said: {lines[-1][:400]}" if lines else ""
