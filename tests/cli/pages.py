"""The help of every command as the page shows it. `python -m tests.cli.pages` writes it there anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from handrail.cli.root import root

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
BEGIN, END = "<!-- help: begin (written by `python -m tests.cli.pages`) -->\n", "<!-- help: end -->\n"


def commands(command: click.Command = root, name: str = "handrail") -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that call it, groups before their commands."""
    yield name, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for word in command.list_commands(context):
                found = command.get_command(context, word)
                assert found is not None
                yield from commands(found, f"{name} {word}")


def help_of(name: str) -> str:
    words = name.split()[1:]
    result = CliRunner().invoke(root, [*words, "--help"], prog_name="handrail", terminal_width=100, env={"COLUMNS": ""})
    return result.stdout


def section() -> str:
    return "\n".join(f"### `{name}`\n\n```text\n{help_of(name)}```\n" for name, _ in commands())


def current(page: str) -> str:
    """The page with the help as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
