"""What a capability is: its name and version, what goes in and comes out, and who may ask for it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Literal, get_args

from msgspec import Struct, field, to_builtins

from handrail.core.calls import ResultLabels
from handrail.core.canonical import canonical_json
from handrail.core.errors import InvalidDefinition, MissingExtra
from handrail.node.bus.versions import Version, version_text

Trust = Literal["unknown", "federated", "member", "trusted", "anchor", "self"]
"""The levels of trust, from the least to the most."""
TRUST: tuple[Trust, ...] = get_args(Trust)
Stability = Literal["experimental", "beta", "stable", "deprecated"]

NAME = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+")
"""The pattern of a name: at least two parts, as `rag.query`. The first is its namespace."""


def is_trusted_enough(has: Trust, needs: Trust) -> bool:
    return TRUST.index(has) >= TRUST.index(needs)


class CapabilityDescriptor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The public description of one capability."""

    name: str
    version: Version = (1, 0)
    description: str = ""
    stability: Stability = "stable"
    request_schema: dict[str, Any] = field(default_factory=dict)
    """The schema of the whole body: `{"params": {…}, "input": {…}}`."""
    response_schema: dict[str, Any] | None = None
    """The schema of `output`."""
    stream_schema: dict[str, dict[str, Any]] | None = None
    """The schema of each event's data, by the name of the event. None does not stream."""
    params: dict[str, Any] = field(default_factory=dict)
    """Facts that callers choose by, as `{"model": "llama", "tools_supported": true}`."""
    max_concurrent: int = 8
    trust_required: Trust = "member"
    timeout_seconds: float = 10.0
    side_effects: bool = False
    idempotent: bool = False
    """With the same call id it may run again and changes nothing more."""
    needs: tuple[str, ...] | None = None
    """What it may call itself, on behalf of its caller, as patterns of `name@version`; None is what the caller may."""
    untrusted: bool = False
    """Its words come from outside: data for a model, not orders."""
    labels: ResultLabels | None = None
    """Who writes the fields of its output, if `untrusted` does not say enough."""
    recorded: bool = True
    """False is for what a person does at this node itself, as looking at its record: calls of it are not in that
    record, other nodes are not told of it, and no call of it goes to another node."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or len(self.name) > 100:
            raise InvalidDefinition(f"capability {self.name!r}: write its name as namespace.verb, in small letters")
        if self.max_concurrent < 1 or not self.timeout_seconds > 0:
            raise InvalidDefinition(f"capability {self.name!r} needs max_concurrent >= 1 and timeout_seconds > 0")

    @property
    def full_name(self) -> str:
        """`name@major.minor`, as scopes and wires write it."""
        return f"{self.name}@{version_text(self.version)}"

    @property
    def retriable(self) -> bool:
        """Whether a call of which nobody knows what became may be made again."""
        return not self.side_effects or self.idempotent

    @property
    def schema_hash(self) -> str:
        """Equal for two nodes that mean the same by it.

        Raises:
            MissingExtra: BLAKE3 is not installed.
        """
        return _hash(
            canonical_json(
                {
                    "name": self.name,
                    "version": version_text(self.version),
                    "request_schema": self.request_schema,
                    "response_schema": self.response_schema,
                    "stream_schema": self.stream_schema,
                }
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """The descriptor as discovery shows it."""
        shown: dict[str, Any] = to_builtins(self)
        return {**shown, "version": version_text(self.version), "schema_hash": self.schema_hash}


@lru_cache(maxsize=4096)
def _hash(data: bytes) -> str:
    try:
        from blake3 import blake3
    except ImportError as error:
        raise MissingExtra("hashing the schemas of capabilities", "bus") from error
    return f"blake3:{blake3(data).hexdigest()}"
