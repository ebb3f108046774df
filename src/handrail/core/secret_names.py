"""Secrets by the name beside them: `password=…`, `"api_key": "…"`, `--token …`, cookies.

A name alone does not make a secret: `token: str`, `password=password` and `"secret": true`
are ordinary. What counts is the name together with a value that a person or a program
would have made up. The rules err on the side of leaving ordinary text alone.
"""

from __future__ import annotations

import re
from typing import Literal

from handrail.core.lazy_pattern import LazyPattern
from handrail.core.secret_patterns import MASK

_PASSWORD = r"pass(?:word|wd|phrase|code)s?|pwd|(?<=_)pass"
_KEY = (
    r"(?:client|app|shared|api|consumer|webhook|oauth|jwt|session|cookie)?[_-]?secret|token"
    r"|api[_-]?key|secret[_-]?key[_-]?base"
    r"|(?:access|account|private|secret|signing|encryption|master|auth|service|storage|subscription|license|admin)"
    r"[_-]?key|(?<=[?&;])sig"
)
_NAME = LazyPattern(rf"(?:(?P<password>{_PASSWORD})|{_KEY})\Z", re.IGNORECASE)
_ORDINARY_NAME = LazyPattern(
    r"(?:page|next|prev|previous|continuation|continue|pagination|sync|cursor|resume|start|stop|pad|eos|bos|unk|mask"
    r"|sep|cls|special|max|min|per|idempotency|primary|foreign|public|sort|partition|cancellation|anti)[_-]?"
    r"(?:token|key|secret)\Z|(?<![a-z])no[_-]?(?:password|token|secret)\Z",
    re.IGNORECASE,
)
_VALUE = (
    r"(?P<quote>\\{0,3}[\"'])(?P<quoted>(?:(?!(?P=quote))(?:\\.|[^\s\\]))+)|(?P<plain>[^\s\"'`&;,<>(){}\[\]|\\]{4,})"
)
_ASSIGNMENT = LazyPattern(
    rf"(?:(?P<password>{_PASSWORD})|{_KEY})(?P<between>\\{{0,3}}[\"'`]?\]?\s{{0,4}}(?:=>|:=|={{1,3}}|:)\s{{0,4}})"
    rf"(?:{_VALUE})",
    re.IGNORECASE,
)
_FLAG = LazyPattern(
    rf"(?<![A-Za-z0-9-])--[a-z0-9-]{{0,30}}?(?:(?P<password>{_PASSWORD})|{_KEY})(?P<between>\s+|\\{{0,3}}[\"'],\s{{0,4}})"
    rf"(?:{_VALUE})",
    re.IGNORECASE,
)
_HEADER = LazyPattern(
    r"(?:authorization|x-api-key|x-auth-token|x-vault-token|api-key|x-goog-api-key)\\{0,3}[\"']?\s{0,4}[:=]\s{0,4}"
    r"\\{0,3}[\"']?(?:(?:basic|bearer|token|apikey|digest|negotiate)\s{1,4})?(?P<value>[A-Za-z0-9_.~+/=-]{6,})",
    re.IGNORECASE,
)
_COOKIE = LazyPattern(
    r"cookie\\{0,3}[\"']?\s{0,4}[:=]\s{0,4}\\{0,3}[\"']?(?P<value>[\w.$-]{1,64}=[^\s;\"'\\,]{4,}(?:;\s?[^\s\"'\\]+)*)",
    re.IGNORECASE,
)
_PLACEHOLDER = LazyPattern(
    r"\$[\w({]|[{<]|%[\w.]*[%sd]|\\|[*x•.…_-]{3,}\Z|env:|\[redacted|(?:os|process|self|settings|config|args|request)\."
    r"|(?:~|\.{1,2})?/[a-z0-9_.-]+(?:/|\Z)|[a-z]:\\|https?://|[a-z]+://\Z",
    re.IGNORECASE,
)
_ORDINARY_VALUE = LazyPattern(
    r"string|passwords?|passwd|passphrase|secrets?|tokens?|api_?key|key|required|optional|none|null|true|false|undefined"
    r"|hidden|text|bytes|object|values?|example|empty|missing|invalid|wrong|unknown|prompt|file|input|stdin|basic|bearer"
    r"|default|number|integer|boolean|array|your|enter|changed?|reset|forgot|username|user|login|email|incorrect|expired"
    r"|short|long|protected|protection|disabled|enabled|manager|field",
    re.IGNORECASE,
)
_CODE = LazyPattern(
    r"[A-Za-z_]\w{0,40}(?:(?:\.|->|::)[A-Za-z_]\w{0,30}){1,6}|[a-z]+(?:[_-][a-z0-9]+)+|[A-Za-z]+|[A-Z]+(?:_[A-Z0-9]+)+"
    r"|[a-z0-9_.-]+(?:/[a-z0-9_.-]+){2,}"
)
"""Names, paths of names, paths of files: what stands beside the name of a secret in programs."""

Context = Literal["field", "query", "constant", "assigned", "told"]
"""Where a value stands: in a field or in quotes; in the query of an address; after `NAME=`; after `name=`, as in
programs; after a colon, as in prose and in types."""
_SHORTEST: dict[Context, tuple[int, int]] = {
    "field": (4, 8),
    "query": (4, 6),
    "constant": (4, 8),
    "assigned": (6, 8),
    "told": (6, 12),
}
"""The fewest characters of a password, and of a key."""

_BEFORE = r"\\{0,3}[\"'`]?\]?(?:\\[nrt]|\s){0,4}[=:]"
_MARKS = tuple(
    (root, LazyPattern(root + rest + _BEFORE))
    for root, rest in (
        ("pass", "(?:word|wd|phrase|code)?s?"),
        ("pwd", ""),
        ("secret", ""),
        ("token", ""),
        ("key", "(?:[_-]?base)?"),
        ("cookie", ""),
        ("authorization", ""),
        ("sig", ""),
    )
)
"""What every name ends in, and how it goes on to its value: looked for before the patterns are run."""
# Each begins with one plain character, which a search goes to at once: in long texts that is three times as quick as to
# look for each word by itself.
_KEY_ROOT = LazyPattern(r"k(?=ey|(?<=tok)en|(?<=cook)ie)")
_PASS_ROOT = LazyPattern(r"p(?=ass|wd)")
_SECRET_ROOT = LazyPattern(r"cret(?<=secret)")
_ENDINGS = ("word", "words", "wd", "phrase", "code", "pass", "secret", "token", "key", "base")
_FLAG_MARK = LazyPattern(r"--[a-z0-9-]{0,30}(?:pass|pwd|secret|token|key)")


def is_secret_name(name: str) -> bool:
    """Whether what goes by this name is a secret, most likely."""
    return _NAME.search(name) is not None and not _ORDINARY_NAME.search(name)


def is_secret_field(name: str, value: str) -> bool:
    """Whether a field of this name holds a secret in this value."""
    if not name.lower().endswith(_ENDINGS):
        return False
    found = _NAME.search(name)
    if found is None or _ORDINARY_NAME.search(name):
        return False
    return _is_made_up(value, "field", found["password"] is not None)


def is_secret_flag(text: str) -> bool:
    """Whether this is an option of a command whose value is a secret, as `--token`."""
    return text.startswith("--") and is_secret_name(text)


def may_hold_named(text: str, lowered: str) -> bool:
    """Whether a text may have a secret beside its name. `lowered` is the same text in lower case."""
    if not (
        _KEY_ROOT.search(lowered)  # written out: this runs on every body that is recorded
        or _PASS_ROOT.search(lowered)
        or _SECRET_ROOT.search(lowered)
        or ("z" in lowered and "authorization" in lowered)
        or ("=" in lowered and "sig=" in lowered)
    ):
        return False
    for root, mark in _MARKS:
        if root in lowered and mark.search(lowered):
            return True
    return "--" in text and _FLAG_MARK.search(lowered) is not None


def mask_named(text: str) -> str:
    """The text with every secret masked that stands beside its name; the names stay."""
    text = _HEADER.sub(_masked_header, text)
    text = _COOKIE.sub(_masked_header, text)
    text = _ASSIGNMENT.sub(_masked_assignment, text)
    return _FLAG.sub(_masked_assignment, text)


def _masked_header(match: re.Match[str]) -> str:
    value = match["value"]
    if _PLACEHOLDER.match(value) or not any(letter.isdigit() for letter in value):
        return match[0]
    return _with_mask(match, "value")


def _masked_assignment(match: re.Match[str]) -> str:
    text, name = match.string, _whole_name(match)
    group = "plain" if match["quoted"] is None else "quoted"
    rest = text[match.end() : match.end() + 4]
    is_ended = rest[:1] not in ("(", "[", "{") if group == "plain" else not rest or rest.startswith(match["quote"])
    if not is_ended or _ORDINARY_NAME.search(name):
        return match[0]
    context = "field" if group == "quoted" else _context_of(match, name)
    return _with_mask(match, group) if _is_made_up(match[group], context, match["password"] is not None) else match[0]


def _whole_name(match: re.Match[str]) -> str:
    """The name with what stands before the part that was found: `DB_PASSWORD`, `nextPageToken`."""
    text, start = match.string, match.start()
    first = start
    while first > max(0, start - 64) and (text[first - 1].isalnum() or text[first - 1] in "_.-"):
        first -= 1
    if text[max(0, first - 1) : first] == "\\" and text[first] in "nrt":  # the letter belongs to an escape
        first += 1
    return text[first : match.start("between")]


def _context_of(match: re.Match[str], name: str) -> Context:
    between, first = match["between"], match.start("between") - len(name)
    if match.string[max(0, first - 1) : first] in ("?", "&"):
        return "query"
    if between.strip() in ("", "=") and name[:1].isupper() and between.strip() == between:
        return "constant"
    return "told" if ":" in between else "assigned"


def _is_made_up(value: str, context: Context, is_password: bool) -> bool:
    """Whether a value is one that somebody made up to keep it secret, and no word, name or placeholder."""
    if len(value) < _SHORTEST[context][not is_password] or any(letter.isspace() for letter in value):
        return False
    if _PLACEHOLDER.match(value) or _ORDINARY_VALUE.fullmatch(value.rstrip(".,:!?")):
        return False
    if context in ("query", "constant") or (context == "field" and is_password):
        return True
    if _CODE.fullmatch(value):
        return False
    return any(letter.isdigit() for letter in value) or (context == "field" and len(value) >= 24)


def _with_mask(match: re.Match[str], group: str) -> str:
    start = match.start(group) - match.start()
    return match[0][:start] + MASK + match[0][start + len(match[group]) :]
