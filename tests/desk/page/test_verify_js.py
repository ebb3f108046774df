"""The page checks proofs with its own code. On every case here it must come to the same answer as the verifier."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Context, Executor, ToolCall, tool
from handrail.core.confirmation import Allow, Confirmation, Decision
from handrail.core.errors import BrokenProof, UsageError
from handrail.journal.auditing import Receipt, export_run, prove
from handrail.journal.journal import SqliteJournal
from handrail.journal.keys import Signer, Verifier
from handrail.journal.verifier import check
from tests.npm_packages import node

WEB = Path(__file__).resolve().parents[3] / "src" / "handrail" / "desk" / "page" / "views" / "proof"
ROUNDS = 4
"""Of each way to change something in each run, at another place each time."""
RUNS = ("one", "two/ü")
PROGRAM = """\
import { readFileSync } from "node:fs";
const { checkReceipt, walk, Bad } = await import(process.argv[1]);

async function run({ run, key, checkpoint, rows }) {
  const walking = walk(run);
  const opening = await walking.open({ checkpoint, verifier_key: key });
  const wrong = [];
  for (const row of rows) {
    const finding = await walking.entry(row);
    for (const problem of finding.problems) wrong.push(where(problem, finding.n));
  }
  for (const problem of walking.finish()) wrong.push(where(problem, rows.length));
  if (opening.length) return { signed: false };
  return { signed: true, wrong: [...new Set(wrong)].sort((a, b) => a - b) };
}

function where({ code, params }, n) {
  return code.startsWith("missing") ? params.n : code === "too-many" ? params.count : n;
}

async function receipt({ receipt, key }) {
  try {
    await checkReceipt(receipt, key ?? undefined);
    return true;
  } catch (error) {
    if (error instanceof Bad) return false;
    throw error;
  }
}

const { runs, receipts } = JSON.parse(readFileSync(0, "utf-8"));
const answers = { runs: [], receipts: [] };
for (const one of runs) answers.runs.push(await run(one));
for (const one of receipts) answers.receipts.push(await receipt(one));
process.stdout.write(JSON.stringify(answers));
"""
Lines = list[dict[str, Any]]
Change = Callable[[random.Random, Lines, dict[str, str]], None]


@tool
def find_order(id: str) -> dict[str, str]:
    """Find an order."""
    return {"id": id, "item": "umbrella ☂ \u202e"}


@tool(side_effects=True)
def refund(order: str, cents: int) -> str:
    """Refund an order."""
    return f"refunded {cents} cents for order {order}"


class Grace:
    async def decide(self, question: Confirmation) -> Decision:
        return Allow("grace@example.org")


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs whose entries are mixed."""
    path = tmp_path_factory.mktemp("proofs") / "journal.db"

    async def written() -> None:
        async with (
            await SqliteJournal.open(path, origin="shop.example/journal") as journal,
            Executor([find_order, refund], approver=Grace(), journal=journal) as executor,
        ):
            for at in range(4):
                for run in RUNS:
                    context = Context(run=run)
                    await executor.invoke(ToolCall(f"f{at}", "find_order", {"id": str(at)}), context)
                    await executor.invoke(ToolCall(f"r{at}", "refund", {"order": "7", "cents": at}), context)
            for run in RUNS:
                await executor.finish(run)

    asyncio.run(written())
    return path


# ── ways to change what was signed ──


def nothing(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    """As it was."""


def a_letter_of_a_leaf(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    line = chance.choice(lines)
    line["leaf"] = other_letter(chance, line["leaf"])


def a_step_of_a_proof(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    line = chance.choice(lines)
    at = chance.randrange(len(line["proof"]))
    line["proof"][at] = other_letter(chance, line["proof"][at])


def a_proof_that_is_cut_or_too_long(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    line = chance.choice(lines)
    line["proof"] = line["proof"][1:] if chance.random() < 0.5 else [*line["proof"], "0" * 64]


def a_letter_of_a_body(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    line = chance.choice([line for line in lines if "body" in line])
    line["body"] = other_letter(chance, line["body"])


def a_letter_of_a_salt(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    line = chance.choice([line for line in lines if "salt" in line])
    line["salt"] = other_letter(chance, line["salt"])


def a_body_that_nobody_recorded(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    line = chance.choice([line for line in lines if "body" not in line])
    line.update(salt="0" * 32, body="{}")


def an_entry_is_dropped(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    del lines[chance.randrange(len(lines))]


def the_tail_is_cut(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    del lines[chance.randrange(1, len(lines)) :]


def two_entries_change_places(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    at = chance.randrange(len(lines) - 1)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]


def an_entry_stands_twice(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    lines.append(dict(chance.choice(lines)))


def another_place_is_said(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    chance.choice(lines)["seq"] += 1


def a_letter_of_the_checkpoint(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    parts["checkpoint"] = other_letter(chance, parts["checkpoint"])


def a_letter_of_the_key(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    parts["key"] = other_letter(chance, parts["key"])


def the_key_of_somebody_else(chance: random.Random, lines: Lines, parts: dict[str, str]) -> None:
    parts["key"] = Signer.from_seed(parts["key"].split("+")[0], chance.randbytes(32)).verifier_key


CHANGES: tuple[Change, ...] = (
    nothing,
    a_letter_of_a_leaf,
    a_step_of_a_proof,
    a_proof_that_is_cut_or_too_long,
    a_letter_of_a_body,
    a_letter_of_a_salt,
    a_body_that_nobody_recorded,
    an_entry_is_dropped,
    the_tail_is_cut,
    two_entries_change_places,
    an_entry_stands_twice,
    another_place_is_said,
    a_letter_of_the_checkpoint,
    a_letter_of_the_key,
    the_key_of_somebody_else,
)


def other_letter(chance: random.Random, text: str) -> str:
    at = chance.randrange(len(text))
    letter = chance.choice([each for each in '0a{}":, \nZ+=' if each != text[at]])
    return text[:at] + letter + text[at + 1 :]


# ── the same question to both ──


def judged(folder: Path) -> dict[str, Any]:
    """What the stand-alone verifier says: whether the signature holds, and then which entries are wrong."""
    problems = check(folder).problems
    if any(problem.where in ("checkpoint", "key") for problem in problems):
        return {"signed": False}
    return {"signed": True, "wrong": sorted({each.where for each in problems if isinstance(each.where, int)})}


def written(folder: Path, lines: Lines, parts: dict[str, str], header: dict[str, Any]) -> None:
    first = {**header, "verifier_key": parts["key"]}
    text = "".join(json.dumps(line) + "\n" for line in [first, *lines])
    (folder / "bundle.jsonl").write_text(text, encoding="utf-8")
    (folder / "checkpoint").write_text(parts["checkpoint"], encoding="utf-8", newline="")


def asked(cases: dict[str, Any]) -> dict[str, Any]:
    """All cases at once: a process of its own for each would take too long."""
    answer = subprocess.run(
        [str(node()), "--no-warnings", "--input-type=module", "-e", PROGRAM, (WEB / "verify.js").as_uri()],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.mark.requirement("nrv.proof")
def test_the_page_and_the_verifier_find_the_same_wrong_entries(journal: Path, tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = []
    expected: list[dict[str, Any]] = []
    names: list[str] = []
    chance = random.Random(8)
    for run in RUNS:
        folder = export_run(journal, run, tmp_path / f"bundle{len(cases)}")
        header, *lines = [json.loads(line) for line in (folder / "bundle.jsonl").read_text().splitlines()]
        checkpoint = (folder / "checkpoint").read_text()
        for line in lines:
            leaf = json.loads(line["leaf"])
            line["_row"] = {"type": leaf["type"], "at": leaf["at"]}
        for change in CHANGES:
            for _ in range(1 if change is nothing else ROUNDS):
                mine = json.loads(json.dumps(lines))
                parts = {"checkpoint": checkpoint, "key": header["verifier_key"]}
                change(chance, mine, parts)
                rows = [{**line, **line.pop("_row")} for line in mine]
                written(folder, mine, parts, header)
                cases.append({"run": run, "rows": rows, **parts})
                expected.append(judged(folder))
                names.append(change.__name__)
        shutil.rmtree(folder)
    found = asked({"runs": cases, "receipts": []})["runs"]
    differing = [each for each in zip(names, found, expected, strict=True) if each[1] != each[2]]
    assert not differing
    unharmed = {name for name, answer in zip(names, found, strict=True) if answer == {"signed": True, "wrong": []}}
    assert unharmed == {"nothing"}


def test_the_page_takes_the_receipts_that_the_verifier_takes_and_no_others(journal: Path) -> None:
    chance = random.Random(9)
    whole = [prove(journal, f"{kind}{at}", run="one") for kind in "fr" for at in range(4)]
    cases: list[dict[str, Any]] = [{"receipt": told(receipt), "key": None} for receipt in whole]
    for _ in range(150):
        receipt = told(chance.choice(whole))
        name = chance.choice([each for each in receipt if each != "verifier_key"])
        receipt[name] = spoiled(chance, receipt[name])
        cases.append({"receipt": receipt, "key": whole[0].verifier_key})
    cases.append({"receipt": told(whole[0]), "key": Signer.from_seed("shop.example/journal", b"\1" * 32).verifier_key})
    assert asked({"runs": [], "receipts": cases})["receipts"] == [is_good(**case) for case in cases]
    assert [is_good(**case) for case in cases].count(True) >= len(whole)


def told(receipt: Receipt) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(receipt.to_json())
    return found


def spoiled(chance: random.Random, value: Any) -> Any:
    match value:
        case str():
            return other_letter(chance, value)
        case int():
            return value + 1
        case [first, *rest]:
            return [other_letter(chance, first), *rest]
    raise AssertionError(value)


def is_good(receipt: dict[str, Any], key: str | None) -> bool:
    try:
        Receipt.from_json(json.dumps(receipt)).verify(Verifier.parse(key or receipt["verifier_key"]))
    except (BrokenProof, UsageError):
        return False
    return True
