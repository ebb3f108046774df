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

from handrail.execute.origins.result_records import Record, ResultRecords
from handrail.execute.origins.written_numbers import as_number, number_readings
from handrail.tools.result_fields import Field, private_parts

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
_GROUPED = re.compile(r"(?<![\w.,:-])\d{2,6}(?:[ \-\u00a0]\d{2,6}){1,6}(?![\w:])")
"""Codes and numbers of phones, as people write them."""
_MARK = re.compile(r"[\d@]")
"""Every token has a digit or an `@`."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){4,}")
_HEX_DIGITS: dict[int, str | None] = {at: "0" if chr(at) in "0123456789abcdefABCDEF" else "x" for at in range(128)}
_HEX_DIGITS |= dict.fromkeys(map(ord, ": \t\n\r\v\f\x1c\x1d\x1e\x1f"))
"""Makes each digit a zero, and drops what may stand between two pairs."""
_ENDS = ".,;:!?)'\""
_ROUNDS = 3
_MOST_FORMS = 200
_ROT13 = {ord(letter): codecs.encode(letter, "rot13") for letter in "abcdefghijklmnopqrstuvwxyz"}


class PrivateValues:
    """What the private fields of a run hold, by the pieces that are looked for in what leaves.

    Each field is taken apart once, its tokens only when something with a digit or an `@` leaves. What leaves is read
    once too, and its pieces are looked up: so a call costs by what it sends, and not by what was read before.
    """

    __slots__ = ("_fields", "_letters", "_new", "_numbers", "_pieces", "_short", "_size", "_tokens", "_unread")

    def __init__(self) -> None:
        self._new: list[ResultRecords] = []
        self._fields: list[tuple[ResultRecords, tuple[str | int, ...]]] = []
        self._numbers: dict[Decimal, list[int]] = {}
        self._tokens: dict[str, list[int]] = {}
        self._unread: list[tuple[str, int, bool]] = []
        """Texts whose tokens are not known yet, and whether they are long."""
        self._short: dict[str, list[tuple[str, int]]] = {}
        """Values and tokens that are looked for in the letters, by their first ones."""
        self._pieces: set[str] = set()
        """Pieces of long texts, each as long as `_RUN`, which overlap by half."""
        self._letters: list[tuple[str, int]] = []
        """The long texts, to tell which of them has a piece."""
        self._size = 0

    def __bool__(self) -> bool:
        self._take_in()
        return bool(self._fields) or self.is_full

    @property
    def is_full(self) -> bool:
        """Whether there is more than is compared."""
        self._take_in()
        return self._size > MOST

    def add(self, result: ResultRecords) -> None:
        """Take in the private fields of a result."""
        if result.result.labels is not None and result.result.labels.private:
            self._new.append(result)

    def _take_in(self) -> None:
        if self._new:
            new, self._new = self._new, []
            for result in new:
                for path, value in private_parts(result.result.content, result.result.labels):
                    if self._size <= MOST:
                        self._add(result, path, value)

    def _add(self, result: ResultRecords, path: tuple[str | int, ...], value: Any) -> None:
        if isinstance(value, bool) or value is None:
            return
        at = len(self._fields)
        found = self._add_number(value, at)
        letters = letters_of(str(value)) if isinstance(value, str) or found else ""
        self._size += len(letters)
        if self._size > MOST:
            return
        if isinstance(value, str):
            found = self._add_text(value, letters, at) or found
        elif found and len(letters) >= _FIRST:
            self._add_short(letters, at)
        if found:
            self._fields.append((result, path))

    def _add_number(self, value: Any, at: int) -> bool:
        number = as_number(value)
        if number is None or sum(map(str.isdigit, str(abs(number)))) < 2:
            return False
        self._numbers.setdefault(abs(number), []).append(at)
        return True

    def _add_text(self, value: str, letters: str, at: int) -> bool:
        if len(letters) < 3 and not any(len(each) >= 4 for each in _tokens(value)):
            return False
        if _MARK.search(value):
            self._unread.append((value, at, len(letters) > _RUN))
        if len(letters) > _RUN:
            starts = range(0, len(letters) - _RUN + 1, _RUN // 2)
            self._pieces.update([letters[start : start + _RUN] for start in starts])
            self._letters.append((letters, at))
        elif len(letters) >= _FIRST:
            self._add_short(letters, at)
        elif len(letters) >= 3:
            self._tokens.setdefault(letters, []).append(at)
        return True

    def _add_short(self, letters: str, at: int) -> None:
        self._short.setdefault(letters[:_FIRST], []).append((letters, at))

    def _read_tokens(self) -> None:
        unread, self._unread = self._unread, []
        for value, at, is_long in unread:
            for token in _tokens(value):
                if len(token) >= 4:
                    self._tokens.setdefault(token, []).append(at)
                    if is_long and len(token) >= 6 and token.isalnum():
                        self._add_short(token, at)
            for group in _GROUPED.findall(value)[:200] if is_long else ():
                if len(digits := letters_of(group)) >= _FIRST:
                    self._add_short(digits, at)

    def in_text(self, texts: list[str]) -> Iterator[tuple[Record, Field]]:
        """The private fields of which something stands in these texts, alone or joined."""
        self._take_in()
        if not self._fields:
            return
        found: set[int] = set()
        letters: set[str] = set()
        forms = _forms(" ".join(texts)) | (_forms("".join(texts)) if len(texts) > 1 else set())
        plain = {letters_of(form) for form in forms}
        if self._unread and any(_MARK.search(each) for each in (*forms, *plain)):
            self._read_tokens()  # without a digit or an `@` there is no token
        for form in forms:
            self._find_tokens(form, found)
        for each in plain:
            letters |= {each, each[::-1], each.translate(_ROT13)}
        for each in letters:
            self._find_letters(each, found)
        yield from self._told(sorted(found))

    def _told(self, found: list[int]) -> Iterator[tuple[Record, Field]]:
        for at in found:
            result, path = self._fields[at]
            for record in result.records:
                for field in record.fields:
                    if field.path == path:
                        yield record, field

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
        if self._short:
            if len(self._short) < len(letters):  # whichever takes fewer looks
                firsts = {first for first in self._short if first in letters}
            else:
                firsts = {letters[start : start + _FIRST] for start in range(len(letters) - _FIRST + 1)}
            for first in firsts & self._short.keys():
                found.update(at for whole, at in self._short[first] if whole in letters)
        if self._pieces:
            pieces = [letters[start : start + _RUN] for start in range(len(letters) - _RUN + 1)]
            if there := self._pieces.intersection(pieces):
                found.update(at for whole, at in self._letters if any(_has_piece(whole, each) for each in there))


def _has_piece(letters: str, piece: str) -> bool:
    """Whether it is one of the pieces of a long text."""
    at = letters.find(piece)
    while at >= 0 and at % (_RUN // 2):
        at = letters.find(piece, at + 1)
    return at >= 0


def _tokens(text: str) -> set[str]:
    """The words of a text that are addresses or have a digit; of those with three letters and signs at least."""
    if not _MARK.search(text):
        return set()
    folded = text.lower() if text.isascii() else text.casefold()
    marked = [
        word
        for word in set(folded.split())
        if len(word) >= 3 and not word.isalpha() and not word.rstrip(_ENDS).isalpha()
    ]
    return {token.rstrip(".,") for token in _TOKEN.findall(" ".join(marked))} if marked else set()


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
    if text.isascii() and "0" * 8 not in text.translate(_HEX_DIGITS):
        return  # much quicker than to try the expression at each letter
    for run in _HEX.findall(text)[:50]:
        try:
            yield bytes.fromhex(re.sub(r"[\s:]", "", run)).decode()
        except ValueError:
            continue
