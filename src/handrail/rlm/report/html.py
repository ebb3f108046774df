"""A run as one page that needs nothing else: no script, no picture, no other file.

Whatever a model, a tool or a context wrote is text there and never markup, with what would deceive the eye written out.
"""

from __future__ import annotations

import base64
import keyword
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from hashlib import sha256
from html import escape

from handrail.core.display import printable, printable_lines
from handrail.core.redact import redact_text
from handrail.rlm.report.style import STYLE
from handrail.rlm.report.tree import ReportBlock, ReportMessage, ReportQuery, ReportRun, ReportTurn
from handrail.rlm.values import UsageSummary

TEXT = 20_000
"""Characters of one text that are shown."""
PAGE = 12_000_000
"""Characters of all texts together; from then on each is cut short."""
QUERIES = 200
"""The most queries of one block that are shown."""
TURNS = 500
OPEN = 12
"""A run of more turns than these is shown folded, but for its last."""

_STYLE_HASH = base64.b64encode(sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"

_CODE = re.compile(r"^[ \t]*```(?:repl|python|py)[ \t]*\n.*?(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


def render(run: ReportRun, *, text: int = TEXT, page: int = PAGE) -> str:
    """The page. The same run gives the same bytes."""
    drawn = _Page(text, page)
    title = printable(first_line(run.question, 80) or "A run")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} · handrail</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{drawn.top(run)}\n{drawn.run(run)}\n{drawn.foot(run)}\n</main>\n</body>\n</html>\n"
    )


class _Page:
    """Counts what it has shown, so that a page has an end."""

    def __init__(self, text: int, page: int) -> None:
        self._text = text
        self._left = page

    # ── the run ──────────────────────────────────────────────────────────────────────

    def top(self, run: ReportRun) -> str:
        started = f" · {moment(run.started)}" if run.started else ""
        question = run.question.strip() or "A run without a question"
        heading = first_line(question, 200)
        rest = self.fold("The whole question", question) if heading != question else ""
        return (
            f'<header>\n<p class="brand"><b>handrail</b> · recursive language model{started}</p>\n'
            f"<h1>{safe(heading)}</h1>\n{rest}{self.answer(run)}\n{_tiles(run)}\n</header>"
        )

    def run(self, run: ReportRun) -> str:
        notes = "".join(f'<p class="note">{self.words(note)}</p>\n' for note in run.notes)
        return f"{notes}{self.turns(run)}\n{_usage(run) if len(run.used.model_usage_summaries) > 1 else ''}"

    def answer(self, run: ReportRun) -> str:
        if run.answer is None:
            why = f"None is on record: {self.words(run.why)}" if run.why else "None is on record."
            return f'<section class="answer none"><p class="label">No answer</p><div class="pre">{why}</div></section>'
        kind, label = ("answer partial", "Partial answer") if run.partial else ("answer", "Answer")
        why = f'\n<p class="meta">{self.words(run.why)}</p>' if run.why else ""
        words = self.words(run.answer)
        return (
            f'<section class="{kind}">\n<p class="label">{label}</p>\n<div class="pre">{words}</div>{why}\n</section>'
        )

    def turns(self, run: ReportRun) -> str:
        if not run.turns:
            return ""
        total = max(run.seconds, sum(turn.seconds for turn in run.turns)) or 1.0
        shown, begun, items = run.turns[:TURNS], 0.0, []
        for turn in shown:
            is_open = turn is shown[-1] or len(shown) <= OPEN
            items.append(self.turn(turn, begun / total, turn.seconds / total, is_open))
            begun += turn.seconds
        more = _more(len(run.turns) - len(shown), "turn")
        return f'<section>\n<h2>Turns</h2>\n<ol class="turns">\n{"".join(items)}</ol>\n{more}</section>'

    def turn(self, turn: ReportTurn, begun: float, part: float, is_open: bool) -> str:
        kinds = " ".join(["failed"] * turn.failed + ["final"] * (turn.final is not None))
        asked = "".join(
            self.fold(f"Told as {each.role} · {len(each.text):,} characters", each.text) for each in turn.asked
        )
        prose = _CODE.sub("", turn.reply[: 4 * self._text]).strip()
        body = [
            f'<div class="pre">{self.words(prose)}</div>' if prose else "",
            *(self.block(block, number, len(turn.blocks)) for number, block in enumerate(turn.blocks, 1)),
            *(f'<p class="note">{self.words(note)}</p>' for note in turn.notes),
            f'<div class="part"><p class="label">Final answer</p><pre tabindex="0">{self.words(turn.final)}</pre></div>'
            if turn.final is not None
            else "",
            asked,
        ]
        return (
            f'<li class="{kinds}"><span class="dot" aria-hidden="true">{turn.number}</span>'
            f'<details class="turn"{" open" if is_open else ""}><summary><b>Turn {turn.number}</b>'
            f'<span class="meta">{_turn_facts(turn)}</span>{_bar(begun, part)}</summary>'
            f'<div class="body">{"".join(body)}</div></details></li>\n'
        )

    # ── its code ─────────────────────────────────────────────────────────────────────

    def block(self, code: ReportBlock, number: int, of: int) -> str:
        which = f"Code, block {number} of {of}" if of > 1 else "Code"
        parts = [
            f'<div class="part"><p class="label">{which} · {time(code.seconds)}</p>'
            f'<pre class="code" tabindex="0">{self.code(code.code)}</pre></div>',
            self.part("Output", code.stdout),
            self.part("Output to stderr", code.stderr),
            self.part("Error", code.error, "part error"),
            self.queries(code.queries),
            self.variables(code),
        ]
        return "".join(parts)

    def variables(self, code: ReportBlock) -> str:
        if not code.names:
            return ""
        return self.fold(
            count(len(code.names), "variable", "variables"),
            "\n".join(f"{name}: {value}" for name, value in code.names),
        )

    def queries(self, queries: tuple[ReportQuery, ...]) -> str:
        if not queries:
            return ""
        longest = max(query.seconds for query in queries) or 1.0
        shown = queries[: QUERIES if self._left > 0 else 0]
        items = "".join(f"<li>{self.query(query, longest)}</li>\n" for query in shown)
        return (
            f'<div class="part"><p class="label">{count(len(queries), "sub-query", "sub-queries")}</p>\n'
            f'<ul class="queries">\n{items}</ul></div>\n{_more(len(queries) - len(shown), "query")}'
        )

    def query(self, query: ReportQuery, longest: float) -> str:
        asked = next((each.text for each in reversed(query.prompt) if each.role == "user"), "")
        asked = query.nested.question if query.nested is not None else asked
        chips = f'<span class="chip">{small(query.model, 60)}</span>'
        chips += '<span class="chip depth">run below</span>' if query.nested is not None else ""
        chips += '<span class="chip off">failed</span>' if query.error else ""
        nested = f'<div class="nested">{self.run(query.nested)}</div>' if query.nested is not None else ""
        body = [
            *(self.prompt(each) for each in query.prompt),
            *(self.part(each.role.capitalize(), each.text) for each in query.between),
            self.part("Error", query.error, "part error"),
            self.part("Answer", query.answer),
            f'<p class="meta">Run <code>{small(query.run)}</code></p>' if query.run else "",
            nested,
        ]
        return (
            f'<details class="query"><summary>{chips}<span class="first">{safe(first_line(asked, 160))}</span>'
            f'<span class="meta">{tokens(query.used)} · {time(query.seconds)}</span>{_answer_line(query)}'
            f'{_bar(0, query.seconds / longest)}</summary><div class="body">{"".join(body)}</div></details>'
        )

    def prompt(self, said: ReportMessage) -> str:
        """What a program wrote for every query alike is folded."""
        show = self.fold if said.role == "system" else self.part
        return show(f"Prompt, as {said.role}", said.text)

    # ── texts ────────────────────────────────────────────────────────────────────────

    def part(self, label: str, text: str, kind: str = "part") -> str:
        if not text.strip():
            return ""
        return (
            f'<div class="{kind}"><p class="label">{small(label)}</p><pre tabindex="0">{self.words(text)}</pre></div>'
        )

    def fold(self, label: str, text: str) -> str:
        return (
            f'<details class="fold"><summary>{small(label)}</summary>'
            f'<pre tabindex="0">{self.words(text)}</pre></details>'
        )

    def words(self, text: str) -> str:
        kept, note = self._cut(text)
        return safe(kept) + note

    def code(self, text: str) -> str:
        kept, note = self._cut(text)
        return highlighted(kept, safe) + note

    def _cut(self, text: str) -> tuple[str, str]:
        most = self._text if self._left > 0 else 200
        kept = redact_text(text[: most + KEY])[:most]
        self._left -= len(kept)
        missing = len(text) - most
        return (
            kept,
            f'\n<span class="meta">… {missing:,} more characters are left out here</span>' if missing > 0 else "",
        )

    def foot(self, run: ReportRun) -> str:
        facts = [f"Root model {small(run.model)}", *(f"{small(name)} {small(value)}" for name, value in run.facts)]
        said = f"<p>{' · '.join(facts)}</p>"
        if run.id:
            said += f"<p>Run <code>{small(run.id)}</code></p>"
        if run.proof is not None:
            state = "checked, entry by entry" if run.proof.verified else "not checked"
            said += (
                f"<p>From a journal of {run.proof.entries:,} entries, {state}; "
                f"hash of all of them <code>{small(run.proof.root)}</code></p>"
            )
        return f"<footer>{said}</footer>"


# ── small parts ──────────────────────────────────────────────────────────────────────


def _tiles(run: ReportRun) -> str:
    total = run.used
    tiles = [
        ("Turns", f"{len(run.turns):,}"),
        ("Sub-queries", f"{run.queries:,}"),
        ("Tokens in", f"{total.total_input_tokens:,}"),
        ("Tokens out", f"{total.total_output_tokens:,}"),
        ("Cost", money(total.total_cost)),
        ("Time", time(run.seconds)),
    ]
    return f'<dl class="tiles">{"".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles)}</dl>'


def _usage(run: ReportRun) -> str:
    rows = "".join(
        f'<tr><td>{small(name, 100)}</td><td class="num">{used.total_calls or 0:,}</td>'
        f'<td class="num">{used.total_input_tokens or 0:,}</td><td class="num">{used.total_output_tokens or 0:,}</td>'
        f'<td class="num">{money(used.total_cost)}</td></tr>'
        for name, used in run.used.model_usage_summaries.items()
    )
    heads = "".join(f'<th scope="col" class="num">{name}</th>' for name in ("Calls", "Tokens in", "Tokens out", "Cost"))
    return (
        '<section>\n<h2>Models</h2>\n<div class="wide"><table><thead><tr><th scope="col">Model</th>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>\n</section>"
    )


def _turn_facts(turn: ReportTurn) -> str:
    queries = sum(1 for _ in turn.queries)
    return " · ".join(_facts(turn, queries))


def _facts(turn: ReportTurn, queries: int) -> Iterator[str]:
    yield count(len(turn.blocks), "block", "blocks") if turn.blocks else "no code"
    if queries:
        yield count(queries, "sub-query", "sub-queries")
    if turn.used is not None:
        yield tokens(turn.used)
    yield time(turn.seconds)
    if turn.failed:
        yield '<span class="bad">an error</span>'


def _answer_line(query: ReportQuery) -> str:
    """The beginning of the answer, since the questions of a batch begin alike."""
    kind, said = ("heard bad", query.error) if query.error else ("heard", query.answer)
    return f'<span class="{kind}">{line}</span>' if (line := safe(first_line(said, 160))) else ""


def _bar(begun: float, part: float) -> str:
    """The place of a stretch of time in the whole. It needs no inline style, so that the page allows none but its
    own."""
    start, width = min(max(begun, 0.0), 1.0) * 100, min(max(part, 0.004), 1.0) * 100
    return f'<svg class="bar" aria-hidden="true"><rect x="{start:.2f}%" width="{width:.2f}%" height="6"/></svg>'


def _more(number: int, noun: str) -> str:
    many = {"turn": "turns", "query": "sub-queries"}[noun]
    return f'<p class="note">{number:,} more {many} are left out here.</p>\n' if number > 0 else ""


KEY = 4_000
"""Characters beyond a cut that are looked at: half a key is a secret too."""


def tokens(used: UsageSummary) -> str:
    said = f"{used.total_input_tokens:,} → {used.total_output_tokens:,} tokens"
    return said if used.total_cost is None else f"{said} · {money(used.total_cost)}"


def money(cost: float | None) -> str:
    if cost is None:
        return "–"
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"


def time(seconds: float) -> str:
    if seconds < 0.9995:
        return f"{seconds * 1000:,.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if not seconds < 10**9:  # a record that somebody made up
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"


def moment(text: str) -> str:
    """A time as ISO 8601 writes it; with its zone, if it names one."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return small(text, 40)
    return safe(f"{at:%Y-%m-%d %H:%M:%S} {at:%Z}".strip())


def count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def first_line(text: str, most: int) -> str:
    lines = redact_text(text.lstrip()[: most + KEY]).splitlines()
    return short(lines[0].rstrip(), most) if lines else ""


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def small(text: str, most: int = 200) -> str:
    """A name, an id, a word or two."""
    return safe(short(redact_text(text[: most + KEY]), most))


def safe(text: str) -> str:
    return escape(printable_lines(text))


_OURS = (
    *("llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched"),
    *("context", "answer", "history", "SHOW_VARS", "FINAL", "FINAL_VAR"),
)
_PYTHON_TOKEN = re.compile(
    r"""
    (?P<c>\#[^\n]*)
    | (?P<s>(?<!\w)[rbfuRBFU]{0,2}(?:
        \"\"\"(?>(?:[^"\\]++|\\.|"(?!""))*)(?:\"\"\")?
        | '''(?>(?:[^'\\]++|\\.|'(?!''))*)(?:''')?
        | "(?>(?:[^"\\\n]++|\\.)*)"?
        | '(?>(?:[^'\\\n]++|\\.)*)'?))
    | (?P<n>(?<!\w)\d[\w.]*+)
    | (?P<w>(?<!\w)[^\W\d]\w*+)
    """,
    re.VERBOSE | re.DOTALL,
)
_PYTHON_WORDS = {**dict.fromkeys(keyword.kwlist, "k"), **dict.fromkeys(_OURS, "h")}


def highlighted(code: str, safe: Callable[[str], str]) -> str:
    """HTML; `safe` makes a piece of text harmless."""
    parts: list[str] = []
    at = 0
    for token in _PYTHON_TOKEN.finditer(code):
        kind = token.lastgroup if token.lastgroup != "w" else _PYTHON_WORDS.get(token.group())
        if kind is None:
            continue
        parts += [safe(code[at : token.start()]), f'<span class="{kind}">{safe(token.group())}</span>']
        at = token.end()
    return "".join([*parts, safe(code[at:])])
