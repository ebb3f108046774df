"""Whatever is wrong in a file is an error with file, key and line."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from handrail.core.errors import ConfigError
from handrail.tools.files.build import build_tool, read_defaults
from handrail.tools.files.load import load_ensemble, load_ensembles, load_tool
from tests.tools.files.tool_file_calls import texts, written

HEAD = '[ensemble]\nname = "io"\n'
TOOL = HEAD + '[[invokers]]\nname = "one"\n'
PYTHON = TOOL + 'python = "tests.tools.files.sample_functions:shout"\n'
IN_SANDBOX = PYTHON + 'isolation = "sandbox"\n'
WITH_ARGUMENT = TOOL + 'arguments = { type = "object", properties = { path = {} }, required = ["path"] }\n'

MISTAKES: list[tuple[str, str, str | None, int | None]] = [
    # what is wrong, the text, the key and the line of the error
    ("not TOML", "[ensemble]\nname = io\n", None, 2),
    ("cut off", '[ensemble]\nname = "', None, 2),
    ("no ensemble", "[defaults]\ntimeout = 1\n", None, None),
    ("no ensemble name", "# io\n[ensemble]\n", "ensemble", 2),
    ("a colon in the name", '[ensemble]\nname = "a:b"\n', "ensemble.name", 2),
    ("an unknown table", HEAD + "[default]\n", "default", 3),
    ("an unknown key", HEAD + "enabledd = true\n", "ensemble.enabledd", 3),
    ("a wrong type", HEAD + 'enabled = "yes"\n', "ensemble.enabled", 3),
    ("an unknown default", HEAD + "[defaults]\ntimeuot = 3\n", "defaults.timeuot", 4),
    ("a timeout of 0", HEAD + "[defaults]\ntimeout = 0\n", "defaults.timeout", 4),
    ("retries below 0", HEAD + "[defaults]\nmax_retries = -1\n", "defaults.max_retries", 4),
    ("a truth for a count", HEAD + "[defaults]\nmax_retries = true\n", "defaults.max_retries", 4),
    ("an unknown deduplicator", HEAD + '[defaults]\ndeduplicator = "fuzzy"\n', "defaults.deduplicator", 4),
    ("one without kind", HEAD + "[defaults.deduplicator]\nseconds = 3\n", "defaults.deduplicator.kind", 3),
    ("invokers not a list", HEAD + '[invokers]\nname = "x"\n', "invokers", 3),
    ("no tool name", HEAD + '[[invokers]]\ndescription = "x"\n', "invokers[0]", 3),
    ("a bad tool name", HEAD + '[[invokers]]\nname = "a b"\n', "invokers[0].name", 4),
    ("an unknown tool key", TOOL + 'descripton = "x"\n', "invokers[0].descripton", 5),
    ("a tool's wrong type", TOOL + "enabled = 1\n", "invokers[0].enabled", 5),
    ("a wrong list", TOOL + "tags = [\n'a',\n1]\n", "invokers[0].tags[1]", 7),
    ("a wrong word", TOOL + 'isolation = "jail"\n', "invokers[0].isolation", 5),
    ("arguments not an object", TOOL + '[invokers.arguments]\ntype = "string"\n', "invokers[0].arguments.type", 6),
    ("an invalid schema", TOOL + '[invokers.arguments]\ntype = "objct"\n', "invokers[0].arguments", 5),
    ("an invalid result", TOOL + '[invokers.returns]\ntype = "objct"\n', "invokers[0].returns", 5),
    ("a date in a schema", TOOL + "[invokers.arguments]\ndefault = 2020-01-01\n", "invokers[0].arguments", 5),
    ("an unknown resource", TOOL + 'resource = "path"\n', "invokers[0].resource", 5),
    ("two bodies", TOOL + 'command = ["true"]\npython = "a:b"\n', "invokers[0].command", 5),
    ("no such module", TOOL + 'python = "no_such:thing"\n', "invokers[0].python", 5),
    ("no such attribute", TOOL + 'python = "tests.tools.files.sample_functions:no"\n', "invokers[0].python", 5),
    ("not callable", TOOL + 'python = "tests.tools.files.sample_functions:VERSION"\n', "invokers[0].python", 5),
    ("not a reference", TOOL + 'python = "tests.tools"\n', "invokers[0].python", 5),
    ("an empty command", TOOL + "command = []\n", "invokers[0].command", 5),
    ("a command line", TOOL + 'command = "rm -r"\n', "invokers[0].command", 5),
    ("a chosen program", WITH_ARGUMENT + 'command = ["{path}"]\n', "invokers[0].command[0]", 6),
    ("an unknown placeholder", TOOL + 'command = [\n"cat",\n"{path}"]\n', "invokers[0].command[1]", 7),
    ("an isolated command", TOOL + 'command = ["true"]\nisolation = "process"\n', "invokers[0].isolation", 6),
    ("a sandboxed command", TOOL + 'command = ["true"]\nisolation = "sandbox"\n', "invokers[0].isolation", 6),
    ("an unknown sandbox key", IN_SANDBOX + "sandbox = { write = [] }\n", "invokers[0].sandbox.write", 7),
    ("a sandbox without limits", IN_SANDBOX + "sandbox = { cpu_seconds = 0 }\n", "invokers[0].sandbox.cpu_seconds", 7),
    ("a sandbox that sees all", IN_SANDBOX + 'sandbox = { read = ["/"] }\n', "invokers[0].sandbox", 7),
    ("a sandbox for nobody", PYTHON + "sandbox = {}\n", "invokers[0].python", 5),
    ("an unknown command key", TOOL + '[invokers.command]\nrun = ["x"]\nenvv = []\n', "invokers[0].command.envv", 7),
    (
        "wrong exit codes",
        TOOL + '[invokers.command]\nrun = ["x"]\nok_codes = [-1]\n',
        "invokers[0].command.ok_codes",
        7,
    ),
    ("no url", TOOL + '[invokers.http]\nmethod = "GET"\n', "invokers[0].http", 5),
    ("an unknown method", TOOL + '[invokers.http]\nmethod = "FETCH"\n', "invokers[0].http.method", 6),
    ("another scheme", TOOL + 'http = { url = "file:///etc/passwd" }\n', "invokers[0].http.url", 5),
    ("a chosen host", WITH_ARGUMENT + 'http = { url = "http://{path}/" }\n', "invokers[0].http.url", 6),
    ("half a chosen host", WITH_ARGUMENT + 'http = { url = "http://a{path}" }\n', "invokers[0].http.url", 6),
    ("a password in a url", TOOL + 'http = { url = "http://me:pw@host/" }\n', "invokers[0].http.url", 5),
    ("a fragment", TOOL + 'http = { url = "http://host/#x" }\n', "invokers[0].http.url", 5),
    ("a wrong port", TOOL + 'http = { url = "http://host:99999/" }\n', "invokers[0].http.url", 5),
    ("a body for GET", TOOL + 'http = { url = "http://host/", body = "x" }\n', "invokers[0].http.body", 5),
    (
        "our own header",
        TOOL + 'http = { url = "http://h/", headers = { Host = "x" } }\n',
        "invokers[0].http.headers.Host",
        5,
    ),
    (
        "a broken header",
        TOOL + 'http = { url = "http://h/", headers = { A = "x\\ny" } }\n',
        "invokers[0].http.headers.A",
        5,
    ),
    ("no source file", HEAD + '[[invokers]]\nsource = "x.toml"\n', "invokers[0].source", 4),
    ("a source above", HEAD + '[[invokers]]\nsource = "../../x.toml"\n', "invokers[0].source", 4),
    ("a source elsewhere", HEAD + '[[invokers]]\nsource = "/etc/hosts"\n', "invokers[0].source", 4),
]


@pytest.mark.requirement("converser.toml")
@pytest.mark.parametrize(("text", "key", "line"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_a_mistake_names_file_key_and_line(tmp_path: Path, text: str, key: str | None, line: int | None) -> None:
    path = written(tmp_path, "io.toml", text)
    with pytest.raises(ConfigError) as caught:
        load_ensemble(path)
    assert (caught.value.file, caught.value.key, caught.value.line) == (str(path), key, line)


def test_an_unknown_key_is_answered_with_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'description'"):
        load_ensemble(written(tmp_path, "io.toml", TOOL + 'descripton = "x"\n'))


def test_two_tools_of_one_name_are_refused_with_both_places(tmp_path: Path) -> None:
    inner = written(tmp_path, "io/one.toml", '# a file\n[invoker]\nname = "one"\n')
    path = written(tmp_path, "io.toml", TOOL + '[[invokers]]\nsource = "io/one.toml"\n')
    with pytest.raises(ConfigError) as caught:
        load_ensemble(path)
    assert (caught.value.file, caught.value.key, caught.value.line) == (str(inner), "invoker.name", 3)
    assert f"{path}:4" in caught.value.why


def test_a_mistake_in_a_source_is_placed_there_and_one_beside_it_here(tmp_path: Path) -> None:
    inner = written(tmp_path, "io/one.toml", '[invoker]\nname = "one"\ntimeout = -1\n')
    path = written(tmp_path, "io.toml", HEAD + '[[invokers]]\nsource = "io/one.toml"\n')
    with pytest.raises(ConfigError) as caught:
        load_ensemble(path)
    assert (caught.value.file, caught.value.key, caught.value.line) == (str(inner), "invoker.timeout", 3)
    written(tmp_path, "io.toml", HEAD + '[[invokers]]\nsource = "io/one.toml"\ntimeout = "x"\n')
    with pytest.raises(ConfigError) as caught:
        load_ensemble(path)
    assert (caught.value.file, caught.value.key, caught.value.line) == (str(path), "invokers[0].timeout", 5)


def test_a_link_out_of_the_folder_is_refused_like_a_path_out_of_it(tmp_path: Path) -> None:
    outside = written(tmp_path, "outside.toml", '[invoker]\nname = "one"\n')
    path = written(tmp_path, "in/io.toml", HEAD + '[[invokers]]\nsource = "one.toml"\n')
    (path.parent / "one.toml").symlink_to(outside)
    with pytest.raises(ConfigError) as caught:
        load_ensemble(path)
    assert caught.value.key == "invokers[0].source"


def test_a_fact_given_twice_in_one_invoker_file_is_refused(tmp_path: Path) -> None:
    text = 'timeout = 3\n[invoker]\nname = "one"\ntimeout = 4\n'
    with pytest.raises(ConfigError) as caught:
        load_tool(written(tmp_path, "one.toml", text))
    assert (caught.value.key, caught.value.line) == ("timeout", 1)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_ensemble(tmp_path / "none.toml")
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "none.toml"), None)
    with pytest.raises(ConfigError):
        load_ensembles(tmp_path / "none")
    latin = tmp_path / "latin.toml"
    latin.write_bytes(dedent("[ensemble]\nname = 'é'\n").encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        load_ensemble(latin)
    assert caught.value.line == 2


def test_a_mistake_in_a_descriptor_that_is_no_file_names_its_tool_and_key() -> None:
    with pytest.raises(ConfigError) as caught:
        build_tool({"name": "one", "timeout": "soon"})
    assert (caught.value.file, caught.value.key, caught.value.line) == ("descriptor of 'one'", "timeout", None)
    with pytest.raises(ConfigError):
        build_tool({"name": "one", "command": ["true"]}, handlers={"one": lambda: None})
    with pytest.raises(ConfigError):
        read_defaults({"deduplicator": {"kind": "fuzzy"}})


def test_a_placeholder_for_an_argument_that_may_be_absent_is_refused() -> None:
    schema = texts("path", required=[])
    with pytest.raises(ConfigError, match=r"\{path\?\}"):
        build_tool({"name": "one", "command": ["cat", "{path}"], "arguments": schema})
