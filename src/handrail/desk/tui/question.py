"""A call waits for a person's decision: exactly what will run, and the answers that there are.

Nobody answers by accident: the focus is on the arguments, and a single key counts only after a pause without keys. A
person who is typing when the question opens does not answer it with the next letter. The page works the same way.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Button, Footer, Static
from textual.widgets.button import ButtonVariant

from handrail.core.display import exact_json
from handrail.desk.desk import Decision, Desk
from handrail.desk.rule_offers import HOW_LONG, rule_offer_sentence
from handrail.desk.tui.dialogs import LineDialog, PickDialog
from handrail.desk.tui.formatting import MUTED, line, plain, succeeded
from handrail.desk.tui.json_editor import JsonEditor, json_template
from handrail.desk.values import DeskQuestion

_BUTTONS: tuple[tuple[str, str, ButtonVariant], ...] = (
    # id        says             variant
    ("allow", "Allow once", "success"),
    ("fill", "Answer…", "success"),
    ("deny", "Deny", "error"),
    ("reason", "Deny because…", "default"),
    ("edit", "Edit…", "default"),
    ("always", "Always…", "default"),
    ("later", "Later", "default"),
)


class QuestionScreen(ModalScreen[None]):
    """Closes once the question is answered, from here or from elsewhere."""

    CALM: ClassVar[float] = 0.4
    """Seconds without a key after which single keys count."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Look first"),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("tab", "app.focus_next", "To the answers", show=True),
        Binding("a", "answer_by_key('allow')", "Allow once"),
        Binding("d", "answer_by_key('deny')", "Deny"),
        Binding("r", "answer_by_key('reason')", "Deny with a reason", show=False),
        Binding("e", "answer_by_key('edit')", "Edit", show=False),
    ]

    def __init__(self, desk: Desk, question: DeskQuestion) -> None:
        super().__init__()
        self.question = question
        self._desk = desk
        self._calm: Timer | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog ask"):
            yield Static(_title(self.question))
            with VerticalScroll(id="what", can_focus=True):
                yield Static(_what(self.question))
            with Horizontal(classes="buttons"):
                for id, says, variant in _BUTTONS:
                    if _offered(self.question, id):
                        yield Button(says, id=id, variant=variant, compact=True)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#what").focus()
        self._wait_for_calm()

    @property
    def keys_count(self) -> bool:
        """Whether a single key is an answer by now."""
        return self._calm is None

    def _wait_for_calm(self) -> None:
        if self._calm is not None:
            self._calm.stop()
        self._calm = self.set_timer(self.CALM, self._keys_count_now)

    def _keys_count_now(self) -> None:
        self._calm = None

    def on_key(self) -> None:
        if not self.keys_count:
            self._wait_for_calm()

    def action_answer_by_key(self, id: str) -> None:
        if not self.keys_count:
            self._wait_for_calm()
        elif _offered(self.question, id):
            self.answer(id)

    @on(Button.Pressed)
    def pressed(self, event: Button.Pressed) -> None:
        self.answer(event.button.id or "")

    @work(exclusive=True)
    async def answer(self, id: str) -> None:
        match id:
            case "allow":
                await self._decide("allow")
            case "later":
                await self._decide("later")
            case "fill":
                await self._edit(exact_json(json_template(self.question.form or {})))
            case "always":
                await self._always()
            case "deny":
                await self._decide("deny")
            case "reason":
                await self._deny_with_a_reason()
            case "edit":
                await self._edit(self.question.written)

    async def close(self) -> None:
        """Closes the question, which was answered elsewhere, with everything that was opened from here."""
        while self in self.app.screen_stack and self.app.screen is not self:
            await asyncio.shield(self.app.pop_screen())  # to its end, for the reason that the transcript gives
        if self.is_current:
            self.dismiss(None)

    async def _deny_with_a_reason(self) -> None:
        title, note = f"Deny {line(self.question.tool, 60)}", "Why not? The model reads it."
        reason = await self.app.push_screen_wait(LineDialog(title, note=note, may_be_empty=True))
        if reason is not None:
            await self._decide("deny", reason=reason)

    async def _always(self) -> None:
        rule = await self.app.push_screen_wait(
            PickDialog(
                "From now on, without asking:",
                [(each.rule, f"{rule_offer_sentence(each)}\n  {each.rule}") for each in self.question.offers],
                note=f"{HOW_LONG} It is stored in your own approvals.",
            )
        )
        if rule is not None:
            await self._decide("always", rule=rule)

    async def _edit(self, text: str) -> None:
        note = "Ctrl+S sends these." if self.question.form is not None else "Ctrl+S runs it with these."
        title = f"{'Values' if self.question.form is not None else 'Arguments'} of {line(self.question.tool, 60)}"
        taken = await self.app.push_screen_wait(JsonEditor(title, text, self._take, note=note))
        if taken and self.is_current:
            self.dismiss(None)

    async def _take(self, text: str) -> None:
        await self._desk.decide(self.question.request, "edit", arguments=text)

    async def _decide(self, decision: Decision, *, reason: str = "", rule: str | None = None) -> None:
        """A word that is refused leaves the question open, and the dialog with it."""
        decided = self._desk.decide(self.question.request, decision, reason=reason, rule=rule)
        if await succeeded(self, decided) and self.is_current:
            self.dismiss(None)


def _offered(question: DeskQuestion, id: str) -> bool:
    match id:
        case "always":
            return bool(question.rules)
        case "allow":
            return question.form is None and not question.unseen
        case "edit":
            return question.form is None and question.conversation != ""
        case "fill":
            return question.form is not None
    return True


def _title(question: DeskQuestion) -> Content:
    asks = "asks you for values" if question.form is not None else "asks to run with exactly these arguments"
    return Content.assemble((line(question.tool), "bold $text-warning"), f" {asks}:")


def _what(question: DeskQuestion) -> Content:
    why = plain(f"You are asked because {line(question.why)}." if question.why else "", "$text-warning")
    if question.form is None:
        why = plain(line(question.unseen), "$text-error") if question.unseen else why
        pieces = (plain(question.written), why, plain(question.description.strip(), MUTED))
    else:
        pieces = (plain(question.description.strip()), why, plain(exact_json(question.form), MUTED))
    return Content("\n\n").join(piece for piece in pieces if piece)
