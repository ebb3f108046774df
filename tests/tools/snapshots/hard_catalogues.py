"""Catalogues that are hard to write down: every character that some language takes for more than a character."""

from __future__ import annotations

from random import Random
from typing import Any

from handrail.tools.snapshots.catalogue import CatalogueModel, CatalogueTool, NodeCatalogue

STRINGS = (
    "",
    "plain",
    'quo"te',
    "apos'trophe",
    "back\\slash",
    "\\",
    '\\"',
    "*/ alert(1) /*",
    "// @ts-ignore",
    "@ts-nocheck",
    "/* never closed",
    "line\nfeed\r\nboth\rreturn",
    "tab\tnull\x00bell\x07escape\x1b[2J",
    "\u2028separator\u2029",
    "\u202egpj.exe\u2066\u200b",
    "\ufeffmark",
    "naïve 東京 😀 e\u0301",
    "${template} `tick` %s {brace} #{x}",
    "\"\"\" triple '''",
    "\\u0041 \\x41 \\n \\U00000041 \\N{DIGIT ONE}",
    "</script><!--",
    'r#"raw"#',
    "\x7f\x80\x85\x9f",
)
PROPERTIES = (
    "path", "from", "class", "__proto__", "constructor", "self", "Self", "crate", "str", "int", "list", "__init__",
    "x-y", "3d", "größe", "数", "with space", "", 'a"b', "a\\b", "type", "None", "default", "\u2028", "😀",
)  # fmt: skip
NAMES = (
    "add", "read-file", "read.text", "class", "self", "type", "None", "3d", "v1.2", "v12", "__x", "HTTP_GET", "match",
    "tool", "model", "a", "A1", "ok", "err", "some", "never", "import", "_", "as_str", "new", "to_string", "default",
)  # fmt: skip

TWO = NodeCatalogue.of(
    [
        CatalogueTool(
            name="read-file",
            scoped_name="io:read-file",
            description="Read a file.",
            input_schema={
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Where it is."},
                    "from": {"type": "integer", "default": 0},
                    "encoding": {"enum": ["utf-8", "latin-1"]},
                },
                "required": ["path"],
            },
            side_effects=False,
            timeout_ms=5000,
        ),
        CatalogueTool(name="add", input_schema={"type": "object"}, models=("gpt",)),
    ],
    [CatalogueModel(id="local"), CatalogueModel(id="fast", provider="openai", model="gpt")],
)


def hostile() -> list[NodeCatalogue]:
    """The same ones each time."""
    random = Random(20)
    return [
        NodeCatalogue.of([]),
        NodeCatalogue.of([], [CatalogueModel(id="m")]),
        *(_catalogue(random) for _ in range(40)),
    ]


def _catalogue(random: Random) -> NodeCatalogue:
    names = random.sample(NAMES, random.randint(1, 6))
    tools = [_tool(name, random) for name in names]
    ids = random.sample([text for text in STRINGS if text], random.randint(0, 3))
    return NodeCatalogue.of(tools, [_model(id, random) for id in ids])


def _tool(name: str, random: Random) -> CatalogueTool:
    return CatalogueTool(
        name=name,
        scoped_name=random.choice([None, f"{random.choice(STRINGS)}:{name}"]),
        description=random.choice([None, "".join(random.sample(STRINGS, 3))]),
        input_schema=_arguments(random),
        returns_schema=random.choice([None, {"type": "object"}, {"enum": [1.5, -2, 1e300, True, None, []]}]),
        side_effects=random.choice([None, True, False]),
        idempotent=random.choice([None, True, False]),
        timeout_ms=random.choice([None, 1, 2**53 - 1]),
        tags=random.choice([None, tuple(random.sample(STRINGS, 2))]),
        models=random.choice([None, tuple(random.sample(STRINGS, 2))]),
    )


def _model(id: str, random: Random) -> CatalogueModel:
    return CatalogueModel(
        id=id,
        provider=random.choice([None, random.choice(STRINGS)]),
        model=random.choice([None, random.choice(STRINGS)]),
        supports_tool_calls=random.choice([True, False]),
    )


def _arguments(random: Random) -> dict[str, Any]:
    match random.randint(0, 5):
        case 0:
            return {"type": "object"}
        case 1:
            return {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
        case 2:
            return {"type": "object", "additionalProperties": False}
    names = random.sample(PROPERTIES, random.randint(1, 6))
    required = random.sample(names, random.randint(0, len(names)))
    return {"type": "object", "properties": {name: _schema(random, 3) for name in names}, "required": required}


def _schema(random: Random, depth: int) -> Any:
    described = {"description": random.choice(STRINGS)}
    kinds: list[Any] = [
        {"type": "string", "default": random.choice(STRINGS)},
        {"type": "integer", "maximum": random.randint(-(2**53), 2**53)},
        {"type": "number", "minimum": random.uniform(-1e9, 1e9)},
        {"type": "boolean"},
        {"type": ["string", "null"]},
        {"enum": random.sample(STRINGS, 3)},
        {"enum": [1, True, None, "1", -3]},
        {"const": random.choice(STRINGS)},
        {"enum": [1.5, {}]},
        {"anyOf": [{"type": "integer"}, {"enum": ["a", "b"]}, {"type": "array", "items": {"type": "string"}}]},
        {"$ref": "#"},
        {},
    ]
    if depth:
        kinds += [
            {"type": "array", "items": _schema(random, depth - 1)},
            {
                "type": "object",
                "properties": {name: _schema(random, depth - 1) for name in random.sample(PROPERTIES, 2)},
            },
        ]
    return random.choice([True, {**random.choice(kinds), **described}, *kinds])
