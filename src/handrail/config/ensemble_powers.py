"""What the ensemble files of a configuration would run and reach, read from their text. Nothing is imported."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from handrail.config.python_files import python_files
from handrail.core.errors import ConfigError
from handrail.tools.files.request_templates import FROM_ENVIRONMENT
from handrail.tools.files.toml_table import read_toml_file


class EnsemblePowers:
    """The powers of some ensemble files, and every file that decides what they are."""

    def __init__(self, ensembles: tuple[Path, ...], folder: Path) -> None:
        self.lines: list[str] = []
        """One sentence for each power, without a subject: `handrail.toml` would …"""
        self.files: list[Path] = []
        """The ensembles, the files that they name, and the Python that they would import from `folder`."""
        modules: list[str] = []
        for path in ensembles:
            self.files.append(path)
            for tool, file in _tools_in(path):
                if file != path:
                    self.files.append(file)
                self._read(tool, file, modules)
        if modules:
            self.files += python_files(folder, modules)

    def _read(self, tool: dict[str, Any], file: Path, modules: list[str]) -> None:
        if isinstance(reference := tool.get("python"), str):
            modules.append(reference.partition(":")[0])
            self._add(f"run Python: {reference}")
        if (command := tool.get("command")) is not None:
            words = _words(command)
            cwd = command.get("cwd") if isinstance(command, dict) else None
            place = file.parent / cwd if isinstance(cwd, str) and "\0" not in cwd else file.parent
            self.files += (place / word for word in words if "\0" not in word and _is_file(place / word))
            self._add(f"run the program: {shlex.join(words)}{f' in {cwd}' if cwd else ''}{_variables_for(command)}")
        if (request := tool.get("http")) is not None:
            url = request.get("url") if isinstance(request, dict) else request
            self._add(f"send requests to: {url}{_variables_in(request)}")

    def _add(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)


def names_python(ensembles: Iterable[Path]) -> bool:
    """Whether a tool of these files is Python, so that the folder must be on the path. It is not put there otherwise:
    a file in it could pose as any module."""
    return any("python" in tool for path in ensembles for tool, _ in _tools_in(path))


def is_python(file: Path) -> bool:
    """Whether the tool of an invoker file is Python."""
    values = _values(file)
    return any("python" in each for each in (values, *_tables([values.get("invoker")])))


def _tools_in(ensemble: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The tables of the tools of a file, each with the file that it stands in. An entry and its source are two."""
    for entry in _tables(_values(ensemble).get("invokers")):
        yield entry, ensemble
        source = entry.get("source")
        if isinstance(source, str) and "\0" not in source:
            file = ensemble.parent / source
            values = _values(file)
            yield values, file
            yield from ((inner, file) for inner in _tables([values.get("invoker")]))


def _tables(values: Any) -> list[dict[str, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _values(file: Path) -> dict[str, Any]:
    try:
        return dict(read_toml_file(file).values)
    except ConfigError:
        return {}  # it cannot be loaded either, and then the mistake is told


def _words(command: Any) -> list[str]:
    run = command.get("run") if isinstance(command, dict) else command
    return [each for each in run if isinstance(each, str)] if isinstance(run, list) else [str(run)]


def _variables_for(command: Any) -> str:
    """The variables that a program gets: those of the user by their names, those that the file sets with values."""
    if not isinstance(command, dict):
        return ""
    passed, values = command.get("env"), command.get("env_set")
    names = [str(each) for each in passed] if isinstance(passed, list) else []
    given = [f"{name}={value}" for name, value in values.items()] if isinstance(values, dict) else []
    told = ", ".join((*(f"${name}" for name in names), *map(shlex.quote, given)))
    return f", with the variables: {told}" if told else ""


def _variables_in(request: Any) -> str:
    """The variables whose values go out in the headers of a request."""
    headers = request.get("headers") if isinstance(request, dict) else None
    values = [each for each in headers.values() if isinstance(each, str)] if isinstance(headers, dict) else []
    names = dict.fromkeys(found["name"] for each in values if (found := FROM_ENVIRONMENT.fullmatch(each)) is not None)
    return f", with the values of: {', '.join(f'${name}' for name in names)}" if names else ""


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
