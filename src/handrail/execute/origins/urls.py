"""The parts of an address that say where it leads and what it tells there."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

from handrail.execute.origins.word_sets import word_set

_PLAIN_KEYS = word_set("q query s search id page p lang hl format type sort order limit v")
_NOT_SAID = "\0"


def url_parts(value: str) -> tuple[str, ...] | None:
    """What must be said for an address to be said in parts; None if it is no address.

    A user, a port or a fragment in it, and a name of a query that tells something, count as parts that nobody says.
    """
    if "://" not in value:
        return None
    try:
        parts = urlsplit(value.strip())
        host, port = parts.hostname or "", parts.port
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return (_NOT_SAID,)
    if parts.scheme not in ("http", "https") or not host.isascii() or parts.username is not None or parts.fragment:
        return (_NOT_SAID,)
    found = [host if port is None else f"{host}:{port}"]
    found += [unquote(step) for step in parts.path.split("/") if step]
    for key, item in query:
        if key not in _PLAIN_KEYS:
            found.append(key)
        if item:
            found.append(item)
    return tuple(found)
