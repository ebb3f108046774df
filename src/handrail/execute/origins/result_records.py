"""The records in the results of a run, and which of them a person's words select.

A record is an object at the top of a result, or an item of a list in it. A value of it may direct an effect only if
the person's words lead to it: they name the record, or what the call asked for. Otherwise whoever writes into one
record could have the values of another one used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any, Literal

from msgspec.structs import replace

from handrail.core.calls import ResultLabels, ToolResult
from handrail.execute.origins.trusted_words import TrustedWords, plain_form, stands_whole, stem, stems_of
from handrail.execute.origins.word_sets import word_set
from handrail.execute.origins.written_dates import as_moment
from handrail.execute.origins.written_numbers import as_number
from handrail.tools.effect_kinds import name_words
from handrail.tools.result_fields import Field, fields_of, is_likely_outside, json_of_text

Selection = Literal["named", "asked", "alike", "listed", "not"]
"""How a person's words lead to a record, the surest first: by the name that the application gave it; by what else it
wrote in it, or what the call asked for; by words in it that outsiders wrote and no other record has; as one of all,
where they select none."""
SURENESS: dict[Selection, int] = {"named": 4, "asked": 3, "alike": 2, "listed": 1, "not": 0}
_IDENTITY = word_set(
    """id ids name from sender author user username login contact owner company key number email address title label
    account iban payee recipient to path file filename repo branch sku product url host"""
)
"""Words in the names of fields that tell one record from another. What a record is like (its state, its folder) selects
records too, but makes none of them a place to send something to."""
_MAILS = word_set("mail mails email emails message messages inbox letter nachricht nachrichten")
_MUCH = word_set("price cost amount total fee fare rate value sum")
_BIG = word_set("size bytes length count amount total quantity stock")
_WHEN = word_set("date day time at created received sent modified updated opened closed start departs posted published")
_EXTREMES = (
    (word_set("cheapest lowest billigste billigsten billigstes günstigste günstigsten günstigstes"), _MUCH, False),
    (word_set("dearest costliest highest teuerste teuersten teuerstes"), _MUCH, True),
    (word_set("largest biggest größte größten größtes"), _BIG, True),
    (word_set("smallest kleinste kleinsten kleinstes"), _BIG, False),
    (word_set("latest newest recent last letzte letzten letztes neueste neuesten neuestes"), _WHEN, True),
    (word_set("oldest älteste ältesten ältestes"), word_set("age"), True),
    (word_set("newest youngest neueste neuesten neuestes"), word_set("age"), False),
    (word_set("oldest earliest älteste ältesten ältestes früheste frühesten"), _WHEN, False),
)
"""Words for the one of several that has the least or the most of something, the fields that tell it, and which."""
_SHORT = 200
"""Characters of a field by whose words an outsider's record may be found."""
_MOST_BELOW = 50
_MOST_WORDS = 2_000
"""Characters of a field that are looked at for words of the person."""


class Record:
    """One record of a result."""

    __slots__ = ("_identity", "_words", "below", "fields", "of", "parent", "path")

    def __init__(self, of: ResultRecords, path: tuple[str | int, ...], parent: Record | None) -> None:
        self.of: ResultRecords = of
        self.path: tuple[str | int, ...] = path
        self.parent: Record | None = parent
        self.fields: list[Field] = []
        self.below: list[Record] = []
        """The records of the lists in it, as the items of an order."""
        if parent is not None and parent.path:
            parent.below.append(self)
        self._words: dict[bool, set[str]] = {}
        self._identity: set[str] | None = None

    @property
    def identity(self) -> set[str]:
        """The words of the fields by which the application tells records apart."""
        if self._identity is None:
            self._identity = {
                word
                for field in self.fields
                if not field.outside and field.path and not _IDENTITY.isdisjoint(name_words(str(field.path[-1])))
                for word in stems_of(str(field.value)[:_MOST_WORDS])
            }
        return self._identity

    @property
    def numbers(self) -> set[str]:
        """The fields that are nothing but a number."""
        return {
            str(field.value)
            for field in self.fields
            if isinstance(field.value, int) or (isinstance(field.value, str) and field.value.isdecimal())
        }

    def words(self, *, outside: bool) -> set[str]:
        """The words of its fields, those that outsiders write included or not."""
        if outside not in self._words:
            found: set[str] = set()
            for field in self.fields:
                if field.outside and (not outside or len(str(field.value)) > _SHORT):
                    continue
                if isinstance(field.value, str):
                    found |= stems_of(field.value[:_MOST_WORDS])
                elif isinstance(field.value, int | float) and not isinstance(field.value, bool):
                    found.add(str(field.value))
            for each in self.below[:_MOST_BELOW]:
                found |= each.words(outside=outside)
            self._words[outside] = found
        return self._words[outside]


class ResultRecords:
    """One result, taken apart into records when it is first needed."""

    __slots__ = ("_records", "arguments", "changes", "result", "sends_out", "tool")

    def __init__(
        self, result: ToolResult, tool: str, arguments: dict[str, Any], *, changes: bool, sends_out: bool = False
    ) -> None:
        self.result: ToolResult = result
        self.tool: str = tool
        self.arguments: dict[str, Any] = arguments
        self.changes: bool = changes
        """Whether its tool has a side effect."""
        self.sends_out: bool = sends_out
        """Whether its tool asks foreign places."""
        self._records: list[Record] | None = None

    def is_echo(self, field: Field) -> bool:
        """Whether a field only repeats what its call was given."""
        return any(field_has(Field((), given, False, False), field.value) for given in _given(self.arguments))

    @property
    def is_mixed(self) -> bool:
        """Whether outsiders write in it."""
        labels: ResultLabels | None = self.result.labels
        return self.result.untrusted or (labels is not None and bool(labels.untrusted))

    def may_hold(self, value: Any) -> bool:
        """A quick look whether a value stands in it, before it is taken apart."""
        return _holds(json_of_text(self.result.content), value)

    @property
    def records(self) -> list[Record]:
        """The records, those of lists before what they are in."""
        if self._records is None:
            self._records = list(self._taken_apart())
        return self._records

    def _taken_apart(self) -> Iterator[Record]:
        made: dict[tuple[str | int, ...], Record] = {}
        likely = self.result.labels if self.result.labels is not None and self.result.labels.untrusted else None
        for field in fields_of(self.result.content, self.result.labels, untrusted=self.result.untrusted):
            if likely and not field.outside and is_likely_outside(field.path, likely):
                field = replace(field, outside=True)
            at = field.path
            while at and not isinstance(at[-1], int):
                at = at[:-1]
            self._record(made, at).fields.append(field)
        return iter(made.values())

    def _record(self, made: dict[tuple[str | int, ...], Record], at: tuple[str | int, ...]) -> Record:
        if at not in made:
            above = at[:-1]
            while above and not isinstance(above[-1], int):
                above = above[:-1]
            made[at] = Record(self, at, self._record(made, above) if at else None)
        return made[at]

    def siblings(self, record: Record) -> list[Record]:
        """The records of the same list, itself included."""
        if not record.path:
            return [record]
        head = record.path[:-1]
        return [each for each in self.records if each.path and each.path[:-1] == head]


def _given(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _given(item)
    elif value not in (None, "") and not isinstance(value, bool):
        yield value


def _holds(content: Any, value: Any) -> bool:
    if isinstance(content, dict):
        if value in content.values():
            return True
        return any(_holds(item, value) for item in content.values() if isinstance(item, dict | list | str))
    if isinstance(content, list | tuple):
        if value in content:
            return True
        return any(_holds(item, value) for item in content if isinstance(item, dict | list | str))
    return content == value or (isinstance(content, str) and isinstance(value, str) and value in content)


def field_has(field: Field, value: Any) -> bool:
    """Whether a value stands whole in a field: as all of it, or in its text; or as the same number or moment."""
    if type(field.value) is type(value) and field.value == value:
        return True
    if isinstance(value, bool) or isinstance(field.value, bool):
        return False
    if (number := as_number(value)) is not None:
        return as_number(field.value) == number
    if not isinstance(field.value, str) or not isinstance(value, str):
        return False
    if stands_whole(plain_form(value), plain_form(field.value)):
        return True
    there, here = as_moment(field.value), as_moment(value)
    return there is not None and here is not None and there.key == here.key


def _kind_of(record: Record) -> set[str]:
    """How people call such records, by the name of their list or of the tool: it tells none from another."""
    names = {word for step in record.path if isinstance(step, str) for word in name_words(step)}
    names |= set(name_words(record.of.tool.rpartition(":")[2]))
    if not names.isdisjoint(_MAILS):
        names |= _MAILS
    return set(map(stem, names))


def _extreme(siblings: list[Record], said: set[tuple[str, str]]) -> Record | None:
    """The one of several that is the cheapest, the largest, the latest: by a field that the application wrote."""
    if len(siblings) < 2:
        return None
    kind = _kind_of(siblings[0])
    for wanted, names, last in _EXTREMES:
        if not any(stem(noun) in kind for word, noun in said if word in wanted):
            continue
        found: list[tuple[Decimal | tuple[date, int], Record]] = []
        for each in siblings:
            keys = {
                key
                for field in each.fields
                if not field.outside and field.path and not names.isdisjoint(name_words(str(field.path[-1])))
                if (key := _key(field.value, names is _WHEN)) is not None
            }
            if len(keys) == 1:
                found.append((keys.pop(), each))
        if len(found) == len(siblings):
            found.sort(key=lambda each: each[0], reverse=last)
            return found[0][1] if found[0][0] != found[1][0] else None
    return None


def _key(value: Any, when: bool) -> Decimal | tuple[date, int] | None:
    if not when:
        return as_number(value)
    moment = as_moment(value)
    return None if moment is None or moment.day is None else (moment.day, moment.minutes or 0)


def extreme_meant(siblings: list[Record], words: TrustedWords, verbs: frozenset[str]) -> Record | None:
    """The one of several that the person means by `the largest`, or by `the latest mail from Anna`."""
    kind = _kind_of(siblings[0]) if siblings else set[str]()
    said = words.naming - kind - verbs
    found = [(each, said & each.words(outside=True)) for each in siblings]
    return _extreme([each for each, its in found if not any(its < other for _, other in found)], words.pairs)


def selection_by_words(record: Record, words: TrustedWords, verbs: frozenset[str] = frozenset()) -> Selection:
    """How the person's words lead to a record among the others of its list. What outsiders wrote is not found by the
    verbs that ask for what is done."""
    siblings = record.of.siblings(record)
    said = words.naming if len(siblings) == 1 else words.naming - _kind_of(record)
    for outside in (False, True):
        if outside:
            said = said - verbs
        found = [(each, said & each.words(outside=outside)) for each in siblings]
        if not words.dated.isdisjoint(said):  # the 1 of `1 June` is not the name of what has the number 1
            found = [(each, its - (words.dated & each.numbers)) for each, its in found]
        if len(siblings) > 1:
            shared = Counter(word for _, its in found for word in its)
            found = [(each, {word for word in its if shared[word] < len(siblings)}) for each, its in found]
        if outside and len(siblings) > 1:
            likely = [each for each, its in found if not any(its < other for _, other in found)]
            if (least_or_most := _extreme(likely, words.pairs)) is not None:
                return "asked" if least_or_most is record else "not"
        if not any(its for _, its in found):
            continue
        mine = next(its for each, its in found if each is record)
        if not mine or any(mine < its for _, its in found):
            return "not"
        if not outside:
            return "asked" if mine.isdisjoint(record.identity) else "named"
        others = [its for each, its in found if each is not record]
        return "alike" if not any(mine <= its for its in others) and mine - set().union(*others) else "not"
    return "listed"
