"""What the embedded model is measured by: requests in our own words, and what a right answer is.

Sixteen tools in three groups; requests that need one call, none, or two. Arguments
count as right when every expected one is there, text compared without case.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.messages import InvocationMessage, ResultMessage, Text, UserMessage
from handrail.core.model_request import ModelRequest, ToolOffer

Expected = tuple[tuple[str, dict[str, Any]], ...]


class Case(Struct, frozen=True):
    kind: str
    """`one`, `two`, `chat` (nothing to do with tools) or `near` (a tool is merely related)."""
    said: str
    tools: tuple[ToolOffer, ...]
    calls: Expected = ()


def _tool(name: str, description: str, required: dict[str, Any], optional: dict[str, Any] | None = None) -> ToolOffer:
    schema = {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolOffer(name, description, schema)


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


NUMBER = {"type": "number"}
MONEY = _one_of("USD", "EUR", "GBP", "JPY")

DESK = (
    _tool(
        "get_weather",
        "Get the current weather for a location",
        {"location": _text("City name")},
        {"unit": _one_of("celsius", "fahrenheit")},
    ),
    _tool("add", "Add two numbers together", {"a": NUMBER, "b": NUMBER}),
    _tool("search_corpus", "Search the document corpus for passages about a query", {"query": _text("Search query")}),
)
OFFICE = (
    _tool("send_email", "Send an email message", {"to": _text("Email address"), "subject": _text("Subject line")}),
    _tool("set_timer", "Start a countdown timer", {"minutes": {"type": "integer", "description": "Minutes"}}),
    _tool(
        "translate",
        "Translate text into another language",
        {"text": _text("Text to translate"), "target_language": _one_of("french", "german", "spanish", "italian")},
    ),
    _tool(
        "convert_currency",
        "Convert an amount of money from one currency to another",
        {"amount": NUMBER, "from_currency": MONEY, "to_currency": MONEY},
    ),
    _tool("read_file", "Read the contents of a file from disk", {"path": _text("Path of the file")}),
)
HOME = (
    _tool("create_event", "Create a calendar event", {"title": _text("Title"), "date": _text("Date of the event")}),
    _tool("play_song", "Play a song", {"song": _text("Name of the song")}),
    _tool("stock_price", "Look up the current share price of a company", {"company": _text("Company name")}),
    _tool("list_files", "List the files in a directory", {"directory": _text("Directory path")}),
    _tool("turn_light", "Turn a light on or off", {"room": _text("Room name"), "state": _one_of("on", "off")}),
    _tool("multiply", "Multiply two numbers", {"a": NUMBER, "b": NUMBER}),
    _tool("find_restaurant", "Find restaurants", {"cuisine": _text("Type of food"), "city": _text("City")}),
    _tool("define_word", "Look up the definition of a word", {"word": _text("Word to define")}),
)
ALL = DESK + OFFICE + HOME


def _one(said: str, tools: tuple[ToolOffer, ...], name: str, **arguments: Any) -> Case:
    return Case("one", said, tools, ((name, arguments),))


ONE = (
    _one("What's it like outside in Madrid?", DESK, "get_weather", location="madrid"),
    _one("Current weather for Helsinki in celsius, please", DESK, "get_weather", location="helsinki", unit="celsius"),
    _one("Is it cold in Oslo today?", DESK, "get_weather", location="oslo"),
    _one(
        "Tell me the weather in San Diego in fahrenheit", DESK, "get_weather", location="san diego", unit="fahrenheit"
    ),
    _one("Please add 19 and 23", DESK, "add", a=19, b=23),
    _one("How much is 310 plus 45?", DESK, "add", a=310, b=45),
    _one("Sum up 1.5 and 2.25", DESK, "add", a=1.5, b=2.25),
    _one("Find passages about solar power in the corpus", DESK, "search_corpus", query="solar power"),
    _one("Search our documents for the holiday rules", DESK, "search_corpus", query="holiday rules"),
    _one("Email dana@shop.io with the subject Invoice", OFFICE, "send_email", to="dana@shop.io", subject="invoice"),
    _one("Set a timer for 12 minutes", OFFICE, "set_timer", minutes=12),
    _one("Give me a countdown of 45 minutes", OFFICE, "set_timer", minutes=45),
    _one("Translate good evening into Italian", OFFICE, "translate", text="good evening", target_language="italian"),
    _one(
        "How do you say see you tomorrow in French?",
        OFFICE,
        "translate",
        text="see you tomorrow",
        target_language="french",
    ),
    _one("Convert 80 GBP to USD", OFFICE, "convert_currency", amount=80, from_currency="gbp", to_currency="usd"),
    _one(
        "How many JPY do I get for 30 EUR?",
        OFFICE,
        "convert_currency",
        amount=30,
        from_currency="eur",
        to_currency="jpy",
    ),
    _one("Read the file todo.md", OFFICE, "read_file", path="todo.md"),
    _one("Show me the contents of /var/log/app.log", OFFICE, "read_file", path="/var/log/app.log"),
    _one("Put Team lunch on the calendar for Tuesday", HOME, "create_event", title="team lunch", date="tuesday"),
    _one("Play the song Yesterday", HOME, "play_song", song="yesterday"),
    _one("What is the share price of Nokia?", HOME, "stock_price", company="nokia"),
    _one("List the files in /srv/data", HOME, "list_files", directory="/srv/data"),
    _one("Switch the light off in the hallway", HOME, "turn_light", room="hallway", state="off"),
    _one("Turn on the kitchen light", HOME, "turn_light", room="kitchen", state="on"),
    _one("Multiply 14 by 6", HOME, "multiply", a=14, b=6),
    _one("I'd like Thai food in Denver", HOME, "find_restaurant", cuisine="thai", city="denver"),
    _one("What does the word obstinate mean?", HOME, "define_word", word="obstinate"),
    _one("Turn off the lamp in the office", ALL, "turn_light", room="office", state="off"),
    _one("What is the weather in Vienna?", ALL, "get_weather", location="vienna"),
    _one("Convert 15 USD to GBP", ALL, "convert_currency", amount=15, from_currency="usd", to_currency="gbp"),
    _one("Define the word lucid", ALL, "define_word", word="lucid"),
    _one("Start a 20 minute timer", ALL, "set_timer", minutes=20),
)
TWO = tuple(
    Case("two", said, tools, calls)
    for said, tools, calls in (
        (
            "What is the weather in Rome and in Athens?",
            DESK,
            (("get_weather", {"location": "rome"}), ("get_weather", {"location": "athens"})),
        ),
        (
            "Add 2 and 3, and tell me the weather in Lima",
            DESK,
            (("add", {"a": 2, "b": 3}), ("get_weather", {"location": "lima"})),
        ),
        (
            "Read a.txt and b.txt",
            OFFICE,
            (("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})),
        ),
        (
            "Turn on the light in the attic and in the cellar",
            HOME,
            (("turn_light", {"room": "attic", "state": "on"}), ("turn_light", {"room": "cellar", "state": "on"})),
        ),
    )
)
CHAT = tuple(
    Case("chat", said, tools)
    for tools in (DESK, OFFICE, HOME)
    for said in (
        "Hi, good to see you!",
        "Tell me something funny.",
        "Who painted the Mona Lisa?",
        "Thanks a lot for your help.",
        "Write two lines about the moon.",
        "What should I call my cat?",
        "Why is grass green?",
        "I had a long day.",
    )
)
NEAR = tuple(
    Case("near", said, tools)
    for said, tools in (
        ("What causes rain?", DESK),
        ("Why is adding numbers taught so early?", DESK),
        ("Which is the largest city in France?", DESK),
        ("How does email work?", OFFICE),
        ("Who invented the yen?", OFFICE),
        ("How many minutes are in an hour?", OFFICE),
        ("Who wrote the song Yesterday?", HOME),
        ("What is a restaurant?", HOME),
        ("When was the light bulb invented?", HOME),
        ("Delete the file notes.txt", OFFICE),
    )
)
AFTER: tuple[tuple[str, str, dict[str, Any], Any, str], ...] = (
    ("What's the weather in Paris?", "get_weather", {"location": "Paris"}, {"temperature": 21, "sky": "sunny"}, "21"),
    ("Is it cold in Oslo?", "get_weather", {"location": "Oslo"}, "-4 degrees and snow", "-4"),
    ("What is 17 plus 25?", "add", {"a": 17, "b": 25}, 42, "42"),
    ("Multiply 14 by 6", "multiply", {"a": 14, "b": 6}, 84, "84"),
    (
        "What is the share price of Nokia?",
        "stock_price",
        {"company": "Nokia"},
        {"price": 4.37, "currency": "EUR"},
        "4.37",
    ),
    ("Convert 80 GBP to USD", "convert_currency", {"amount": 80}, {"amount": 101.6, "currency": "USD"}, "101.6"),
    ("List the files in /srv", "list_files", {"directory": "/srv"}, ["a.csv", "b.csv"], "a.csv"),
    ("What does lucid mean?", "define_word", {"word": "lucid"}, "clear and easy to understand", "clear"),
    ("Read the file todo.md", "read_file", {"path": "todo.md"}, "Buy milk. Call Ann.", "milk"),
    ("Set a timer for 12 minutes", "set_timer", {"minutes": 12}, {"id": 7, "ends": "14:32"}, "14:32"),
)
"""A request, the call it led to, its result, and the fact that an answer must have."""
CASES = ONE + TWO + CHAT + NEAR


def asked(case: Case, **settings: Any) -> ModelRequest:
    return ModelRequest(messages=(UserMessage((Text(case.said),)),), tools=case.tools, **settings)


def answered(said: str, name: str, arguments: dict[str, Any], result: Any) -> ModelRequest:
    """What is asked of the model once the tool has answered."""
    history = (
        UserMessage((Text(said),)),
        InvocationMessage(ToolCall("c1", name, arguments)),
        ResultMessage(ToolResult("c1", name, content=result)),
    )
    return ModelRequest(messages=history, tools=tuple(tool for tool in ALL if tool.name == name), max_tokens=64)


def right_names(case: Case, calls: list[tuple[str, dict[str, Any]]]) -> bool:
    return sorted(name for name, _ in calls) == sorted(name for name, _ in case.calls)


def right(case: Case, calls: list[tuple[str, dict[str, Any]]]) -> bool:
    """Exactly the expected calls, in any order."""
    left = list(calls)
    for name, wanted in case.calls:
        found = next((call for call in left if call[0] == name and _has(call[1], wanted)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def _has(arguments: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(_same(arguments.get(key), value) for key, value in wanted.items())


def _same(got: Any, wanted: Any) -> bool:
    if isinstance(got, str) and isinstance(wanted, str):
        return got.strip().lower() == wanted.lower()
    return bool(got == wanted)
