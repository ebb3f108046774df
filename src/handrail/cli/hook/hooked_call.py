"""A call of a coding agent as rules and the record see it: a tool of ours with a name, arguments and an identity."""

from __future__ import annotations

import os
from typing import Any

from msgspec import Struct

from handrail.cli.hook.hosts import HookEvent
from handrail.cli.hook.shell_commands import command_parts
from handrail.core.canonical import canonical_json, digest
from handrail.core.confirmation import Confirmation, Location
from handrail.core.ids import new_id
from handrail.execute.rules import Rule

_ROOT = "project"
_LONGEST = 200
"""Characters of a name in the record; a longer one is told by its digest."""
OWNER = "local"


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
        """The same for every call that means the same side effect. What a model says of a command is no part of it."""
        arguments: Any = self.arguments
        if self.event.is_shell:
            arguments = {name: value for name, value in arguments.items() if name != "description"}
            return canonical_json([OWNER, self.tool, arguments, self.event.folder])
        return canonical_json([OWNER, self.tool, arguments])


def run_of(event: HookEvent, start: str) -> str:
    session = _short(event.session) or digest(start).removeprefix("sha256:")[:16]
    return f"{event.host}_{session}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else digest(name)


def rule_for(call: HookedCall, rules: tuple[Rule, ...], start: str) -> Rule | None:
    """The rule that decides a call. Of several commands in one line each must be allowed; the strictest rule counts."""
    whole = _first(rules, call, call.arguments, start)
    if not call.event.is_shell:
        return whole
    parts = command_parts(call.arguments["command"])
    found = [_first(rules, call, {**call.arguments, "command": part}, start) for part in parts]
    for decision in ("deny", "ask"):
        for rule in (*found, whole):  # a pattern may also be for the line
            if rule is not None and rule.decision == decision:
                return rule
    return None if None in found else found[0]


def _first(rules: tuple[Rule, ...], call: HookedCall, arguments: dict[str, Any], start: str) -> Rule | None:
    """The first rule that covers a call with these arguments."""
    event = call.event
    question = Confirmation(
        request="",
        run=call.run,
        call_id=call.call_id,
        tool=call.tool,
        description="",
        arguments=arguments,
        binds="",
        definition=call.definition,
        locations={name: _location(path, event.folder, start) for name, path in event.paths.items()},
    )
    return next((rule for rule in rules if rule.covers(question)), None)


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
