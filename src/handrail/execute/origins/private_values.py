"""Private values of a run, and whether one leaves in what a call is given, as it is or in a usual encoding."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import unquote_plus

from handrail.execute.origins.result_records import Record
from handrail.execute.origins.written_numbers import as_number, number_readings
from handrail.tools.result_fields import Field

MOST = 400_000
"""Characters of private text that are compared. With more, nothing is known not to hold some of it."""
_RUN = 24
"""Letters in a row that are no accident."""
_FIRST = 5
"""Letters of the shortest value that is looked for within others."""
_ONLY_LETTERS = {at: None for at in range(128) if not chr(at).isalnum()}
_NO_LETTER = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"\d[\d.,'’]*")
_TOKEN = re.compile(r"[\w.+-]+@[\w.-]+\w|(?<![^\W_])[^\W_]*?\d[^\W_]*(?:[.,]\d+)*")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){4,}")
_ROUNDS = 3
_MOST_FORMS = 200
_ROT13 = {ord(letter): codecs.encode(letter, "rot13") for letter in "abcdefghijklmnopqrstuvwxyz"}


class PrivateValues:
    """What the private fields of a run hold, by the pieces that are looked for in what leaves.

    Each field is taken apart once. What leaves is read once too, and each of its pieces looked up: so a call costs by
    what it sends, and not by what was read before.
    """

    __slots__ = ("_fields", "_long", "_numbers", "_short", "_size", "_tokens")

    def __init__(self) -> None:
        self._fields: list[tuple[Record, Field]] = []
        self._numbers: dict[Decimal, list[int]] = {}
        self._tokens: dict[str, list[int]] = {}
        self._short: dict[str, list[tuple[str, int]]] = {}
        """Values and tokens that are looked for in the letters, by their first ones."""
        self._long: dict[str, list[int]] = {}
        """Pieces of long texts, each as long as `_RUN`, which overlap by half."""
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._fields) or self.is_full

    @property
    def is_full(self) -> bool:
        """Whether there is more than is compared."""
        return self._size > MOST

    def add(self, record: Record, field: Field) -> None:
        """Take in a private field."""
        value = field.value
        if isinstance(value, bool) or value is None:
            return
        at = len(self._fields)
        found = self._add_number(value, at)
        letters = letters_of(str(value)) if isinstance(value, str) or found else ""
        self._size += len(letters)
        if self.is_full:
            return
        if isinstance(value, str):
            found = self._add_text(value, letters, at) or found
        elif found and len(letters) >= _FIRST:
            self._add_short(letters, at)
        if found:
            self._fields.append((record, field))

    def _add_number(self, value: Any, at: int) -> bool:
        number = as_number(value)
        if number is None or sum(map(str.isdigit, str(abs(number)))) < 2:
            return False
        self._numbers.setdefault(abs(number), []).append(at)
        return True

    def _add_text(self, value: str, letters: str, at: int) -> bool:
        tokens = {each for each in _tokens(value) if len(each) >= 4}
        for token in tokens:
            self._tokens.setdefault(token, []).append(at)
        if len(letters) > _RUN:
            half = _RUN // 2
            for start in range(0, len(letters) - _RUN + 1, half):
                self._long.setdefault(letters[start : start + _RUN], []).append(at)
            for token in tokens:
                if len(token) >= 6 and token.isalnum():
                    self._add_short(token, at)
        elif len(letters) >= _FIRST:
            self._add_short(letters, at)
        elif len(letters) >= 3:
            self._tokens.setdefault(letters, []).append(at)
        return bool(tokens) or len(letters) >= 3

    def _add_short(self, letters: str, at: int) -> None:
        self._short.setdefault(letters[:_FIRST], []).append((letters, at))

    def in_text(self, texts: list[str]) -> Iterator[tuple[Record, Field]]:
        """The private fields of which something stands in these texts, alone or joined."""
        if not self._fields:
            return
        found: set[int] = set()
        letters: set[str] = set()
        for form in _forms(" ".join(texts)) | (_forms("".join(texts)) if len(texts) > 1 else set()):
            self._find_tokens(form, found)
            plain = letters_of(form)
            letters |= {plain, plain[::-1], plain.translate(_ROT13)}
        for each in letters:
            self._find_letters(each, found)
        for at in sorted(found):
            yield self._fields[at]

    def _find_tokens(self, text: str, found: set[int]) -> None:
        if self._tokens:
            for form in (text, text[::-1]):
                for token in _tokens(form) & self._tokens.keys():
                    found.update(self._tokens[token])
        if self._numbers:
            for written in _NUMBER.findall(text)[:5_000]:
                if len(written) <= 24:
                    try:
                        readings = number_readings(written.strip(".,'’"))
                    except ArithmeticError:
                        continue
                    for number in readings & self._numbers.keys():
                        found.update(self._numbers[number])

    def _find_letters(self, letters: str, found: set[int]) -> None:
        short, long = self._short, self._long
        for start in range(len(letters) - _FIRST + 1) if short else ():
            for whole, at in short.get(letters[start : start + _FIRST], ()):
                if letters.startswith(whole, start):
                    found.add(at)
        for start in range(len(letters) - _RUN + 1) if long else ():
            if (fields := long.get(letters[start : start + _RUN])) is not None:
                found.update(fields)


def _tokens(text: str) -> set[str]:
    """The words of a text that are addresses or have a digit."""
    marked = " ".join([word for word in text.casefold().split() if not word.isalpha()])
    return {token.rstrip(".,") for token in _TOKEN.findall(marked)}


def letters_of(text: str) -> str:
    """The letters and digits of a text, without case, spaces and signs, in one spelling."""
    if text.isascii():
        return text.lower().translate(_ONLY_LETTERS)  # many times quicker than an expression
    return _NO_LETTER.sub("", unicodedata.normalize("NFKC", text).casefold())


def _forms(text: str) -> set[str]:
    """A text, and what it is when it is decoded in the usual ways."""
    found = {text}
    new = {text, text[::-1]}
    for _ in range(_ROUNDS):
        new = {form for each in new for form in _decoded(each)} - found
        found |= new
        if not new or len(found) > _MOST_FORMS:
            break
    return found


def _decoded(text: str) -> Iterator[str]:
    if "%" in text or "+" in text:
        yield unquote_plus(text)
    if "&" in text:
        yield html.unescape(text)
    if "\\" in text:
        yield re.sub(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})", lambda m: chr(int(m[1] or m[2], 16)), text)
    for run in _BASE64.findall(text)[:50]:
        bare = run.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            yield base64.b64decode(bare + "=" * (-len(bare) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            continue
    for run in _HEX.findall(text)[:50]:
        try:
            yield bytes.fromhex(re.sub(r"[\s:]", "", run)).decode()
        except ValueError:
            continue
