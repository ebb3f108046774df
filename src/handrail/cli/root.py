"""The top of the command line: the commands, and the options that hold for all of them."""

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
    "chat": ("chat.command", "Chat with a model, with tools."),
    "tui": ("tui", "Chat with a model in a full-screen terminal program."),
    "resume": ("resume", "Resume a run that was interrupted or waited for approval."),
    "replay": ("replay", "Replay a recorded run, without a model and without tools."),
    "what-if": ("what_if.command", "Replay recorded runs with another model, prompt or policy."),
    "rlm": ("rlm", "Ask questions about contexts larger than any context window."),
    "tools": ("tools", "Inspect tools, check them, and call them yourself."),
    "mcp": ("mcp", "Use MCP servers as tools, and serve your tools over MCP."),
    "hook": ("hook.commands", "Apply your rules to the calls of a coding agent."),
    "serve": ("serve", "Serve a page, your tools and your models over HTTP."),
    "acp": ("acp", "Run as an agent for editors (Agent Client Protocol)."),
    "bus": ("bus", "List and call the capabilities of other nodes."),
    "worker": ("serve:worker", "Serve these tools to other nodes over a NATS server."),
    "token": ("token", "Issue, inspect and revoke tokens."),
    "identity": ("identity", "Show or create the key and the id of this node."),
    "trace": ("trace", "Show where a run spent its time and tokens."),
    "proof": ("proof", "Inspect the record of what ran, and prove it."),
    "state": ("state", "Back up, restore and move the state of this node."),
    "confirm": ("confirm", "Approve or deny the calls that wait for a person."),
    "approve": ("config.approve", "Review what the configuration can do, and approve it."),
    "probe": ("probe.command", "Send the same tool prompts to several models, and compare."),
    "eval": ("evaluate.command", "Run your own test cases with several models."),
    "doctor": ("doctor.command", "Check the installation and say how to fix problems."),
    "sync-capabilities": (
        "sync_capabilities",
        "Write the tools and models of a node as Python, TypeScript and Rust sources.",
    ),
    "local": ("local", "Set up the embedded model, which runs on this machine."),
}


@click.group(
    cls=RootGroup,
    table=_COMMANDS,
    epilog=examples(
        "handrail ask --tools tools.py 'What is the weather in Lisbon?'",
        "handrail chat",
        "handrail serve                         your tools and models for other programs and machines",
        "handrail proof list                    the recorded runs",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--journal",
    type=JOURNAL_PLACE,
    envvar="HANDRAIL_JOURNAL",
    metavar="PATH",
    help="The record of what ran. Default: $HANDRAIL_JOURNAL, or .handrail/journal.db in this folder or one above.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The configuration. Default: $HANDRAIL_CONFIG, or handrail.toml in this folder or one above.",
)
@click.version_option(handrail.__version__, prog_name="handrail", message="%(prog)s %(version)s")
def root(journal: JournalPlace | None, config: Path | None) -> None:
    """Run LLM tool calls that are checked, approved, recorded and never made twice by accident."""
