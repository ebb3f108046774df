"""What coding agents write to a hook, and what they read from it.

    host      calls a hook with                             an answer that it obeys
    claude    PreToolUse, PostToolUse, PostToolUseFailure,  allow, deny, ask; nothing leaves it to the agent
              SessionStart, SessionEnd
    codex     PreToolUse, PostToolUse                       deny; nothing leaves it to the agent
    copilot   preToolUse, postToolUse, postToolUseFailure,  deny; nothing leaves it to the agent
              sessionEnd; the event is not named

To Codex and Copilot an `ask` is told as a `deny` that says where a person can allow the call: Codex takes an `ask` for
a broken hook and runs the call, and of Copilot only the `deny` is documented as obeyed.
"""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from typing import Any, Literal

from msgspec import Struct

Host = Literal["claude", "codex", "copilot"]
HOSTS: tuple[Host, ...] = ("claude", "codex", "copilot")
Decision = Literal["allow", "deny", "ask"]
NAMES: dict[Host, str] = {"claude": "Claude Code", "codex": "Codex", "copilot": "Copilot"}

_SHELL = frozenset(("Bash", "bash", "shell", "powershell", "exec_command", "local_shell", "unified_exec"))
_READS = frozenset(
    (
        *("Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoRead", "TodoWrite", "Task"),
        *("Agent", "ExitPlanMode", "EnterPlanMode", "AskUserQuestion", "BashOutput", "TaskOutput", "ToolSearch"),
        *("Skill", "SlashCommand", "ListMcpResourcesTool", "ReadMcpResourceTool"),
        *("read_file", "list_dir", "grep_files", "view_image", "update_plan", "web_search"),
        *("view", "glob", "grep", "web_fetch", "report_intent", "think", "read_bash"),
    )
)
"""Native tools that change nothing. One that is not known here may change something."""
_IDEMPOTENT = frozenset(("Write", "Edit", "MultiEdit", "NotebookEdit", "create", "edit"))
_PATHS = ("file_path", "notebook_path", "path")
_AFTER = {"PostToolUse": "ok", "PostToolUseFailure": "failed"}
_UNASKED = ("bypassPermissions", "dontAsk")
"""Modes in which nobody is asked, whatever a hook says."""


class UnreadableEvent(Exception):
    """What the host wrote is no event of a hook. The text says why."""


class HookEvent(Struct, frozen=True, kw_only=True):
    """One call of a hook."""

    host: Host
    kind: Literal["before", "after", "resume", "end", "other"]
    name: str = ""
    """The name of the host's tool, in the host's spelling."""
    session: str = ""
    call_id: str = ""
    """Empty where the host gives none."""
    tool: str = ""
    arguments: dict[str, Any] = {}
    folder: str = ""
    asks: bool = True
    """Whether the host puts a question to a person."""
    outcome: Literal["ok", "failed", "cancelled", "denied"] = "ok"
    response: Any = None

    @property
    def is_shell(self) -> bool:
        return self.tool in _SHELL and isinstance(self.arguments.get("command"), str)

    @property
    def reads(self) -> bool:
        return self.tool in _READS

    @property
    def idempotent(self) -> bool:
        return self.tool in _IDEMPOTENT

    @property
    def paths(self) -> dict[str, str]:
        """The arguments that are paths."""
        if self.is_shell or self.tool.startswith("mcp__"):
            return {}
        found = {name: self.arguments.get(name) for name in _PATHS}
        return {name: path for name, path in found.items() if isinstance(path, str)}


class Verdict(Struct, frozen=True):
    """What the hook says of a call; without a decision the host goes by its own permissions."""

    decision: Decision | None = None
    reason: str = ""


def read_event(host: Host, data: bytes) -> HookEvent:
    """
    Raises:
        UnreadableEvent: It is none.
    """
    try:
        said = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableEvent(f"what {NAMES[host]} wrote is not JSON ({error})") from error
    if not isinstance(said, dict):
        raise UnreadableEvent(f"what {NAMES[host]} wrote is not a JSON object")
    if host == "copilot" and "hook_event_name" not in said:
        return _of_copilot(said)
    name = said.get("hook_event_name")
    if not isinstance(name, str):
        raise UnreadableEvent(f"what {NAMES[host]} wrote does not name an event")
    if name == "SessionEnd":
        return HookEvent(host=host, kind="end", name=name, session=_text(said, "session_id"))
    if name == "SessionStart" and host == "claude" and said.get("source") == "resume":
        return HookEvent(host=host, kind="resume", name=name, session=_text(said, "session_id"))
    if name != "PreToolUse" and name not in _AFTER:
        return HookEvent(host=host, kind="other", name=name)
    after = name in _AFTER
    outcome: Any = _AFTER.get(name, "ok")
    return HookEvent(
        host=host,
        kind="after" if after else "before",
        name=name,
        session=_text(said, "session_id"),
        call_id=_text(said, "tool_use_id"),
        tool=_tool(host, said.get("tool_name")),
        arguments=_arguments(said.get("tool_name"), said.get("tool_input")),
        folder=_text(said, "cwd"),
        asks=host == "claude" and said.get("permission_mode") not in _UNASKED,
        outcome="cancelled" if said.get("is_interrupt") is True else outcome,
        response=said.get("error") if name == "PostToolUseFailure" else said.get("tool_response"),
    )


def _of_copilot(said: dict[str, Any]) -> HookEvent:
    """The fields tell the event: its name is not among them."""
    session = _text(said, "sessionId")
    if "toolName" not in said:
        kind: Literal["end", "other"] = "end" if "reason" in said and "prompt" not in said else "other"
        return HookEvent(host="copilot", kind=kind, session=session)
    result = said.get("toolResult")
    after = "toolResult" in said or "error" in said
    outcome: Any = "failed" if "error" in said else "ok"
    if isinstance(result, dict):
        outcome = {"failure": "failed", "denied": "denied"}.get(str(result.get("resultType")), outcome)
        result = result.get("textResultForLlm", result)
    return HookEvent(
        host="copilot",
        kind="after" if after else "before",
        name="postToolUse" if after else "preToolUse",
        session=session,
        call_id=_text(said, "toolCallId"),
        tool=_tool("copilot", said.get("toolName")),
        arguments=_arguments(said.get("toolName"), said.get("toolArgs")),
        folder=_text(said, "cwd"),
        asks=False,
        outcome=outcome,
        response=said.get("error") if "error" in said else result,
    )


def _text(said: dict[str, Any], key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""


def _tool(host: Host, name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise UnreadableEvent(f"what {NAMES[host]} wrote does not name a tool")
    return name


def _arguments(tool: Any, value: Any) -> dict[str, Any]:
    """The arguments as an object; Copilot writes them as JSON in a text. What a shell is to run is one line under
    `command`, also where it comes as a list of words or alone: rules about it hold for every form."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    shell = tool in _SHELL
    alone = {} if value is None else {"command" if shell else "input": value}
    found: dict[str, Any] = value if isinstance(value, dict) else alone
    words = found.get("command")
    if shell and isinstance(words, list) and all(isinstance(each, str) for each in words):
        return {**found, "command": shlex.join(words)}
    return found


def write_answer(host: Host, name: str, verdict: Verdict) -> str:
    """What the host reads: one line of JSON. `name` is the event's; a host that asks nobody is told in other words."""
    if name not in ("PreToolUse", "preToolUse"):
        said: dict[str, Any] = {"systemMessage": verdict.reason} if verdict.reason and host != "copilot" else {}
    elif name == "preToolUse":
        said = _decided(verdict)
    elif host != "claude" and verdict.decision != "deny":  # Codex takes any other decision for a mistake
        said = {"systemMessage": verdict.reason} if verdict.reason and verdict.decision is None else {}
    elif verdict.decision is None:
        said = {"systemMessage": verdict.reason} if verdict.reason else {}
    else:
        said = {"hookSpecificOutput": {"hookEventName": name, **_decided(verdict)}}
    return json.dumps(said)


def _decided(verdict: Verdict) -> dict[str, Any]:
    if verdict.decision is None:
        return {}
    return {"permissionDecision": verdict.decision, "permissionDecisionReason": verdict.reason}
