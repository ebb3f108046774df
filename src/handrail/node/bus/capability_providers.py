"""Who can do a capability: handlers of this node, and what other nodes say that they have."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import TracebackType
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
"""The schema of a frame that any capability may send: `{current, total, stage}`."""
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
    believed: bool = False
    """Whether another node is believed about who wrote what it answers."""
    in_flight: int = 0
    health: ProviderHealth = field(default_factory=ProviderHealth)
    frames: dict[str, Validator] = field(init=False)
    """The check, for each event of a frame, that its data is what the capability promises."""
    full_name: str = field(init=False)

    def __post_init__(self) -> None:
        self.full_name = self.descriptor.full_name
        promised = (self.descriptor.stream_schema or {}) if self.bus is None else {}
        named = f"frames of {self.full_name}"
        self.frames = {
            event: Validator(schema, f"the {event!r} {named}", root="(data)") for event, schema in promised.items()
        }

    def serving(self, clock: Clock, is_fault: Callable[[BusError], bool]) -> CallInFlight:
        """Counts one call under way, and notes how it went. What is not the provider's fault counts as well done."""
        return CallInFlight(self, clock, is_fault)

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


class CallInFlight:
    """A call that a provider has under way: a context manager without a generator, since every call has one."""

    __slots__ = ("_clock", "_is_fault", "_provider", "_started")

    def __init__(self, provider: CapabilityProvider, clock: Clock, is_fault: Callable[[BusError], bool]) -> None:
        self._provider = provider
        self._clock = clock
        self._is_fault = is_fault
        self._started = clock.monotonic()

    def __enter__(self) -> None:
        self._provider.in_flight += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        provider, now = self._provider, self._clock.monotonic()
        provider.in_flight -= 1
        if error is None or isinstance(error, CancelledError):
            ok = True
        elif isinstance(error, BusError):
            ok = not self._is_fault(error)
        else:  # what breaks on the way to another node, as a body that is no JSON, says nothing about that node
            ok = not provider.is_local
        provider.health.note(ok, (now - self._started) * 1000, now)


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

    def __init__(self, bus: Bus, refresh: float, name: str = "", *, believed: bool = False) -> None:
        self.bus = bus
        self.believed = believed
        """Whether what it says of who wrote its answers counts here."""
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
                known = CapabilityProvider(offer.descriptor, offer.node_id, bus=self.bus, believed=self.believed)
            found[key] = known
        before, were_lost = self.nodes, self.is_lost
        self.gone |= dict.fromkeys(before, self.seen)
        self.providers, self.seen, self.heard, self.is_lost = found, now, bool(offers), False
        self.losses += 0 if were_lost else len(before - self.nodes)
        left = [(node, seen) for node, seen in self.gone.items() if node not in self.nodes]
        self.gone = dict(left[-_REMEMBERED:])
