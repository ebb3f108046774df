"""A tool whose body is a program: `command = ["wc", "-l", "{path}"]`.

There is no shell, so nothing in an argument is ever read as a command. What an
argument could still do is pose as an option; that is refused here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handrail.core.errors import InvalidArguments, InvalidOutput, ToolError
from handrail.core.invocation import Invocation
from handrail.core.jsontext import JSONTextError, parse
from handrail.tools.files.process import ProgramResult, run_program
from handrail.tools.files.template import ArgumentSlot, ArgumentTemplate, TemplateReader
from handrail.tools.files.toml_table import TomlTable

MAX_OUTPUT = 10 * 1024 * 1024
GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""

_KEYS = ("run", "stdin", "cwd", "env", "env_set", "output", "ok_codes", "allow_dash", "max_bytes")
_MISSING = "must be a list that begins with the program, as in ['wc', '-l', '{path}']"


@dataclass(frozen=True, slots=True)
class CommandHandler:
    """The handler: fills the templates, runs the program, reads what it wrote."""

    program: str
    elements: tuple[ArgumentTemplate, ...]
    stdin: ArgumentTemplate | None = None
    cwd: str | None = None
    passed: tuple[str, ...] = ()
    """The environment variables it gets from this process, besides PATH."""
    env: Mapping[str, str] = field(default_factory=dict)
    json: bool = False
    ok_codes: tuple[int, ...] = (0,)
    allow_dash: bool = False
    max_bytes: int = MAX_OUTPUT
    grace: float = GRACE
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    async def __call__(self, context: Invocation, arguments: Mapping[str, Any]) -> Any:
        argv = self.argv(arguments)
        stdin = None if self.stdin is None else (self.stdin.render(arguments) or "").encode()
        try:
            finished = await run_program(
                argv, env=self._environment(), cwd=self.cwd, stdin=stdin, limit=self.max_bytes, grace=self.grace
            )
        except OSError as error:
            raise ToolError("not_started", f"{self.program!r} could not be started: {error.strerror}") from error
        return self._result(finished)

    def argv(self, arguments: Mapping[str, Any]) -> list[str]:
        """The program and its arguments.

        Raises:
            InvalidArguments: A value cannot stand on a command line, or would be read as an option.
        """
        argv = [self.program]
        for element in self.elements:
            argv.extend(self._element(element, arguments))
        return argv

    def _element(self, element: ArgumentTemplate, arguments: Mapping[str, Any]) -> list[str]:
        texts = list(element.elements(arguments))
        match element.parts[:1]:
            case (ArgumentSlot(name=name),) if not self.allow_dash and any(text.startswith("-") for text in texts):
                raise InvalidArguments(f"{name}: must not begin with '-': {self.program!r} would take it for an option")
        return texts

    def _environment(self) -> dict[str, str]:
        passed = {name: self.environ[name] for name in self.passed if name in self.environ}
        return {"PATH": self.environ.get("PATH", os.defpath), **passed, **self.env}

    def _result(self, finished: ProgramResult) -> Any:
        if finished.overflowed:
            raise ToolError(
                "output_too_large",
                f"{self.program!r} wrote more than {self.max_bytes} bytes and was stopped; ask it for less",
            )
        if finished.code not in self.ok_codes:
            raise ToolError(*_failure(self.program, finished))
        if not self.json:
            return finished.output.decode("utf-8", "replace")
        try:
            return parse(finished.output, max_size=self.max_bytes)
        except JSONTextError as error:
            raise InvalidOutput(f"{self.program!r} did not write JSON: {error}") from error


def _failure(program: str, finished: ProgramResult) -> tuple[str, str]:
    said = finished.errors.decode("utf-8", "replace").strip()
    because = f": {said}" if said else " and said nothing on stderr"
    if finished.code < 0:
        return f"signal_{-finished.code}", f"{program!r} was ended by signal {-finished.code}{because}"
    return f"exit_{finished.code}", f"{program!r} ended with exit code {finished.code}{because}"


def read_command(table: TomlTable, schema: Mapping[str, Any]) -> CommandHandler:
    """The body under the key `command` of a descriptor: a list, or a table with the list as `run`.

    Raises:
        ConfigError: Something in it is wrong; the error names the key.
    """
    match table.values["command"]:
        case dict() as values:
            inner = TomlTable(values, table.at("command")).only(_KEYS)
        case run:
            # The list itself is the value of `command`, so that is where its mistakes are.
            inner = TomlTable({"run": run}, table.at("command"), {"run": table.at("command")})
    reader = TemplateReader(schema)
    program, *elements = _run(inner, reader)
    return CommandHandler(
        program=_program(program, inner),
        elements=tuple(elements),
        stdin=None
        if (stdin := inner.text("stdin")) is None
        else reader.read(stdin, inner.at("stdin"), ("one", "maybe")),
        cwd=_cwd(inner),
        passed=inner.texts("env") or (),
        env=_env_set(inner),
        json=inner.choice("output", ("text", "json")) == "json",
        ok_codes=_ok_codes(inner),
        allow_dash=inner.flag("allow_dash") or False,
        max_bytes=inner.count("max_bytes", 1) or MAX_OUTPUT,
    )


def _run(table: TomlTable, reader: TemplateReader) -> list[ArgumentTemplate]:
    if not table.values.get("run"):
        raise table.error("run", _MISSING)
    run = table.texts("run") or ()
    for index, text in enumerate(run):
        if "\0" in text:
            raise table.at("run").at(index).error("must not contain a NUL character")
    return [reader.read(text, table.at("run").at(index)) for index, text in enumerate(run)]


def _program(template: ArgumentTemplate, table: TomlTable) -> str:
    match template.parts:
        case (str() as program,) if program:
            return program
    raise table.at("run").at(0).error("the program must be written out: a model must not choose what runs")


def _cwd(table: TomlTable) -> str | None:
    """The working directory: by default the folder of the file, so that a script beside it can be run as `./script`."""
    folder, given = table.at("cwd").folder, table.text("cwd")
    if folder is None:
        return given
    return str(folder.absolute() / given) if given else str(folder.absolute())


def _env_set(table: TomlTable) -> dict[str, str]:
    inner = table.table("env_set")
    return {} if inner is None else {name: inner.text(name) or "" for name in inner.values}


def _ok_codes(table: TomlTable) -> tuple[int, ...]:
    codes = table.values.get("ok_codes", [0])
    if not isinstance(codes, list) or not codes or not all(type(code) is int and 0 <= code < 256 for code in codes):
        raise table.error("ok_codes", "must be a list of exit codes, as in [0, 1]")
    return tuple(codes)
