"""Whether a coding agent may make a call: by rules, by a person's decision, or by the agent's own permissions.

the call                                            is
is denied by a rule                                 denied
equals one that was begun and never reported        asked about, whatever the rules say
equals one of another session, a short time ago     asked about; not shell commands, edits and reads
equals one from before the agent was killed         asked about for a short time; not edits and reads
equals one that took effect, as a person said       asked about for a short time
was allowed by a person and has not run             allowed, once
was denied by a person in this session              denied
is allowed by a rule                                allowed
is asked about by a rule                            asked about
is none of these                                    treated by `hook.otherwise`
"""

from __future__ import annotations

import time
from collections.abc import Callable

from handrail.cli.hook.hooked_call import HookedCall, rule_for
from handrail.cli.hook.hosts import NAMES, Verdict
from handrail.cli.hook.record import HookRecord, KnownCall
from handrail.config.hook import HookConfig
from handrail.core.events import CallAmended, ConfirmationAnswered, ConfirmationRequested
from handrail.execute.rules import Rule

_WINDOW = 300.0
"""Seconds, as `Policy.repeat_window`."""
_LOOK = 0.2
"""Seconds between two looks for an answer."""


def decide(call: HookedCall, config: HookConfig, start: str, record: Callable[[], HookRecord]) -> Verdict:
    """What the hook says of a call. The journal is opened only if there is something to write down.

    Raises:
        HandrailError: It cannot be decided.
    """
    rule = rule_for(call, config.rules, start)
    if call.event.reads:
        return _of_read(call, rule, config, record)
    with record() as journal:
        while (verdict := _of_effect(call, rule, config, journal)) is None:
            pass  # an equal call was begun by another process: look again
        return verdict


def _of_read(call: HookedCall, rule: Rule | None, config: HookConfig, record: Callable[[], HookRecord]) -> Verdict:
    """A call that changes nothing is written down when it has ended; unless it is denied or asked about."""
    decision = _decision(rule, config)
    if decision == "deny":
        with record() as journal:
            return _deny(call, rule, journal)
    if decision == "ask":
        with record() as journal:
            return _ask(call, _because(rule), config, journal, journal.seen(call)) or Verdict()
    return Verdict("allow", _said_by(rule)) if decision == "allow" else Verdict()


def _decision(rule: Rule | None, config: HookConfig) -> str:
    return config.settings.otherwise if rule is None else rule.decision


def _of_effect(call: HookedCall, rule: Rule | None, config: HookConfig, journal: HookRecord) -> Verdict | None:
    """None if an equal call was begun since it was looked for."""
    decision = _decision(rule, config)
    if decision == "deny":
        return _deny(call, rule, journal)
    last = next(journal.effects(call), None)
    seen = None if last is None else last.seq
    why = "" if last is None else _doubt(call, last, journal)
    if (word := journal.unused_word(call)) is not None:
        question, answer = word
        if answer.decision == "allow":
            return _begun(call, journal, answer, question, seen)
        if answer.run == call.run:
            return _denied_by_person(call, answer, journal)
    if why or decision == "ask":
        return _ask(call, why or _because(rule), config, journal, seen)
    if decision == "allow":
        by = _said_by(rule)
        return Verdict("allow", by) if journal.begin(call, by, None, seen) else None
    return Verdict() if journal.begin(call, "", None, seen) else None


def _because(rule: Rule | None) -> str:
    return "hook.otherwise" if rule is None else f"rule '{rule}'"


def _said_by(rule: Rule | None) -> str:
    return "hook.otherwise = 'allow'" if rule is None else f"rule '{rule}'"


def _begun(
    call: HookedCall, journal: HookRecord, word: ConfirmationAnswered, grant: ConfirmationRequested, seen: int | None
) -> Verdict | None:
    return Verdict("allow", f"{word.by} allowed this call") if journal.begin(call, "", grant, seen) else None


def _doubt(call: HookedCall, last: KnownCall, journal: HookRecord) -> str:
    """Why an equal call that was made before must not be made again in silence; empty if it may."""
    began = last.began
    if began.call_id == call.call_id and began.run == call.run:
        return ""  # the host asks twice about one call
    if call.event.idempotent:
        return ""
    if last.is_open:
        return (
            f"an equal call was begun before (run {began.run}, call {began.call_id}) and its end was never reported:"
            " the agent was ended meanwhile, or somebody answered its own prompt with no. It is not known whether it"
            f" took effect: find out, and report it with handrail confirm settle {began.run} {began.call_id}"
            " --ran 'the result' or --not-run"
        )
    settled = last.settled
    if settled is None or settled.outcome != "ok" or time.time() * 1000 - settled.at > _WINDOW * 1000:
        return ""
    if isinstance(settled, CallAmended):
        return f"a person said that an equal call took effect (run {began.run}, call {began.call_id})"
    if began.run == call.run and not journal.was_cut_off_since(last):
        return ""
    if began.run != call.run and call.event.is_shell:
        return ""
    return f"an equal call was made a short time ago (run {began.run}, call {began.call_id}) and succeeded"


def _deny(call: HookedCall, rule: Rule | None, journal: HookRecord) -> Verdict:
    by = "hook.otherwise = 'deny'" if rule is None else f"rule '{rule}'"
    reason = f"{by} denies this call; do not repeat it, and do not do the same in another way"
    journal.refuse(call, reason, by)
    return Verdict("deny", reason)


def _denied_by_person(call: HookedCall, denial: ConfirmationAnswered, journal: HookRecord) -> Verdict:
    because = f": {denial.reason}" if denial.reason else ""
    reason = f"{denial.by} denied this call{because}; do not repeat it"
    journal.refuse(call, reason)
    return Verdict("deny", reason)


def _ask(
    call: HookedCall, why: str, config: HookConfig, journal: HookRecord, seen: int | None = None
) -> Verdict | None:
    """Ask a person: on the page and by `handrail confirm` for a while, then where the host asks. None if an equal call
    was begun meanwhile."""
    known = journal.question(call)
    is_open = known is not None and known.answer is None and known.began.run == call.run and known.settled is None
    if known is not None and is_open and isinstance(known.began, ConfirmationRequested):
        asked = known.began
    else:
        asked = journal.ask(call, why)
    until = time.monotonic() + (config.settings.wait or 0.0)
    while (word := journal.unused_word(call)) is None and time.monotonic() < until:
        time.sleep(_LOOK)
    if word is not None:
        question, answer = word
        if answer.decision == "deny":
            return _denied_by_person(call, answer, journal)
        return _begun(call, journal, answer, question, seen)
    if call.event.asks:
        return Verdict("ask", f"handrail asks because of {why}" if why.startswith(("rule", "hook")) else why)
    return Verdict(
        "deny",
        f"this call waits for approval ({why}), and {NAMES[call.event.host]} does not ask here. Ask the person"
        f" to check it and to run: handrail confirm allow {asked.request} (or to use the page of handrail serve);"
        " then make the same call again",
    )
