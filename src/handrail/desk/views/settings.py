"""The configuration: what the file says, what holds, and a way to change it that leaves the old one or the new one.

A file keeps the line ends that it has, and the mark before its first letter: whoever changes a text sees neither.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from handrail.app.app import App
from handrail.config.approvals import Approvals
from handrail.config.approvals_file import ConfigApproval
from handrail.config.load import NAME, read_config
from handrail.config.powers import Powers, powers_of
from handrail.config.toml_edit import Value, set_toml_value
from handrail.core.canonical import digest_bytes
from handrail.core.durable_files import write_atomically
from handrail.core.errors import ConfigError, HandrailError, UsageError
from handrail.core.redact import redact_text
from handrail.desk.views.settings_form import setting_changes, setting_groups
from handrail.desk.views.settings_sections import conceal_values, config_sections, variable_names
from handrail.desk.views.values import SettingsForm, SettingsMistake, SettingsPage
from handrail.tools.files.toml_table import LARGEST, toml_table_of

AT_MACHINE = "on the page that `handrail serve` opened with its own token, or in the file"
_RULES = 500
_MARK = codecs.BOM_UTF8.decode()
"""Before the first letter of a file, and no part of its text."""
_SECRET = "it holds what looks like a secret, which is not shown; change it by hand, and put the secret into a variable"


class _WrittenChange(NamedTuple):
    """A change of the file, and what it takes to undo it."""

    path: Path
    before: bytes | None
    ours: bytes
    approval: ConfigApproval | None


class SettingsView:
    def __init__(
        self, app: App, *, writable: bool, home: Path | None = None, environ: Mapping[str, str] = os.environ
    ) -> None:
        """`home` is where a file is made if there is none: the folder that the program looks in, by default."""
        self._app = app
        self._writable = writable
        self._home = home
        self._environ = environ
        self._names: frozenset[str] = frozenset()
        """Variables that some reading of the file took values from."""
        self._saving = asyncio.Lock()

    async def now(self) -> SettingsPage:
        """The settings as the file has them now.

        Raises:
            UsageError: The file cannot be read.
        """
        return await asyncio.to_thread(self._look)

    async def check(self, text: str) -> tuple[str, ...]:
        """What would be wrong with a file that says this."""
        return await asyncio.to_thread(self._problems, text)

    async def form(self, text: str, path: tuple[str, ...] = (), value: Value | None = None) -> SettingsForm:
        """A text as fields. With a path, after its value was changed to this one, or taken out if it is None.

        Raises:
            UsageError: It cannot be changed without changing more of the text.
        """
        return await asyncio.to_thread(self._form, text, path, value)

    async def save(self, text: str, revision: str, *, at_machine: bool = True) -> SettingsPage:
        """Let the file say this, if it still is what somebody changed, and take it up.

        `at_machine` is False for whoever holds a token that was issued: they change only what is harmless.

        Raises:
            UsageError: It may not be changed, was changed by others, or there are mistakes: then it stays as it was.
        """
        async with self._saving:
            if not self._writable:
                raise UsageError("settings cannot be changed here; edit the file, which is reloaded automatically")
            if problems := await self.check(text):
                raise UsageError("; ".join(problems))
            written = await asyncio.to_thread(self._write, text, revision, at_machine)
            try:
                await self._app.reload(written.path)
            except BaseException as error:  # a person who leaves leaves the old one, too
                await asyncio.to_thread(self._put_back, written)
                if isinstance(error, HandrailError):
                    raise UsageError(conceal_values(str(error), self._hidden(text))) from error
                raise
            return await self.now()

    async def forget(self, rule: str, *, at_machine: bool = True) -> SettingsPage:
        """Take back a standing word.

        Raises:
            UsageError: There is none like it; or it denies something, and whoever takes it back is not at the machine.
        """
        if not at_machine and not rule.startswith("allow "):
            raise UsageError(f"a rule that denies can be removed only at the machine itself: {AT_MACHINE}")
        if not await asyncio.to_thread(self._app.standing.remove, rule):
            raise UsageError(f"no standing rule {rule[:200]!r} is set; somebody may have removed it already")
        return await self.now()

    # ── in a thread ──────────────────────────────────────────────────────────────────

    @property
    def _path(self) -> Path:
        return self._app.config.file or (self._home or Path.cwd()) / NAME

    def _look(self) -> SettingsPage:
        data = _read(self._path)
        text = _decoded(data)
        hidden = self._hidden(text)
        self._names |= hidden.keys()
        safe = redact_text(text)
        wrong = [] if data is None else self._wrong(data, hidden)
        file = None if data is None and self._app.config.file is None else str(self._path)
        return SettingsPage(
            file=file,
            text=safe,
            revision=_revision(data),
            sections=config_sections(self._app.config, hidden),
            rules=self._app.standing.written()[:_RULES],
            writable=self._writable and safe == text and _is_whole(data),
            problem=_SECRET if safe != text else "; ".join(wrong),
        )

    def _hidden(self, text: str) -> dict[str, str]:
        """What this text, or one before it, takes from variables: it is shown by their names only."""
        names = self._names | variable_names(text)
        return {name: self._environ[name] for name in names if name in self._environ}

    def _problems(self, text: str) -> tuple[str, ...]:
        error = self._mistake(text)
        return () if error is None else (conceal_values(str(error), self._hidden(text)),)

    def _mistake(self, text: str) -> HandrailError | None:
        try:
            return self._error(text.encode())
        except UnicodeEncodeError:
            return UsageError("it contains invalid characters; remove them")

    def _wrong(self, data: bytes, hidden: Mapping[str, str]) -> list[str]:
        error = self._error(data)
        return [] if error is None else [conceal_values(str(error), hidden)]

    def _error(self, data: bytes) -> HandrailError | None:
        path = self._path
        try:
            read_config(toml_table_of(data, path), path, self._environ)
        except HandrailError as error:
            return error
        return None

    def _form(self, text: str, path: tuple[str, ...], value: Value | None) -> SettingsForm:
        text = text.removeprefix(_MARK)
        try:
            text = set_toml_value(text, path, value) if path else text
        except (ValueError, RecursionError) as error:
            raise UsageError("it is not TOML; correct it as text first") from error
        wrong = self._mistake(text)
        return SettingsForm(
            text=text,
            groups=setting_groups(text, self._environ),
            problems=() if wrong is None else (_placed(wrong, self._hidden(text)),),
            changes=setting_changes(redact_text(_decoded(_read(self._path))), text),
        )

    def _write(self, text: str, revision: str, at_machine: bool) -> _WrittenChange:
        path = self._path
        before = _read(path)
        if _revision(before) != revision:
            raise UsageError("the file was changed meanwhile; load it again, and make your change there")
        if not at_machine and (powerful := powerful_changes(_decoded(before), text.removeprefix(_MARK))):
            raise UsageError(
                f"settings that decide what may run, be read or be reached can be changed only"
                f" at the machine itself ({AT_MACHINE}): {', '.join(powerful)}"
            )
        written = _WrittenChange(path, before, _as_before(text, before or b""), self._approvals.config_approval(path))
        powers = self._powers(before)
        _put(path, written.ours)
        self._keep_approval(path, powers, at_machine)
        return written

    @property
    def _approvals(self) -> Approvals:
        return self._app.person.approvals

    def _powers(self, data: bytes | None) -> Powers | None:
        """What the file allows with this content; None if it cannot be read."""
        if data is None:
            return Powers()
        try:
            return powers_of(read_config(toml_table_of(data, self._path), self._path, self._environ), self._environ)
        except HandrailError:
            return None

    def _keep_approval(self, path: Path, before: Powers | None, at_machine: bool) -> None:
        """Approve the change of a file that was approved: any change of the person at the machine, who wrote it, and of
        others one that widens nothing."""
        after = self._powers(_read(path))
        if before is None or after is None or self._approvals.missing_approval(path, before) is not None:
            return
        if after.lines and (at_machine or not after.beyond(before)):
            self._approvals.approve_config(path, after, by=self._app.person.by)

    def _put_back(self, written: _WrittenChange) -> None:
        """Undo what we wrote, unless somebody has written since."""
        if _read(written.path) != written.ours:
            return
        if written.before is None:
            written.path.unlink()
        else:
            _put(written.path, written.before)
        if self._approvals.config_approval(written.path) != written.approval:
            self._approvals.restore_config(written.path, written.approval)


def _decoded(data: bytes | None) -> str:
    return (data or b"").decode("utf-8-sig", "replace").replace("\r\n", "\n")


def _placed(error: HandrailError, hidden: Mapping[str, str]) -> SettingsMistake:
    """A mistake at the field that it is about. Its words are without the file, which the page names above."""
    if not isinstance(error, ConfigError):
        return SettingsMistake(words=conceal_values(str(error), hidden))
    words = f"{error.key}: {error.why}" if error.key else error.why
    keys = tuple(takewhile(lambda step: isinstance(step, str), error.path))
    return SettingsMistake(words=conceal_values(words, hidden), line=error.line or 0, path=tuple(map(str, keys)))


def _revision(data: bytes | None) -> str:
    """Names exactly this text; no file is another one than an empty file."""
    return "none" if data is None else digest_bytes(data)


def _as_before(text: str, before: bytes) -> bytes:
    text = text.removeprefix(_MARK).replace("\r\n", "\n")
    if 2 * before.count(b"\r\n") > before.count(b"\n"):
        text = text.replace("\n", "\r\n")
    mark = codecs.BOM_UTF8 if before.startswith(codecs.BOM_UTF8) else b""
    return mark + text.encode()


def _is_whole(data: bytes | None) -> bool:
    """Whether all of it is shown as it is."""
    try:
        (data or b"").decode()
        return len(data or b"") <= LARGEST
    except UnicodeDecodeError:
        return False


def _read(path: Path) -> bytes | None:
    """Reads a file, but no more than a configuration can have."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _put(path: Path, data: bytes) -> None:
    """Replaces the file as a whole. It keeps its mode, and a link stays a link."""
    real = path.resolve()
    try:
        mode = stat.S_IMODE(real.stat().st_mode) if real.exists() else 0o644
        write_atomically(real, data, mode)
    except OSError as error:
        raise UsageError(
            f"{str(path)!r} cannot be written: {error.strerror}; make the file and its folder writable"
        ) from error


HARMLESS = frozenset({("default_model",), ("offering",)})
"""Which of the configured models answers, and which of the tools a turn offers."""


def powerful_changes(before: str, after: str) -> tuple[str, ...]:
    """The settings in which two texts differ and that are not harmless, by their tables: `rules`, `standard.io`."""
    try:
        one, two = tomllib.loads(before), tomllib.loads(after)
    except (ValueError, RecursionError):
        return ("the file, which is not TOML",)
    return tuple(sorted({".".join(path[:2]) for path in _differing(one, two, ()) if not _harmless(path)}))


def _harmless(path: tuple[str, ...]) -> bool:
    return any(path[: len(each)] == each for each in HARMLESS)


def _differing(one: Mapping[str, Any], two: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key in one.keys() | two.keys():
        first, second = one.get(key), two.get(key)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            yield from _differing(first, second, (*at, key))
        elif type(first) is not type(second) or first != second:
            yield (*at, key)
