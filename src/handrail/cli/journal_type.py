"""Where a journal is, as a value of the command line."""

from __future__ import annotations

from typing import Any

import click


class JournalPlaceType(click.ParamType):  # type: ignore[type-arg]
    """The path of a file, or the URL of a shared state."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from handrail.journal.places import parse_place  # help needs no journal

        return parse_place(value) if isinstance(value, str) else value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return click.Path().shell_complete(ctx, param, incomplete)


JOURNAL_PLACE = JournalPlaceType()
