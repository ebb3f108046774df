"""Who calls, with what right, and how far: the values that travel with a call and never hide in globals."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace


class LiveObject:
    """Base of what `auxdata` may hold beside JSON: an object of this process, which a worker process never gets."""

    __slots__ = ()


class Principal(Struct, frozen=True):
    """The user or program on whose behalf a call runs."""

    id: str = "local"
    scopes: tuple[str, ...] | None = None
    """Patterns of what it may call, as `io:read_*` or `rag.query@1.0`; None is everything."""


LOCAL = Principal()


class RepeatingCaller(Struct, frozen=True):
    """A caller that forgets its calls when it is restarted, as a client of an MCP server does.

    An equal side effect that was made before its conversation began may be the same one, asked for again.
    """

    owner: str
    """The owner of effects: equal effects of one owner may be the same effect."""
    since: int
    """The time at which the conversation began, in milliseconds since 1970."""
    key: str = ""
    """The key under which it would repeat this call, if it gave one: the same key means the same effect."""
    may_resend: bool = False
    """Whether an equal call may be this one sent again while it runs, as by a client that gave up waiting for it."""


class Context(Struct, frozen=True, kw_only=True):
    """What the caller says about a call."""

    run: str = ""
    principal: Principal = LOCAL
    token: str | None = None
    scopes: tuple[str, ...] | None = None
    """Narrows the principal's scopes for this call and the calls below it; never widens them."""
    within: tuple[tuple[str, ...], ...] = ()
    """The scopes of the calls above this one. Each of them must allow it too."""
    deadline: float | None = None
    """The time at which the call must have ended, on the monotonic clock of the event loop."""
    depth: int = 0
    model: str | None = None
    trace: str | None = None
    """The W3C `traceparent` of whatever this call is part of."""
    held: tuple[Any, ...] = ()
    """The tools and resources that the calls above this one hold; it runs inside them and does not wait for them."""
    raised: dict[str, Exception] | None = None
    """Collects the exceptions of failed calls by the id of the call, for a caller in this process who wants more than
    their text."""
    deps: Any = None
    """What the tools of this call and the calls below it get as `Invocation.deps`, in place of what the executor has.
    It stays in this process: it is never sent, recorded or shown."""
    agents: tuple[str, ...] = ()
    """The names of the agents on whose behalf the call is made, the outermost first."""
    budget: Any = None
    """What the run that makes the call may still use, for a run that the call begins in this process."""
    words_reader: Any = None
    """Reads the withheld words of outsiders for the model of the run, in this process."""
    repeating: RepeatingCaller | None = None
    """What is known of a caller that may ask again for what it has asked for."""
    auxdata: Mapping[str, Any] = field(default_factory=dict)
    namespace: Mapping[str, Any] = field(default_factory=dict)

    def allows(self, *names: str) -> bool:
        """Whether the principal, this context and every call above cover the thing that goes by these names."""
        for scopes in (self.principal.scopes, self.scopes, *self.within):
            if scopes is not None and not _covers(tuple(scopes), names):
                return False
        return True

    def nested(self, scopes: tuple[str, ...] | None, *holding: Any) -> Context:
        """The context of a call that this one makes: one level deeper, with these scopes at most."""
        return replace(
            self,
            depth=self.depth + 1,
            repeating=self.repeating and replace(self.repeating, key="", may_resend=False),
            scopes=scopes,
            within=self.within if self.scopes is None else (*self.within, self.scopes),
            held=(*self.held, *(each for each in holding if each is not None)),
        )


@lru_cache(1024)
def _covers(scopes: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, scope) for scope in scopes for name in names)
