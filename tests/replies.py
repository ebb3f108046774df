"""Scripts of the model `scripted`, as text: what it says and calls when it hears a word."""

from __future__ import annotations


def says(when: str, text: str) -> str:
    return f'\n[[reply]]\nwhen = "{when}"\ntext = "{text}"\n'


def calls(when: str, tool: str, arguments: str = "", *, then: str, first: str = "") -> str:
    """It calls the tool, perhaps after some words, and says something `then`, once it has the result."""
    said = f'text = "{first}"\n' if first else ""
    given = f", arguments = {{ {arguments} }}" if arguments else ""
    return f'\n[[reply]]\nwhen = "{when}"\n{said}calls = [{{ name = "{tool}"{given} }}]\n' + says(when, then)


PAY = calls("pay", "pay", 'to = "ada", amount = 5', then="So it stands.")
LOG_IN = calls("log in", "log_in", 'user = "ada", password = "opensesame-very-secret"', then="Done.")
HELLO = says("hello", "Hello!")
