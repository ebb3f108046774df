"""What is asked of a model from a REPL and what comes back, in the shapes that `rlms` and its tools read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec
from msgspec import Struct, field

from handrail.core.errors import UsageError
from handrail.core.messages import Usage

Prompt = str | list[dict[str, Any]]
"""A question, or messages with `role` and `content` as OpenAI writes them."""


class _Wire(Struct, kw_only=True):
    """Reads what others wrote: fields it does not know are left out, wrong ones are said."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read it from JSON.

        Raises:
            UsageError: A field is missing or of the wrong type.
        """
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"not a {cls.__name__}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON."""
        return {name: _json(getattr(self, name)) for name in self.__struct_fields__}


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(each) for each in value]
    return value.to_dict() if isinstance(value, _Wire) else value


class ModelUsage(_Wire, omit_defaults=True):
    """What one model was used for."""

    total_calls: int | None = 0
    total_input_tokens: int | None = 0
    total_output_tokens: int | None = 0
    total_cost: float | None = None

    def to_dict(self) -> dict[str, Any]:
        counts = {
            "total_calls": self.total_calls or 0,
            "total_input_tokens": self.total_input_tokens or 0,
            "total_output_tokens": self.total_output_tokens or 0,
        }
        return counts if self.total_cost is None else {**counts, "total_cost": self.total_cost}


class UsageSummary(_Wire):
    """What was used, by model. Every turn of every query is in it."""

    model_usage_summaries: dict[str, ModelUsage] = field(default_factory=dict)

    @classmethod
    def of(cls, model: str, usage: Usage, calls: int = 1) -> UsageSummary:
        summary = cls()
        summary.count(model, usage, calls)
        return summary

    def add(self, other: UsageSummary) -> None:
        """Count another one in."""
        for model, used in other.model_usage_summaries.items():
            read, written = used.total_input_tokens or 0, used.total_output_tokens or 0
            self._count(model, used.total_calls or 0, read, written, used.total_cost)

    def count(self, model: str, usage: Usage, calls: int = 1) -> None:
        """Count what one model has said."""
        self._count(model, calls, usage.input_tokens, usage.output_tokens, usage.cost)

    def _count(self, model: str, calls: int, read: int, written: int, cost: float | None) -> None:
        mine = self.model_usage_summaries.get(model)
        if mine is None:
            mine = self.model_usage_summaries[model] = ModelUsage()
        mine.total_calls = (mine.total_calls or 0) + calls
        mine.total_input_tokens = (mine.total_input_tokens or 0) + read
        mine.total_output_tokens = (mine.total_output_tokens or 0) + written
        if cost is not None:
            mine.total_cost = (mine.total_cost or 0.0) + cost

    def since(self, earlier: UsageSummary) -> UsageSummary:
        """What was used after an earlier count of the same."""
        found = UsageSummary()
        for model, now in self.model_usage_summaries.items():
            then = earlier.model_usage_summaries.get(model, ModelUsage())
            used = Usage(
                input_tokens=(now.total_input_tokens or 0) - (then.total_input_tokens or 0),
                output_tokens=(now.total_output_tokens or 0) - (then.total_output_tokens or 0),
                cost=None if now.total_cost is None else now.total_cost - (then.total_cost or 0.0),
            )
            if calls := (now.total_calls or 0) - (then.total_calls or 0):
                found.count(model, used, calls)
        return found

    @property
    def total_cost(self) -> float | None:
        """The cost in US dollars; None if a price is not known."""
        known = [each.total_cost for each in self.model_usage_summaries.values() if each.total_cost is not None]
        return sum(known) if known else None

    @property
    def total_input_tokens(self) -> int:
        return sum(each.total_input_tokens or 0 for each in self.model_usage_summaries.values())

    @property
    def total_output_tokens(self) -> int:
        return sum(each.total_output_tokens or 0 for each in self.model_usage_summaries.values())

    @property
    def total_calls(self) -> int:
        return sum(each.total_calls or 0 for each in self.model_usage_summaries.values())

    def to_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "model_usage_summaries": {name: each.to_dict() for name, each in self.model_usage_summaries.items()}
        }
        return said if self.total_cost is None else {**said, "total_cost": self.total_cost}


class RLMChatCompletion(_Wire):
    """One answer: of a sub-query, or of a whole run."""

    root_model: str
    prompt: Any
    response: str
    usage_summary: UsageSummary = field(default_factory=UsageSummary)
    execution_time: float = 0.0
    """The time in seconds."""
    metadata: dict[str, Any] | None = None
    """The trajectory of a run, where one was kept."""
    error: str | None = None
    """Why this one has no answer, or only a part of one."""
    error_type: str | None = None
    status_code: int | None = None
    partial: bool = False
    """A limit ended the run: `response` is the best that it had."""
    run: str = ""
    """The run in the journal, to take it up again or to prove it."""
    tool_calls: list[dict[str, Any]] | None = None
    """Calls that the model made and that the asker has to answer: `{"id", "name", "arguments"}`. Then this is not
    the end, whatever `response` says; and without it `response` is the answer, whatever it looks like."""

    def to_dict(self) -> dict[str, Any]:
        said = {
            "root_model": self.root_model,
            "prompt": self.prompt,
            "response": self.response,
            "usage_summary": self.usage_summary.to_dict(),
            "execution_time": self.execution_time,
        }
        for name in ("metadata", "error", "error_type", "status_code", "tool_calls"):
            if getattr(self, name) is not None:
                said[name] = getattr(self, name)
        return {**said, **({"partial": True} if self.partial else {}), **({"run": self.run} if self.run else {})}


class LMRequest(_Wire):
    """A request of a REPL to the models, over a socket or in the process."""

    prompt: Prompt | dict[str, Any] | None = None
    prompts: list[Prompt | dict[str, Any]] | None = None
    model: str | None = None
    depth: int = -1
    response_format: dict[str, Any] | None = None
    response_formats: list[dict[str, Any] | None] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def is_batched(self) -> bool:
        return bool(self.prompts)

    def to_dict(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in self.__struct_fields__ if getattr(self, name) is not None}
        return {**said, "depth": self.depth}


class LMResponse(_Wire):
    """The answer to an `LMRequest`: a completion, several, or an error; with a model's error its completion."""

    error: str | None = None
    chat_completion: RLMChatCompletion | None = None
    chat_completions: list[RLMChatCompletion] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def success(self) -> bool:
        return self.error is None

    @property
    def is_batched(self) -> bool:
        return self.chat_completions is not None

    def to_dict(self) -> dict[str, Any]:
        one, many = self.chat_completion, self.chat_completions
        if self.error is None and one is None and many is None:
            raise UsageError("an LMResponse needs an error, a completion or several; this one has none of them")
        said = super().to_dict()
        if self.metadata is None:
            del said["metadata"]
        return said


class REPLResult(_Wire):
    """What one piece of code did."""

    stdout: str = ""
    stderr: str = ""
    locals: dict[str, Any] = field(default_factory=dict)
    """Its variables and the names of their types."""
    execution_time: float = 0.0
    rlm_calls: list[RLMChatCompletion] = field(default_factory=list)
    """Every sub-query of the turn."""
    final_answer: str | None = None


class CodeBlock(_Wire):
    code: str
    result: REPLResult


class RLMIteration(_Wire):
    """One turn: the prompt of the root model, its reply, and the results of its code."""

    prompt: Any
    response: str
    code_blocks: list[CodeBlock] = field(default_factory=list)
    final_answer: str | None = None
    iteration_time: float | None = None


class RLMMetadata(_Wire):
    """What a run was begun with, without secrets: the first line of a trajectory."""

    root_model: str
    max_depth: int
    max_iterations: int
    backend: str
    backend_kwargs: dict[str, Any] = field(default_factory=dict)
    environment_type: str = "monty"
    environment_kwargs: dict[str, Any] = field(default_factory=dict)
    other_backends: list[str] | None = None
