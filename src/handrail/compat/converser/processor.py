"""The converser's InvocationsProcessor: finds and runs tools of ensembles, and speaks two providers' messages.

Whole conversations are written and replies are read by the codecs, so that what is
nativised here is what would be sent: names mapped, the history repaired. Tools run
through the executor, also when an invoker is called by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

from handrail.compat.converser.native_messages import AnthropicDialect, NativeDialect, OpenAIDialect
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.closing import ClosedOnExit
from handrail.core.context import Context as CallContext
from handrail.core.errors import ToolError, UsageError
from handrail.core.events import Emit, ignore_event
from handrail.core.ids import new_id
from handrail.core.messages import Conversation, InvocationMessage, Message, ResultMessage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Journal
from handrail.core.usage_checks import check_keyword_names, keyword_names
from handrail.execute.approvers import AnyApprover
from handrail.execute.dedupe.create import create_deduplicator
from handrail.execute.dedupe.matching import Deduplicator
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.sessions.conversion import convert_tools
from handrail.sessions.session_engine import ExecutorParts
from handrail.sessions.tool_forms import offers_of
from handrail.tools.ensemble import Ensemble
from handrail.tools.registry import registered
from handrail.tools.tool import Tool

Provider = Literal["anthropic", "openai"]
_DIALECTS: Mapping[str, type[NativeDialect]] = {"anthropic": AnthropicDialect, "openai": OpenAIDialect}


class Context(CallContext, frozen=True, kw_only=True):
    """A context that also says which invoker it is for, as the document makes it."""

    invoker: Any = None


@dataclass(frozen=True, slots=True)
class EnsembleInvoker:
    """A tool of an ensemble that can be called by hand; the executor runs it."""

    tool: Tool
    executor: Executor
    """Runs it."""

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def ensemble(self) -> str | None:
        return self.tool.ensemble

    @property
    def arguments_schema(self) -> dict[str, Any]:
        return self.tool.definition.input_schema

    @property
    def deduplicator(self) -> Deduplicator | None:
        found: Deduplicator | None = self.tool.deduplicator
        return found

    async def __call__(self, context: CallContext, arguments: dict[str, Any]) -> Any:
        """Runs the tool through the executor and returns its output.

        Raises:
            ToolError: It was refused, failed, or took too long.
        """
        result = await self.executor.invoke(ToolCall("", self.tool.scoped_name, arguments), context)
        if result.error is not None:
            raise ToolError(result.error.code, result.error.message)
        return result.content


class InvocationsProcessor(ClosedOnExit):
    """Holds the tools of some ensembles as they are now; `aclose()` it after use."""

    def __init__(
        self,
        ensembles: Iterable[Ensemble] = (),
        *,
        policy: Policy = Policy(),
        approver: AnyApprover | None = None,
        journal: Journal | None = None,
        **parts: Unpack[ExecutorParts],
    ) -> None:
        check_keyword_names(
            "InvocationsProcessor", parts, keyword_names(InvocationsProcessor) | ExecutorParts.__annotations__.keys()
        )
        tools = registered(*ensembles)
        embedder, clock = parts.get("embedder"), parts.get("clock")
        # Made here and not by the executor, so that a program that asks the deduplicator sees what the executor sees.
        made = [
            tool.changed(deduplicator=create_deduplicator(tool.deduplicator, embedder=embedder, clock=clock))
            for tool in tools
        ]
        self._executor = Executor(registered(*made), policy=policy, approver=approver, journal=journal, **parts)
        self._offers = offers_of(made)
        self._new_id = parts.get("new_id", new_id)

    def find_invoker(self, name: str) -> EnsembleInvoker:
        """Finds an invoker by its name, or as `ensemble:tool`.

        Raises:
            UnknownTool: No enabled tool has that name.
        """
        return EnsembleInvoker(self._executor.tools.find(name), self._executor)

    def prepare_tools(self, provider: Provider) -> list[dict[str, Any]]:
        """The tools in a provider's form."""
        return convert_tools(provider, self._executor.tools.definitions).tools

    async def execute_invocations(
        self,
        invocations: Iterable[InvocationMessage],
        context: CallContext = CallContext(),
        emit: Emit = ignore_event,
    ) -> tuple[ResultMessage, ...]:
        """Run them, as many at once as the policy allows; the results are in their order, and errors are results."""
        results = await self._executor.invoke_all((each.call for each in invocations), context, emit)
        return tuple(ResultMessage(result, self._executor.runs.now()) for result in results)

    # ── both ways ────────────────────────────────────────────────────────────────────

    def nativize(self, conversation: Conversation | Sequence[Message], provider: Provider) -> dict[str, Any]:
        """A whole conversation as a provider takes it: `messages`, and `system` where that is apart."""
        messages = conversation.messages if isinstance(conversation, Conversation) else tuple(conversation)
        return self._dialect(provider).write(ModelRequest(messages=messages, tools=self._offers))

    def normalize(
        self, native: Mapping[str, Any] | Sequence[Mapping[str, Any]], provider: Provider
    ) -> tuple[Message, ...]:
        """A provider's messages as ours: one of them, a list, or an object with `messages` and `system`.

        Raises:
            UsageError: Something is no message of that provider.
        """
        return self._dialect(provider).read(native, self._offers)

    def nativize_invocation(self, invocation: InvocationMessage, provider: Provider) -> dict[str, Any]:
        """One call: a `tool_use` block for Anthropic, an assistant message for OpenAI."""
        return self._dialect(provider).invocation(invocation.call)

    def nativize_result(self, result: ResultMessage | ToolResult, provider: Provider) -> dict[str, Any]:
        """One result: a `tool_result` block for Anthropic, a `tool` message for OpenAI."""
        return self._dialect(provider).result(result.result if isinstance(result, ResultMessage) else result)

    def _dialect(self, provider: str) -> NativeDialect:
        if provider not in _DIALECTS:
            raise UsageError(f"there are messages of {' and '.join(_DIALECTS)} here, not of {provider!r}")
        return _DIALECTS[provider](self._new_id)

    async def aclose(self) -> None:
        await self._executor.aclose()
