"""What a token is good for: which capabilities, with which values, how often. Pure.

A scope is narrowed by taking capabilities away, by allowing fewer values, and by lower
limits. What cannot be shown to be narrower is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from handrail.core.canonical import canonical_json
from handrail.core.errors import BusError
from handrail.core.jsontext import why_not_json
from handrail.node.bus.versions import Version, version_text
from handrail.node.tokens.patterns import EVERYTHING, is_inside, matches, pattern

_MOST = 64
"""Capabilities, constraints, and values of each."""
_LIMIT = 1_000_000


class Scope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rights of a token. Make one with `Scope.of`, which checks it."""

    capabilities: tuple[str, ...] = ()
    """Patterns of `name@version`."""
    params_constraints: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """By a name, as `corpus`, the values that it may have in `params` and `input`; every call must say one.

    `rag.*:corpus` holds for those capabilities only.
    """
    rate_limit_per_minute: int | None = None
    max_calls_total: int | None = None

    @classmethod
    def of(
        cls,
        capabilities: Iterable[str],
        params_constraints: Mapping[str, Iterable[Any]] | None = None,
        rate_limit_per_minute: int | None = None,
        max_calls_total: int | None = None,
    ) -> Scope:
        """These rights, checked.

        Raises:
            BusError: A pattern, a constraint or a limit cannot be used (`bad_request`).
        """
        if isinstance(capabilities, str):
            raise BusError("bad_request", "capabilities is a list of patterns, as ['rag.query@1.0']")
        return cls(
            capabilities=_few(tuple(dict.fromkeys(map(pattern, capabilities))), "capabilities"),
            params_constraints=_constraints(params_constraints or {}),
            rate_limit_per_minute=_limit(rate_limit_per_minute, "rate_limit_per_minute"),
            max_calls_total=_limit(max_calls_total, "max_calls_total"),
        )

    @classmethod
    def from_dict(cls, said: Any) -> Scope:
        """What a token or a request says.

        Raises:
            BusError: It cannot be read as a scope (`bad_request`).
        """
        if not isinstance(said, dict) or not said.keys() <= _KEYS:
            raise BusError("bad_request", f"a scope is an object with some of: {', '.join(sorted(_KEYS))}")
        named, constraints = said.get("capabilities"), said.get("params_constraints") or {}
        if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
            raise BusError("bad_request", "a scope names its capabilities in a list, as ['rag.query@1.0']")
        if not isinstance(constraints, dict) or not all(isinstance(each, list) for each in constraints.values()):
            raise BusError("bad_request", "params_constraints gives a list of values for each name")
        return cls.of(named, constraints, said.get("rate_limit_per_minute"), said.get("max_calls_total"))

    def to_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = {"capabilities": list(self.capabilities)}
        if self.params_constraints:
            said["params_constraints"] = {key: list(values) for key, values in self.params_constraints.items()}
        limits = {"rate_limit_per_minute": self.rate_limit_per_minute, "max_calls_total": self.max_calls_total}
        return {**said, **{key: value for key, value in limits.items() if value is not None}}

    def covers(
        self, name: str, version: Version, body: Mapping[str, Any], schema: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether this call is inside it, limits aside."""
        return self.lacks(f"{name}@{version_text(version)}", body, schema) is None

    def lacks(self, full_name: str, body: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> str | None:
        """Why a call is outside it, or None. `schema` is that of the whole body, where it is known."""
        if not matches(full_name, self.capabilities):
            return f"it does not cover {full_name!r}; ask for one that does"
        for key, allowed in self.params_constraints.items():
            pattern, name = split_constraint(key)
            if matches(full_name, (pattern,)) and not _is_allowed(name, allowed, body, schema or {}):
                return (
                    f"{name!r} must be one of the values that it allows, and must be said; ask for one that allows it"
                )
        return None

    def is_bare(self, full_name: str) -> bool:
        """Whether it covers a capability with any values, and as often as one likes."""
        limited = self.rate_limit_per_minute is not None or self.max_calls_total is not None
        held = any(matches(full_name, (split_constraint(key)[0],)) for key in self.params_constraints)
        return matches(full_name, self.capabilities) and not limited and not held

    def is_within(self, other: Scope) -> bool:
        """Whether everything that this allows, the other allows too. A yes is always true."""
        return (
            all(is_inside(each, other.capabilities) for each in self.capabilities)
            and all(self._keeps(key, allowed) for key, allowed in other.params_constraints.items())
            and _at_most(self.rate_limit_per_minute, other.rate_limit_per_minute)
            and _at_most(self.max_calls_total, other.max_calls_total)
        )

    def narrowed(
        self,
        capabilities: Sequence[str] | None = None,
        params_constraints: Mapping[str, Iterable[Any]] | None = None,
        rate_limit_per_minute: int | None = None,
        max_calls_total: int | None = None,
    ) -> Scope:
        """A part of it; what is not said stays as it is.

        Raises:
            BusError: That would be more, or cannot be shown to be less (`token_scope_insufficient`).
        """
        part = Scope.of(
            self.capabilities if capabilities is None else capabilities,
            {**self.params_constraints, **(params_constraints or {})},
            self.rate_limit_per_minute if rate_limit_per_minute is None else rate_limit_per_minute,
            self.max_calls_total if max_calls_total is None else max_calls_total,
        )
        part.check_within(self)
        return part

    def check_within(self, other: Scope) -> None:
        """Make sure that these rights are the same as those, or fewer.

        Raises:
            BusError: It is not within the other, or cannot be shown to be (`token_scope_insufficient`).
        """
        if not self.is_within(other):
            raise BusError(
                "token_scope_insufficient",
                "a token can only be passed on with the same rights or fewer; leave out the capabilities, values or"
                " limits that go beyond it",
                outcome="forbidden",
            )

    def _keeps(self, key: str, allowed: tuple[Any, ...]) -> bool:
        """Whether some constraint of this one is as strict as another's, wherever that one holds."""
        pattern, name = split_constraint(key)
        may = set(map(canonical_json, allowed))
        return any(
            own == name and is_inside(pattern, (where,)) and set(map(canonical_json, values)) <= may
            for (where, own), values in (
                (split_constraint(each), given) for each, given in self.params_constraints.items()
            )
        )


_KEYS = frozenset({"capabilities", "params_constraints", "rate_limit_per_minute", "max_calls_total"})


def split_constraint(key: str) -> tuple[str, str]:
    """`rag.*:corpus` as the pattern, of any version, and the name; without a pattern it holds everywhere."""
    where, colon, name = key.rpartition(":")
    return (pattern(f"{where}@*") if colon else EVERYTHING), name


def _is_allowed(name: str, allowed: tuple[Any, ...], body: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether the value is given wherever the capability looks for it, and is allowed wherever it is given."""
    parts = {part: _object(body.get(part)) for part in ("params", "input")}
    given = [part[name] for part in parts.values() if name in part]
    declared = [
        part
        for part in parts
        if name in _object(_object(_object(schema.get("properties")).get(part)).get("properties"))
    ]
    may = set(map(canonical_json, allowed))
    return (
        bool(given)
        and all(name in parts[part] for part in declared)
        and all(canonical_json(each) in may for each in given)
    )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _constraints(said: Mapping[str, Iterable[Any]]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for key, values in said.items():
        if not split_constraint(key)[1] or len(key) > 200:
            raise BusError("bad_request", f"{key[:60]!r} names no parameter; write 'corpus' or 'rag.*:corpus'")
        found[key] = _few(tuple(values), f"values of {key!r}")
        if any(why_not_json(value, 8) is not None for value in found[key]):
            raise BusError("bad_request", f"a value of {key!r} is not JSON")
    if len(found) > _MOST:
        raise BusError("bad_request", f"a scope has at most {_MOST} constraints")
    return found


def _few(values: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    if not 1 <= len(values) <= _MOST:
        raise BusError("bad_request", f"a scope has 1 to {_MOST} {what}, not {len(values)}")
    return values


def _limit(value: Any, name: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LIMIT:
        raise BusError("bad_request", f"{name} is a whole number from 1 to {_LIMIT:,}, or null for none")
    return value


def _at_most(own: int | None, other: int | None) -> bool:
    return other is None or (own is not None and own <= other)
