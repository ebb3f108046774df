"""`handrail sync-capabilities`: the tools and models of a node as source files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handrail.cli import text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import answer_json, columns, table, tell
from handrail.cli.run_options import CliSetup, configured, with_tools
from handrail.config.values import Config
from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.tools.registry import is_open_to_model, registered

if TYPE_CHECKING:
    from handrail.tools.registry import RegisteredTools
    from handrail.tools.snapshots.catalogue import CatalogueModel, NodeCatalogue
    from handrail.tools.snapshots.snapshot_files import Language

_COLUMNS = columns("language", "state", "file")
_STYLES = {"same": "green", "written": "green", "missing": "red", "differs": "red"}
_FILE = click.Path(path_type=Path, dir_okay=False)


@cli_command(
    "sync-capabilities",
    "handrail sync-capabilities --out generated",
    "handrail sync-capabilities --typescript web/src/tools.ts --python app/tools.py",
    "handrail sync-capabilities --out generated --check          for CI",
    "handrail sync-capabilities --from http://127.0.0.1:8080/capabilities --rust src/tools.rs",
)
@click.option("--from", "source", metavar="WHERE", help="A JSON file or an http address. Default: the configuration.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write all three to this folder.",
)
@click.option("--python", type=_FILE, metavar="FILE", help="Write the Python module to this file.")
@click.option("--typescript", type=_FILE, metavar="FILE", help="Write the TypeScript module to this file.")
@click.option("--rust", type=_FILE, metavar="FILE", help="Write the Rust module to this file.")
@click.option(
    "--check", is_flag=True, help="Write nothing; the exit code is 1 if a file differs from what would be written."
)
@with_tools
@configured
def command(
    setup: CliSetup,
    source: str | None,
    out: Path | None,
    python: Path | None,
    typescript: Path | None,
    rust: Path | None,
    check: bool,
    tools: tuple[str, ...],
) -> None:
    """Write the tools and models of a node as Python, TypeScript and Rust sources.

    Programs that use these sources find a wrong tool name at compile time. The same tools and models give the same
    bytes. If anything of the node cannot be read, nothing is written.
    """
    from handrail.tools.snapshots.snapshot_files import check_snapshots, write_snapshots

    files = _files(out, {"python": python, "typescript": typescript, "rust": rust})
    catalogue = asyncio.run(_catalogue(setup.config, source, tools))
    done = (check_snapshots if check else write_snapshots)(catalogue, files)
    if setup.view.as_json:
        for each in done:
            answer_json({"language": each.language, "file": str(each.path), "state": each.state})
    else:
        table(_COLUMNS, [(each.language, each.state, text.printable(str(each.path))) for each in done], _STYLES)
    stale = [str(each.path) for each in done if each.state in ("missing", "differs")]
    if stale:
        tell(f"Not up to date: {text.printable(', '.join(stale))}. Write them with the same command, without --check.")
        raise click.exceptions.Exit(1)


def _files(out: Path | None, named: dict[Language, Path | None]) -> dict[Language, Path]:
    from handrail.tools.snapshots.snapshot_files import WRITERS

    found: dict[Language, Path] = {}
    for language, path in named.items():
        if path is not None:
            found[language] = path
        elif out is not None:
            found[language] = out / WRITERS[language].file
    if not found:
        raise UsageError("say where to write: --out DIR, or --python, --typescript or --rust FILE")
    if len({path.absolute() for path in found.values()}) < len(found):
        raise UsageError("two languages cannot be written to one file")
    return found


async def _catalogue(config: Config, source: str | None, wanted: tuple[str, ...]) -> NodeCatalogue:
    if source is not None:
        if wanted:
            raise UsageError("--from has its own tools; leave out --tools")
        from handrail.tools.snapshots.catalogue_source import read_source

        return await read_source(source)
    from handrail.tools.snapshots.catalogue import catalogue_of

    tools = await _tools(config, wanted)
    return catalogue_of(tools, _models(config, tools))


async def _tools(config: Config, wanted: tuple[str, ...]) -> RegisteredTools:
    """The tools of the node. All of its servers must be there: half of the tools would be a lie."""
    from handrail.app.app import open_tools
    from handrail.cli.terminal.person import terminal_person
    from handrail.config.tools import tools_of

    if wanted:
        return registered(*tools_of(config, wanted))
    async with open_tools(config, terminal_person(), whole=True) as tools:
        return tools


def _models(config: Config, tools: RegisteredTools) -> Iterator[CatalogueModel]:
    from handrail.tools.snapshots.catalogue import CatalogueModel

    for name, settings in config.models.items():
        scope = Context(within=() if settings.tools is None else (settings.tools,))
        asked = settings.model or settings.provider
        valid = [tool.name for tool in tools if is_open_to_model(tool, asked) and scope.allows(*tool.names)]
        yield CatalogueModel(
            id=name,
            provider=settings.provider,
            model=settings.model,
            supports_tool_calls=config.llm.tools_enabled and settings.tools != (),
            tools=tuple(valid),
        )
