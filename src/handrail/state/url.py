"""Where a shared state is: a URL of PostgreSQL, whose password no message shows."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from handrail.core.errors import UsageError
from handrail.core.redact import MASK, remember_secret

VARIABLE = "HANDRAIL_STATE"
_SCHEMES = ("postgresql", "postgres")
_SECRETS = ("password", "sslpassword")
_EXAMPLE = "postgresql://USER@HOST:5432/DATABASE"
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(?::[0-9]*)?")
_USER_INFO = re.compile(r"^([^/?#]*?)(?::([^/?#]*))?@")


class StateUrl:
    """The address of a shared state. Its text, as `str` gives it, is without the password; `dsn` has it.

    Raises:
        UsageError: It is no URL of PostgreSQL, with how one is written.
    """

    __slots__ = ("dsn", "shown")

    def __init__(self, text: str) -> None:
        given = text.strip()
        scheme, separator, _ = given.partition("://")
        if not separator or scheme not in _SCHEMES:
            named = f"begins with {scheme + '://'!r}" if separator else "has no scheme"
            raise UsageError(
                f"the address of a shared state {named}, and only PostgreSQL holds one: write {_EXAMPLE}; without a"
                " state, a node keeps what it must not lose in files beside its journal"
            )
        parts = _split(given)
        for secret in _secrets_of(parts):
            remember_secret(secret)
        self.dsn: str = given
        self.shown: str = _without_secrets(parts)
        self._check_parts(parts)

    @classmethod
    def parse(cls, url: StateUrl | str) -> StateUrl:
        return url if isinstance(url, StateUrl) else cls(url)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> StateUrl | None:
        """That of `HANDRAIL_STATE`, if it is set.

        Raises:
            UsageError: It is no URL of PostgreSQL.
        """
        given = environ.get(VARIABLE, "")
        try:
            return cls(given) if given.strip() else None
        except UsageError as error:
            raise UsageError(f"{VARIABLE}: {error}") from None

    @property
    def name(self) -> str:
        """The database."""
        parts = urlsplit(self.dsn)
        return unquote(parts.path.strip("/")) or dict(parse_qsl(parts.query)).get("dbname", "")

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"StateUrl({self.shown!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateUrl) and self.dsn == other.dsn

    def __hash__(self) -> int:
        return hash(self.dsn)

    def _check_parts(self, parts: SplitResult) -> None:
        if not parts.path.strip("/") and "dbname" not in dict(parse_qsl(parts.query)):
            raise UsageError(f"{self.shown!r} names no database; write {_EXAMPLE}")
        if "/" in parts.path.strip("/"):
            raise UsageError(f"{self.shown!r}: a name of a database has no '/'; write {_EXAMPLE}")


def _split(given: str) -> SplitResult:
    # What stands there is not shown: a password with a `/` or an `@` in it would be in the wrong part.
    unreadable = UsageError(
        "the address of the shared state cannot be read: its host, port or password is not as in"
        f" {_EXAMPLE}; a user or password with any of @ : / ? # % has those percent-encoded, as %40 for @"
    )
    try:
        parts = urlsplit(given)
    except ValueError:
        raise unreadable from None  # it may quote the password
    hosts = parts.netloc.rpartition("@")[2]
    fits = "@" not in parts.path + parts.query and not parts.fragment and parts.netloc.count("@") < 2
    if not fits or not all(_HOST.fullmatch(host) for host in hosts.split(",")):
        raise unreadable
    return parts


def _secrets_of(parts: SplitResult) -> list[str]:
    found = _USER_INFO.match(parts.netloc)
    given = [] if found is None or not found[2] else [found[2], unquote(found[2])]
    return given + [value for key, value in parse_qsl(parts.query) if key in _SECRETS]


def _without_secrets(parts: SplitResult) -> str:
    netloc = _USER_INFO.sub(lambda match: f"{match[1]}:{MASK}@" if match[2] else match[0], parts.netloc)
    query = [(key, MASK if key in _SECRETS else value) for key, value in parse_qsl(parts.query, keep_blank_values=True)]
    return f"{parts.scheme}://{netloc}{parts.path}" + (f"?{urlencode(query, safe='/:,[]')}" if query else "")
