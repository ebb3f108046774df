"""How a command is declared: with its examples, and in groups whose files are loaded when one of them is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from handrail.core.errors import HandrailError

BROKEN_PIPE = 141
"""What a shell reports for a program that SIGPIPE ended."""
INTERRUPTED = 130

Commands = Mapping[str, tuple[str, str]]
"""The commands of a group by name: where each one is, as `module:function` below `handrail.cli`, and its line in the
help of the group. Without a function it is the `command` of the module."""


class LazyGroup(click.Group):
    """A group that knows its commands by a table, so that its help loads none of them."""

    def __init__(self, *args: Any, table: Commands, **options: Any) -> None:
        super().__init__(*args, **options)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, function = self.table[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"handrail.cli.{module}"), function or "command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.table and not ctx.resilient_parsing:
            import difflib  # most people spell it right

            if near := difflib.get_close_matches(args[0], self.table, n=1):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in self.table.items()])


class RootGroup(LazyGroup):
    """The top group, which turns every failure that is not a bug into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except HandrailError as error:
            click.echo(f"handrail: {one_line(error)}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo(err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(BROKEN_PIPE)
        return answer


def lazy_group(name: str, table: Commands, *lines: str) -> Callable[[Callable[[], None]], click.Command]:
    """Make a group of a function, whose docstring is the help of the group."""
    return click.group(name, cls=LazyGroup, table=table, epilog=examples(*lines))


def cli_command(name: str, *lines: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function, with lines to copy at the end of its help."""
    return click.command(name, epilog=examples(*lines))


def one_line(error: BaseException) -> str:
    from handrail.cli.text import printable

    return printable(" / ".join(str(error).splitlines()))


def examples(*lines: str) -> str:
    """The end of a help page. The first character keeps click from wrapping the lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def _forget_stdout() -> None:
    """Drops what is still in the buffer of stdout when its reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
