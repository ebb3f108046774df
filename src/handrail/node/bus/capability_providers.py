"""Who can do a capability: handlers of this node, and what other nodes say that they have."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from handrail.core.errors import BusError, UsageError
from handrail.core.ports import Clock
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Bus, CapabilityOffer, Predicate
from handrail.node.bus.provider_health import ProviderHealth
from handrail.node.bus.stream_frame import RESULT, TERMINAL
from handrail.node.bus.versions import Version, satisfies, version_of
from handrail.tools.schema.validator import Validator
from handrail.tools.tool import Tool

PROGRESS = "progress"
"""Any capability may send it: `{current, total, stage}`."""
_CHOICES = (str, int, float, bool)
_REMEMBERED = 64
"""Nodes that are gone."""


@dataclass(slots=True, eq=False, repr=False)
class CapabilityProvider:
    """One capability of one node, and how it has been doing."""

    descriptor: CapabilityDescriptor
    node_id: str
    _: KW_ONLY
    tool: Tool | None = None
    """What runs here; None of one that another node has."""
    is_tool: bool = False
    """Whether it was a tool before it was a capability: then `input` are its arguments."""
    predicate: Predicate | None = None
    bus: Bus | None = None
    """The way to it; None is this node."""
    in_flight: int = 0
    health: ProviderHealth = field(default_factory=ProviderHealth)
    frames: dict[str, Validator] = field(init=False)
    """By the event of a frame, what holds its data to what the capability promises."""

    def __post_init__(self) -> None:
        promised = (self.descriptor.stream_schema or {}) if self.bus is None else {}
        named = f"frames of {self.descriptor.full_name}"
        self.frames = {
            event: Validator(schema, f"the {event!r} {named}", root="(data)") for event, schema in promised.items()
        }

    @contextmanager
    def serving(self, clock: Clock, is_fault: Callable[[BusError], bool]) -> Iterator[None]:
        """Counts one call under way, and notes how it went. What is not the provider's fault counts as well done."""
        # What breaks on the way to another node, as a body that is no JSON, says nothing about that node.
        started, ok = clock.monotonic(), not self.is_local
        self.in_flight += 1
        try:
            yield
            ok = True
        except (BusError, CancelledError) as error:
            ok = isinstance(error, CancelledError) or not is_fault(error)
            raise
        finally:
            self.in_flight -= 1
            now = clock.monotonic()
            self.health.note(ok, (now - started) * 1000, now)

    @property
    def is_local(self) -> bool:
        return self.bus is None

    @property
    def load(self) -> float:
        return self.in_flight / self.descriptor.max_concurrent

    def takes(self, params: Mapping[str, Any]) -> bool:
        """Whether it can serve a call with these params; of another node, as far as its facts tell."""
        if self.predicate is not None:
            try:
                return self.predicate(params)
            except Exception:  # nobody has checked the params yet: what it chokes on, it does not take
                return False
        if self.is_local:
            return True
        return all(_chosen(self.descriptor.params.get(name), value) for name, value in params.items())

    def check_frame(self, event: str, data: dict[str, Any]) -> None:
        """Holds a frame to what the descriptor promises.

        Raises:
            BusError: The handler sent something else; that is its bug, not the caller's.
        """
        validator = self.frames.get(event)
        if validator is None:
            if event == PROGRESS and isinstance(data, dict):
                return
            why = "ends streams and is not for handlers" if event in TERMINAL or event == RESULT else "is not promised"
            raise BusError("internal_error", f"{self.descriptor.full_name} sent a frame {event[:40]!r}, which {why}")
        if problems := validator.problems(data):
            told = "; ".join(problems)
            raise BusError("internal_error", f"{self.descriptor.full_name} sent a wrong {event!r} frame: {told}")


def _chosen(offered: Any, wanted: Any) -> bool:
    """What a provider says nothing about, or says at length, is its own to refuse."""
    if isinstance(offered, list | tuple) and isinstance(wanted, _CHOICES):
        return wanted in offered
    if isinstance(offered, _CHOICES) and isinstance(wanted, _CHOICES):
        return offered == wanted
    return True


class CapabilityRegistry:
    """What this node can do, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[CapabilityProvider]] = {}

    def add(self, provider: CapabilityProvider) -> None:
        """Adds a provider of this node.

        Raises:
            UsageError: It is there already.
        """
        known = self._by_name.setdefault(provider.descriptor.name, [])
        if any(each.descriptor.version == provider.descriptor.version for each in known):
            name = provider.descriptor.full_name
            raise UsageError(f"{name} is registered already; unregister it first, or give it another version")
        known.append(provider)

    def remove(self, name: str, version: Version) -> CapabilityProvider:
        """Removes a provider and returns it.

        Raises:
            UsageError: It is not there.
        """
        known = self._by_name.get(name, [])
        for provider in known:
            if provider.descriptor.version == version:
                known.remove(provider)
                if not known:
                    del self._by_name[name]
                return provider
        raise UsageError(f"{name}@{version[0]}.{version[1]} is not registered")

    def of(self, name: str) -> list[CapabilityProvider]:
        return self._by_name.get(name, [])

    def find(self, name: str, version: Version | str) -> CapabilityDescriptor | None:
        """The descriptor that a call of this name and version would get here."""
        wanted = version_of(version)
        fitting = [each.descriptor for each in self.of(name) if satisfies(each.descriptor.version, wanted)]
        return max(fitting, key=lambda each: (each.version == wanted, each.version), default=None)

    def provider(self, descriptor: CapabilityDescriptor) -> CapabilityProvider | None:
        return next((each for each in self.of(descriptor.name) if each.descriptor is descriptor), None)

    def __iter__(self) -> Iterator[CapabilityProvider]:
        return (provider for known in self._by_name.values() for provider in known)


class ConnectedPeer:
    """Another bus that was connected, and what it said it has."""

    def __init__(self, bus: Bus, refresh: float, name: str = "") -> None:
        self.bus = bus
        self.name = name
        """What people call it."""
        self.refresh = refresh
        """Seconds after which it is asked again."""
        self.seen = float("-inf")
        self.heard: bool = False
        """Whether it had anything to say."""
        self.is_lost: bool = False
        """Whether it could not be asked since."""
        self.providers: dict[tuple[str, str, Version], CapabilityProvider] = {}
        self.gone: dict[str, float] = {}
        """The nodes that were there and are not, with when they were last heard of."""
        self.losses: int = 0
        """How often one was lost."""

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(each.node_id for each in self.providers.values())

    def lose(self) -> None:
        """Marks the peer as unreachable, and counts the loss the first time."""
        if not self.is_lost:
            self.is_lost = True
            self.losses += len(self.nodes)

    def take(self, offers: Sequence[CapabilityOffer], now: float, own: str) -> None:
        """What it has now. Who stays keeps what is known of their health; our own capabilities are no news."""
        found: dict[tuple[str, str, Version], CapabilityProvider] = {}
        for offer in offers:
            if offer.node_id == own:
                continue
            key = (offer.node_id, offer.descriptor.name, offer.descriptor.version)
            known = self.providers.get(key)
            if known is None or known.descriptor != offer.descriptor:
                known = CapabilityProvider(offer.descriptor, offer.node_id, bus=self.bus)
            found[key] = known
        before, were_lost = self.nodes, self.is_lost
        self.gone |= dict.fromkeys(before, self.seen)
        self.providers, self.seen, self.heard, self.is_lost = found, now, bool(offers), False
        self.losses += 0 if were_lost else len(before - self.nodes)
        left = [(node, seen) for node, seen in self.gone.items() if node not in self.nodes]
        self.gone = dict(left[-_REMEMBERED:])
