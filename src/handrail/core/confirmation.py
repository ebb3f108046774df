"""A question to a person about one call, where its paths lead, and the answers there are."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from handrail.core.canonical import digest
from handrail.core.secret_pointers import mask_pointers


class Location(Struct, frozen=True, kw_only=True):
    """A file or folder by its real path: without links, without `..`, in every root that it lies in."""

    names: tuple[str, ...]
    """Each `root:path` that names the place, the canonical one first: that of the innermost root."""
    first: str
    """The root that a path is in which names none."""
    absolute: str
    """Its whole path on this machine."""
    tree: bool = False
    """Whether the call touches everything below it too, as deleting a folder does."""

    @property
    def canonical(self) -> str:
        return self.names[0]


Locations = dict[str, Location | None]
"""The places that the path arguments lead to, by argument; None for one that cannot be told."""


class Confirmation(Struct, frozen=True, kw_only=True):
    """Exactly what will run if it is allowed."""

    request: str
    run: str
    call_id: str
    tool: str
    description: str
    arguments: dict[str, Any]
    binds: str
    definition: str = ""
    """The digest of the tool's definition: a word that was given for another one is not good for this."""
    why: str = ""
    """Why a person is asked although a standing word may cover the call; then only a new word will do."""
    form: dict[str, Any] | None = None
    """A schema, where values are asked for and no word: `Edit` brings them, `Allow` takes `arguments` as they are."""
    locations: Locations = {}
    """Where arguments lead that are paths, as the tool has resolved them: rules go by these and not by the spelling.
    None where that cannot be told."""
    meant: tuple[str, ...] | None = None
    """The runs that somebody outside may ask for in mid-call; several if the caller does not say which."""
    secrets: tuple[str, ...] = ()
    """The places in `arguments` that the schema declares as secret, as JSON pointers: `/auth/password`."""
    agents: tuple[str, ...] = ()
    """The agents that led to the call, the outermost first: the last one wants to make it."""

    @property
    def shown(self) -> dict[str, Any]:
        """The arguments as a person is shown them: complete, except for the fields that are declared as secret.

        Text is never masked by its form here. What a pattern hides would run unseen.
        """
        masked: dict[str, Any] = mask_pointers(self.arguments, self.secrets)
        return masked


class Allow(Struct, frozen=True):
    """The call may run, with exactly the arguments that were asked about."""

    by: str


class Deny(Struct, frozen=True):
    """The call may not run. The model reads the reason."""

    by: str
    reason: str = ""


class Edit(Struct, frozen=True):
    """Allow the call with other arguments; they are validated like the first ones."""

    by: str
    arguments: dict[str, Any]


class Defer(Struct, frozen=True):
    """Nobody can decide now. The call is answered `needs_confirmation` and may be allowed later, from anywhere."""


Decision = Allow | Deny | Edit | Defer


class ConfirmationSubject(Struct, frozen=True, omit_defaults=True):
    """What a question was about: the part of its entry that can be erased."""

    arguments: dict[str, Any]
    nonce: str
    """Makes `binds` a riddle once this is erased: without it, short arguments could be guessed and checked."""
    definition: str = ""
    """The digest of the tool's definition."""
    words: dict[str, Any] | None = None
    """The definition itself, in the first question of a run about this tool."""
    why: str = ""
    secrets: tuple[str, ...] = ()
    """The places that are masked in `arguments` because the schema declares them as secret. Earlier versions wrote the
    names of the fields."""
    agents: tuple[str, ...] = ()
    """The agents that led to the call, the outermost first."""


def grant_binding(
    nonce: str, run: str, call_id: str, tool: str, arguments: dict[str, Any], definition: str = ""
) -> str:
    """What a grant is good for: this tool as it is defined, with these arguments, for this call of this run."""
    bound = {"nonce": nonce, "run": run, "call": call_id, "tool": tool, "arguments": arguments}
    return digest({**bound, "definition": definition} if definition else bound)
