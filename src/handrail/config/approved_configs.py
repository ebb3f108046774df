"""Approvals of whole configurations: of what each would do beyond the defaults, as its files were then."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from handrail.config.approvals_file import ConfigApproval, config_key
from handrail.config.powers import Powers
from handrail.config.standing_rules import StandingRules

_NAMED = 3
"""Changed files that are named; of more the number is told."""


class ConfigApprovals(StandingRules):
    """Those of every configuration file, in the file of the standing rules."""

    def approve_config(self, config: Path, powers: Powers, *, by: str) -> None:
        """Let a configuration do what it would do now. A change to it or to a file that it names ends the approval."""
        approval = ConfigApproval(binds=powers.binds, files=dict(powers.files), at=self._clock.now(), by=by)
        with self.locked() as book:
            self.write(replace(book, configs={**book.configs, config_key(config): approval}))

    def config_approval(self, config: Path) -> ConfigApproval | None:
        """The approval of a configuration, whether or not it still holds."""
        return self.read().configs.get(config_key(config))

    def restore_config(self, config: Path, approval: ConfigApproval | None) -> None:
        """Let this be the approval of a configuration again, or let it have none."""
        with self.locked() as book:
            others = {key: value for key, value in book.configs.items() if key != config_key(config)}
            self.write(replace(book, configs=others if approval is None else {**others, config_key(config): approval}))

    def revoke_config(self, config: Path) -> bool:
        """Withdraw the approval of a configuration; whether there was one."""
        if self.config_approval(config) is None:
            return False
        self.restore_config(config, None)
        return True

    def missing_approval(self, config: Path | None, powers: Powers) -> str | None:
        """Why a configuration may not be used yet, in words; None if it may."""
        if config is None or not powers.lines:
            return None
        known = self.config_approval(config)
        if known is None:
            return "it is not approved"
        if known.binds == powers.binds:
            return None
        return f"{_changed(known, powers)} since it was approved"


def _changed(known: ConfigApproval, powers: Powers) -> str:
    changed = [path for path, digest in powers.files.items() if known.files.get(path) != digest]
    if not changed:
        return "what it would do changed"
    if len(changed) > _NAMED:
        return f"{len(changed)} files changed"
    return f"{', '.join(changed)} changed"
