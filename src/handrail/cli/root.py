"""The top of the command line: what there is, and the options that hold for all of it."""

from __future__ import annotations

from pathlib import Path

import click

import handrail
from handrail.cli.lazy_groups import RootGroup, examples

_COMMANDS = {
    # name     module, and what it is for
    "ask": ("handrail.cli.ask", "Ask a model a question, with tools."),
    "chat": ("handrail.cli.chat.command", "Talk with a model, with tools."),
    "tui": ("handrail.cli.tui", "Talk with a model in a full terminal: tools, proofs, undo."),
    "resume": ("handrail.cli.resume", "Take up a run that was cut off, or that waited for a person."),
    "replay": ("handrail.cli.replay", "Tell a run again from its record, without model or tools."),
    "rlm": ("handrail.cli.rlm.group", "Ask questions over contexts that no window holds."),
    "tools": ("handrail.cli.tools.group", "Look at tools, check them, and call them by hand."),
    "mcp": ("handrail.cli.mcp.group", "Use servers of tools that speak MCP, and be one."),
    "serve": ("handrail.cli.node.serve", "Serve this node: a page, its tools and its models, over HTTP."),
    "bus": ("handrail.cli.bus.group", "See what other nodes can do, and have them do it."),
    "worker": ("handrail.cli.node.worker", "Serve these tools to the nodes on a NATS server."),
    "token": ("handrail.cli.token.group", "Tokens: what others may call here, and how often."),
    "identity": ("handrail.cli.identity.group", "The key of this node, and the id that others know it by."),
    "proof": ("handrail.cli.proof.group", "Look at the record of what ran, and prove it."),
    "confirm": ("handrail.cli.confirm.group", "Answer the calls that wait for a person's word."),
    "approve": ("handrail.cli.config.approve", "Look at what the configuration would do, and allow it."),
    "probe": ("handrail.cli.probe.command", "Put the same tool prompts to every model, and compare."),
    "doctor": ("handrail.cli.doctor.command", "Look whether everything is in order, and say what to do."),
    "sync-capabilities": (
        "handrail.cli.sync_capabilities",
        "Write the tools and models of a node as Python, TypeScript and Rust sources.",
    ),
    "local": ("handrail.cli.local.group", "The model that runs on this machine."),
}


@click.group(
    cls=RootGroup,
    modules={name: module for name, (module, _) in _COMMANDS.items()},
    says={name: says for name, (_, says) in _COMMANDS.items()},
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
    type=click.Path(path_type=Path),
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
def root(journal: Path | None, config: Path | None) -> None:
    """Tool calls you can lean on: ask a model, see what it did, prove it, and answer what waits."""
