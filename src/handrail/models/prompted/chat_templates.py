"""The text format of calls that a chat template writes, by the marks in it: one row each, the first that fits counts.

A template is a program, and nothing here runs it. Formats without marks of their own
(`json`, `pythonic`) cannot be told from a template.
"""

from __future__ import annotations

_ROWS: tuple[tuple[str | None, tuple[str, ...]], ...] = (
    (None, ("]<]minimax[>[",)),  # MiniMax M3 writes arguments as nested elements, which nothing here reads
    ("deepseek_v32", ("｜DSML｜",)),
    ("step3", ("steptml:",)),
    ("deepseek_v3", ("<｜tool▁calls▁begin｜>", "```json")),
    ("deepseek_v31", ("<｜tool▁calls▁begin｜>",)),
    ("mistral", ("[TOOL_CALLS]",)),
    ("kimi_k2", ("<|tool_calls_section_begin|>",)),
    ("lfm2", ("<|tool_call_start|>",)),
    ("lfm2", ("<|tool_list_start|>",)),
    ("gemma4", ("<|tool_call>",)),
    ("functiongemma", ("<start_function_call>",)),
    ("phi4", ("functools[",)),
    ("internlm", ("<|action_start|>",)),
    ("cohere", ("<|START_ACTION|>",)),
    ("cohere", ("\\nAction:\\n```json",)),
    ("apertus", ("<|tools_prefix|>",)),
    ("longcat", ("<longcat_tool_call>",)),
    ("minimax", ("<minimax:tool_call>",)),
    ("hunyuan", ("<tool_sep", "<arg_key")),
    ("glm", ("<arg_key>",)),
    ("nemotron", ("<function=", "<parameter=")),
    ("nemotron", ("<TOOLCALL>",)),
    ("harmony", ("<|channel|>commentary",)),
    ("llama4", ("<|python_start|>",)),
    ("special_token", ("<|tool_call|>",)),
    ("hermes", ("<tool_call>",)),
    ("hermes", ("<tool_calls>",)),
    ("llama", ("<|python_tag|>",)),
    ("llama", ("<function_call>",)),
)


def format_of_template(template: str) -> str | None:
    """The name of the format in which the template writes calls; None if that cannot be told."""
    return next((format for format, marks in _ROWS if all(mark in template for mark in marks)), None)
