"""Standing rules: what a person said once and for all when a call waited, as: always for this.

On one machine they are in the user's own file, for one configuration. Where replicas share a state they are there, for
the node: a rule that is set at one replica holds at every other from its next question on, and so does taking it back.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from handrail.config.watch import WatchedFiles
from handrail.core.errors import StateError, UsageError
from handrail.execute.rules import Rule
from handrail.state.schema import Migration, StoreSchema

if TYPE_CHECKING:
    import psycopg

    from handrail.config.approvals import Approvals
    from handrail.state.database import StateDatabase

logger = logging.getLogger(__name__)

SCHEMA = StoreSchema(
    "standing_rules",
    (
        Migration(
            "0.2.0",
            "CREATE TABLE standing_rule"
            " (number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, rule TEXT NOT NULL, at TIMESTAMPTZ NOT NULL)",
        ),
    ),
)


class StandingRules(Protocol):
    """The port. Each method may block, for a file or for a server."""

    def written(self) -> tuple[str, ...]:
        """All rules as they are written, the newest first, which is the order in which they are asked.

        Raises:
            HandrailError: They cannot be read.
        """
        ...

    def add(self, rule: str) -> None:
        """Let it hold from now on, before those that are there; one for the same calls as it was before is replaced.

        Raises:
            UsageError: It is no rule, or an `allow` that does not say for which definition of the tool.
            HandrailError: It cannot be kept.
        """
        ...

    def remove(self, rule: str) -> bool:
        """Forget one, as it is written; whether it was there."""
        ...

    def now(self) -> tuple[Rule, ...]:
        """The rules that hold now, whoever changed them. None if they cannot be read: then a person is asked."""
        ...


class FileRules:
    """The rules of one configuration in the user's file, which is read again only when it has changed."""

    def __init__(self, approvals: Approvals, config: Path | None) -> None:
        self._approvals = approvals
        self._config = config
        self._watch = WatchedFiles()
        self._rules: tuple[Rule, ...] = ()
        self._looking = threading.Lock()

    def written(self) -> tuple[str, ...]:
        return self._approvals.rules(self._config)

    def add(self, rule: str) -> None:
        self._approvals.add_rule(self._config, rule)

    def remove(self, rule: str) -> bool:
        return self._approvals.remove_rule(self._config, rule)

    def now(self) -> tuple[Rule, ...]:
        with self._looking:
            if self._watch.look([self._approvals.path]):
                self._rules = _readable(self)
            return self._rules


class SharedRules:
    """The rules of a node in the state that its replicas share. The database is asked each time: a copy in memory would
    let a revoked rule hold for as long as the copy lasts."""

    def __init__(self, database: StateDatabase) -> None:
        self._database = database
        database.migrate(SCHEMA)

    def written(self) -> tuple[str, ...]:
        return self._database.read_now(_written)

    def add(self, rule: str) -> None:
        added = checked_rule(rule)
        text = str(added)

        def work(connection: psycopg.Connection) -> None:
            kept = with_rule(_written(connection), added)
            connection.execute("DELETE FROM standing_rule WHERE rule <> ALL (%s) OR rule = %s", (list(kept), text))
            connection.execute("INSERT INTO standing_rule (rule, at) VALUES (%s, now())", (text,))

        self._database.write_now(work)

    def remove(self, rule: str) -> bool:
        if not _can_be_kept(rule):
            return False

        def work(connection: psycopg.Connection) -> bool:
            return connection.execute("DELETE FROM standing_rule WHERE rule = %s", (rule,)).rowcount > 0

        return self._database.write_now(work, serializable=False)

    def now(self) -> tuple[Rule, ...]:
        return _readable(self)


def checked_rule(rule: str) -> Rule:
    """A rule that may be set.

    Raises:
        UsageError: It is none, or an `allow` that does not say for which definition of the tool.
    """
    added = Rule.parse(rule)
    if added.decision == "allow" and not added.definition:
        raise UsageError(
            f"rule {rule!r} would hold for whatever the tool becomes; name its definition, as"
            f" 'allow {added.tool}@sha256:4f1c0a2b77d3'"
        )
    if not _can_be_kept(str(added)):
        raise UsageError(f"rule {rule!r} has characters that no text can have; choose one without them")
    return added


def with_rule(before: tuple[str, ...], added: Rule) -> tuple[str, ...]:
    """The rules with one more, which is asked first. One for the same calls, whatever the definition, gives way."""
    return (str(added), *(each for each in before if not _same(each, added)))


def _same(written: str, rule: Rule) -> bool:
    other = Rule.parse(written)
    return (other.tool, other.arguments) == (rule.tool, rule.arguments)


def _written(connection: psycopg.Connection) -> tuple[str, ...]:
    return tuple(rule for (rule,) in connection.execute("SELECT rule FROM standing_rule ORDER BY number DESC"))


def _readable(rules: StandingRules) -> tuple[Rule, ...]:
    try:
        return tuple(map(Rule.parse, rules.written()))
    except (UsageError, StateError) as error:
        logger.warning("standing rules do not hold: %s", error)
        return ()


def _can_be_kept(text: str) -> bool:
    """A NUL is in no text of PostgreSQL, and half of a surrogate pair is in no file."""
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text)
