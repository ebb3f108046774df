"""Standing rules: what somebody said when a call waited for their word, as: always for this.

A rule holds for one configuration file, and an `allow` for a tool as it was defined then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from handrail.config.approvals_file import ApprovalsFile, config_key
from handrail.core.errors import UsageError
from handrail.execute.rules import Rule

_HERE = Path("handrail.toml")
"""Stands for the folder where there is no configuration."""


class StandingRules(ApprovalsFile):
    """Those of every configuration file."""

    def rules(self, config: Path | None) -> tuple[str, ...]:
        """What a person said once and for all, the newest first. Without a file it is for the folder one stands in."""
        return self.read().rules.get(config_key(config or _HERE), ())

    def add_rule(self, config: Path | None, rule: str) -> None:
        """Let it hold from now on, before those that are there; one for the same calls as it was before is replaced.

        Raises:
            UsageError: It is no rule, or an `allow` that does not say for which definition of the tool.
        """
        added = Rule.parse(rule)
        if added.decision == "allow" and not added.definition:
            raise UsageError(
                f"rule {rule!r} would hold for whatever the tool becomes; name its definition, as"
                f" 'allow {added.tool}@sha256:4f1c0a2b77d3'"
            )
        self._put_rules(config, lambda before: (str(added), *(each for each in before if not _same(each, added))))

    def remove_rule(self, config: Path | None, rule: str) -> bool:
        """Forget one, as it is written; whether it was there."""
        was = False

        def without(before: tuple[str, ...]) -> tuple[str, ...]:
            nonlocal was
            was = rule in before
            return tuple(each for each in before if each != rule)

        self._put_rules(config, without)
        return was

    def _put_rules(self, config: Path | None, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        key = config_key(config or _HERE)
        with self.locked() as book:
            before = book.rules.get(key, ())
            if (after := change(before)) != before:
                self.write(replace(book, rules={**book.rules, key: after}))


def _same(written: str, rule: Rule) -> bool:
    """Whether it is for the same calls, whatever the definition of the tool."""
    other = Rule.parse(written)
    return (other.tool, other.arguments) == (rule.tool, rule.arguments)
