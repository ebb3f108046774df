"""What is written is read back by the language that it is written in: by its compiler, and by running it."""

from __future__ import annotations

import ast
import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail.tools.snapshots import python, rust, typescript
from handrail.tools.snapshots.catalogue import CatalogueTool, NodeCatalogue
from handrail.tools.snapshots.snapshot_files import write_snapshots
from tests.npm_packages import node, tsc
from tests.tools.snapshots.hard_catalogues import TWO, hostile

CASES = hostile()
NAMES = [f"case_{at}" for at in range(len(CASES))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases, in all languages."""
    made = tmp_path_factory.mktemp("written")
    for name, catalogue in zip(NAMES, CASES, strict=True):
        files = {"python": f"{name}.py", "typescript": f"{name}.ts", "rust": f"{name}.rs"}
        write_snapshots(catalogue, {language: made / file for language, file in files.items()})  # type: ignore[misc]  # literals
    return made


def plain(catalogue: NodeCatalogue) -> dict[str, Any]:
    """The catalogue as data, absent fields left out."""
    models = [{"supports_tool_calls": True, **model} for model in msgspec.to_builtins(catalogue.models)]
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({"tools": catalogue.tools, "models": models}))
    return data


def ran(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


# ── Python ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "catalogue"), list(zip(NAMES, CASES, strict=True)), ids=NAMES)
def test_python_reads_back_what_was_written(folder: Path, name: str, catalogue: NodeCatalogue) -> None:
    module = runpy.run_path(str(folder / f"{name}.py"))

    assert json.loads(json.dumps({"tools": module["TOOLS"], "models": module["MODELS"]})) == plain(catalogue)
    assert module["TOOL_NAMES"] == tuple(tool.name for tool in catalogue.tools)
    for tool in catalogue.tools:
        required = set(tool.input_schema.get("required", ()))
        made = module[f"{tool.identifier}Arguments"]
        if "properties" in tool.input_schema:
            assert made.__required_keys__ == required
            assert made.__optional_keys__ == set(tool.input_schema["properties"]) - required


@pytest.mark.requirement("nrv.snapshot")
def test_mypy_takes_the_python_and_refuses_wrong_names_and_arguments(folder: Path, tmp_path: Path) -> None:
    write_snapshots(TWO, {"python": tmp_path / "two.py"})
    (tmp_path / "used.py").write_text(
        "from two import TOOLS, ModelId, ReadFileArguments, ToolName\n"
        'good: ToolName = "read-file"\n'
        'wrong: ToolName = "read_file"  # type: ignore[assignment]\n'
        'model: ModelId = "slow"  # type: ignore[assignment]\n'
        'asked: ReadFileArguments = {"path": "x", "from": 3, "encoding": "utf-8"}\n'
        'lacks: ReadFileArguments = {"from": 3}  # type: ignore[typeddict-item]\n'
        'other: ReadFileArguments = {"path": "x", "encoding": "ascii"}  # type: ignore[typeddict-item]\n'
        'print(TOOLS[0]["timeout_ms"], TOOLS[0]["models"][0].upper())\n'
    )
    for each in folder.glob("*.py"):
        shutil.copy(each, tmp_path)

    said = ran(sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), ".", cwd=tmp_path)

    assert f"no issues found in {len(CASES) + 2} source files" in said


@given(st.text())
def test_any_text_is_a_python_literal_in_ascii(text: str) -> None:
    written = python.python_string(text)

    assert ast.literal_eval(written) == text
    assert written.isascii() and written.isprintable()


# ── TypeScript ──────────────────────────────────────────────────────────────────────

USED_TS = """\
import { tools, type ArgumentsByTool, type ModelId, type ReadFileArguments, type ToolName } from "./two.js";
const good: ToolName = "read-file";
// @ts-expect-error: no such tool
const wrong: ToolName = "read_file";
// @ts-expect-error: no such model
const model: ModelId = "slow";
const asked: ReadFileArguments = { path: "x", from: 3, encoding: "utf-8" };
// @ts-expect-error: path is needed
const lacks: ArgumentsByTool["read-file"] = { from: 3 };
// @ts-expect-error: no such encoding
const other: ReadFileArguments = { path: "x", encoding: "ascii" };
const first: "add" = tools[0].name;
export default [good, wrong, model, asked, lacks, other, first];
"""


@pytest.mark.requirement("nrv.snapshot")
def test_tsc_takes_the_typescript_and_node_reads_back_what_was_written(folder: Path, tmp_path: Path) -> None:
    write_snapshots(TWO, {"typescript": tmp_path / "two.ts"})
    (tmp_path / "used.ts").write_text(USED_TS)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for each in folder.glob("*.ts"):
        shutil.copy(each, tmp_path)
    imports = "".join(f'import * as {name} from "./{name}.js";\n' for name in NAMES)
    shown = "".join(f"  [{name}.tools, {name}.models, {name}.toolNames, {name}.modelIds],\n" for name in NAMES)
    (tmp_path / "all.ts").write_text(
        f"{imports}declare const console: {{ log(text: string): void }};\nconsole.log(JSON.stringify([\n{shown}]));\n"
    )

    options = [
        "--strict",
        "--noUnusedLocals",
        "--skipLibCheck",
        "--lib",
        "es2022",
        "--exactOptionalPropertyTypes",
        "--target",
        "es2022",
        "--module",
        "nodenext",
    ]
    files = sorted(path.name for path in tmp_path.glob("*.ts"))
    ran(node(), tsc(), *options, "--outDir", "out", *files, cwd=tmp_path)
    (tmp_path / "out" / "package.json").write_text('{"type": "module"}')
    told = json.loads(ran(node(), "out/all.js", cwd=tmp_path))

    for (tools, models, names, ids), catalogue in zip(told, CASES, strict=True):
        assert {"tools": tools, "models": models} == plain(catalogue)
        assert names == [tool.name for tool in catalogue.tools]
        assert ids == [model.id for model in catalogue.models]


@given(st.text())
def test_any_text_is_a_typescript_literal_in_ascii(text: str) -> None:
    written = typescript.typescript_string(text)

    assert json.loads(written) == text
    assert written.isascii() and written.isprintable()


# ── Rust ────────────────────────────────────────────────────────────────────────────

RUST_CASE = """\
mod {name};
fn show_{name}() {{
    use {name}::*;
    for name in TOOL_NAMES {{
        assert_eq!(name.as_str().parse::<ToolName>(), Ok(*name));
        put(name.as_str());
    }}
    assert!("no such tool".parse::<ToolName>().is_err());
    for id in MODEL_IDS {{ put(id); }}
    for tool in TOOLS {{
        put(&tool.name.to_string());
        maybe(tool.scoped_name);
        maybe(tool.description);
        put(tool.input_schema);
        maybe(tool.returns_schema);
        put(&format!("{{:?}} {{:?}} {{:?}}", tool.side_effects, tool.idempotent, tool.timeout_ms));
        for tag in tool.tags {{ put(tag); }}
        for model in tool.models.unwrap_or_default() {{ put(model); }}
    }}
    for model in MODELS {{
        put(model.id);
        maybe(model.provider);
        maybe(model.model);
        put(&model.supports_tool_calls.to_string());
        for tool in model.tools {{ put(tool.as_str()); }}
    }}
    println!();
}}
"""
RUST_MAIN = """\
fn put(text: &str) {{
    for byte in text.bytes() {{ print!("{{byte:02x}}"); }}
    print!(" ");
}}
fn maybe(text: Option<&str>) {{
    match text {{ Some(text) => put(text), None => print!("- ") }}
}}
fn main() {{
{calls}}}
"""


def expected_lines(catalogue: NodeCatalogue) -> list[str | None]:
    def option(value: bool | int | None) -> str:
        return "None" if value is None else f"Some({str(value).lower()})"

    def written(schema: Any) -> str | None:
        return None if schema is None else json.dumps(schema, sort_keys=True, separators=(",", ":"))

    lines: list[str | None] = [*(tool.name for tool in catalogue.tools), *(model.id for model in catalogue.models)]
    for tool in catalogue.tools:
        lines += [
            tool.name,
            tool.scoped_name,
            tool.description,
            written(tool.input_schema),
            written(tool.returns_schema),
        ]
        lines += [" ".join(map(option, (tool.side_effects, tool.idempotent, tool.timeout_ms)))]
        lines += [*(tool.tags or ()), *(tool.models or ())]
    for model in catalogue.models:
        lines += [model.id, model.provider, model.model, str(model.supports_tool_calls).lower(), *(model.tools or ())]
    return lines


@pytest.mark.requirement("nrv.snapshot")
def test_rustc_takes_the_rust_and_it_tells_what_was_written(folder: Path) -> None:
    rustc = shutil.which("rustc") or shutil.which("rustc", path=Path.home() / ".cargo" / "bin")
    if rustc is None:
        pytest.skip("there is no rustc on this machine")
    calls = "".join(f"    show_{name}();\n" for name in NAMES)
    cases = "".join(RUST_CASE.format(name=name) for name in NAMES)
    (folder / "main.rs").write_text(cases + RUST_MAIN.format(calls=calls))

    ran(rustc, "--edition", "2021", "-D", "warnings", "-C", "debuginfo=0", "-o", "all", "main.rs", cwd=folder)
    told = ran(folder / "all", cwd=folder).splitlines()

    for line, catalogue in zip(told, CASES, strict=True):
        read = [None if word == "-" else bytes.fromhex(word).decode() for word in line.split(" ")[:-1]]
        assert read == expected_lines(catalogue)


@given(st.text())
def test_any_text_is_a_rust_literal_in_ascii(text: str) -> None:
    written = rust.rust_string(text)

    assert written.isascii() and written.isprintable()
    assert '"' not in written[1:-1].replace("\\\\", "").replace('\\"', "")


# ── the bytes ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("source", [python.python_source, typescript.typescript_source, rust.rust_source])
def test_the_files_are_ascii_with_line_feeds_and_end_with_one(source: Any) -> None:
    for catalogue in CASES:
        text: str = source(catalogue)

        assert text.isascii() and "\r" not in text and "\x00" not in text
        assert text.endswith("\n") and not text.endswith("\n\n")
        assert not any(line != line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("source", [python.python_source, typescript.typescript_source, rust.rust_source])
@given(data=st.data())
def test_the_order_in_which_a_source_says_things_changes_no_byte(source: Any, data: st.DataObject) -> None:
    catalogue = data.draw(st.sampled_from(CASES))
    tools = data.draw(st.permutations([_turned(tool) for tool in catalogue.tools]))
    models = data.draw(st.permutations(catalogue.models))

    assert source(NodeCatalogue.of(tools, models)) == source(catalogue)


def _turned(tool: CatalogueTool) -> CatalogueTool:
    """The same with the keys of its schema the other way around."""
    return msgspec.structs.replace(tool, input_schema=_reversed(tool.input_schema))


def _reversed(value: Any) -> Any:
    match value:
        case dict():
            return {key: _reversed(item) for key, item in reversed(value.items())}
        case list():
            return [_reversed(item) for item in value]
    return value
