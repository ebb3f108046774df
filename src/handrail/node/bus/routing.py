"""Routing: which provider is asked, and which next: near and idle before far and busy, the same for a session, none
that keeps failing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import BusError
from handrail.core.ports import Clock
from handrail.node.bus.capability_providers import CapabilityProvider
from handrail.node.bus.versions import Version, satisfies, version_text

BUSY = 0.8
"""The load from which this node is not preferred to others."""
STICKY = 600.0
"""Seconds without a call after which a session may go elsewhere."""
_SESSIONS = 10_000
_UNKNOWN_MS = 500.0
_NEAR = 50.0

Who = tuple[str, str, str]
"""A principal, its session, and the name of what it calls in it."""


class ProvidersSuspended(BusError):
    """All possible providers failed too often just now. They may still tell what became of a call that they had."""

    def __init__(self, name: str, providers: list[CapabilityProvider], seconds: float) -> None:
        why = f"who offers {name} failed too often just now and is left alone for a while"
        super().__init__("partition", why, retry_after_ms=max(1, int(seconds * 1000)))
        self.providers = providers


class CapabilityRouter:
    """Orders providers. It remembers which session went where, and nothing else."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sticky = BoundedMemory[Who, str](_SESSIONS, seconds=STICKY, now=clock.monotonic)

    def order(
        self,
        name: str,
        wanted: Version,
        providers: list[CapabilityProvider],
        params: Mapping[str, Any],
        who: Who | None,
    ) -> list[CapabilityProvider]:
        """The providers that may be asked, the best first.

        Raises:
            BusError: Nobody has it (`not_found`), nobody has this version (`schema_mismatch`), or those who have
                failed too often just now (`partition`, a `ProvidersSuspended`).
        """
        now = self._clock.monotonic()
        if len(providers) == 1 and _can_serve(only := providers[0], wanted, params, now):
            return [only]
        fitting = [each for each in providers if satisfies(each.descriptor.version, wanted)]
        if not fitting:
            raise _missing(name, wanted, providers)
        able = [each for each in fitting if each.takes(params)]
        if not able:
            raise BusError(
                "not_found", f"nobody offers {name}@{version_text(wanted)} for these params", outcome="failed"
            )
        up = [each for each in able if each.health.quarantined_until <= now]
        if not up:
            left = min(each.health.quarantined_until for each in able) - now
            raise ProvidersSuspended(f"{name}@{version_text(wanted)}", able, left)
        if len(up) == 1:
            return up
        held = None if who is None else self._sticky.get(who)
        return sorted(_one_each(up, wanted), key=lambda each: _rank(each, held))

    def went(self, who: Who | None, provider: CapabilityProvider) -> None:
        """A call of a session was answered there."""
        if who is not None:
            self._sticky[who] = provider.node_id


def _can_serve(provider: CapabilityProvider, wanted: Version, params: Mapping[str, Any], now: float) -> bool:
    return (
        satisfies(provider.descriptor.version, wanted)
        and provider.health.quarantined_until <= now
        and provider.takes(params)
    )


def _one_each(providers: Iterable[CapabilityProvider], wanted: Version) -> Iterable[CapabilityProvider]:
    """One version for each node: the one that was asked for, else its newest."""
    best: dict[str, CapabilityProvider] = {}
    for each in providers:
        known = best.get(each.node_id)
        if known is None or version_nearness(each, wanted) > version_nearness(known, wanted):
            best[each.node_id] = each
    return best.values()


def version_nearness(provider: CapabilityProvider, wanted: Version) -> tuple[bool, Version]:
    """The larger, the better its version fits."""
    return provider.descriptor.version == wanted, provider.descriptor.version


def _rank(provider: CapabilityProvider, held: str | None) -> tuple[bool, bool, bool, float]:
    load, is_local = provider.load, provider.is_local
    typical = provider.health.milliseconds(0.5)
    score = (_UNKNOWN_MS if typical is None else typical) * (1 + load) + (1 - provider.health.success) * 1000
    return (
        load >= 1,
        provider.node_id != held,
        not (is_local and load < BUSY),
        score - (_NEAR if is_local else 0),
    )


def _missing(name: str, wanted: Version, providers: list[CapabilityProvider]) -> BusError:
    if not providers:
        return BusError("not_found", f"nobody offers {name[:100]!r}", outcome="unknown_tool")
    return other_version_error(name, wanted, {each.descriptor.version for each in providers})


def other_version_error(name: str, wanted: Version, offered: Set[Version]) -> BusError:
    """The error for a capability that is offered, but not in the version that is wanted."""
    told = [version_text(version) for version in sorted(offered)]
    return BusError(
        "schema_mismatch",
        f"{name} is not offered in version {version_text(wanted)}, but in {', '.join(told)}",
        outcome="unknown_tool",
        available=told,
    )
