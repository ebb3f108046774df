"""`handrail mcp status`: which clients use which servers, and which of them through handrail."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from handrail.app import Person
from handrail.cli import text
from handrail.cli.config.approval import is_approved
from handrail.cli.lazy_groups import cli_command
from handrail.cli.mcp.proxy_entry import served_config
from handrail.cli.mcp.servers import server_rows
from handrail.cli.output.view import columns, table, tell, with_output_file
from handrail.cli.run_options import CliSetup, with_unapproved_configuration
from handrail.cli.terminal.person import terminal_person
from handrail.config.client_files import ClientFile, client_places
from handrail.config.load import load_config
from handrail.config.mcp_import import is_proxy, proxy_words
from handrail.core.errors import HandrailError
from handrail.core.redact import redact_text

_COLUMNS = columns("client", "server", "through", "state", "tools", "file", right=("tools",), cut="file")
_STYLES = {
    "ready": "green",
    "lost": "red",
    "off": "dim",
    "unapproved": "yellow",
    "approved": "cyan",
    "direct": "yellow",
}
_NONE = "No client here has servers; add one with: handrail mcp add NAME -- COMMAND…"
_WORKS = ("ready", "approved", "off")


@cli_command(
    "status", "handrail mcp status", "handrail mcp status --no-connect", "handrail mcp status --json | jq .state"
)
@click.option("--no-connect", is_flag=True, help="Do not connect to approved servers.")
@with_unapproved_configuration
@with_output_file
def command(setup: CliSetup, no_connect: bool) -> None:
    """Show which servers each MCP client on this machine uses, and whether handrail stands in front of them.

    The command connects to servers behind handrail that are approved. It does not start other servers; it only checks
    whether their programs exist. The exit code is 1 if a server behind handrail is not approved or cannot be started.
    """
    rows = asyncio.run(_rows(setup, terminal_person(ask=False), not no_connect))
    if not rows and not setup.view.as_json:
        tell(_NONE)
    if rows and not setup.view.wrote_json(*rows):
        table(_COLUMNS, [_line(row) for row in rows], _STYLES)
        for row in rows:
            for note in row["notes"]:
                tell(f"{text.printable(row['server'])}: {text.printable(note)}")
    if any(row["through"] == "handrail" and row["state"] not in _WORKS for row in rows):
        raise click.exceptions.Exit(1)


async def _rows(setup: CliSetup, person: Person, connect: bool) -> list[dict[str, Any]]:
    behind: dict[Path, list[dict[str, Any]]] = {}
    rows: list[dict[str, Any]] = []
    for file in client_places(Path.cwd(), Path.home()):
        if not file.path.is_file():
            continue
        try:
            entries = file.servers()
        except HandrailError as error:
            rows.append(_row(file, "-", "-", "lost", notes=[str(error)]))
            continue
        for name, entry in entries.items():
            if not is_proxy(entry):
                rows.append(_direct(file, name, entry))
                continue
            config = served_config(entry) or setup.config.file
            if config is not None and config not in behind:
                behind[config] = await _served(setup, config, person, connect)
            found = [] if config is None else behind[config]
            problem = _program_problem(proxy_words(entry)[0])
            for row in found:
                state = "lost" if problem else row["state"]
                notes = [problem] if problem else row["notes"]
                rows.append(_row(file, row["server"], "handrail", state, row["tools"], notes, config))
            if not found:
                rows.append(_row(file, name, "handrail", "lost", notes=["it names no configuration with servers"]))
    if (near := setup.config.file) is not None and not _is_among(near, behind):
        for row in await _served(setup, near, person, connect):
            rows.append(_row(None, row["server"], "handrail", row["state"], row["tools"], row["notes"], near))
    return rows


def _is_among(config: Path, others: Iterable[Path]) -> bool:
    return any(os.path.realpath(each) == os.path.realpath(config) for each in others)


async def _served(setup: CliSetup, file: Path, person: Person, connect: bool) -> list[dict[str, Any]]:
    try:
        config = load_config(file)
    except (HandrailError, OSError) as error:
        return [{"server": "-", "state": "lost", "tools": [], "notes": [str(error)]}]
    return await server_rows(replace(setup, config=config), person, connect and is_approved(config))


def _direct(file: ClientFile, name: str, entry: Any) -> dict[str, Any]:
    words = proxy_words(entry)
    problem = _program_problem(words[0]) if words and words[0] else None
    how = f"handrail mcp import {file.client} --replace"
    notes = [problem] if problem else [f"it does not go through handrail; to change that: {how}"]
    return _row(file, name, "direct", "lost" if problem else "direct", notes=notes)


def _program_problem(program: str) -> str | None:
    """Why a program cannot be started, as far as one sees without starting it."""
    if "${" in program or shutil.which(os.path.expanduser(program)) is not None:
        return None
    return redact_text(f"there is no program {program!r} to start")


def _row(
    file: ClientFile | None,
    server: str,
    through: str,
    state: str,
    tools: list[str] | None = None,
    notes: list[str] | None = None,
    config: Path | None = None,
) -> dict[str, Any]:
    return {
        "client": None if file is None else file.client,
        "server": server,
        "through": through,
        "state": state,
        "tools": tools or [],
        "file": str(config if file is None else file.path),
        "config": None if config is None else str(config),
        "notes": notes or [],
    }


def _line(row: Mapping[str, Any]) -> tuple[str, ...]:
    count = text.dashed(len(row["tools"]))
    names = (row["client"] or "-", row["server"])
    return *map(text.printable, names), row["through"], row["state"], count, text.printable(row["file"])
