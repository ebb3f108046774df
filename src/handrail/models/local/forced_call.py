"""A call that was written under our grammar, as it arrives, in OpenAI's chunks.

Text goes in as the deltas of `content`; the deltas of `tool_calls` come out. The
grammar fixes every character but the name and the arguments, so this is no parser of
what models may write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handrail.models.local.forced_grammar import CLOSING, MIDDLE, OPENING


class ForcedCall:
    """Takes the chunks of one reply in order."""

    def __init__(self) -> None:
        self._text = ""
        self._named = False

    def feed(self, chunk: dict[str, Any]) -> Iterator[dict[str, Any]]:
        choices = chunk.get("choices") or []
        if not choices:
            yield chunk
            return
        choice = choices[0]
        self._text += choice.get("delta", {}).get("content") or ""
        calls = [*self._name(chunk), *self._arguments()]
        if reason := choice.get("finish_reason"):
            yield _chunk(chunk, calls, "tool_calls" if self._ended() else reason)
        elif calls:
            yield _chunk(chunk, calls, None)

    def _name(self, chunk: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._named or MIDDLE not in self._text:
            return
        self._named = True
        opening, _, self._text = self._text.partition(MIDDLE)
        yield {
            "index": 0,
            "id": f"call_{chunk.get('id', '')}",
            "type": "function",
            "function": {"name": opening.removeprefix(OPENING), "arguments": ""},
        }

    def _arguments(self) -> Iterator[dict[str, Any]]:
        """All but the end, which may turn out to be the closing words."""
        if self._named and len(self._text) > len(CLOSING):
            sure, self._text = self._text[: -len(CLOSING)], self._text[-len(CLOSING) :]
            yield {"index": 0, "function": {"arguments": sure}}

    def _ended(self) -> bool:
        return self._named and self._text == CLOSING


def _chunk(chunk: dict[str, Any], calls: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    delta = {"tool_calls": calls} if calls else {}
    return {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
