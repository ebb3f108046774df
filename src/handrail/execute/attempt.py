"""One call on its way through the executor: what is known of it so far."""

from __future__ import annotations

import errno
import json
import logging
import socket
import traceback
from collections.abc import Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec.structs import replace

from handrail.core.calls import Problem, ResultLabels, ToolCall, ToolResult
from handrail.core.confirmation import Locations
from handrail.core.context import Context
from handrail.core.errors import ToolError, describe_exception
from handrail.core.events import Emit
from handrail.core.jsontext import without_surrogates
from handrail.core.origins import ArgumentOrigin
from handrail.core.redact import mask_field_values, redact, redact_text
from handrail.execute.concurrency import GateEntry
from handrail.execute.isolation.handler_work import HandlerRaised
from handrail.execute.origins.plans import PlannedCall
from handrail.execute.output import cut_text
from handrail.execute.recorder import RunRecorder
from handrail.tools.tool import Tool

_LONGEST = 4_000
"""Characters of an error that the model is sent; an exception may hold megabytes."""
_NETWORK = frozenset(
    {errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ETIMEDOUT}
)


class CallOwner(Protocol):
    """The executor that settles a call, as what runs the handler knows it."""

    def call_nested(
        self, attempt: CallAttempt, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None, key: str
    ) -> Coroutine[Any, Any, ToolResult]: ...

    async def begin_run(self, attempt: CallAttempt, tools: Any, agent: str) -> tuple[Any, Context, Emit]: ...

    async def record_late(self, attempt: CallAttempt, result: ToolResult) -> None: ...


@dataclass(slots=True, eq=False)
class CallAttempt:
    """Filled in step by step, so that whenever a call ends, its record says how far it came."""

    call: ToolCall
    context: Context
    recorder: RunRecorder
    owner: CallOwner
    alone: bool = False
    """Whether its caller makes no other call of the run at the same moment."""
    only_find_out: bool = False
    """Whether it is not to run: only what became of it is asked."""
    tool: Tool | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    converted: dict[str, Any] = field(default_factory=dict)
    resource: Hashable | None = None
    entry: GateEntry | None = None
    """What it holds while it runs."""
    grant: str | None = None
    locations: Locations = field(default_factory=dict)
    """The places that path arguments led to when the call was decided on."""
    key: str = ""
    effect: bytes | None = None
    """The identity of its side effect, where the journal finds one again by it."""
    effect_seen: int | None = None
    """The place where the journal had last noted the effect when it was looked for."""
    why_again: str = ""
    """Why a person must say that an effect is wanted which was made before; empty if it was not."""
    ran: bool = False
    cancelled: bool = False
    cause: Exception | None = None
    """What the handler raised and did not mean to: no `ToolError`."""
    still_running: bool = False
    late: str = ""
    """Why the answer came after the time was up, if it did."""
    quotes: bool = False
    """Whether words from outside that the model was not shown were put into its arguments."""
    has_read_outside: bool = False
    """Whether a call that it made gave words from outside."""
    labels: ResultLabels | None = None
    """Who wrote the fields of the result, if the handler knows that better than the definition."""
    origins: tuple[ArgumentOrigin, ...] = ()
    """The origins of the arguments, if they were looked for."""
    planned: PlannedCall | None = None
    """The step of the run's plan that it is, if it is one."""
    waited: float = 0.0
    """Seconds for a person's decision."""
    result: ToolResult | None = None
    """The answer of a call whose caller is gone."""

    def label(self, labels: ResultLabels) -> None:
        """Takes in what a handler says of who wrote its answer."""
        self.labels = labels

    @property
    def is_outside(self) -> bool:
        """Whether its handler said that outsiders wrote in its answer."""
        return self.labels is not None and bool(self.labels.untrusted)

    def take(self, arguments: dict[str, Any]) -> None:
        """Checked arguments: as JSON, as the handler's types, and what they touch.

        Raises:
            InvalidArguments: A type refuses them for a reason its schema cannot say.
            ToolError: The tool's own `resource` failed on them.
        """
        if self.tool is None:
            raise AssertionError("a call is resolved before its arguments are read")
        self.arguments = arguments
        # What is not trusted here has its types made where it runs: they are its own code.
        self.converted = arguments if self.tool.isolation == "sandbox" else self.tool.convert(arguments)
        if self.tool.resource is not None:
            try:
                self.resource = self.tool.resource(arguments)
                hash(self.resource)
            except Exception as error:
                raise ToolError(
                    "resource", f"what the call touches cannot be told: {describe_exception(error)}"
                ) from error

    def end_step(self, result: ToolResult) -> None:
        """Keep the step of the plan used up, unless nothing came of the call."""
        changed = self.ran and self.tool is not None and not self.tool.reads
        if result.outcome != "ok" and not changed and self.recorder.ledger.plan is not None:
            self.recorder.ledger.plan.give_back(self.call.id)

    @property
    def name(self) -> str:
        """The name of the tool, as exactly as it is known."""
        return self.call.name if self.tool is None else self.tool.scoped_name

    @property
    def scope(self) -> str:
        """The memory that may answer the call. Code reads whole results and a model reads cut ones, so they have two
        memories."""
        whose = f"{self.recorder.run}\n{self.context.principal.id}"
        return f"{whose}\ncode" if self.is_for_code else whose

    @property
    def is_for_code(self) -> bool:
        """Whether code asked for the result: it reads all of it, and only what it prints goes to a model."""
        held = self.context.held
        return bool(held) and any(isinstance(each, Tool) and each.replays for each in held)

    def refused(self, error: ToolError) -> ToolResult:
        """The result of a call that gave no value."""
        result = refusal_result(self.call, error, still_running=self.still_running)
        return self._discreet(result) if self.tool is not None and self.tool.secrets else result

    def _discreet(self, result: ToolResult) -> ToolResult:
        """The text without the secrets that the tool was given."""
        assert self.tool is not None and result.error is not None
        given = (self.arguments, self.tool.secrets)
        problem = Problem(mask_field_values(result.error.code, *given), mask_field_values(result.error.message, *given))
        return replace(result, content=mask_field_values(result.text, *given), error=problem)


def refusal_result(call: ToolCall, error: ToolError, *, still_running: bool = False) -> ToolResult:
    """An error as the answer to a call: words for the model, a code for programs. Both have an end."""
    message = _presentable(error.message)
    words = f"Error executing {_presentable(call.name)}: {message}" if error.outcome == "failed" else message
    return ToolResult(
        call.id,
        call.name,
        words,
        error.outcome,
        error=Problem(_presentable(error.code), message),
        still_running=still_running,
    )


def _presentable(words: str) -> str:
    if len(words) > _LONGEST:
        words = "".join(cut_text(words, _LONGEST, None))
    return without_surrogates(words)


def handler_failure(error: BaseException) -> ToolError:
    """Whatever a handler raised, as a `ToolError` that keeps its kind apart from others."""
    match error:
        case ToolError():
            return error
        case HandlerRaised():
            return ToolError("failed", str(error))
        case PermissionError():
            return ToolError("permission", describe_exception(error))
        case ConnectionError() | socket.gaierror() | TimeoutError():
            return ToolError("network", describe_exception(error))
        case OSError(errno=number) if number in _NETWORK:
            return ToolError("network", describe_exception(error))
    return ToolError("failed", describe_exception(error))


logger = logging.getLogger(__name__)

_ARGUMENTS = 2_000
_TRACE = 20_000
"""Characters that the log shows: an exception may hold megabytes."""


def report_failure(attempt: CallAttempt, tool: Tool, error: ToolError) -> None:
    """Keep the exception for a caller who asked for it, and log one that the tool did not mean to raise.

    A `ToolError` that a tool raises is an answer, and is not logged. Declared secrets, and what looks like one, are
    masked in the log.
    """
    cause, raised = attempt.cause, attempt.context.raised
    if raised is not None:
        raised[attempt.call.id] = cause or error
    if cause is None or not logger.isEnabledFor(logging.ERROR):
        return
    trace = "".join(traceback.format_exception(cause))
    if tool.secrets:
        trace = mask_field_values(trace, attempt.arguments, tool.secrets)
    arguments = json.dumps(redact(tool.masked(attempt.arguments)), ensure_ascii=False, default=str)
    logger.error(
        "tool %r failed with the arguments %s\n%s",
        tool.scoped_name,
        _shortened(arguments, _ARGUMENTS),
        _shortened(redact_text(trace), _TRACE),
    )


def _shortened(text: str, most: int) -> str:
    """Its beginning and its end, in characters that every log can hold."""
    if len(text) > most:
        text = f"{text[: most // 2]}\n[… {len(text) - most:,} characters …]\n{text[-most // 2 :]}"
    return without_surrogates(text)
