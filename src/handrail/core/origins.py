"""Where the arguments of a call come from, as the record has it: places, never values."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

OriginKind = Literal["person", "program", "default", "plan", "field", "outside", "model"]
"""The person's words; the system prompt, or the model before it read anything from outside; the tool's own default; the
plan, which was stated before anything from outside was read; a field that the application writes; a field that
outsiders write; none of them, so that the model made it."""


class Origin(Struct, frozen=True, omit_defaults=True):
    """One place in which a value was found."""

    kind: OriginKind
    tool: str = ""
    call: str = ""
    path: str = ""
    """The field of the result of that call, as `comments[2].text`."""

    @property
    def words(self) -> str:
        """The place in a few words."""
        match self.kind:
            case "person":
                return "what you or the program said"
            case "program":
                return "the program's words"
            case "default":
                return "the tool's default"
            case "plan":
                return f"{self.path} of the plan"
            case "model":
                return "the model"
        where = f"{self.path!r} in " if self.path else ""
        return f"{where}the result of {self.tool}{', written by outsiders' if self.kind == 'outside' else ''}"


class ArgumentOrigin(Struct, frozen=True, omit_defaults=True):
    """Where one argument of a call, or one value in it, comes from."""

    argument: str
    """A JSON pointer, as `/to/0`."""
    role: Literal["directs", "carries"]
    trusted: bool
    origins: tuple[Origin, ...] = ()

    @property
    def words(self) -> str:
        """The origin of the argument in one line of text."""
        found = ", ".join(origin.words for origin in self.origins) or "nowhere"
        what = f"{self.argument.lstrip('/')} ({self.role})" if self.argument else "the call"
        return f"{what}: {found}{'' if self.trusted else '; not trusted'}"
