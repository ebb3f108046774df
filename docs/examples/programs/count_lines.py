"""Print how long each program is, with handrail and with pydantic-ai, as a table.

A line counts if it is neither blank nor only a comment; the docstring of the file does not.
"""

import ast
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = {
    "terminal": "A command-line agent: five tools, confirmation, streaming",
    "web": "A web application: a session per user, streamed to the browser",
    "mcp": "An agent over two MCP servers, with a structured answer",
}


def code_lines(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    about = len((ast.get_docstring(ast.parse(text), clean=False) or "").splitlines())
    lines = [line.strip() for line in text.splitlines()[about:]]
    return sum(bool(line) and not line.startswith("#") for line in lines)


if __name__ == "__main__":
    print("| program | handrail | pydantic-ai |")
    print("|---|---|---|")
    for name, what in PROGRAMS.items():
        ours, theirs = (code_lines(HERE / f"{name}_{library}.py") for library in ("handrail", "pydantic_ai"))
        print(f"| {what} | {ours} | {theirs} |")
