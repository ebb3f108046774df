"""The top of the command line: what there is, and the options that hold for all of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import handrail
from handrail.cli.journal_type import JOURNAL_PLACE
from handrail.cli.lazy_groups import RootGroup, examples

if TYPE_CHECKING:
    from handrail.journal.places import JournalPlace

_COMMANDS = {
    # name     where it is below handrail.cli, and what it is for
    "ask": ("ask", "Ask a model a question, with tools."),
    "chat": ("chat.command", "Talk with a model, with tools."),
    "tui": ("tui", "Talk with a model in a full terminal: tools, proofs, undo."),
    "resume": ("resume", "Take up a run that was cut off, or that waited for a person."),
    "replay": ("replay", "Tell a run again from its record, without model or tools."),
    "what-if": ("what_if.command", "Replay recorded runs against another model, prompt or policy."),
    "rlm": ("rlm", "Ask questions over contexts that no window holds."),
    "tools": ("tools", "Look at tools, check them, and call them by hand."),
    "mcp": ("mcp", "Use servers of tools that speak MCP, and be one."),
    "hook": ("hook.commands", "Put your rules and a record around what a coding agent does."),
    "serve": ("serve", "Serve this node: a page, its tools and its models, over HTTP."),
    "acp": ("acp", "Be the agent of an editor that speaks the Agent Client Protocol."),
    "bus": ("bus", "See what other nodes can do, and have them do it."),
    "worker": ("serve:worker", "Serve these tools to the nodes on a NATS server."),
    "token": ("token", "Tokens: what others may call here, and how often."),
    "identity": ("identity", "The key of this node, and the id that others know it by."),
    "trace": ("trace", "Show where the time and the tokens of a run went."),
    "proof": ("proof", "Look at the record of what ran, and prove it."),
    "state": ("state", "Back up what this node must not lose, and move it to PostgreSQL."),
    "confirm": ("confirm", "Answer the calls that wait for a person's word."),
    "approve": ("config.approve", "Look at what the configuration would do, and allow it."),
    "probe": ("probe.command", "Put the same tool prompts to every model, and compare."),
    "eval": ("evaluate.command", "Run your own cases over models, and compare what each did."),
    "doctor": ("doctor.command", "Look whether everything is in order, and say what to do."),
    "sync-capabilities": (
        "sync_capabilities",
        "Write the tools and models of a node as Python, TypeScript and Rust sources.",
    ),
    "local": ("local", "The model that runs on this machine."),
}


@click.group(
    cls=RootGroup,
    table=_COMMANDS,
    epilog=examples(
        "handrail ask --tools tools.py 'What is the weather in Lisbon?'",
        "handrail chat",
        "handrail serve                         your tools and models for other programs and machines",
        "handrail proof list                    which runs there were",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--journal",
    type=JOURNAL_PLACE,
    envvar="HANDRAIL_JOURNAL",
    metavar="PATH",
    help="The record of what ran. Default: $HANDRAIL_JOURNAL, or .handrail/journal.db here or in a folder above.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The configuration. Default: $HANDRAIL_CONFIG, or handrail.toml here or in a folder above.",
)
@click.version_option(handrail.__version__, prog_name="handrail", message="%(prog)s %(version)s")
def root(journal: JournalPlace | None, config: Path | None) -> None:
    """Tool calls you can lean on: ask a model, see what it did, prove it, and answer what waits."""
