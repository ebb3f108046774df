"""Groups of commands whose files are loaded when one of them is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from handrail.core.errors import HandrailError

BROKEN_PIPE = 141
"""What a shell reports for a program that SIGPIPE ended."""
INTERRUPTED = 130


class LazyGroup(click.Group):
    """A table of command names and the modules that hold them, each as `command`.

    `says` has the line that stands for each in the group's help, where loading them all for that would take long.
    """

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, str] | None = None,
        says: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._modules = dict(modules or {})
        self.says = dict(says or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = self._modules.get(cmd_name)
        if module is None:
            return None
        command: click.Command = importlib.import_module(module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self._modules and not ctx.resilient_parsing:
            import difflib  # most people spell it right

            if near := difflib.get_close_matches(args[0], self._modules, n=1):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.says:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.says[name]) for name in self.list_commands(ctx)])


class RootGroup(LazyGroup):
    """Where every failure that is not a bug becomes one line and an exit code."""

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


def one_line(error: BaseException) -> str:
    from handrail.cli.text import printable

    return printable(" / ".join(str(error).splitlines()))


def examples(*lines: str) -> str:
    """The end of a help page. The first character keeps click from wrapping the lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def _forget_stdout() -> None:
    """Nobody reads any more: let what is still in the buffer go nowhere, without a word."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
