"""The main job, start to finish: a real model on this machine calls real tools, a person allows one order and denies
another, and the record of it verifies.

Run it with `make demo`, which fetches the model once. Nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel

from handrail import Session, ToolResult, create_llm, tool
from handrail.confirm import Allow, Confirmation, Decision, Deny
from handrail.events import CallIntended, CallSettled, Event, Notice, TextDelta
from handrail.journal import SqliteJournal, audit, export_run

console = Console(highlight=False)
shop = Path(tempfile.mkdtemp(prefix="handrail-demo-")) / "shop.db"
record = Path(".handrail")
QUESTIONS = ["How many umbrellas are in stock?", "Order 2 umbrellas.", "Order 1 boot.", "Thanks, that is all."]


@tool
def check_stock(item: str) -> dict[str, Any]:
    """Check how many pieces of an item are in stock.

    Args:
        item: The name of the item.
    """
    with closing(sqlite3.connect(shop)) as db:
        row = db.execute("SELECT name, pieces FROM items WHERE ? LIKE name || '%'", (item.lower(),)).fetchone()
    return {"item": row[0], "in_stock": row[1]} if row else {"item": item, "in_stock": 0}


@tool(side_effects=True)
def place_order(item: str, quantity: int) -> str:
    """Order an item for the customer.

    Args:
        item: The name of the item.
        quantity: How many pieces.
    """
    with closing(sqlite3.connect(shop)) as db, db:
        order = db.execute("INSERT INTO orders (item, pieces) VALUES (?, ?)", (item, quantity)).lastrowid
        db.execute("UPDATE items SET pieces = pieces - ? WHERE ? LIKE name || '%'", (quantity, item.lower()))
    return f"Order {order} is placed: {quantity} x {item}."


def open_shop() -> None:
    with closing(sqlite3.connect(shop)) as db, db:
        db.execute("CREATE TABLE items (name TEXT, pieces INTEGER)")
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, pieces INTEGER)")
        db.execute("INSERT INTO items VALUES ('umbrella', 12), ('boot', 3)")


class Person:
    """Stands in for you: allows the umbrellas, and has second thoughts about the boot."""

    async def decide(self, question: Confirmation) -> Decision:
        console.print(f"  [yellow]?[/] {question.tool}{question.arguments} changes something. ", end="")
        if "umbrella" in str(question.arguments):
            console.print("[green]You allow it.[/]")
            return Allow("you")
        console.print("[red]You change your mind, and deny it.[/]")
        return Deny("you", "on second thoughts, no boot")


async def show(event: Event) -> None:
    match event:
        case Notice(text=words):
            console.print(f"  [dim]{words}[/]")
        case TextDelta(text=words):
            console.print(words, end="", style="bold")
        case CallIntended(tool=name, arguments=arguments):
            console.print(f"  [cyan]→[/] {name}{arguments}")
        case CallSettled(result=ToolResult() as result):
            mark, colour = ("✓", "green") if result.outcome == "ok" else ("✗", "red")
            console.print(f"  [{colour}]{mark}[/] {result.text}  [dim]{result.duration_us / 1000:.1f} ms[/]")
        case _:
            pass


async def main() -> None:
    journal = await SqliteJournal.open(record / "journal.db")
    llm = create_llm("local")
    session = Session(provider=llm, tools=[check_stock, place_order], approver=Person(), journal=journal)
    for question in QUESTIONS:
        console.print(Panel(question, title="you", title_align="left", expand=False))
        await session.ask_async(question, on_event=show)
        console.print()
    run = session.run or ""
    await session.aclose()
    await llm.aclose()
    await journal.aclose()
    tell(run)


def tell(run: str) -> None:
    report = audit(record / "journal.db")
    bundle = export_run(record / "journal.db", run, record / "bundles" / run)
    verdict = "[green]verified[/]" if report.ok else f"[red]broken: {report.problems}[/]"
    console.print(
        f"\n[bold]proof[/]  {verdict}: {report.entries} entries, {report.checkpoints} signed checkpoint(s)\n"
        f"       look      .venv/bin/handrail proof show {run}\n"
        f"       verify    python3 {bundle / 'verify.py'} {bundle}   [dim](needs nothing but Python)[/]\n"
        "       talk      .venv/bin/handrail chat -m local",
        soft_wrap=True,
    )


if __name__ == "__main__":
    open_shop()
    record.mkdir(exist_ok=True)
    asyncio.run(main())
