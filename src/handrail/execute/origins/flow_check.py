"""The step of a call that asks where its arguments come from, and whether they may direct what it does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol

from handrail.core.errors import Denied
from handrail.core.origins import ArgumentOrigin, Origin, OriginKind
from handrail.core.secret_pointers import child_pointer
from handrail.execute.origins.asked_effects import AskedEffect
from handrail.execute.origins.call_leaves import (
    AMOUNTS,
    CENTS,
    COUNTING,
    COUNTS,
    ENDS,
    HOW_MUCH,
    LENGTHS,
    RELATED,
    SECRETS,
    SHARES,
    STARTS,
    CallLeaf,
    scalars,
)
from handrail.execute.origins.flows import FlowOutcome, Flows
from handrail.execute.origins.plans import PlannedCall
from handrail.execute.origins.pointed_fields import (
    LINKS,
    is_field_spoken_of,
    is_link_asked_for,
    is_mailbox,
    is_mailbox_of_named_source,
)
from handrail.execute.origins.requests import (
    addressees,
    asking_words,
    is_only_compared,
    numbered_clauses,
    requested,
    sources,
)
from handrail.execute.origins.result_records import (
    SURENESS,
    Record,
    ResultRecords,
    Selection,
    extreme_meant,
    field_has,
    selection_by_words,
)
from handrail.execute.origins.run_origins import RunOrigins
from handrail.execute.origins.trusted_words import STOP, plain_form, stem, stems_of
from handrail.execute.origins.urls import addresses_in, url_parts
from handrail.execute.origins.word_sets import word_set
from handrail.execute.origins.written_dates import Moment, as_moment
from handrail.execute.origins.written_numbers import as_number
from handrail.tools.argument_roles import ArgumentRole, argument_role, is_required_at, nested_role, schema_at
from handrail.tools.effect_kinds import (
    GRAVE,
    STRICT,
    UNMAKING,
    effect_kind,
    grave_words_of,
    is_grave,
    name_words,
    words_that_ask,
)
from handrail.tools.registry import RegisteredTools
from handrail.tools.result_fields import Field
from handrail.tools.tool import Tool

_MOST_LEAVES = 1_000
_LONGEST = 100_000
"""Of arguments that are looked at. With more, nothing is known to have a trusted origin."""
_DEEPEST = 4
"""Calls that lead to each other."""
_MOST_NAMESAKES = 500
_LONGEST_NAME = 320
_SENDERS = word_set("from sender author name by organizer organiser contact customer")
_MAIL = re.compile(r"[^@\s<>]{1,64}@[^@\s<>]{1,255}")
_REWRITES = word_set("write update mark label archive cart commit run rename copy set")
_NAMES = word_set("id number iban email user username login phone url path name key")
"""Words in the names of fields that name what their record stands for."""
_NAME_ONLY = {("name",), ("beneficiary",), ("payee",), ("holder",), ("label",)}
_TELLING = frozenset({"send", "reply", "forward"})
_MONEY = frozenset({"pay", "refund", "buy", "reserve"})
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class FlowFinding:
    """What was found about a call: where its arguments come from, and why a person must be asked, if they must."""

    why: str = ""
    origins: tuple[ArgumentOrigin, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSoFar:
    """What a run has read and heard, can do, and has done."""

    origins: RunOrigins
    tools: RegisteredTools
    done_before: Callable[[frozenset[str]], bool]
    """Whether the call was made already, but for the values of these arguments."""
    has_other_effect: Callable[[], bool]
    """Whether another tool has had an effect."""
    planned: PlannedCall | None = None
    """The step of the plan that the call is, if it is one."""


@lru_cache(2048)
def _stems_that_ask(name: str) -> frozenset[str]:
    return frozenset(map(stem, words_that_ask(name)))


def content_of_effect(tool: Tool) -> frozenset[str]:
    """The arguments in which two calls may differ and still do the same once more: a second mail to the same person
    is one more, a second version of a file is not."""
    if effect_kind(tool.name) in _REWRITES:
        return frozenset()
    known = tool.definition.input_schema.get("properties", {})
    return frozenset(name for name in known if argument_role(tool.definition, name, known[name]) == "carries")


def check_flows(
    tool: Tool,
    arguments: dict[str, Any],
    run: RunSoFar,
    flows: Flows,
) -> FlowFinding:
    """Find out where the arguments of a side effect, or of a read that sends data out, come from.

    Raises:
        Denied: The policy refuses it.
    """
    origins = run.origins
    check = _FlowCheck(tool, arguments, origins)
    reasons: list[str] = []
    found: tuple[ArgumentOrigin, ...] = ()
    if origins.outside:
        found, untrusted = check.derivations()
        if not check.hears_a_person:  # as in an MCP proxy: only what outsiders are known to have written counts
            untrusted = [each for each in untrusted if _is_outside(each[1])]
        if run.planned is not None:
            untrusted = [each for each in untrusted if each[0].pointer not in run.planned.covers]
        if untrusted:
            _decide(tool, flows.directs, check.why_untrusted(untrusted), reasons)
        if check.hears_a_person and not tool.reads and run.planned is None:
            if not (check.is_asked_for(run) or (not untrusted and check.may_be_asked_for(run))):
                _decide(tool, flows.unasked, check.why_unasked(), reasons)
            elif not tool.definition.idempotent and run.done_before(check.repeatable):
                _decide(tool, flows.unasked, f"{tool.name!r} was done once already for what you said", reasons)
    if (leak := check.private_leak()) is not None:
        _decide(tool, flows.private, leak, reasons)
    return FlowFinding("; ".join(reasons), found)


def _decide(tool: Tool, outcome: FlowOutcome, why: str, reasons: list[str]) -> None:
    if outcome == "deny":
        raise Denied(f"{tool.name!r} is not run: {why}; tell the user what you wanted to do")
    if outcome == "ask":
        reasons.append(why)


class _FlowCheck:
    """One call, judged by what its run has read and heard."""

    def __init__(self, tool: Tool, arguments: dict[str, Any], origins: RunOrigins) -> None:
        self._tool = tool
        self._arguments = arguments
        self._origins = origins
        self._words = origins.words
        self._kind = effect_kind(tool.name)
        self._effect = AskedEffect(tool, self._words)
        self._verbs = _stems_that_ask(tool.name)
        self._verbs_of_name = set(map(stem, name_words(tool.name)[:1]))
        self._selected: dict[int, Selection] = {}
        self._known: dict[str, Origin | None] = {}
        self._too_much = False
        self._leaves = list(self._all_leaves())
        self._starts = [
            moment
            for leaf in self._leaves
            if not leaf.names.isdisjoint(STARTS) and (moment := as_moment(leaf.value)) is not None
        ]

    # ── the arguments ────────────────────────────────────────────────────────────────

    def _all_leaves(self) -> Iterator[CallLeaf]:
        definition = self._tool.definition
        known: Mapping[str, Any] = definition.input_schema.get("properties", {})
        required = definition.input_schema.get("required", ())
        count = size = 0
        for name, value in self._arguments.items():
            schema = known.get(name)
            role = argument_role(definition, name, schema)
            facts = schema if isinstance(schema, dict) else {}
            for pointer, item in scalars(child_pointer("", name), value):
                count += 1
                size += len(item) if isinstance(item, str) else 8
                if count > _MOST_LEAVES or size > _LONGEST:
                    self._too_much = True
                    return
                steps = tuple(step for step in pointer.split("/")[2:] if not step.isdecimal())
                if not steps:
                    yield CallLeaf(pointer, name, item, role, facts, name in required)
                    continue
                inner = schema_at(definition, schema, steps)
                yield CallLeaf(
                    pointer,
                    name,
                    item,
                    nested_role(definition, name, steps, schema),
                    inner if isinstance(inner, dict) else {},
                    is_required_at(definition, schema, steps),
                )

    def derivations(self) -> tuple[tuple[ArgumentOrigin, ...], list[tuple[CallLeaf, tuple[Origin, ...]]]]:
        """Where each argument comes from, and those that direct without a trusted origin."""
        found: list[ArgumentOrigin] = []
        untrusted: list[tuple[CallLeaf, tuple[Origin, ...]]] = []
        for leaf in self._leaves:
            if leaf.role == "carries":
                untrusted.extend(self._untrusted_addresses(leaf))
                continue
            origin = self._known_origin(leaf)
            if origin is None and self._is_name_beside_address(leaf):
                untrusted.extend(self._untrusted_addresses(leaf))
                continue
            if origin is not None:
                found.append(ArgumentOrigin(leaf.pointer, "directs", True, (origin,)))
            else:
                origins = self._places_of(leaf.value) or (Origin("model"),)
                found.append(ArgumentOrigin(leaf.pointer, "directs", False, origins))
                untrusted.append((leaf, origins))
        if untrusted:  # only then is it worth a search to tell where content comes from
            for leaf in self._leaves:
                if leaf.role == "carries":
                    origins = self._content_origins(leaf.value)
                    found.append(ArgumentOrigin(leaf.pointer, "carries", not _is_outside(origins), origins))
        return tuple(found), untrusted

    def _untrusted_addresses(self, leaf: CallLeaf) -> Iterator[tuple[CallLeaf, tuple[Origin, ...]]]:
        """Content directs too where it has an address to go to or to pay to: each needs an origin as an argument
        does, or to go back where it was read."""
        if not isinstance(leaf.value, str):
            return
        for address in dict.fromkeys(addresses_in(leaf.value)):
            part = replace(leaf, value=address)
            if self._trusted_origin(part) is None and not self._goes_back(leaf.value, address):
                yield part, self._places_of(address) or (Origin("model"),)

    def _is_name_beside_address(self, leaf: CallLeaf) -> bool:
        """Whether it is only the name that stands beside an address with a trusted origin, as that of a recipient."""
        here, _, last = leaf.pointer.rpartition("/")
        words = name_words(last)
        if not isinstance(leaf.value, str) or leaf.is_outward or words[-1:] not in _NAME_ONLY or "user" in words:
            return False
        return any(
            each.is_outward and each.pointer.rpartition("/")[0] == here and self._known_origin(each) is not None
            for each in self._leaves
            if each is not leaf and each.role == "directs"
        )

    def _goes_back(self, text: str, address: str) -> bool:
        """Whether each line with an address goes back as it was to where it was read, as when a file is changed."""
        targets = [leaf.value for leaf in self._leaves if leaf.role == "directs" and leaf.value not in (None, "", True)]
        there = {
            line.strip()
            for record, field in self._found(address)
            if any(given in targets for _, given in scalars("", record.of.arguments))
            for line in str(field.value).splitlines()
        }
        return bool(there) and all(line.strip() in there for line in text.splitlines() if address in line)

    def _known_origin(self, leaf: CallLeaf) -> Origin | None:
        """The trusted origin of an argument, looked for once."""
        if leaf.pointer not in self._known:
            self._known[leaf.pointer] = self._trusted_origin(leaf)
        return self._known[leaf.pointer]

    def _trusted_origin(self, leaf: CallLeaf) -> Origin | None:
        value = leaf.value
        if self._too_much:
            return None
        if (value is None or value in ("", [], {})) and not isinstance(value, bool | int | float):
            return None if leaf.required else Origin("default")
        if _is_default(value, leaf.schema) and not self._is_other_choice_said(leaf):
            return Origin("default")
        if isinstance(value, bool):
            named = value and self._words.has_stem_of(
                {each for each in leaf.names if each not in STOP and len(each) > 2}
            )
            return Origin("person") if named else None
        if value == 1 and not leaf.names.isdisjoint(COUNTS):
            return Origin("default")  # the least there is
        if self._is_said(leaf):
            return Origin("person")
        if self._is_choice_said(leaf):
            return Origin("person")
        if isinstance(value, str) and (parts := url_parts(value)) is not None:
            return Origin("person") if self._is_said_in_parts(parts) else self._field_origin(leaf)
        if isinstance(value, str) and "/" in value.strip("/") and self._is_path_of_said(leaf):
            return Origin("person")
        return self._field_origin(leaf)

    def _is_choice_said(self, leaf: CallLeaf) -> bool:
        """Whether the person said one of the values that are offered, in another form."""
        value = leaf.value
        if "enum" not in leaf.schema or not isinstance(value, str):
            return False
        return self._words.has_related(value) or self._words.has_run_together(value)

    def _is_other_choice_said(self, leaf: CallLeaf) -> bool:
        """Whether the person said another of the values that are offered."""
        choices = leaf.schema.get("enum")
        if not isinstance(choices, list) or leaf.value not in choices or len(choices) < 2:
            return False
        others = [each for each in choices if each != leaf.value and isinstance(each, str)]
        if isinstance(leaf.value, str) and (self._words.has(leaf.value) or self._words.has_run_together(leaf.value)):
            return False
        return any(self._words.has(each) or self._words.has_run_together(each) for each in others)

    def _is_said(self, leaf: CallLeaf) -> bool:
        value, names = leaf.value, leaf.names
        if isinstance(value, str) and not names.isdisjoint(SECRETS):
            return self._words.has_exactly(value) and value.casefold() not in names
        if not names.isdisjoint(AMOUNTS | COUNTS) and self._names_a_thing(leaf):
            return False
        scale = 100 if not names.isdisjoint(CENTS) else 1
        if (
            isinstance(value, str | int | float)
            and names.isdisjoint(RELATED)
            and is_only_compared(self._words.said_by_person, _as_said(value))
        ):
            return False
        if not names.isdisjoint(HOW_MUCH) and self._belongs_to_another(leaf):
            return False
        amount = not names.isdisjoint(AMOUNTS) and names.isdisjoint(SHARES)
        counts = not names.isdisjoint(COUNTING)
        if isinstance(value, str) and value.isalpha() and stem(value) in self._verbs_of_name:
            return False  # it only says what is done, as `merge` does
        if self._words.has(value, amount=amount, counts=counts, scale=scale, place=leaf.is_place):
            return True
        if (number := as_number(value)) is not None and not names.isdisjoint(LENGTHS):
            return self._words.has_duration(number) or self._words.has_duration(number * Decimal(60))
        moment = as_moment(value)
        return moment is not None and (
            self._words.has_moment(moment)
            or self._is_end(leaf, moment)
            or self._is_other_time(leaf, moment)
            or self._is_any_time(moment)
        )

    def _belongs_to_another(self, leaf: CallLeaf) -> bool:
        """Whether the person said a number beside the name of something else, and another number beside the name of
        this, as the 50 in `20 to Anna and 50 to Bob`."""
        number = as_number(leaf.value)
        clauses = numbered_clauses(self._words.said_by_person)
        if number is None or len(clauses) < 2:
            return False
        meant = {number} if leaf.names.isdisjoint(CENTS) else {number, number / Decimal(100)}
        here = leaf.pointer.rpartition("/")[0]
        mine, others, tools = set[str](), set[str](), set[str]()
        own: set[int] = set()
        for each in self._leaves:
            if each is leaf or each.role != "directs" or each.pointer.rpartition("/")[0] != here:
                continue
            if not isinstance(each.value, str | int) or isinstance(each.value, bool) or not self._tells_apart(each):
                continue
            for record, field in self._found(each.value):
                if not field.outside:
                    mine |= record.words(outside=True)
                    tools.add(record.of.tool)
                    own.add(id(record))
            if isinstance(each.value, str):
                mine |= stems_of(each.value)
        for result in self._origins.results():
            if result.tool in tools:
                for record in result.records:
                    if id(record) not in own:
                        others |= record.words(outside=True)
        others -= mine
        with_number = [said for numbers, said in clauses if not numbers.isdisjoint(meant)]
        if not with_number or any(mine & said for said in with_number):
            return False
        named = [numbers for numbers, said in clauses if numbers.isdisjoint(meant) and mine & said]
        if any(len(numbers) == 1 for numbers in named) and self._is_beside_said_address(leaf):
            return True
        return bool(named) and all(others & said for said in with_number)

    def _is_beside_said_address(self, leaf: CallLeaf) -> bool:
        """Whether the person said the address that a number goes to."""
        here = leaf.pointer.rpartition("/")[0]
        return any(
            each.is_outward and each.pointer.rpartition("/")[0] == here and self._words.has(each.value, place=True)
            for each in self._leaves
            if each is not leaf and each.role == "directs"
        )

    def _names_a_thing(self, leaf: CallLeaf) -> bool:
        """Whether a number was said once, and is the name of what another argument means, as that of an order."""
        number = as_number(leaf.value)
        if number is None or number != number.to_integral_value():
            return False
        digits = str(int(abs(number)))
        others = (each for each in self._leaves if each is not leaf and each.role == "directs")
        return any(str(each.value) == digits for each in others) and self._words.count(digits) <= 1

    def _is_other_time(self, leaf: CallLeaf, moment: Moment) -> bool:
        """Whether it is a time that was said, on the day of the record that another argument names."""
        if moment.day is None or moment.minutes is None:
            return False
        if not self._words.has_minutes(moment):
            start = next((each for each in self._starts if each.day == moment.day), None)
            if leaf.names.isdisjoint(ENDS) or start is None or not self._words.has_minutes(start):
                return False
            if not self._words.has_end(start, moment):
                return False
        others = (each for each in self._leaves if each.role == "directs" and as_moment(each.value) is None)
        return any(
            there.day == moment.day and there.minutes is not None
            for each in others
            if isinstance(each.value, str | int) and not isinstance(each.value, bool)
            for record, field in self._found(each.value)
            if not field.outside and self._selection(record, 0) in ("named", "asked", "alike")
            for other in record.fields
            if not other.outside and (there := as_moment(other.value)) is not None
        )

    def _is_any_time(self, moment: Moment) -> bool:
        """Whether it is some time of a day that was said, of something new, where the person said no time at all. One
        that outsiders wrote is none."""
        if moment.minutes is None or self._kind != "create" or self._words.has_time:
            return False
        return self._words.has_day(moment) and not self._origins.outsiders_write_time(moment.minutes)

    def _is_end(self, leaf: CallLeaf, moment: Moment) -> bool:
        """Whether it is the end of something whose beginning was said."""
        if leaf.names.isdisjoint(ENDS):
            return False
        return any(self._words.has_moment(start) and self._words.has_end(start, moment) for start in self._starts)

    def _is_said_in_parts(self, parts: tuple[str, ...]) -> bool:
        return all(self._words.has(part) for part in parts)

    def _is_path_of_said(self, leaf: CallLeaf) -> bool:
        """Whether every step of a relative path was said, or is a field of a record that the person's words select."""
        steps = leaf.value.removeprefix("./").split("/")
        if any(step in ("", ".", "..") or step.startswith("~") or "\\" in step for step in steps):
            return False
        return all(self._words.has(step, place=True) for step in steps)

    # ── the fields of results ────────────────────────────────────────────────────────

    def _field_origin(self, leaf: CallLeaf) -> Origin | None:
        """The trusted field of a record that the person's words select, if the value is one."""
        best: tuple[int, Origin] | None = None
        if leaf.names.isdisjoint(RELATED) and is_only_compared(self._words.said_by_person, _as_said(leaf.value)):
            return None
        for record, field in self._found(leaf.value):
            if record.of.is_echo(field):
                continue
            if field.outside:
                if self._is_found_by_search(leaf, record, field) or self._is_pointed_at(leaf, record, field):
                    return Origin("outside", record.of.tool, record.of.result.tool_call_id, field.words)
                continue
            if self._is_mailbox_of_effect(record, leaf):
                continue
            selection = self._selection(record, 0)
            if (
                (self._counts(selection, record, leaf) or self._is_spoken_of(record, field, leaf))
                and not self._is_said_otherwise(record, leaf)
                and not (leaf.is_outward and self._is_only_a_source(record))
            ):
                origin = Origin("field", record.of.tool, record.of.result.tool_call_id, field.words)
                if best is None or SURENESS[selection] > best[0]:
                    best = SURENESS[selection], origin
        return None if best is None else best[1]

    def _found(self, value: Any) -> Iterator[tuple[Record, Field]]:
        """The fields in which a value stands whole, those of the latest results first."""
        if isinstance(value, str) and not value.strip():
            return
        for result in self._origins.holding(value):
            for record in result.records:
                for field in record.fields:
                    if field_has(field, value):
                        yield record, field

    def _is_found_by_search(self, leaf: CallLeaf, record: Record, field: Field) -> bool:
        """Whether a read asks for a whole address that a search for the person's words has found: it tells nobody
        anything that they did not write themselves."""
        if not self._tool.reads or field.value != leaf.value or "://" not in str(leaf.value):
            return False
        return record.of.sends_out and self._asked(record.of, 1) is not None

    def _is_pointed_at(self, leaf: CallLeaf, record: Record, field: Field) -> bool:
        """Whether the person says that such a value is to be found in what outsiders wrote."""
        if not isinstance(leaf.value, str) or leaf.role != "directs":
            return False
        if self._tool.reads:
            return (
                self._is_only_argument(leaf)
                and is_link_asked_for(leaf.value, record, field, self._words)
                and (self._selection(record, 0) == "named" or self._is_one_of_all(record))
            )
        return not self._is_told_who_gets_it and is_mailbox_of_named_source(leaf.value, record, self._words)

    @property
    def _is_told_who_gets_it(self) -> bool:
        """Whether an address that the words only point at must not do: where money goes or others get in, or where the
        person names somebody who is to be told."""
        if self._kind in _MONEY | GRAVE:
            return True
        return self._kind in _TELLING and bool(addressees(self._words.said_by_person))

    def _is_one_of_all(self, record: Record) -> bool:
        """Whether the person means the links in all of what a call found, and nobody's in particular."""
        if not self._words.says_all_of(LINKS) or self._asked(record.of, 0) not in ("named", "asked"):
            return False
        return all(self._selection(each, 0) != "named" for each in record.of.siblings(record)[:_MOST_NAMESAKES])

    def _is_spoken_of(self, record: Record, field: Field, leaf: CallLeaf) -> bool:
        """Whether an address is in a field, of the application's own, that the person names together with what it is a
        field of."""
        return (
            is_mailbox(leaf.value)
            and not record.of.changes
            and not self._is_told_who_gets_it
            and is_field_spoken_of(record, field, self._words)
            and self._asked(record.of, 0) in ("named", "asked")
        )

    def _is_mailbox_of_effect(self, record: Record, leaf: CallLeaf) -> bool:
        """Whether an address only stands in what an effect of the run gave back, as that of the sender of a mail: that
        is no word on who gets the next one."""
        return record.of.changes and leaf.role == "directs" and is_mailbox(leaf.value) and not self._tool.reads

    def _is_only_argument(self, leaf: CallLeaf) -> bool:
        return all(each is leaf or each.value in (None, "", [], {}) for each in self._leaves)

    def _counts(self, selection: Selection, record: Record, leaf: CallLeaf) -> bool:
        """Whether a record that is so selected may say what a call does."""
        if selection == "named":
            return True
        if record.of.is_mixed:
            if leaf.is_outward or selection == "not":
                return False
            if selection in ("alike", "listed") and self._is_named_otherwise(record, leaf.value):
                return False
            if selection in ("asked", "alike"):
                return True
            return self._kind not in STRICT and not self._is_another_number(leaf)
        if selection == "asked":
            return True
        if selection != "listed" or self._is_another_number(leaf):
            return False
        alone = len(record.of.siblings(record)) == 1
        return alone or self._kind not in STRICT or self._words.is_universal

    def _is_only_a_source(self, record: Record) -> bool:
        """Whether the person names it only as where something comes from, and somebody else as who gets it."""
        text = self._words.said_by_person
        told = addressees(text)
        words = record.words(outside=False)
        said = words & self._words.naming
        return bool(told) and bool(said) and told.isdisjoint(words) and said <= sources(text)

    def _is_said_otherwise(self, record: Record, leaf: CallLeaf) -> bool:
        """Whether the person said another time or another amount, so that none of a record is meant."""
        moment = as_moment(leaf.value)
        if moment is not None and moment.minutes is not None and not leaf.names.isdisjoint(STARTS):
            return self._words.has_time
        return leaf.names.isdisjoint(SHARES) and not leaf.names.isdisjoint(AMOUNTS) and self._words.has_money

    def _is_named_otherwise(self, record: Record, value: Any) -> bool:
        """Whether the person names things of this kind by their ids: then no other words do."""
        name = next((field.path[-1] for field in record.fields if field.value == value and field.path), None)
        return any(
            self._words.has(field.value, place=True)
            for result in self._origins.results()
            for each in result.records
            for field in each.fields
            if field.path and field.path[-1] == name and not field.outside and not isinstance(field.value, bool)
        )

    def _is_another_number(self, leaf: CallLeaf) -> bool:
        """Whether it is the number of something, where the person has named a thing by another number."""
        number = None if isinstance(leaf.value, str) else as_number(leaf.value)
        return number is not None and number == number.to_integral_value() and self._words.has_whole_number

    def _selection(self, record: Record, depth: int) -> Selection:
        if (known := self._selected.get(id(record))) is not None:
            return known
        self._selected[id(record)] = "not"  # for one that leads to itself
        found = self._selection_of(record, depth)
        self._selected[id(record)] = found
        return found

    def _selection_of(self, record: Record, depth: int) -> Selection:
        of = record.of
        if of.changes and not of.is_mixed and not record.path:
            return "named"  # what the run itself has made
        by_words = selection_by_words(record, self._words, self._verbs)
        if by_words == "asked" and self._was_another_meant(record):
            return "not"
        asked = self._asked(of, depth) if depth < _DEEPEST else None
        if not record.path:  # the only one of its result: what it was asked for says whose it is
            if asked is not None:
                return asked
            if of.is_mixed:
                return "not"
            return "listed" if not of.arguments else by_words if by_words == "named" else "not"
        if self._kind in _TELLING and self._has_namesake(record):
            return "not"  # which of the people of this name is meant is for the person to say
        if by_words != "listed":
            return by_words
        if asked is not None:
            return "asked" if asked == "named" else asked
        if of.arguments and any(value not in (None, "", [], {}) for value in of.arguments.values()):
            return "not"
        return "listed"

    def _was_another_meant(self, record: Record) -> bool:
        """Whether `the largest` was something else when the run asked for the first time: once that is gone, the next
        one is not what the person meant."""
        of = record.of
        if extreme_meant(of.siblings(record), self._words, self._verbs) is not record:
            return False
        for result in self._origins.results():
            if result is of or result.tool != of.tool or result.arguments != of.arguments:
                continue
            first = next((each for each in result.records if len(each.path) == len(record.path)), None)
            other = None if first is None else extreme_meant(result.siblings(first), self._words, self._verbs)
            if other is not None and other.identity != record.identity:
                return True
        return False

    def _has_namesake(self, record: Record) -> bool:
        """Whether another record of the list is from somebody of the name that the person said, at another address."""
        addresses, names = _sender_of(record)
        said = names & self._words.naming
        if not said or not addresses:
            return False
        others = (_sender_of(each) for each in record.of.siblings(record)[:_MOST_NAMESAKES] if each is not record)
        return any(theirs and theirs.isdisjoint(addresses) and not said.isdisjoint(words) for theirs, words in others)

    def _asked(self, of: ResultRecords, depth: int) -> Selection | None:
        """How the person's words lead to what the call of a result was given; None if it was given nothing, or
        something else."""
        least: Selection | None = None
        for pointer, value in scalars("", of.arguments):
            if value is None or value == "" or isinstance(value, bool):
                continue
            name = pointer.rpartition("/")[2]
            leaf = CallLeaf(pointer, name, value, "directs", {}, False)
            how: Selection = (
                "named" if self._is_said(leaf) or self._is_topic(value) else self._selection_of_value(value, depth + 1)
            )
            if how == "not":
                if isinstance(value, int) and name_words(name)[-1:] != ("id",):
                    continue  # how many, or which page
                return None
            if least is None or SURENESS[how] < SURENESS[least]:
                least = how
        return least

    def _is_topic(self, value: Any) -> bool:
        """Whether all words of what was searched for were said, in some form."""
        if not isinstance(value, str) or not re.fullmatch(r"[\w\s'’-]{2,200}", value):
            return False
        return stems_of(value) <= self._words.naming and bool(stems_of(value))

    def _selection_of_value(self, value: Any, depth: int) -> Selection:
        best: Selection = "not"
        for record, field in self._found(value):
            if not field.outside and not record.of.is_echo(field):
                how = self._selection(record, depth)
                if SURENESS[how] > SURENESS[best]:
                    best = how
        return best

    def _places_of(self, value: Any) -> tuple[Origin, ...]:
        """Where a value stands that has no trusted origin, those places first that outsiders write."""
        if isinstance(value, bool) or value is None:
            return ()
        found: dict[Origin, None] = {}
        for record, field in self._found(value):
            kind: OriginKind = "outside" if field.outside else "field"
            found[Origin(kind, record.of.tool, record.of.result.tool_call_id, field.words)] = None
            if len(found) >= 8:
                break
        return tuple(sorted(found, key=lambda origin: origin.kind != "outside"))[:3]

    def _content_origins(self, value: Any) -> tuple[Origin, ...]:
        if isinstance(value, str) and self._words.has(value):
            return (Origin("person"),)
        return self._places_of(value) or (Origin("model"),)

    # ── the call itself ──────────────────────────────────────────────────────────────

    @property
    def hears_a_person(self) -> bool:
        """Whether the run has words of a person. One whose conversation is held elsewhere has none."""
        return self._words.has_person

    def is_asked_for(self, run: RunSoFar) -> bool:
        """Whether the person's words ask for what the tool does."""
        chosen = (leaf.value for leaf in self._leaves if "enum" in leaf.schema and isinstance(leaf.value, str))
        return self._effect.is_asked_for(run.tools, chosen)

    def may_be_asked_for(self, run: RunSoFar) -> bool:
        """Whether the person may have asked for it in words that no table has: they ask for nothing else that the run
        can do, and name what it is done to. Every argument that directs it has a trusted origin.

        Only one tool of a run counts so: one unknown word cannot ask for two things.
        """
        text = self._words.said_by_person
        vague = frozenset[str]() if self._kind in UNMAKING else None
        grave = grave_words_of(self._tool.name)
        if grave and requested(text)[1].isdisjoint(map(stem, grave)):
            return False
        if not text or run.has_other_effect() or self._effect.is_something_else_asked(run.tools, text, vague):
            return False
        asking = asking_words(text)
        asking.read()
        numbered = asking.has_digits
        named = False
        records_of = {leaf.pointer: list(self._own_records(leaf)) for leaf in self._leaves if leaf.role == "directs"}
        surely = {id(record) for records in records_of.values() for record, by_name in records if by_name}
        for leaf in self._leaves:
            if leaf.role != "directs":
                numbered = numbered and not asking.shares_digits(leaf.value)
                continue
            origin = None if leaf.value in (None, "", [], {}) else self._trusted_origin(leaf)
            if isinstance(leaf.value, bool) or origin is None or origin.kind == "default":
                continue
            said = origin.kind == "person"
            if is_grave(self._tool.name) and not said:
                return False
            records = [] if said else [record for record, _ in records_of[leaf.pointer]]
            if self._kind in STRICT and not (
                said or any(id(each) in surely or self._is_of_said(each) for each in records)
            ):
                return False
            numbered = numbered and not (said and asking.shares_digits(leaf.value))
            numbered = numbered and not any(map(asking.names_by_digits, records))
            if self._tells_apart(leaf) and not named:
                named = asking.has(leaf.value, place=leaf.is_place) or any(map(asking.names, records))
        return named and not numbered

    def _own_records(self, leaf: CallLeaf) -> Iterator[tuple[Record, bool]]:
        """The records that a trusted value is of, and whether it is surely the name of what they stand for: the order
        that a ticket is about is not what is meant by the ticket."""
        for record, field in self._found(leaf.value):
            if not field.outside and not record.of.is_echo(field):
                selection = self._selection(record, 0)
                if selection != "not":
                    is_name = bool(field.path) and not _NAMES.isdisjoint(name_words(str(field.path[-1])))
                    yield record, is_name and SURENESS[selection] >= SURENESS["asked"]

    def _is_of_said(self, record: Record) -> bool:
        """Whether a record stands for what another argument names in the person's words, as the product whose supplier
        is meant."""
        names = {
            str(field.value)
            for field in record.fields
            if field.path and not field.outside and not _NAMES.isdisjoint(name_words(str(field.path[-1])))
        }
        return any(
            leaf.role == "directs" and str(leaf.value) in names and self._tells_apart(leaf) and self._is_said(leaf)
            for leaf in self._leaves
        )

    def _tells_apart(self, leaf: CallLeaf) -> bool:
        """Whether a value tells one thing from another, and not how much of it or in which state."""
        return "enum" not in leaf.schema and leaf.names.isdisjoint(AMOUNTS | COUNTS | LENGTHS)

    @property
    def repeatable(self) -> frozenset[str]:
        """The arguments in which a second call may differ and is one more of the same; none if the person speaks of
        all of something."""
        return frozenset() if self._words.is_universal else content_of_effect(self._tool)

    # ── private values ───────────────────────────────────────────────────────────────

    def private_leak(self) -> str | None:
        """Why what leaves may hold what is private."""
        private = self._origins.private
        if not private:
            return None
        if private.is_full or self._too_much:
            return "there is more private data in this run than can be compared with what leaves"
        texts = [
            leaf.value if isinstance(leaf.value, str) else str(leaf.value)
            for leaf in self._leaves
            if leaf.role == "carries" or self._known_origin(leaf) is None
        ]
        for record, field in private.in_text(texts):
            if not self._is_wanted(record, field):
                of = f"{field.words!r} in the result of {record.of.tool}" if field.path else f"{record.of.tool}"
                return f"what leaves holds private data ({of}) that you have not named"
        return None

    def _is_wanted(self, record: Record, field: Field) -> bool:
        """Whether the person's words name a private field, of this record."""
        if isinstance(field.value, str | int | float) and self._words.has(field.value):
            return True
        names = {word for step in field.path if isinstance(step, str) for word in name_words(step)}
        names |= {word for word in name_words(record.of.tool) if word not in ("get", "read", "list", "find", "fetch")}
        if record.of.arguments and self._asked(record.of, 0) in ("named", "asked", "alike"):
            return True
        if not self._words.has_stem_of({word for word in names if len(word) > 2}):
            return False
        return (not record.path and not record.of.arguments) or self._selection(record, 0) != "not"

    # ── in words ─────────────────────────────────────────────────────────────────────

    def why_untrusted(self, untrusted: list[tuple[CallLeaf, tuple[Origin, ...]]]) -> str:
        """Which arguments have no trusted origin, and where they come from, in a sentence."""
        told = [self._told(leaf, origins) for leaf, origins in untrusted[:3]]
        more = f", and {len(untrusted) - 3} more" if len(untrusted) > 3 else ""
        return ", and ".join(told) + more

    def _told(self, leaf: CallLeaf, origins: tuple[Origin, ...]) -> str:
        what = f"{leaf.pointer.lstrip('/').replace('/', '.')!r} ({_short(leaf.value)})"
        origin = origins[0]
        if origin.kind == "outside":
            where = f"{origin.path!r} of " if origin.path else ""
            return f"{what} comes from {where}{self._named(origin)}, which outsiders write"
        if origin.kind == "field":
            return f"{what} comes from {origin.path!r} of {self._named(origin)}, which your words do not name"
        read = ", ".join(list(self._origins.outside)[:3])
        return f"{what} was made by the model, which had read words from outside ({read})"

    def _named(self, origin: Origin) -> str:
        """A result as people know it: by what its call was given."""
        for result in self._origins.results():
            if result.result.tool_call_id == origin.call:
                given = [str(value) for value in result.arguments.values() if isinstance(value, str | int)]
                return f"{result.tool} {_short(' '.join(given), 40)}" if given else result.tool
        return origin.tool

    def why_unasked(self) -> str:
        """That nobody asked for the call, in a sentence."""
        read = ", ".join(list(self._origins.outside)[:3])
        return f"you have not asked for {self._tool.name!r}, and words from outside were read ({read}), which may"


class ArgumentValue(Protocol):
    """One value among the arguments of a call."""

    @property
    def pointer(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def role(self) -> ArgumentRole: ...


class CallValues:
    """The values that a call is made with, and which of them have a trusted origin."""

    def __init__(self, tool: Tool, arguments: dict[str, Any], origins: RunOrigins) -> None:
        self.tool = tool
        self.arguments = arguments
        self._check = _FlowCheck(tool, arguments, origins)
        self._by_pointer = {leaf.pointer: leaf for leaf in self._check._leaves}

    @property
    def is_too_much(self) -> bool:
        """Whether there are more values than are looked at."""
        return self._check._too_much

    @property
    def leaves(self) -> Iterable[ArgumentValue]:
        return self._by_pointer.values()

    def origin_of(self, leaf: ArgumentValue) -> Origin | None:
        """The trusted origin of a value, if it has one."""
        origin = self._check._known_origin(self._by_pointer[leaf.pointer])
        return None if origin is None or origin.kind == "outside" else origin


def _sender_of(record: Record) -> tuple[set[str], set[str]]:
    """The addresses and the words of the names that outsiders gave themselves in a record."""
    addresses, words = set[str](), set[str]()
    for field in record.fields:
        if field.outside and isinstance(field.value, str) and len(field.value) <= _LONGEST_NAME:
            if _MAIL.fullmatch(field.value.strip()):
                addresses.add(field.value.strip().casefold())
            elif not _SENDERS.isdisjoint(
                word for step in field.path if isinstance(step, str) for word in name_words(step)
            ):
                words |= stems_of(field.value)
    return addresses, words


def _as_said(value: object) -> str:
    """A value as people write it: `11` for `11.0`."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_outside(origins: tuple[Origin, ...]) -> bool:
    return any(origin.kind == "outside" for origin in origins)


def _is_default(value: Any, schema: Mapping[str, Any]) -> bool:
    if "default" in schema and type(schema["default"]) is type(value) and schema["default"] == value:
        return True
    if "const" in schema and schema["const"] == value:
        return True
    return schema.get("enum") == [value]


def _short(value: Any, most: int = _SHOWN) -> str:
    text = plain_form(value) if isinstance(value, str) else str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


__all__ = ["ArgumentValue", "CallValues", "FlowFinding", "RunSoFar", "check_flows", "content_of_effect"]
