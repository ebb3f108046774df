"""The parts of an address that say where it leads and what it tells there."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import parse_qsl, unquote, urlsplit

from handrail.execute.origins.word_sets import word_set

_PLAIN_KEYS = word_set("q query s search id page p lang hl format type sort order limit v")
_NOT_SAID = "\0"


_ADDRESS = re.compile(
    r"\w+://[^\s<>\"'`)\]}]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\bwww\.[^\s<>\"'`)\]}]+"
    r"|\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|app|dev|info|biz|xyz|top|example|ru|cn|co|me|eu|de)\b(?:/[^\s<>\"'`)\]}]*)?"
    r"|\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{2,4}){3,8}\b",
    re.IGNORECASE,
)
_MARK = re.compile(r"[@:.\d](?:(?<=@)|(?<=:)//|(?<=\.)\S|(?<=[^\W\d_]{2}\d)\d)")
"""Every address has one of these: an `@`, `://`, a point within a word, or two letters and two digits."""
_MOST = 200


def addresses_in(text: str) -> list[str]:
    """The addresses in a text: of pages, of mailboxes, of accounts. With too many of them, all of it is one."""
    readable = text
    if not text.isascii():
        forms = unicodedata.normalize("NFKC", text)
        readable = "".join(letter for letter in forms if unicodedata.category(letter) != "Cf")
    if not _MARK.search(readable):
        return []
    found = [each.group().rstrip(".,;:!?") for each in _ADDRESS.finditer(readable)]
    return found if len(found) <= _MOST else [text]


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
