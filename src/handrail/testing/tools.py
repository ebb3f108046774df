"""Tools that note their calls and, where a test says so, answer without running."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from handrail.core.calls import Output
from handrail.core.invocation import Invocation
from handrail.execute.output import normalise_output
from handrail.tools.registry import RegisteredTools, registered
from handrail.tools.tool import Tool, as_tool


class RecordedTools:
    """Stands in for a set of tools, with their names, schemas and effects.

    recorded = RecordedTools([send_mail])
    recorded.answer("send_mail", {"sent": True})
    executor = Executor(recorded.tools)
    …
    assert recorded.calls == [("send_mail", {"to": "ada@example.org"})]
    """

    def __init__(self, tools: Iterable[Any]) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._answers: dict[str, Any] = {}
        self.tools: RegisteredTools = registered(*(self._recorded(as_tool(tool)) for tool in tools))

    def answer(self, name: str, value: Any) -> None:
        """Let a tool give this instead of running; an exception is raised."""
        self.tools.find(name)
        self._answers[name] = value

    def _recorded(self, tool: Tool) -> Tool:
        async def handler(invocation: Invocation) -> Output:
            self.calls.append((tool.name, invocation.arguments))
            if tool.name not in self._answers:
                value = tool.start(invocation, tool.convert(invocation.arguments))
                return normalise_output(await value if inspect.isawaitable(value) else value, tool.style or "arguments")
            answer = self._answers[tool.name]
            if isinstance(answer, BaseException):
                raise answer
            return normalise_output(answer, tool.style or "arguments")

        return tool.changed(handler=handler, style="invocation", isolation="loop", sandbox=None)
