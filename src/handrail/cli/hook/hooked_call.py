"""A call of a coding agent as rules and the record see it: a tool of ours with a name, arguments and an identity."""

from __future__ import annotations

import os
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from handrail.cli.hook.hosts import HookEvent
from handrail.cli.hook.shell_commands import UNCLEAR, command_parts, hidden_commands
from handrail.core.canonical import canonical_json, digest
from handrail.core.confirmation import Confirmation, Location
from handrail.core.ids import new_id
from handrail.execute.rules import Rule

_ROOT = "project"
_LONGEST = 200
"""Characters of a name in the record; a longer one is told by its digest."""
OWNER = "local"
_COMMANDS = ("command",)
"""Arguments of a shell that are no paths."""
_COMMAND = ("command", "workdir", "cwd")
"""Arguments of a shell that say what it does."""
_ASIDE = ("description", "justification", "timeout", "timeout_ms", "yield_time_ms", "max_output_tokens")
"""Arguments of a shell that change neither what a command does nor what it may do."""


class HookedCall(Struct, frozen=True):
    event: HookEvent
    run: str
    call_id: str
    tool: str
    """The name of the tool in rules and in the record: `claude:Bash`."""
    definition: str
    """Of the tool. Its words are the host's and not known here, so this is its name."""

    @classmethod
    def of(cls, event: HookEvent, start: str) -> HookedCall:
        """`start` is the folder of the project, for hosts that name no session."""
        tool = f"{event.host}:{_short(event.tool)}"
        call_id = _short(event.call_id) or new_id("call")
        return cls(event, run_of(event, start), call_id, tool, digest(["hook", tool]))

    @property
    def arguments(self) -> dict[str, Any]:
        return self.event.arguments

    @property
    def identity(self) -> bytes:
        """The same for every call that means the same side effect: of a shell, the command and where it runs."""
        return self._identity({name: self.arguments[name] for name in _COMMAND if name in self.arguments})

    @property
    def question(self) -> bytes:
        """The same for every call that a person's word on this one is good for. What a model says of a command, and how
        long it may take, is no part of it."""
        return self._identity({name: value for name, value in self.arguments.items() if name not in _ASIDE}) + b"?"

    def _identity(self, of_shell: dict[str, Any]) -> bytes:
        if self.event.is_shell:
            return canonical_json([OWNER, self.tool, of_shell, self.event.folder])
        return canonical_json([OWNER, self.tool, self.arguments])


def run_of(event: HookEvent, start: str) -> str:
    session = _short(event.session) or digest(start).removeprefix("sha256:")[:16]
    return f"{event.host}_{session}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else digest(name)


def rule_for(call: HookedCall, rules: tuple[Rule, ...], start: str) -> Rule | None:
    """The rule that decides a call. Of several commands in one line each must be allowed; the strictest rule counts."""
    question = _question(call, start)
    if not call.event.is_shell:
        return next((rule for rule in rules if rule.covers(question)), None)
    line = call.arguments["command"]
    shown = [_of_command(rules, question, part) for part in command_parts(line, call.event.tool)]
    strict = tuple(rule for rule in rules if rule.decision != "allow")
    hidden = [_of_command(strict, question, each) for each in hidden_commands(line)] if strict else []
    whole = _of_command(rules, question, line)  # a pattern may also be for the line
    for decision in ("deny", "ask"):
        for rule in (*shown, *hidden, whole):
            if rule is not None and rule.decision == decision:
                return rule
    return None if None in shown else shown[0]


def _of_command(rules: tuple[Rule, ...], question: Confirmation, command: str) -> Rule | None:
    """The first rule that covers a command. To deny one, or to ask about it, it need not be clear."""
    marked = _with_command(question, command)
    bare = _with_command(question, command.removeprefix(UNCLEAR)) if command.startswith(UNCLEAR) else marked
    return next((rule for rule in rules if rule.covers(marked if rule.decision == "allow" else bare, _COMMANDS)), None)


def _with_command(question: Confirmation, command: str) -> Confirmation:
    return replace(question, arguments={**question.arguments, "command": command})


def _question(call: HookedCall, start: str) -> Confirmation:
    """What rules are put to."""
    event = call.event
    return Confirmation(
        request="",
        run=call.run,
        call_id=call.call_id,
        tool=call.tool,
        description="",
        arguments=call.arguments,
        binds="",
        definition=call.definition,
        locations={name: _location(path, event.folder, start) for name, path in event.paths.items()},
    )


def _location(path: str, folder: str, start: str) -> Location | None:
    """The file that a path leads to; None if it cannot be told."""
    if "\0" in path:
        return None
    try:
        whole = os.path.realpath(os.path.join(folder or start, os.path.expanduser(path)))
        root = os.path.realpath(start)
        inside = whole == root or whole.startswith(root.rstrip("/") + "/")
        names = (f"{_ROOT}:{os.path.relpath(whole, root)}",) if inside else ()
    except (OSError, ValueError):
        return None
    return Location(names=names, first=_ROOT, absolute=whole)
