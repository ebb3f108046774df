"""Dice, and choices from lists. Randomness is given."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypedDict

from handrail.core.errors import ToolError
from handrail.library.probability.families import impossible_parameters

Advantage = Literal["none", "advantage", "disadvantage"]
MOST_DICE = 1000
MOST_SIDES = 1_000_000
_TERM = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<count>\d*)d(?P<sides>\d+|%)(?:(?P<keep>kh|kl|dh|dl)(?P<many>\d*))?|(?P<number>\d+))"
)
_HOW = "write as 3d6+2, 4d6kh3 (keep the highest 3), 2d20kl1 (keep the lowest), d%, or 2d8+1d6-1"


class DiceThrow(TypedDict):
    dice: str
    rolled: list[int]
    kept: list[int]


class DiceRoll(TypedDict):
    total: int
    dice: list[DiceThrow]
    modifier: int
    other_total: int | None
    """With advantage or disadvantage: what the other roll came to."""


@dataclass(frozen=True, slots=True)
class DiceTerm:
    """One term of an expression."""

    sign: int
    count: int
    sides: int
    kept: int
    """How many count."""
    highest: bool
    written: str

    def throw(self, random: Random) -> DiceThrow:
        rolled = [random.randint(1, self.sides) for _ in range(self.count)]
        order = sorted(rolled, reverse=self.highest)
        return DiceThrow(dice=self.written, rolled=rolled, kept=order[: self.kept])


@dataclass(frozen=True, slots=True)
class DiceExpression:
    dice: tuple[DiceTerm, ...]
    modifier: int

    @classmethod
    def parse(cls, written: str) -> DiceExpression:
        """Parses dice notation, as `4d6kh3 + 2`.

        Raises:
            ToolError: It is no dice notation, or asks for more dice than anybody throws.
        """
        text = "".join(written.lower().split())
        dice: list[DiceTerm] = []
        modifier, at = 0, 0
        while at < len(text):
            found = _TERM.match(text, at)
            if found is None or (at and not found["sign"]) or found.end() == at:
                raise ToolError("INVALID_DICE", f"{written!r} cannot be read at {text[at:]!r}; {_HOW}")
            sign = -1 if found["sign"] == "-" else 1
            if found["number"] is not None:
                modifier += sign * _number(found["number"], 10**9, "a number")
            else:
                dice.append(_dice(found, sign))
            at = found.end()
        if not dice:
            raise ToolError("INVALID_DICE", f"{written!r} has no dice; {_HOW}")
        if sum(each.count for each in dice) > MOST_DICE:
            raise ToolError("INVALID_DICE", f"{written!r} asks for more than {MOST_DICE} dice")
        return cls(tuple(dice), modifier)

    def throw(self, random: Random) -> DiceRoll:
        thrown = [each.throw(random) for each in self.dice]
        kept = sum(each.sign * sum(result["kept"]) for each, result in zip(self.dice, thrown, strict=True))
        return DiceRoll(total=kept + self.modifier, dice=thrown, modifier=self.modifier, other_total=None)


def roll_expression(expression: DiceExpression, advantage: Advantage, random: Random) -> DiceRoll:
    """One roll; with advantage or disadvantage the better or worse of two."""
    first = expression.throw(random)
    if advantage == "none":
        return first
    second = expression.throw(random)
    better, worse = (first, second) if first["total"] >= second["total"] else (second, first)
    taken, other = (better, worse) if advantage == "advantage" else (worse, better)
    return DiceRoll(total=taken["total"], dice=taken["dice"], modifier=taken["modifier"], other_total=other["total"])


def choose_positions(
    items: Sequence[Any], count: int, weights: Sequence[float] | None, replacement: bool, random: Random
) -> list[int]:
    """The places of the items that are chosen, in the order in which they are."""
    if weights is not None and len(weights) != len(items):
        raise impossible_parameters(
            f"there are {len(items)} items and {len(weights)} weights; give one weight for each"
        )
    if weights is not None and not any(weights):
        raise impossible_parameters("all weights are 0, so nothing can be chosen")
    if replacement:
        return random.choices(range(len(items)), weights, k=count)
    there = len(items) if weights is None else sum(weight > 0 for weight in weights)
    if count > there:
        raise impossible_parameters(
            f"{count} different items cannot be chosen from {there}; choose fewer, or with replacement=true"
        )
    if weights is None:
        return random.sample(range(len(items)), count)
    # Each item gets a time at which it comes up, sooner with more weight; the first ones are taken (Efraimidis 2006).
    times = {at: -math.log(1 - random.random()) / weight for at, weight in enumerate(weights) if weight > 0}
    return sorted(times, key=times.__getitem__)[:count]


def _dice(found: re.Match[str], sign: int) -> DiceTerm:
    count = _number(found["count"] or "1", MOST_DICE, "the number of dice")
    sides = 100 if found["sides"] == "%" else _number(found["sides"], MOST_SIDES, "the number of sides")
    if count < 1 or sides < 1:
        raise ToolError("INVALID_DICE", f"{found[0]!r} has no dice or no sides; {_HOW}")
    many = _number(found["many"] or "1", MOST_DICE, "the dice to keep")
    match found["keep"]:
        case None:
            kept, highest = count, True
        case "kh" | "kl" as keep:
            kept, highest = many, keep == "kh"
        case drop:
            kept, highest = count - many, drop == "dl"
    if not 1 <= kept <= count:
        raise ToolError(
            "INVALID_DICE", f"{found[0]!r} would keep {kept} of {count} dice; keep at least 1 and at most all"
        )
    return DiceTerm(sign, count, sides, kept, highest, found[0].lstrip("+"))


def _number(digits: str, most: int, what: str) -> int:
    if len(digits) > 10 or int(digits) > most:
        raise ToolError("INVALID_DICE", f"{what} must be at most {most}, not {digits[:20]}")
    return int(digits)
