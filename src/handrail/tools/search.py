"""Finds tools by words: BM25 over what a model is told of them, and by their names.

A few milliseconds over thousands of tools, with nothing to install or to load. It
knows words and not meanings; where a meaning is needed, the model asks again in
other words.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from handrail.tools.definition import ToolDefinition
from handrail.tools.word_forms import LONGEST, bare_letters, comparable_words, name_parts, word_root

_NAME, _TAG, _SAID, _PARAMETER, _ASIDE = 3.0, 2.0, 1.0, 0.8, 0.4
"""What a word counts for where it stands: in the name, a tag or group, the description, a parameter's name, and what
is said of a parameter."""
_K, _B = 1.2, 0.6
"""BM25: how soon a word that comes again counts less, and how much a long text does."""
_EXACT, _NEAR = 12.0, 6.0
"""Added where the query is the name or holds it, and, in part, where the query is nearly the name."""
_NEARLY = 0.6
"""The likeness from which on two names are nearly the same."""
_ALIKE, _RELATED = 0.7, 0.45
"""What a word counts for that is spelt nearly like one of the query, and one that means about the same."""
_SPELT = 12
"""Words of a query up to which misspelt ones are looked for: in a long text there are enough others."""
_DEEP = 3
"""Levels of a schema that are read."""

_GROUPS = (
    "create make add new insert generate open",
    "delete remove erase drop destroy cancel clear",
    "update edit change modify set alter rename",
    "get fetch read show retrieve view display load open",
    "find search lookup query locate look",
    "list enumerate browse show",
    "send post deliver share tell",
    "run execute start launch invoke",
    "stop halt kill terminate end",
    "compute calculate evaluate",
    "convert transform translate",
    "write save store put",
    "email mail inbox",
    "message chat dm text",
    "image picture photo",
    "folder directory",
    "file document",
    "bill invoice",
    "repo repository",
    "pr pull",
    "issue ticket bug",
    "event meeting appointment calendar",
    "customer client",
    "user person people member",
    "employee staff worker",
    "money currency",
    "buy purchase order",
    "weather forecast temperature rain",
    "flight plane fly",
    "song track music",
    "db database sql",
    "todo task reminder",
    "remind reminder",
    "route direction navigate",
    "summary summarize summarise",
)
"""Words that people use for one another when they ask for a tool."""


class ToolSearchHit(Struct, frozen=True):
    """A tool that fits, how well, and by which words."""

    name: str
    score: float
    words: tuple[str, ...] = ()
    """The words that it was found by, without their endings: of the query, or near to one of its words."""
    named: bool = False
    """Whether the query is, holds or nearly is its name."""


class ToolIndex:
    """The words of a set of tools. Made once; asking changes nothing."""

    def __init__(self, definitions: Iterable[ToolDefinition], groups: Mapping[str, str] | None = None) -> None:
        """`groups` has the name of the ensemble that a tool belongs to, by the tool's name."""
        tools = tuple(definitions)
        self.names: tuple[str, ...] = tuple(tool.name for tool in tools)
        bags = [_bag(tool, (groups or {}).get(tool.name, "")) for tool in tools]
        sizes = [sum(bag.values()) for bag in bags]
        usual = sum(sizes) / len(sizes) if sizes else 1.0
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for at, bag in enumerate(bags):
            norm = _K * (1 - _B + _B * sizes[at] / usual) if usual else _K
            for word, weight in bag.items():
                self._postings[word].append((at, weight * (_K + 1) / (weight + norm)))
        self._spellings: dict[str, list[str]] = defaultdict(list)
        for word in self._postings:
            self._spellings[word[0]].append(word)
        self._exact: dict[str, list[int]] = defaultdict(list)
        self._thirds: dict[str, list[int]] = defaultdict(list)
        self._counts: list[int] = []
        for at, name in enumerate(self.names):
            self._exact[bare_letters(name)].append(at)
            thirds = _thirds(bare_letters(name))
            self._counts.append(len(thirds))
            for third in thirds:
                self._thirds[third].append(at)

    def search(self, query: str, count: int = 5, among: Callable[[str], bool] | None = None) -> list[str]:
        """The names of the tools that fit best, the best first; of two that fit alike, the one that was given first."""
        return [hit.name for hit in self.hits(query, count, among)]

    def hits(self, query: str, count: int = 5, among: Callable[[str], bool] | None = None) -> list[ToolSearchHit]:
        """The same with scores and reasons. `among` says of a name whether it may be found."""
        query = query[:LONGEST]
        scores: dict[int, float] = defaultdict(float)
        found: dict[int, list[str]] = defaultdict(list)
        for word, share in self._query_weights(query).items():
            for at, gain in self._gains(word):
                scores[at] += share * gain
                found[at].append(word)
        named = self._named(query)
        for at, gain in named.items():
            scores[at] += gain
        ranked = sorted(scores, key=lambda at: (-round(scores[at], 9), at))
        allowed = (at for at in ranked if among is None or among(self.names[at]))
        return [
            ToolSearchHit(self.names[at], round(scores[at], 3), tuple(found[at]), at in named)
            for at, _ in zip(allowed, range(count), strict=False)
        ]

    def _query_weights(self, query: str) -> dict[str, float]:
        """The words to look for, and what each counts for. A word that comes twice does not count twice."""
        own = list(dict.fromkeys(comparable_words(query)))
        asked = dict.fromkeys(own, 1.0)
        for word in own:
            for other in _RELATIONS.get(word, ()):
                asked.setdefault(other, _RELATED)
            if word not in self._postings and len(own) <= _SPELT:
                for other in self._spelt_like(word):
                    asked.setdefault(other, _ALIKE)
        return asked

    def _spelt_like(self, word: str) -> list[str]:
        if len(word) < 4:
            return []
        near = [other for other in self._spellings.get(word[0], ()) if abs(len(other) - len(word)) <= 2]
        return difflib.get_close_matches(word, near, n=2, cutoff=0.75)

    def _gains(self, word: str) -> Iterator[tuple[int, float]]:
        postings = self._postings.get(word, ())
        rare = math.log(1 + (len(self.names) - len(postings) + 0.5) / (len(postings) + 0.5))
        for at, weight in postings:
            yield at, rare * weight

    def _named(self, query: str) -> dict[int, float]:
        """What the tools get whose name the query is, holds as one word, or nearly is."""
        gains: dict[int, float] = {}
        for word in (*query.split(), query):
            for at in self._exact.get(bare_letters(word), ()):
                # A name of one plain word, as `read`, is held by many a sentence that does not mean it.
                whole = word is query or len(name_parts(self.names[at])) > 1
                gains[at] = max(gains.get(at, 0.0), _EXACT if whole else _EXACT / 4)
        if len(query.split()) <= 4:
            for at, likeness in self._nearly(bare_letters(query)):
                gains[at] = max(gains.get(at, 0.0), _NEAR * likeness)
        return gains

    def _nearly(self, text: str) -> Iterator[tuple[int, float]]:
        thirds = _thirds(text)
        shared = Counter(at for third in thirds for at in self._thirds.get(third, ()))
        for at, both in sorted(shared.items()):
            likeness = 2 * both / (len(thirds) + self._counts[at])
            if likeness >= _NEARLY:
                yield at, likeness


def _bag(tool: ToolDefinition, group: str) -> dict[str, float]:
    """The words of a tool with their weights."""
    bag: dict[str, float] = defaultdict(float)

    def put(found: Iterable[str], weight: float) -> None:
        for word in found:
            bag[word] += weight

    put(name_parts(tool.name), _NAME)
    for tag in (*tool.tags, group):
        put(name_parts(tag), _TAG)
    put(comparable_words(tool.description), _SAID)
    for name, said in _parameters(tool.input_schema, _DEEP):
        put(name_parts(name), _PARAMETER)
        put(comparable_words(said), _ASIDE)
    return bag


def _parameters(schema: Any, deep: int) -> Iterator[tuple[str, str]]:
    """The names of a schema's properties, and what is said of each."""
    if not isinstance(schema, Mapping) or not deep:
        return
    properties = schema.get("properties")
    for name, sub in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(sub, Mapping):
            yield str(name), _words_of_schema(sub)
            yield from _parameters(sub, deep - 1)
    yield from _parameters(schema.get("items"), deep)


def _words_of_schema(schema: Mapping[str, Any]) -> str:
    told, choices = schema.get("description"), schema.get("enum")
    values = [value for value in choices if isinstance(value, str)] if isinstance(choices, Sequence) else []
    return " ".join([told if isinstance(told, str) else "", *values[:50]])


def _thirds(text: str) -> frozenset[str]:
    """Every three letters in a row, with the ends marked."""
    marked = f" {text} "
    return frozenset(marked[at : at + 3] for at in range(len(marked) - 2))


def _relations() -> dict[str, tuple[str, ...]]:
    related: dict[str, dict[str, None]] = defaultdict(dict)
    for group in _GROUPS:
        roots = dict.fromkeys(map(word_root, group.split()))
        for word in roots:
            related[word] |= {other: None for other in roots if other != word}
    return {word: tuple(others) for word, others in related.items()}


_RELATIONS = _relations()
