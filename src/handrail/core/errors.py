"""Every error the package raises on purpose.

    HandrailError
        UsageError
            DuplicateTool
            DuplicateEnsemble
            InvalidDefinition
            InvalidSchema
            RegistryFrozen
            ConfigError
            MissingExtra
            SandboxUnavailable
        JournalError
            OutcomeUnrecorded
            BrokenProof
            LeaseHeld
            LeaseLost
        StateError
            StateUnavailable
        LimitExceeded
        ToolFailed
        ModelError
            RateLimited
            ModelUnavailable
            RequestRefused
            ProtocolError
                BrokenChoice
            InvalidAnswer
        McpError
            ServerLost
            ServerRefused
            SignInFailed
        BusError
    ToolError
        UnknownTool
        InvalidArguments
        Forbidden
        Denied
        NeedsConfirmation
        TimedOut
        Cancelled
        InDoubt
        LimitReached
        InvalidOutput

A `HandrailError` reaches the program. A `ToolError` does not: it is raised by a
tool, or by a step of the executor, and becomes the `ToolResult` of that call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, get_args

from handrail.core.installation import install_command
from handrail.core.redact import redact, redact_text

Outcome = Literal[
    "ok",
    "unknown_tool",
    "invalid_arguments",
    "forbidden",
    "denied",
    "needs_confirmation",
    "timeout",
    "failed",
    "cancelled",
    "in_doubt",
    "limit",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class HandrailError(Exception):
    """Base of every error that reaches the program."""

    conversation: Any = None
    """The conversation so far, if the error ended a run."""


class UsageError(HandrailError):
    """The program used the package wrongly; the fix is in its code or its files."""


class DuplicateTool(UsageError):
    """Two tools have the same name, or names that look alike. No name wins by order."""

    def __init__(self, name: str, taken: str | None = None, *, source: str = "", other: str = "") -> None:
        what = "is already registered" if taken in (None, name) else f"is too like {taken!r}, which is registered"
        of, by = (f" of {source}", f" by {other}") if source != other else ("", "")
        super().__init__(f"tool {name!r}{of} {what}{by}; rename one, or give its group a prefix")
        self.name = name
        self.taken: str = taken or name
        self.source = source
        self.other = other


class DuplicateEnsemble(UsageError):
    """Two groups have the same name, or names that look alike; a rule for one would seem to apply to both."""

    def __init__(self, name: str, taken: str) -> None:
        what = "another one has that name" if taken == name else f"it is too like {taken!r}, which is registered"
        super().__init__(f"ensemble {name!r} cannot be registered: {what}; rename one of them")
        self.name = name
        self.taken = taken


class InvalidDefinition(UsageError):
    """A tool has an invalid definition."""


class InvalidSchema(UsageError):
    """A JSON Schema cannot be used, where a tool is made or a type is compiled."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"the schema of {where} cannot be used: {why}")
        self.where = where
        self.why = why


class RegistryFrozen(UsageError):
    """A tool was registered after `freeze()`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"cannot register {name!r}: the registry is frozen; register every tool before freeze()")
        self.name = name


class ConfigError(UsageError):
    """A mistake in a file, with the place to correct it."""

    def __init__(
        self,
        why: str,
        *,
        file: str,
        key: str | None = None,
        line: int | None = None,
        path: tuple[str | int, ...] = (),
    ) -> None:
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {f'{key}: ' if key else ''}{why}")
        self.why = why
        self.file = file
        self.key = key
        self.line = line
        self.path = path
        """The key, step by step."""


class MissingExtra(UsageError):
    """Something needs an extra that is not installed; the message has the command that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra that is not installed; run: {install_command(extra)}")
        self.what = what
        self.extra = extra

    @property
    def for_others(self) -> str:
        """The words for another machine: they leave out where files lie on this one."""
        there = install_command(self.extra, shows_folder=False)
        return f"{self.what} needs an extra that is not installed; there: {there}"


class SandboxUnavailable(UsageError):
    """This machine cannot run the requested sandbox. handrail does not use a weaker one instead."""


class JournalError(HandrailError):
    """The record could not be written or read. Nothing with a side effect runs after this."""


class OutcomeUnrecorded(JournalError):
    """A call may have run, but its outcome is not recorded. Any other `JournalError` of a call means that it did not.

    `outcome` is how it ended, if this process knows.
    """

    def __init__(self, tool: str, outcome: str | None, why: str) -> None:
        known = "may have run before" if outcome is None else f"ran and ended with {outcome!r}"
        super().__init__(f"{tool!r} {known}, but its outcome could not be recorded: {why}; do not repeat it")
        self.outcome = outcome


class BrokenProof(JournalError):
    """The journal, or an entry of it, is not what was recorded."""

    def __init__(self, index: int | None, why: str) -> None:
        super().__init__(f"{'the journal' if index is None else f'entry {index}'}: {why}")
        self.index = index
        self.why = why


class LeaseHeld(JournalError):
    """Another process works on this run."""

    def __init__(self, run: str, holder: str) -> None:
        super().__init__(f"run {run!r} is in use by {holder}; wait for it to end, or resume it there")
        self.run = run
        self.holder = holder


class LeaseLost(JournalError):
    """Another replica has resumed a run of this one, while this one was disconnected or stopped."""

    def __init__(self, run: str) -> None:
        super().__init__(
            f"run {run!r} was taken up by another replica while this one did not answer; it goes on there, and nothing"
            " more of it is recorded or done here"
        )
        self.run = run


class StateError(HandrailError):
    """The shared state of a node cannot be used: it contains something else, refuses access, or is full."""


class StateUnavailable(StateError):
    """The server of the shared state does not answer. Every later request tries again.

    `may_be_written` is whether what was to be written may be there all the same: the connection was lost while it was
    being committed. Otherwise nothing was written.
    """

    def __init__(self, message: str, *, may_be_written: bool = False) -> None:
        super().__init__(message)
        self.may_be_written = may_be_written


class LimitExceeded(HandrailError):
    """A run reached one of its `Limits`. `conversation` has everything up to there."""

    def __init__(self, limit: str, value: float) -> None:
        super().__init__(f"the run reached its limit of {value:g} {limit}")
        self.limit = limit
        self.value = value


class ToolFailed(HandrailError):
    """With `fail_fast`: a tool call failed. The conversation is rolled back to its checkpoint.

    Its `__cause__` is what the tool raised, if it raised something in this process.
    """

    def __init__(self, tool: str, outcome: str, message: str, arguments: dict[str, Any] | str | None = None) -> None:
        super().__init__(f"tool {tool!r} failed ({outcome}): {message}")
        self.tool = tool
        self.outcome = outcome
        self.arguments: dict[str, Any] | str = {} if arguments is None else arguments
        """What the tool was called with; secrets are masked."""


class ModelError(HandrailError):
    """The model did not give a usable answer."""

    code: ClassVar[str] = "model_error"
    """The code that the record has for each attempt that failed."""
    model: str | None = None
    """The model that failed, where several could have been asked."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class RateLimited(ModelError):
    """The service limits the rate of requests; `retry_after` is the time to wait in seconds, if known."""

    code = "rate_limited"


class ModelUnavailable(ModelError):
    """The service cannot be reached or is overloaded. Worth trying again later."""

    code = "model_unavailable"


class RequestRefused(ModelError):
    """The service refuses this request: a wrong key, an unknown model, a malformed body. Do not repeat it."""

    code = "request_refused"


class ProtocolError(ModelError):
    """The service answered with something that cannot be read, or stopped in the middle of a reply."""

    code = "protocol_error"


class BrokenChoice(ProtocolError):
    """The model called tools, or none, contrary to the tool choice."""


class InvalidAnswer(ModelError):
    """The model gave no answer of the requested type within the allowed number of tries."""

    code = "invalid_answer"

    def __init__(self, problems: Iterable[str], text: str = "", *, tries: int = 1) -> None:
        self.problems: tuple[str, ...] = tuple(redact_text(each) for each in problems)
        """What was wrong with the last answer, one sentence each."""
        self.text = text
        """The last answer as the model gave it."""
        self.tries = tries
        times = "once" if tries == 1 else f"{tries} times"
        super().__init__(f"the model answered {times}, and not in the form asked for: {'; '.join(self.problems)}")


class McpError(HandrailError):
    """An MCP server cannot be used: it is unreachable, or its messages are invalid or too large."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"MCP server {server!r}: {why}")
        self.server = server
        self.why = why


class ServerLost(McpError):
    """There was no connection, or it broke. It is reopened automatically."""

    def __init__(self, server: str, why: str, *, sent: bool) -> None:
        super().__init__(server, why)
        self.sent = sent
        """Whether the request may have reached the server. If so, nobody knows what it did with it."""


class ServerRefused(McpError):
    """The server answered a request with a protocol error."""

    def __init__(self, server: str, code: int, message: str) -> None:
        super().__init__(server, f"{message} (error {code})")
        self.code = code
        self.message = message


class SignInFailed(McpError):
    """Nobody signed in to the server, or its service refused. A retry does not help."""


class BusError(HandrailError):
    """A call on the bus gave no response. The code is one of the closed set in `handrail.node.bus.wire_codes`."""

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        outcome: Outcome = "failed",
        retry_after_ms: int | None = None,
        **details: Any,
    ) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message
        self.outcome = outcome
        """What became of the call; `in_doubt` is that it may have taken effect, and nobody knows."""
        self.retry_after_ms = retry_after_ms
        self.details = details
        """What else helps: `alt_capabilities`, `alt_nodes`, `schema_hash_expected`, `available`, …"""
        self.is_nested = False
        """Whether a call on the way ended with it: then it says nothing about whoever lets it through."""

    def to_dict(self) -> dict[str, Any]:
        """The body of an answer, and the data of an `error` frame; what looks like a secret is masked."""
        told = {"error": self.code, "message": redact_text(self.message), "outcome": self.outcome}
        said: dict[str, Any] = {**told, **({"nested": True} if self.is_nested else {}), **redact(self.details)}
        return said if self.retry_after_ms is None else {**said, "retry_after_ms": self.retry_after_ms}

    @classmethod
    def from_dict(cls, said: Any) -> BusError:
        """What another node answered; whatever it is, it becomes an error."""
        if not isinstance(said, dict) or not isinstance(said.get("error"), str):
            return cls("internal_error", "the other node gave an answer that cannot be read")
        known = {"error", "message", "outcome", "retry_after_ms", "nested"}
        outcome, delay, message = said.get("outcome"), said.get("retry_after_ms"), said.get("message")
        error = cls(
            said["error"],
            message if isinstance(message, str) else "",
            outcome=outcome if outcome in OUTCOMES and outcome != "ok" else "failed",
            retry_after_ms=delay if isinstance(delay, int) and not isinstance(delay, bool) else None,
        )
        error.details = {key: value for key, value in said.items() if key not in known}
        error.is_nested = said.get("nested") is True
        return error


_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


class ToolError(Exception):
    """The reason why a call has no value, in words for the model.

    A tool raises or returns it: `ToolError("NOT_FOUND", "no such city")`. With one
    argument, a single word is taken as the code and anything else as the message.
    """

    outcome: ClassVar[Outcome] = "failed"

    def __init__(self, code: str, message: str = "") -> None:
        if not message and not _CODE.fullmatch(code):
            code, message = self.outcome, code
        super().__init__(message or code)
        self.code = code
        self.message: str = message or code


class _OutcomeError(ToolError):
    """A `ToolError` whose code is its outcome."""

    def __init__(self, message: str) -> None:
        super().__init__(self.outcome, message)


class UnknownTool(_OutcomeError):
    """The model called a tool that it is not offered. `near` has the names that it may have meant."""

    outcome: ClassVar[Outcome] = "unknown_tool"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
        super().__init__(f"Tool {name!r} not found{hint}")
        self.name = name
        self.near: tuple[str, ...] = tuple(near)


class InvalidArguments(_OutcomeError):
    """The arguments of a call, or an answer, do not fit. `problems` has one sentence for each mistake."""

    outcome: ClassVar[Outcome] = "invalid_arguments"

    def __init__(self, problems: str | Iterable[str]) -> None:
        said = (problems,) if isinstance(problems, str) else problems
        self.problems: tuple[str, ...] = tuple(redact_text(each) for each in said)
        super().__init__("invalid_arguments: " + "; ".join(self.problems))


class Forbidden(_OutcomeError):
    """Whoever makes a call may not use this tool."""

    outcome: ClassVar[Outcome] = "forbidden"


class Denied(_OutcomeError):
    """An approver or a rule denied a call."""

    outcome: ClassVar[Outcome] = "denied"


class NeedsConfirmation(_OutcomeError):
    """A side effect waits for approval. `request` is the id of its question."""

    outcome: ClassVar[Outcome] = "needs_confirmation"

    def __init__(self, tool: str, request: str) -> None:
        super().__init__(f"{tool!r} changes something and waits for a person to confirm it (request {request})")
        self.request = request


class TimedOut(_OutcomeError):
    """A call took longer than its timeout. Its words say whether it may yet take effect."""

    outcome: ClassVar[Outcome] = "timeout"


class Cancelled(_OutcomeError):
    """A call was cancelled. Its words say whether it may yet take effect."""

    outcome: ClassVar[Outcome] = "cancelled"


class InDoubt(_OutcomeError):
    """Nobody knows whether a side effect that was interrupted took place; it is not repeated."""

    outcome: ClassVar[Outcome] = "in_doubt"


class LimitReached(_OutcomeError):
    """A call was not run, because a limit of calls is reached."""

    outcome: ClassVar[Outcome] = "limit"


INVALID_OUTPUT = "invalid_output"
"""The code of a call whose tool ran to its end, and whose result cannot be used."""


class InvalidOutput(ToolError):
    """The tool ran, and what it returned cannot be used."""

    def __init__(self, why: str) -> None:
        super().__init__(INVALID_OUTPUT, f"the tool ran, but its result cannot be used: {why}")


def describe_exception(error: BaseException) -> str:
    """An unexpected exception as one line: its type and its text."""
    try:
        text = str(error)
    except Exception:  # an exception may fail at being shown
        text = "(its text cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
