"""A run's conversation as the root model reads it: the results of its code are messages of the user's side.

What code printed stands between fences that are longer than any in it, so that nothing a context says can look like
our words or like another turn. When the whole gets long, old outputs are shortened, many at once and seldom: the
beginning of what is sent stays the same for most turns, as services that cache it like. What is shown follows from the
conversation alone.
"""

from __future__ import annotations

import re

import msgspec

from handrail.core.messages import (
    AssistantMessage,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.rlm import prompts
from handrail.rlm.repl.turns import ReplBlock, ReplResult, ran_of
from handrail.run.single_run import FINALISE

OUTPUT = 20_000
"""Characters of one block's output that are shown."""
SHORT = 600
"""The length of a shortened text."""
WINDOW = 400_000
"""Characters of the whole, from which on old outputs are shortened."""


class RootTranscript:
    """Reads each message once, as long as the conversation grows; what did not change is the same object every turn."""

    def __init__(self, window: int = WINDOW, output: int = OUTPUT) -> None:
        self._window = window
        self._output = output
        self._begin()

    def _begin(self, system: tuple[Message, ...] = ()) -> None:
        self._found: list[Message] = list(system)
        self._whole: list[tuple[int, ResultMessage]] = []
        """The outputs that are not shortened, and where they stand."""
        self._total = sum(map(_size, system))
        self._read = 0
        self._last: Message | None = None

    def messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """What is said to the root model now. In a conversation of several questions, only the last is shown."""
        if self._read > len(messages) or (self._read and messages[self._read - 1] is not self._last):
            self._begin()
        for message in messages[self._read :]:
            if isinstance(message, UserMessage):
                self._begin(tuple(each for each in messages[:1] if isinstance(each, SupervisorMessage)))
            self._add(message)
        self._read, self._last = len(messages), messages[-1]
        return tuple(self._found)

    def _add(self, message: Message) -> None:
        match message:
            case InvocationMessage():
                return
            case ResultMessage():
                self._whole.append((len(self._found), message))
                self._put(_output(message, self._output))
            case AssistantMessage():
                self._put(msgspec.structs.replace(message, text=message.text or "(nothing)", stop="end"))
            case SupervisorMessage(text=text) if text == FINALISE:
                self._put(UserMessage((Text(prompts.FINALISE),), message.at))
            case _:
                self._put(message)
        while self._total > self._window and len(self._whole) > 1:
            self._shorten(len(self._whole) // 2)

    def _put(self, message: Message) -> None:
        self._found.append(message)
        self._total += _size(message)

    def _shorten(self, count: int) -> None:
        """The older half of the outputs, all at once."""
        for at, message in self._whole[:count]:
            short = _output(message, SHORT)
            self._total += _size(short) - _size(self._found[at])
            self._found[at] = short
        del self._whole[:count]


def _output(message: ResultMessage, most: int) -> UserMessage:
    return UserMessage((Text(render_result(ran_of(message), most)),), message.at)


def _size(message: Message) -> int:
    return len(getattr(message, "text", ""))


def render_result(ran: ReplResult, most: int = OUTPUT) -> str:
    """What became of the code of one reply, in words for the model."""
    blocks = [_block(block, number, len(ran.blocks) + ran.skipped, most) for number, block in enumerate(ran.blocks, 1)]
    if ran.skipped:
        why = "there is a final answer" if ran.final is not None else "the one above failed"
        blocks.append(f"{ran.skipped} more block(s) of your reply were not run, because {why}.")
    return "\n\n".join((*blocks, *ran.notices)) or "Nothing was run."


def _block(block: ReplBlock, number: int, of: int, most: int) -> str:
    said = [f"REPL output, block {number} of {of} ({_ENDINGS[block.ending]}, {block.seconds:.2f} s):"]
    output = block.stdout + (f"\n[stderr]\n{block.stderr}" if block.stderr else "")
    said.append(fence_text(cut(output, most), "output") if output.strip() else "(it printed nothing)")
    if block.dropped:
        said.append(f"It printed {block.dropped:,} more characters, which were not kept. Print less.")
    if block.error:
        said.append(fence_text(cut(block.error, min(most, 4_000)), "error"))
    if block.state == "gone":
        said.append(prompts.GONE)
    elif block.names:
        names = ", ".join(f"{name} ({kind})" for name, kind in list(block.names.items())[:_NAMES])
        more = f" and {len(block.names) - _NAMES} more" if len(block.names) > _NAMES else ""
        said.append(f"Your variables: {names}{more}")
    return "\n".join(said)


_NAMES = 60
_ENDINGS = {
    "ok": "ran to its end",
    "error": "ended by an exception",
    "timeout": "out of time",
    "memory": "out of memory",
    "output": "ended because it printed too much",
    "calls": "ended because it called the host too often",
    "lost": "its interpreter ended",
}


def fence_text(text: str, what: str) -> str:
    """Puts the text between fences that it cannot end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{what}\n{text.rstrip(chr(10))}\n{fence}"


def cut(text: str, most: int) -> str:
    """The beginning and the end of a text that is too long, and how much is missing between them."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    tail = most - head
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[-tail:]}"
