"""A real run over a real directory, told by its trajectory and by its journal, and both as pages."""

from __future__ import annotations

from pathlib import Path

from handrail.core.messages import Usage
from handrail.journal.journal import SqliteJournal
from handrail.journal.reader import JournalReader, erase
from handrail.rlm import RLM
from handrail.rlm.record.trajectory import RLMLogger, read
from handrail.rlm.report import from_journal, from_trajectory, render
from handrail.rlm.report.tree import ReportRun
from tests.rlm.report.usages import usages
from tests.rlm.root_models import Echo, Root, ready, repl

READ = """\
hits = context.search("needle is (\\\\d+)", around=12)
print(hits[0]["name"])
heard = llm_query_batched(["who? " + hit["text"] for hit in hits])
print(heard)"""


def _told(run: ReportRun) -> tuple[object, ...]:
    """What both tell alike."""
    turns = [
        [(block.code, block.stdout, [(q.model, q.answer) for q in block.queries]) for block in turn.blocks]
        for turn in run.turns
    ]
    return run.model, run.answer, turns, [turn.failed for turn in run.turns], run.queries


async def test_a_run_is_told_alike_by_its_trajectory_and_by_its_journal(tmp_path: Path) -> None:
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "a.txt").write_text("nothing here")
    (papers / "b.txt").write_text("and the needle is 42, they say")
    root = Root(repl(READ), repl("print(missing)"), ready("heard[0]"), usage=Usage(input_tokens=100, output_tokens=10))
    echo = Echo(usage=Usage(input_tokens=7, output_tokens=3))
    logger = RLMLogger(tmp_path / "logs")
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        rlm = RLM(root, other_backends=[echo], journal=journal, logger=logger, run="r1")
        done = await rlm.acompletion(papers, "Where is the needle?")
        await rlm.aclose()
    assert done.response == "WHO? AND THE NEEDLE IS 42, THEY SAY"

    assert logger.log_file_path is not None
    logged = from_trajectory(read(logger.log_file_path), done)
    with JournalReader(tmp_path / "journal.db") as reader:
        recorded = from_journal(reader.events, "r1")
    assert _told(logged) == _told(recorded)
    assert logged.question == recorded.question == "Where is the needle?"
    assert [turn.failed for turn in recorded.turns] == [False, True, False]
    assert recorded.used == usages(root=(3, 300, 30), echo=(1, 7, 3)) == logged.used
    for run in (logged, recorded):
        page = render(run)
        assert "<h1>Where is the needle?</h1>" in page
        assert "NameError" in page
        assert "WHO? AND THE NEEDLE IS 42, THEY SAY" in page


async def test_a_run_within_a_run_is_told_by_both_too(tmp_path: Path) -> None:
    used = Usage(input_tokens=100, output_tokens=10)
    root = Root(repl('x = rlm_query("look deeper", model="child")'), ready("x"), usage=used)
    child = Root(repl("print(1 + 1)"), ready('"deep"'), name="child", usage=used)
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        logger = RLMLogger(tmp_path / "logs")
        rlm = RLM(root, other_backends=[child], max_depth=2, journal=journal, logger=logger, run="r1")
        done = await rlm.acompletion("some text", "What is below?")
        await rlm.aclose()
    assert done.response == "deep"
    with JournalReader(tmp_path / "journal.db") as reader:
        run = from_journal(reader.events, "r1")
    (query,) = run.turns[0].blocks[0].queries
    assert query.nested is not None
    assert query.used == query.nested.used == usages(child=(2, 200, 20))
    assert run.used == usages(root=(2, 200, 20), child=(2, 200, 20))
    assert [block.stdout for turn in query.nested.turns for block in turn.blocks] == ["2\n", ""]
    assert render(run).count("<b>Turn 2</b>") == 2
    (logged,) = from_trajectory(read(logger.log_file_path or ""), done).turns[0].blocks[0].queries
    assert logged.nested is not None and _told(logged.nested)[:3] == _told(query.nested)[:3]
    with JournalReader(tmp_path / "journal.db") as reader:
        assert "run_metadata" not in str(list(reader.events()))


async def test_of_a_run_whose_words_were_erased_the_page_says_so(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal, RLM(Root(ready("1")), journal=journal, run="r1") as rlm:
        await rlm.acompletion("some text", "What is it?")
    erase(path, run="r1")
    with JournalReader(path) as reader:
        page = render(from_journal(reader.events, "r1"))
    assert "were erased" in page
    assert "None is on record." in page
