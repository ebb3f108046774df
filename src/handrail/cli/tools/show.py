"""`handrail tools show`: one tool with everything that is known of it."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.call_detail import print_body, print_fields
from handrail.cli.output.view import answer, answer_json
from handrail.cli.run_options import CliSetup, configured, with_tools
from handrail.cli.tools.offered_tools import offered_tools
from handrail.core.errors import UnknownTool, UsageError
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool


@click.command(
    "show",
    epilog=examples(
        "handrail tools show add --tools tools.py",
        "handrail tools show io:read_file --json | jq .input_schema",
    ),
)
@click.argument("name")
@with_tools
@configured
def command(setup: CliSetup, name: str, tools: tuple[str, ...]) -> None:
    """Show the tool of this NAME: what a model is told, and how its calls are treated."""
    tool = tool_by_name(offered_tools(setup.config, tools), name)
    if setup.view.as_json:
        answer_json({**tool.definition.to_dict(), "scoped_name": tool.scoped_name})
        return
    answer(text.printable(tool.scoped_name), "title")
    for line in text.printable_lines(tool.definition.description).splitlines():
        answer(f"  {line}")
    print_fields(
        [
            ("effects", tool.effects),
            ("timeout", f"{tool.definition.timeout or setup.config.policy.timeout:g} s"),
            ("runs", f"in {_WHERE[tool.isolation or 'thread']}"),
            ("models", text.printable(", ".join(tool.definition.models or ("all",)))),
            ("results", "from outside" if tool.definition.untrusted else "trusted"),
            ("digest", tool.digest),
        ]
    )
    print_body("arguments", tool.definition.input_schema)
    if tool.definition.output_schema is not None:
        print_body("result", tool.definition.output_schema)


_WHERE = {
    "loop": "the event loop",
    "thread": "a thread",
    "process": "a process of its own",
    "sandbox": "the sandbox",
}


def tool_by_name(tools: RegisteredTools, name: str) -> Tool:
    """Raises:
    UsageError: There is none; near names are in the message.
    """
    try:
        return tools.find(name)
    except UnknownTool as error:
        there = ", ".join(tool.scoped_name for tool in tools) or "none; name some with --tools"
        raise UsageError(f"{error.message}; there are {there}") from error
