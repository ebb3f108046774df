"""`handrail tools check`: whether everything that a configuration names can be used, and each mistake in its place."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.doctor.configuration_checks import ConfigurationFinding, check_node
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import (
    CommandView,
    answer_json,
    columns,
    table,
    tell,
    with_common_options,
    with_output_file,
)
from handrail.cli.tools.tool_files import read_tool_file
from handrail.config.load import find_config
from handrail.core.errors import HandrailError, UsageError
from handrail.tools.files.static_python import tools_in_source

_COLUMNS = columns("file", "state", "tools", "problem", right=("tools",))
_STYLES = {"ok": "green", "wrong": "red", "warn": "yellow"}


@cli_command(
    "check", "handrail tools check", "handrail tools check --connect", "handrail tools check ensembles/*.toml tools.py"
)
@click.argument("files", nargs=-1)
@click.option("--connect", is_flag=True, help="Connect to the approved MCP servers, and check their tools.")
@click.option("--config", type=click.Path(path_type=Path), metavar="PATH", help="The configuration.")
@with_common_options
@with_output_file
def command(view: CommandView, files: tuple[str, ...], connect: bool, config: Path | None) -> None:
    """Check these FILES, or the whole configuration, and report every mistake.

    It checks keys and values, schemas, functions, names and servers, and reports each mistake with its file, line and
    key. Python files are read as text and never imported, so it is safe to check code that you do not trust. Nothing is
    called, and no server is started without --connect. The exit code is 1 if something is wrong.
    """
    if files:
        found = [finding for file in files for finding in _checked(file)]
    else:
        path = find_config(config or view.config, Path.cwd())
        found = [] if path is None else check_node(path, connect=connect)
    if not found:
        tell("There is nothing to check; name files, or list some under `ensembles` in handrail.toml.")
        return
    if view.as_json:
        for finding in found:
            answer_json(
                {
                    "file": finding.what,
                    "ok": finding.state != "wrong",
                    "state": finding.state,
                    "tools": finding.tools,
                    "problem": finding.problem,
                    "line": finding.line,
                    "key": finding.key,
                }
            )
    else:
        table(_COLUMNS, [_row(each) for each in found], _STYLES)
    if any(finding.state == "wrong" for finding in found):
        raise click.exceptions.Exit(1)


def _checked(file: str) -> list[ConfigurationFinding]:
    try:
        if Path(file).suffix == ".py":
            return [ConfigurationFinding(what=file, tools=tools_in_source(Path(file)))]
        if Path(file).suffix != ".toml":
            raise UsageError(f"{file}: only files are checked, and this is none; write FILE.toml or FILE.py")
        found = read_tool_file(Path(file))
        if found.mistakes:
            return [ConfigurationFinding.of(file, error) for error in found.mistakes]
        return [ConfigurationFinding(what=file, tools=len(found.tools))]
    except HandrailError as error:
        return [ConfigurationFinding.of(file, error)]


def _row(finding: ConfigurationFinding) -> tuple[str, ...]:
    problem = "-" if finding.problem is None else text.printable(finding.problem)
    return text.printable(finding.what), finding.state, text.dashed(finding.tools), problem
