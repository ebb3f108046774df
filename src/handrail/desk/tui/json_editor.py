"""JSON that a person writes or changes: arguments of a call, values that a server asks for.

It stays open until what stands there is taken. What is wrong is said under it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static, TextArea

from handrail.core.errors import HandrailError
from handrail.desk.tui.dialogs import Dialog
from handrail.desk.tui.formatting import plain

Take = Callable[[str], Awaitable[None]]
"""Does something with what stands there, or says by a `HandrailError` what does not fit."""


class JsonEditor(Dialog[bool], inherit_bindings=False):
    """A dialog to edit JSON; it returns whether the text was accepted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(False)", "Cancel"),
        Binding("ctrl+s,f10", "take", "Take it", priority=True),
    ]

    SIZE = "tall"

    def __init__(self, title: str, text: str, take: Take, *, note: str = "") -> None:
        super().__init__(title, note)
        self._text = text
        self._take = take

    def fields(self) -> ComposeResult:
        yield TextArea(self._text, soft_wrap=True, show_line_numbers=True, compact=True)
        yield Static(id="problems", classes="problems")

    async def action_take(self) -> None:
        try:
            await self._take(self.query_one(TextArea).text)
        except HandrailError as error:
            self.query_one("#problems", Static).update(plain(str(error), "$text-error"))
            return
        if self.is_current:  # taking it may have closed everything already
            self.dismiss(True)


def json_template(schema: dict[str, Any]) -> dict[str, Any]:
    """Something to begin with for a schema: what is required, with its default or an empty value of its kind."""
    fields = schema.get("properties")
    if not isinstance(fields, dict):
        return {}
    wanted = [name for name in schema.get("required", ()) if isinstance(fields.get(name), dict)]
    return {name: _empty(fields[name]) for name in wanted}


_EMPTY: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}


def _empty(field: dict[str, Any]) -> Any:
    if "default" in field:
        return field["default"]
    choices = field.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    kind = field.get("type")
    return _EMPTY.get(kind) if isinstance(kind, str) else None
