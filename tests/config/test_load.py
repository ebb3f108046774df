"""`handrail.toml`: where it is found, what it says, and how its mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from handrail.config.load import find_config, journal_in, load_config
from handrail.config.values import Config, LlmSettings, ModelSettings
from handrail.config.variables import fill_variables
from handrail.core.errors import ConfigError, UsageError
from handrail.core.redact import redact_text
from handrail.execute.policy import Policy
from handrail.execute.rules import Rule
from handrail.run.limits import Limits
from handrail.run.offering import Offering
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable
from handrail.tools.tool import Retry

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz"


def written(folder: Path, text: str) -> Path:
    path = folder / "handrail.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_everything_that_a_file_can_say(tmp_path: Path) -> None:
    (tmp_path / "io.toml").touch()
    path = written(
        tmp_path,
        """
        default_model = "fast"
        rules = ["allow io:read_file path=docs/**", "deny *:delete_*"]
        ensembles = ["io.toml"]

        [models.fast]
        provider = "openai"
        model = "gpt-5-mini"
        key = "env:MY_KEY"
        base_url = "https://${HOST}/v1"
        options = { temperature = 0.2, max_tokens = 500 }

        [models.small]
        provider = "local"

        [llm]
        tools_enabled = true
        tools_max_iterations = 3

        [policy]
        timeout = 5
        max_output = 2000
        max_retries = 2
        repair = true

        [limits]
        on_limit = "error"
        tokens = 100_000
        cost = 0.5

        [offering]
        most = 20
        found = 4
        native = false

        [proof]
        journal = "record/journal.db"
        """,
    )

    config = load_config(path, {"HOST": "example.org"})

    assert config == Config(
        file=path,
        default_model="fast",
        models={
            "fast": ModelSettings(
                provider="openai",
                model="gpt-5-mini",
                key="env:MY_KEY",
                base_url="https://example.org/v1",
                options={"temperature": 0.2, "max_tokens": 500},
            ),
            "small": ModelSettings(provider="local"),
        },
        llm=LlmSettings(tools_max_iterations=3, tools_per_tool_timeout_seconds=5.0),
        calls=Policy(max_output=2000, retry=Retry(attempts=3), repair=True),
        bounds=Limits(on_limit="error", tokens=100_000, cost=0.5),
        offering=Offering(most=20, found=4, native=False),
        rules=(Rule("allow", "io:read_file", (("path", "docs/**"),)), Rule("deny", "*:delete_*")),
        ensembles=(tmp_path / "io.toml",),
        journal=tmp_path / "record/journal.db",
    )
    assert (config.policy.timeout, config.policy.max_output, config.limits.iterations) == (5.0, 2000, 3)


def test_without_a_file_and_with_an_empty_one_the_defaults_hold(tmp_path: Path) -> None:
    path = written(tmp_path, "")

    assert load_config(None) == Config()
    assert load_config(path) == Config(file=path)


def test_the_only_model_is_the_default_one(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, '[models.one]\nprovider = "local"\n')).default_model == "one"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('defualt_model = "a"', ":1: defualt_model: there is no such key; did you mean 'default_model'?"),
        ("[llm]\ntools_max_iteration = 3", ":2: llm.tools_max_iteration: there is no such key; did you mean"),
        ("[llm]\n\ntools_enabled = 1", ":3: llm.tools_enabled: must be true or false, not a whole number"),
        ("[policy]\ntimeout = 0", ":2: policy.timeout: must be more than 0 seconds, not 0"),
        ("[policy]\nmax_output = 1", ":2: policy.max_output: must be "),
        ("[limits]\non_limit = 'never'", ":2: limits.on_limit: must be one of 'finalise', 'error', 'stop'"),
        ("[offering]\nmost = 0", ":2: offering.most: must be "),
        ("[offering]\nfind = 3", ":2: offering.find: there is no such key; did you mean 'found'?"),
        ("[limits]\ncost = true", ":2: limits.cost: must be a number above 0, not True"),
        ("[models.a]\nmodel = 'x'", ":1: models.a: a model needs a provider"),
        ("[models.a]\nprovider = 'x'\nurl = ''", ":3: models.a.url: there is no such key"),
        ("[models]\na = 1", ":2: models.a: must be a table, not a whole number"),
        ("default_model = 'b'\n[models.a]\nprovider = 'x'", ":1: default_model: there is no [models.b]; there are a"),
        ("rules = [\n'allow x',\n'perhaps y']", ":3: rules[1]: rule 'perhaps y' is not of the form"),
        ("ensembles = ['no.toml']", ":1: ensembles[0]: there is no file"),
        ("[proof]\njuornal = 'x'", ":2: proof.juornal: there is no such key; did you mean 'journal'?"),
        ("[llm", ":1: is not TOML"),
        (
            "[llm]\ntools_max_parallel = 2\n[policy]\nconcurrency = 3",
            ":4: policy.concurrency: is the same setting as llm.tools_max_parallel at ",
        ),
        ("[models.a]\nprovider = '${NO_SUCH}'", ":2: models.a.provider: the environment variable 'NO_SUCH' is not set"),
        ("[models.a]\nprovider = '${A B}'", ":2: models.a.provider: ${A B} names no environment variable"),
    ],
)
def test_a_mistake_names_file_line_and_key(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ConfigError) as caught:
        load_config(path, {})

    assert str(caught.value).startswith(f"{path}{said}")


def test_a_file_that_is_too_large_to_be_a_configuration_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "handrail.toml"
    path.write_text("# nothing\n" * 200_000)

    with pytest.raises(ConfigError, match="larger than 1024 KiB"):
        load_config(path)


@pytest.mark.parametrize("key", [KEY, "${MY_KEY}", "MY_KEY", "env:", ""])
def test_a_literal_key_is_refused_with_the_reason_and_not_repeated(key: str, tmp_path: Path) -> None:
    path = written(tmp_path, f'[models.fast]\nprovider = "openai"\nkey = "{key}"\n')

    with pytest.raises(ConfigError) as caught:
        load_config(path, {"MY_KEY": KEY})

    assert str(caught.value).startswith(f"{path}:3: models.fast.key: a key is not written into a file")
    assert 'key = "env:FAST_API_KEY"' in str(caught.value)
    assert KEY not in str(caught.value)


def test_what_looks_like_a_secret_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    path = written(tmp_path, f'[models.a]\nprovider = "x"\noptions = {{ headers = ["{KEY}"] }}\n')

    with pytest.raises(ConfigError, match="looks like a secret") as caught:
        load_config(path, {})

    assert caught.value.key == "models.a.options.headers[0]"
    assert KEY not in str(caught.value)


def test_a_secret_may_come_from_the_environment(tmp_path: Path) -> None:
    path = written(tmp_path, '[models.a]\nprovider = "x"\noptions = { headers = { token = "${TOKEN}" } }\n')

    assert load_config(path, {"TOKEN": KEY}).models["a"].options == {"headers": {"token": KEY}}


def _filled(text: str, **environ: str) -> str:
    value = fill_variables(TomlTable({"key": text}, TomlKeyPath("file")), environ).values["key"]
    assert isinstance(value, str)
    return value


@given(st.text().filter(lambda text: "$" not in text and redact_text(text) == text))
def test_a_text_without_a_dollar_sign_is_left_as_it_is(text: str) -> None:
    assert _filled(text) == text


@given(st.text(max_size=8), st.text(alphabet="ab ${}", max_size=8))
def test_what_is_filled_in_is_not_filled_in_again(value: str, around: str) -> None:
    escaped = around.replace("$", "$$")

    assert _filled(f"{escaped}${{NAME}}{escaped}", NAME=value) == f"{around}{value}{around}"


def test_the_nearest_file_is_taken_unless_one_is_named(tmp_path: Path) -> None:
    near = tmp_path / "project" / "deep"
    near.mkdir(parents=True)
    outer, inner = written(tmp_path, ""), written(tmp_path / "project", "")

    assert find_config(None, near, {}) == inner
    assert find_config(None, tmp_path, {}) == outer
    assert find_config(None, near, {"HANDRAIL_CONFIG": str(outer)}) == outer
    assert find_config(inner, near, {"HANDRAIL_CONFIG": str(outer)}) == inner


def test_a_named_file_that_is_not_there_is_an_error_and_no_file_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no configuration"):
        find_config(tmp_path / "none.toml", tmp_path, {})
    with pytest.raises(UsageError, match="HANDRAIL_CONFIG"):
        find_config(None, tmp_path, {"HANDRAIL_CONFIG": "/nowhere/handrail.toml"})


def test_who_only_looks_at_the_journal_needs_nothing_else_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, '[models.m]\nprovider = "${NOT_SET}"\n[proof]\njournal = "${PLACE}/journal.db"\n')

    assert journal_in(path, {"PLACE": "kept"}) == tmp_path / "kept" / "journal.db"
    with pytest.raises(ConfigError, match="PLACE"):
        journal_in(path, {})
