"""Text of unknown origin as people may safely see it, on a terminal or on a page. Pure."""

from __future__ import annotations

import re
import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (bidi, zero width), surrogate, private, unassigned, and line breaks by another name."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that show nothing."""
_LOOKED_AT = re.compile("[^ -~]")


def printable(text: str, keep: str = "") -> str:
    """The text with everything that could deceive a reader or steer a terminal written as an escape."""
    return _LOOKED_AT.sub(
        lambda found: found[0] if found[0] in keep or _is_plain(found[0]) else _escaped(found[0]), text
    )


def printable_lines(text: str) -> str:
    """Text of several lines, made safe line by line."""
    return printable(text.replace("\r\n", "\n"), keep="\n\t")


def _is_plain(letter: str) -> bool:
    return unicodedata.category(letter) not in _UNSEEN and not _BLANK.match(letter)


def _escaped(letter: str) -> str:
    code = ord(letter)
    match letter:
        case "\n" | "\r" | "\t":
            return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[letter]
        case _ if code < 0x100:
            return f"\\x{code:02x}"
        case _ if code < 0x10000:
            return f"\\u{code:04x}"
    return f"\\U{code:08x}"
