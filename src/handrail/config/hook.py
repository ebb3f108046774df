"""`[hook]`, and all that a hook of a coding agent reads of a configuration: it must start quickly, so it reads no more.

An `allow` of a file holds only while the file is approved as it is; a `deny` and an `ask` hold always.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from handrail.config.approvals_file import ApprovalsFile
from handrail.config.setting_kinds import AMOUNT, Kinds, choice, stated
from handrail.config.user_file import config_key, state_folder
from handrail.config.variables import fill_variables
from handrail.core.canonical import digest_bytes
from handrail.core.errors import UsageError
from handrail.execute.rules import Rule
from handrail.tools.files.toml_table import TomlTable, read_toml_file

HOOK: Kinds = {
    "otherwise": choice("host", "ask", "allow", "deny"),
    "on_failure": choice("ask", "allow", "deny"),
    "wait": AMOUNT,
}
_READ = ("rules", "hook", "proof")
_HERE = Path("handrail.toml")


class HookSettings(Struct, frozen=True, kw_only=True):
    """How calls of a coding agent are treated."""

    otherwise: Literal["host", "ask", "allow", "deny"] = "host"
    """What becomes of a call that no rule speaks of; `host` leaves it to the agent's own permissions."""
    on_failure: Literal["ask", "allow", "deny"] = "ask"
    """What the hook says where it cannot decide: the configuration is broken, or the journal cannot be written."""
    wait: float | None = None
    """Seconds for which a question waits for an answer on the page or by `handrail confirm` before the agent has it."""


class HookConfig(Struct, frozen=True, kw_only=True):
    """What a hook goes by."""

    file: Path | None = None
    rules: tuple[Rule, ...] = ()
    settings: HookSettings = HookSettings()
    journal: Path | None = None


def read_hook_config(file: Path | None, environ: Mapping[str, str] = os.environ) -> HookConfig:
    """The rules of a file and the standing rules of the user for it.

    Raises:
        ConfigError: What is read of the file is wrong.
        UsageError: A rule is none, or the approvals cannot be read.
    """
    book = ApprovalsFile(state_folder(environ)).read()
    standing = tuple(map(Rule.parse, book.rules.get(config_key(file or _HERE), ())))
    if file is None:
        return HookConfig(rules=standing)
    top = read_toml_file(file)
    read = {key: value for key, value in top.values.items() if key in _READ}
    top = fill_variables(TomlTable(read, top.place, top.origins), environ)
    table, proof = top.table("hook"), top.table("proof")
    settings = HookSettings(**({} if table is None else stated(table.only(HOOK), HOOK)))
    rules = tuple(_rules(top))
    known = book.configs.get(config_key(file))
    journal = None if proof is None or (named := proof.text("journal")) is None else file.parent / named
    approved = known is not None and known.files.get(_key(file)) is not None and _unchanged(known.files)
    if not approved:
        if journal is not None and not _is_inside(journal, file.parent):
            journal = None
        rules = tuple(rule for rule in rules if rule.decision != "allow")
        settings = HookSettings(
            otherwise="host" if settings.otherwise == "allow" else settings.otherwise,
            on_failure="ask" if settings.on_failure == "allow" else settings.on_failure,
            wait=settings.wait,
        )
    return HookConfig(
        file=file,
        rules=(*rules, *standing),
        settings=settings,
        journal=journal,
    )


def _rules(top: TomlTable) -> list[Rule]:
    found = []
    for index, text in enumerate(top.texts("rules") or ()):
        try:
            found.append(Rule.parse(text))
        except UsageError as error:
            raise top.at("rules").at(index).error(str(error)) from error
    return found


def _is_inside(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _key(path: Path) -> str:
    return os.path.join(os.path.realpath(path.parent), path.name)


def _unchanged(files: Mapping[str, str]) -> bool:
    """Whether every file that was approved is what it was."""
    for path, known in files.items():
        try:
            found = digest_bytes(Path(path).read_bytes())
        except OSError:
            found = "absent"
        if found != known:
            return False
    return True
