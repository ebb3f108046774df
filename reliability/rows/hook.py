"""A coding agent with a shell, which asks `handrail hook claude` before and after each command, and is resumed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec import Struct

from handrail.journal.reader import JournalReader
from reliability.moments import lines, note, step
from reliability.processes import handrail
from reliability.rows.mcp_parts import approve
from reliability.stage import PAID, Stage, tell, was_told

COMMAND = f"echo {PAID} | tee -a book.txt"
CONFIG = """rules = ["allow Bash command='echo **'", "allow Bash command='tee **'"]

[proof]
journal = "journal.db"
"""
HOOKS = ("start-hook", "before-hook", "after-hook")
_EARLIER = re.compile(r"\(run (\S+), call ([^)]+)\)")


class HookRow(Struct, frozen=True):
    name: str = "a coding agent's shell, hooked"
    killed: str = (
        "agent and hooks: at each message between them, either end; the hooks before and after each write to the "
        "journal, the agent before and after the payment and each message that it keeps"
    )
    preload: tuple[str, ...] = ("handrail.cli.hook.process", "handrail.config.hook")

    def play(self, stage: Stage) -> None:
        config = stage.folder / "handrail.toml"
        config.write_text(CONFIG)
        approve(config, stage.environ)
        hooks = {role: stage.stdio_wire("agent", role, handrail, "hook", "claude") for role in HOOKS}
        if not stage.start("agent", run_agent, stage.folder, hooks).wait():
            raise TimeoutError("the agent did not end")
        for role in HOOKS:
            process = stage.find(role)
            if process is not None and not process.wait(20):
                raise TimeoutError(f"the {role} did not end with the agent")


class CodingAgent:
    """As Claude Code does it: a transcript that is kept message by message, and a hook around each call."""

    def __init__(self, folder: Path, hooks: dict[str, list[str]]) -> None:
        self._folder = folder
        self._hooks = hooks
        self._transcript = folder / "s1.jsonl"

    def run(self) -> None:
        said = lines(self._transcript)
        self._hook("start-hook", hook_event_name="SessionStart", source="resume" if said else "startup")
        if said:
            last = json.loads(said[-1])
            if "result" in last and not was_told(self._folder, last["result"]):
                tell(self._folder, last["result"])  # the agent was killed before it could say so
                return
        call = uuid4().hex
        self._keep(call=call)
        tell(self._folder, self._use_shell(call))

    def _use_shell(self, call: str) -> str:
        event = {"tool_name": "Bash", "tool_input": {"command": COMMAND}, "tool_use_id": call}
        decided = self._hook("before-hook", hook_event_name="PreToolUse", **event).get("hookSpecificOutput", {})
        if decided.get("permissionDecision") in ("ask", "deny"):
            return self._asked(decided["permissionDecisionReason"])
        # A hook that was killed says nothing: then the person whom the agent asks says yes.
        step("before the payment")
        done = subprocess.run(COMMAND, shell=True, cwd=self._folder, capture_output=True, text=True, check=True)
        step("after the payment")
        self._hook("after-hook", hook_event_name="PostToolUse", **event, tool_response={"stdout": done.stdout})
        self._keep(result=done.stdout)
        return done.stdout

    def _asked(self, why: str) -> str:
        """The person at the agent's prompt does not know better than the record, and says no for now."""
        found = _EARLIER.search(why)
        if found is None or "handrail confirm settle" in why:
            return why
        with JournalReader(self._folder / "journal.db") as reader:  # as `handrail proof show RUN CALL`
            return next(str(each.answer) for each in reader.calls(found[1]) if each.call_id == found[2])

    def _keep(self, **message: str) -> None:
        step("before the transcript has a message")
        note(self._transcript, json.dumps(message))
        step("after the transcript has a message")

    def _hook(self, role: str, **event: Any) -> dict[str, Any]:
        """What a hook says; nothing if it was killed."""
        said = json.dumps({"session_id": "s1", "cwd": str(self._folder), "permission_mode": "default", **event})
        done = subprocess.run(self._hooks[role], input=f"{said}\n", capture_output=True, text=True, check=False)
        answer: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip() else {}
        return answer


def run_agent(folder: Path, hooks: dict[str, list[str]]) -> None:
    CodingAgent(folder, hooks).run()


HOOK = HookRow()
