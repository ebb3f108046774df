"""A process that dies while a tool runs that code called: `python -m tests.run.code.dying_payment_process FOLDER`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from handrail import Policy, Session, Tool, tool
from handrail.testing.model import ScriptedModel, call, text

CODE = "rate = 2", "for n in range(4):\n    print(pay(n * rate))"


def payer(folder: Path, dies_at: int | None = None) -> Tool:
    @tool(side_effects=True)
    def pay(cents: int) -> str:
        """Pay."""
        with (folder / "paid").open("a") as file:
            file.write(f"{cents}\n")
        if cents == dies_at:
            os._exit(9)
        return f"paid {cents}"

    return pay


def main(folder: Path) -> None:
    model = ScriptedModel(*([call("run_code", code=each)] for each in CODE), [text("Done.")])
    policy = Policy(confirm_side_effects=False)
    with Session(
        model, tools=[payer(folder, 4)], code=True, journal=folder / "journal.db", policy=policy, new_id=_id
    ) as session:
        session.ask("Pay four times.")


_count = 0


def _id(kind: str) -> str:
    global _count
    _count += 1
    return f"{kind}_{_count}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
