"""`handrail proof`: the record of what ran."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "proof",
    {
        "list": ("proof.runs:list_runs", "List the runs, and how their calls ended."),
        "show": ("proof.runs:show", "Show a run as a timeline, or one call of it."),
        "verify": ("proof.verify", "Check the whole record, and say what that proves."),
        "checkpoint": ("proof.evidence:checkpoint", "Print the latest signed checkpoint, to keep elsewhere."),
        "prove": ("proof.evidence:prove_call", "Write the receipt of one call."),
        "export": ("proof.evidence:export", "Export a run as a bundle that anybody can verify."),
        "erase": ("proof.journal_files:erase_bodies", "Erase arguments and results, and keep every proof valid."),
        "backup": ("proof.journal_files:backup", "Copy the whole journal while it is in use."),
        "new": ("proof.journal_files:new", "Begin a new journal where one was lost."),
        "stats": ("proof.runs:stats", "Show how often each tool was offered, called and failed."),
    },
    "handrail proof list",
    "handrail proof show run_0193",
    "handrail proof verify",
)
def command() -> None:
    """Inspect the record of what ran, and prove it.

    Ids can be shortened as long as only one id matches. With --json, a command that lists things writes one JSON object
    per line; every other command writes one JSON document.
    """
