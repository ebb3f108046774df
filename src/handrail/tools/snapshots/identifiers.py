"""Names of tools as identifiers that Python, TypeScript and Rust all take. Pure."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[A-Za-z0-9]+")


def pascal_case(name: str) -> str:
    """`read-file` as `ReadFile`. Two names may come to the same: who writes them side by side must look."""
    made = ""
    for word in _WORDS.findall(name):
        # Or 1.2 and 12 would be one.
        apart = "_" if made[-1:].isdigit() and word[0].isdigit() else ""
        made += apart + word[0].upper() + word[1:]
    if not made:
        return f"Underscore{len(name)}"
    if made[0].isdigit():
        return f"N{made}"
    return "SelfTool" if made == "Self" else made  # the one word with a capital that Rust keeps for itself


def ascii_only(text: str) -> str:
    """One line of letters that cannot deceive a reader, for comments."""
    joined = " ".join(text.split())
    return "".join(letter if " " <= letter <= "~" else f"\\u{{{ord(letter):x}}}" for letter in joined)
