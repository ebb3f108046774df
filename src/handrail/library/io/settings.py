"""What the io ensemble may touch. Nothing is allowed that is not said here."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import msgspec

from handrail.core.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class IoLimits:
    """The largest sizes, in bytes, and times, in seconds."""

    file: int = 16 * _MIB
    """The largest file that is read by lines, searched, written or edited."""
    read: int = 256 * 1024
    """The most of a file in one answer."""
    entries: int = 1_000
    """The most entries of a folder in one answer."""
    matches: int = 200
    """The most matches of a search in one answer."""
    visited: int = 100_000
    """Files and folders that one call looks at."""
    fetch: int = 2 * _MIB
    """The most of an answer over HTTP, unpacked."""
    fetch_seconds: float = 30.0
    rows: int = 1_000
    row_bytes: int = 256 * 1024
    """The most bytes of all rows in one answer. A single value may have four times as much."""
    query_seconds: float = 10.0

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            whole = int if item.type == "int" else int | float
            if not isinstance(value, whole) or isinstance(value, bool) or not 0 < value < math.inf:
                raise UsageError(f"limits.{item.name} of io must be a number above 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IoSettings:
    """The folders, hosts and databases that the tools may use. Without an entry, there is no tool for it."""

    roots: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    """Folders that may be read, by name. A path that names no root is in the first."""
    write: tuple[str, ...] = ()
    """The roots, by name, in which files may be changed too."""
    hosts: tuple[str, ...] = ()
    """Hosts that may be fetched from: `example.org`, `*.example.org` (and everything below), or `*` for all."""
    deny_hosts: tuple[str, ...] = ()
    """Hosts that may not, whatever `hosts` says."""
    private: tuple[str, ...] = ()
    """Networks that may be reached although they are not public: `127.0.0.0/8`, `10.1.0.0/16`."""
    databases: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    """SQLite files that may be queried, by name."""
    write_databases: tuple[str, ...] = ()
    """The databases, by name, that may be changed too."""
    limits: IoLimits = IoLimits()

    def __post_init__(self) -> None:
        object.__setattr__(self, "roots", _paths("roots", self.roots))
        object.__setattr__(self, "databases", _paths("databases", self.databases))
        _check_names("write", self.write, self.roots)
        _check_names("write_databases", self.write_databases, self.databases)
        object.__setattr__(self, "hosts", tuple(_host_rule("hosts", rule) for rule in self.hosts))
        object.__setattr__(self, "deny_hosts", tuple(_host_rule("deny_hosts", rule) for rule in self.deny_hosts))
        for network in self.private:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise UsageError(f"private of io: {error}; write networks such as '10.0.0.0/8'") from None
        self._check_overlap()

    def _check_overlap(self) -> None:
        """A root that may only be read, inside one that may be written, would not be safe from writing."""
        real = {name: Path(os.path.realpath(path)) for name, path in self.roots.items()}
        for name in self.roots.keys() - set(self.write):
            for outer in self.write:
                if real[name].is_relative_to(real[outer]):
                    raise UsageError(
                        f"root {name!r} of io may not be written, but lies inside {outer!r}, which may; "
                        "move it out, or leave it away"
                    )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], folder: Path = Path()) -> Self:
        """Read the settings as a file has them. Paths are relative to its folder.

        Raises:
            UsageError: A key is unknown or a value is of the wrong type; the message names it.
        """
        try:
            written = msgspec.convert(data, _IoSettingsTable)
            limits = dataclasses.replace(IoLimits(), **written.limits)
        except (msgspec.ValidationError, TypeError) as error:
            raise UsageError(f"io: {error}") from None
        return cls(
            roots={name: folder / path for name, path in written.roots.items()},
            write=written.write,
            hosts=written.hosts,
            deny_hosts=written.deny_hosts,
            private=written.private,
            databases={name: folder / path for name, path in written.databases.items()},
            write_databases=written.write_databases,
            limits=limits,
        )


class _IoSettingsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings as JSON or TOML have them."""

    roots: dict[str, str] = {}
    write: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    databases: dict[str, str] = {}
    write_databases: tuple[str, ...] = ()
    limits: dict[str, Any] = {}


def plain_host(host: str) -> str | None:
    """A host in the one spelling in which hosts are compared; None if it is none."""
    plain = host.removeprefix("[").removesuffix("]").rstrip(".").lower()
    try:
        return str(ipaddress.ip_address(plain)) if "%" not in plain else None
    except ValueError:
        return plain if _HOST.fullmatch(plain) else None


def _host_rule(key: str, rule: str) -> str:
    """What could never fit would be a wish that nobody heard: most of all a host that is denied."""
    host = plain_host(rule.removeprefix("*."))
    if rule == "*":
        return rule
    if host is None:
        raise UsageError(
            f"{key} of io: {rule!r} is not a host; write 'example.org', '*.example.org', an IP address or '*', "
            "without a scheme, a port or a path, and other letters than a to z as 'xn--…'"
        )
    return f"*.{host}" if rule.startswith("*.") else host


def _paths(key: str, given: Mapping[str, Path]) -> Mapping[str, Path]:
    for name in given:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{key} of io: {name!r} cannot be a name; take letters, digits, '_', '.' and '-'")
    return MappingProxyType({name: Path(os.path.abspath(Path(path).expanduser())) for name, path in given.items()})


def _check_names(key: str, names: tuple[str, ...], of: Mapping[str, Path]) -> None:
    for name in names:
        if name not in of:
            raise UsageError(f"{key} of io names {name!r}, which is not there; there are {', '.join(of) or 'none'}")
