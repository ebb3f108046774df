"""The main job, start to finish: a model calls real tools, a person confirms the one that changes something,
and the record of it verifies.

The model is a script until the embedded one lands: what it says is written below,
and everything else is real. Run it with `make demo`.
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

from handrail import Conversation, Executor, Runner, tool
from handrail.core.calls import ToolResult
from handrail.core.confirmation import Allow, Confirmation, Decision
from handrail.core.events import CallIntended, CallSettled, ConfirmationAnswered, Event, TextDelta
from handrail.proof.audit import audit, export_run
from handrail.proof.journal import SqliteJournal
from handrail.testing.model import ScriptedModel, call, text

console = Console(highlight=False)
shop = Path(tempfile.mkdtemp(prefix="handrail-demo-")) / "shop.db"
record = Path(".handrail")


@tool
def find_orders(customer: str, status: str = "open") -> list[dict[str, Any]]:
    """Find a customer's orders.

    Args:
        customer: The customer's name.
        status: open or shipped.
    """
    with closing(sqlite3.connect(shop)) as db, db:
        rows = db.execute("SELECT id, item, cents FROM orders WHERE customer = ? AND status = ?", (customer, status))
        return [{"id": id, "item": item, "cents": cents} for id, item, cents in rows]


@tool(side_effects=True)
def refund(order: int, cents: int) -> str:
    """Refund an order.

    Args:
        order: The order's number.
        cents: How much to give back.
    """
    with closing(sqlite3.connect(shop)) as db, db:
        db.execute("INSERT INTO refunds VALUES (?, ?)", (order, cents))
    return f"refunded {cents / 100:.2f} for order {order}"


def open_shop() -> None:
    with closing(sqlite3.connect(shop)) as db, db:
        db.execute("CREATE TABLE orders (id INTEGER, customer TEXT, item TEXT, cents INTEGER, status TEXT)")
        db.execute("CREATE TABLE refunds (order_id INTEGER, cents INTEGER)")
        db.execute("INSERT INTO orders VALUES (17, 'Ada', 'umbrella', 2450, 'open'), (18, 'Bob', 'boots', 99, 'open')")


class Person:
    """Stands in for you: says yes, and shows what was asked."""

    async def decide(self, question: Confirmation) -> Decision:
        console.print(f"  [yellow]?[/] {question.tool}{question.arguments} changes something. [green]Allowed.[/]")
        return Allow("you")


SCRIPT = ScriptedModel(
    [text("Let me look at the orders. "), call("find_orders", customer="Ada")],
    [call("refund", order="17", cents=2450)],
    [text("The number must be a number. "), call("refund", order=17, cents=2450)],
    [text("Done: 24.50 for the umbrella goes back to Ada.")],
)


async def show(event: Event) -> None:
    match event:
        case TextDelta(text=words):
            console.print(f"[bold]model[/]  {words}")
        case CallIntended(tool=name, arguments=arguments):
            console.print(f"  [cyan]→[/] {name}{arguments}")
        case CallSettled(result=ToolResult() as result):
            mark, colour = ("✓", "green") if result.outcome == "ok" else ("✗", "red")
            console.print(f"  [{colour}]{mark}[/] {result.text}  [dim]{result.duration_us / 1000:.1f} ms[/]")
        case ConfirmationAnswered(by=by, decision=decision):
            console.print(f"  [dim]recorded: {by} said {decision}[/]")


async def main() -> None:
    console.print(Panel("Ada's umbrella broke. Please refund it.", title="you", title_align="left", expand=False))
    async with (
        await SqliteJournal.open(record / "journal.db") as journal,
        Executor([find_orders, refund], approver=Person(), journal=journal) as executor,
    ):
        runner = Runner(SCRIPT, executor)
        await runner.run(Conversation().say("Ada's umbrella broke. Please refund it."), emit=show)
    report = audit(record / "journal.db")
    bundle = export_run(record / "journal.db", executor.run, record / "bundles" / executor.run)
    verdict = "[green]verified[/]" if report.ok else f"[red]broken: {report.problems}[/]"
    console.print(
        f"\n[bold]proof[/]  {verdict}: {report.entries} entries, {report.checkpoints} signed checkpoint(s)\n"
        f"       look      .venv/bin/handrail proof show {executor.run}\n"
        f"       verify    python3 {bundle / 'verify.py'} {bundle}   [dim](needs nothing but Python)[/]",
        soft_wrap=True,
    )


if __name__ == "__main__":
    open_shop()
    record.mkdir(exist_ok=True)
    asyncio.run(main())
