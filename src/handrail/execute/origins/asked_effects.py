"""Whether a person's words ask for what a tool does, and for nothing else that the run could do instead."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from handrail.execute.origins.requests import VAGUE, asks_for_noun, asks_with, requested
from handrail.execute.origins.trusted_words import STOP, TrustedWords, stem
from handrail.tools.effect_kinds import (
    STRICT,
    UNMAKING,
    effect_kind,
    grave_words_of,
    name_words,
    nouns_of,
    words_that_ask,
)
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool

_COMMON = VAGUE | {"send", "let", "tell", "pass"}
_TELLING = frozenset({"send", "reply", "forward"})
_DEEDS = frozenset({"payment", "payments"})
"""Verbs of the table that are nouns: something else may be done to what they name."""
_DOING = frozenset({"make", "do", "get", "send"})


@lru_cache(1024)
def _heard(name: str, words: frozenset[str], stems: frozenset[str]) -> frozenset[str]:
    """The verbs that ask for a tool, in some form, among words."""
    return frozenset(verb for verb in words_that_ask(name) if verb in words or stem(verb) in stems)


class AskedEffect:
    """One tool, and the words of a person who may want what it does."""

    def __init__(self, tool: Tool, words: TrustedWords) -> None:
        self._tool = tool
        self._words = words
        self._kind = effect_kind(tool.name)

    def is_asked_for(self, tools: RegisteredTools, chosen: Iterable[str]) -> bool:
        """Whether the person's words ask for what the tool does, or at least name what is chosen of what it
        offers."""
        text = self._words.said_by_person
        words, stems = requested(text)
        heard = _heard(self._tool.name, words, stems)
        if heard and heard <= _DEEDS and self.is_something_else_asked(tools, text, _DOING, stems):
            heard = frozenset()  # `set the rent payment to 900` pays nothing
        grave = grave_words_of(self._tool.name)
        if heard and not self._is_name_of_another(tools, heard, stems):
            return not grave or not stems.isdisjoint(map(stem, grave))
        if self._kind in STRICT or self._kind in UNMAKING:
            return False
        nouns = {word for word in nouns_of(self._tool.name) if word not in STOP}
        if not stems.isdisjoint(map(stem, nouns)) and asks_for_noun(text, nouns):
            return not self.is_something_else_asked(tools, text, frozenset(), stems)
        return any(self._words.has(value) for value in chosen)

    def _is_name_of_another(self, tools: RegisteredTools, heard: frozenset[str], stems: frozenset[str]) -> bool:
        """Whether each verb that asks for the tool is the name of another kind of effect that the run could have. What
        only the other one is done to must not go unsaid: `post it to the channel` is no `post_webpage`."""
        mine, family = set(map(stem, name_words(self._tool.name))), self._kind in _TELLING
        own = {verb for verb in heard if stem(verb) not in mine}
        is_named = not stems.isdisjoint(map(stem, nouns_of(self._tool.name)))
        if own != heard:
            return False
        others = {
            stem(name_words(other.name)[0])
            for other in tools
            if not other.reads
            and effect_kind(other.name) != self._kind
            and not (family and effect_kind(other.name) in _TELLING)
            and name_words(other.name)
            and not (is_named and self._is_done_to_unsaid(other, stems))
        }
        return all(stem(verb) in others and verb not in _COMMON for verb in heard)

    def is_something_else_asked(
        self,
        tools: RegisteredTools,
        text: str,
        vague: frozenset[str] | None = None,
        stems: frozenset[str] | None = None,
    ) -> bool:
        """Whether a known word asks for another effect that the run could have; a vague one, if `stems` are given, only
        where what it is done to stands among them."""
        return any(
            not other.reads
            and other.scoped_name not in self._tool.names
            and effect_kind(other.name) != self._kind
            and asks_with(
                text,
                words_that_ask(other.name),
                VAGUE if vague is None or not self._is_done_to(other, stems) else vague,
            )
            for other in tools
        )

    def _is_done_to_unsaid(self, other: Tool, stems: frozenset[str]) -> bool:
        nouns = set(map(stem, nouns_of(other.name)))
        return bool(nouns) and stems.isdisjoint(nouns)

    def _is_done_to(self, other: Tool, stems: frozenset[str] | None) -> bool:
        """Whether what another tool is done to stands among the words."""
        return stems is None or not stems.isdisjoint(map(stem, nouns_of(other.name)))
