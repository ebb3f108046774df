"""`[mcp.*]`, `[serve]`, `[standard.*]` and `tools` of a model: what they say, and how their mistakes are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from handrail.config.load import load_config, read_config
from handrail.config.mcp import ConverseSettings, McpSettings, PromptSettings, ServeSettings
from handrail.core.errors import ConfigError
from handrail.library.io.settings import IoSettings
from handrail.library.summarization.fold import SummarizationSettings
from handrail.mcp.values import HttpEndpoint, McpBounds, OAuth, StdioEndpoint
from handrail.tools.ensemble import ToolDefaults
from handrail.tools.files.mistakes import all_mistakes
from handrail.tools.files.toml_table import read_toml_file


def written(folder: Path, text: str) -> Path:
    path = folder / "handrail.toml"
    path.write_text(text, encoding="utf-8")
    return path


USERS = '[mcp.a]\nurl = "https://x"\nusers.ada.headers.Authorization = "env:ADA"\n'
"""A server with one user, in three lines."""


def test_the_headers_of_each_user_are_filled_in_and_take_the_place_of_the_servers(tmp_path: Path) -> None:
    eve = "[mcp.a.users.'eve@x.org']\nheaders.A = 'Bearer ${EVE}'\n"
    config = load_config(written(tmp_path, f"{USERS}headers.Authorization = 'env:ALL'\n{eve}"))

    found = config.mcp["a"].resolved({"ADA": "1", "EVE": "2", "ALL": "3"})
    assert isinstance(found, HttpEndpoint)
    assert found.users == {"ada": {"Authorization": "1"}, "eve@x.org": {"A": "Bearer 2"}}
    assert found.other_users == "refuse"
    assert found.of_user("eve@x.org") == HttpEndpoint(url="https://x", headers={"A": "Bearer 2"})
    with pytest.raises(ConfigError, match=r"users\.ada\.headers\.Authorization: the environment variable 'ADA'"):
        config.mcp["a"].resolved({"EVE": "2", "ALL": "3"})


def test_each_caller_may_have_a_token(tmp_path: Path) -> None:
    serve = load_config(written(tmp_path, '[serve.tokens]\nada = "env:A"\neve = "env:E"\n')).serve

    assert serve.secret({"A": "first", "E": "second"}) == {"ada": "first", "eve": "second"}
    with pytest.raises(ConfigError, match=r"serve\.tokens\.eve: the environment variable 'E' is not set"):
        serve.secret({"A": "first"})


@pytest.mark.requirement("converser.toml")
def test_everything_that_a_file_can_say_of_servers(tmp_path: Path) -> None:
    config = load_config(
        written(
            tmp_path,
            """
            [models.fast]
            provider = "openai"
            tools = ["time:*", "read_*"]

            [mcp.time]
            command = "uvx"
            args = ["mcp-server-time@2026.10.19", "${ZONE}"]
            env = { TOKEN = "env:TIME_TOKEN", LEVEL = "$${x}" }
            cwd = "servers"
            enabled = false
            required = true
            prefix = "t_"
            only = ["get_*"]
            hints = false
            era = "legacy"
            new_tools = "allow"
            sampling = "fast"
            timeout = 5
            max_retries = 2
            max_output = 1000
            max_message = 100_000
            start_timeout = 3.5

            [mcp.short]
            command = ["python", "-m", "server"]
            args = ["--more"]
            environment = { A = "1" }

            [mcp.far]
            url = "https://example.org/mcp"
            headers = { Authorization = "Bearer ${FAR_TOKEN}" }
            oauth = { client_id = "me", client_secret = "env:FAR_SECRET", scopes = ["read"], redirect_port = 9000 }

            [mcp.signed]
            url = "http://127.0.0.1:8000/mcp"
            oauth = true
            """,
        )
    )

    assert config.models["fast"].tools == ("time:*", "read_*")
    assert config.mcp == {
        "time": McpSettings(
            endpoint=StdioEndpoint(
                command="uvx",
                args=("mcp-server-time@2026.10.19", "${ZONE}"),
                env={"TOKEN": "env:TIME_TOKEN", "LEVEL": "$${x}"},
                cwd=str(tmp_path / "servers"),
            ),
            enabled=False,
            required=True,
            prefix="t_",
            only=("get_*",),
            hints=False,
            era="legacy",
            new_tools="allow",
            sampling="fast",
            defaults=ToolDefaults(timeout=5.0, max_retries=2, max_output=1000),
            bounds=McpBounds(start=3.5, message=100_000),
        ),
        "short": McpSettings(endpoint=StdioEndpoint(command="python", args=("-m", "server", "--more"), env={"A": "1"})),
        "far": McpSettings(
            endpoint=HttpEndpoint(
                url="https://example.org/mcp",
                headers={"Authorization": "Bearer ${FAR_TOKEN}"},
                oauth=OAuth(client_id="me", client_secret="env:FAR_SECRET", scopes=("read",), redirect_port=9000),
            )
        ),
        "signed": McpSettings(endpoint=HttpEndpoint(url="http://127.0.0.1:8000/mcp", oauth=OAuth())),
    }


def test_variables_are_filled_in_when_a_server_is_started_and_a_missing_one_has_its_place(tmp_path: Path) -> None:
    config = load_config(
        written(
            tmp_path,
            '[mcp.time]\ncommand = "x"\nargs = ["${ZONE}", "$$5"]\n[mcp.time.env]\nTOKEN = "env:TIME_TOKEN"\n'
            '[mcp.far]\nurl = "https://${HOST}/mcp"\nheaders = { A = "Bearer ${T}" }\n',
        ),
        {},
    )
    environ = {"ZONE": "UTC", "TIME_TOKEN": "secret", "HOST": "example.org", "T": "t"}

    assert config.mcp["time"].resolved(environ) == StdioEndpoint(
        command="x", args=("UTC", "$5"), env={"TOKEN": "secret"}, cwd=str(tmp_path)
    )
    assert config.mcp["far"].resolved(environ) == HttpEndpoint(url="https://example.org/mcp", headers={"A": "Bearer t"})
    assert "secret" not in repr(config)
    with pytest.raises(ConfigError) as missing:
        config.mcp["time"].resolved({"ZONE": "UTC"})
    assert (missing.value.line, missing.value.key) == (5, "mcp.time.env.TOKEN")


def test_everything_that_a_file_can_say_of_serving(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    config = load_config(
        written(
            tmp_path,
            """
            [models.fast]
            provider = "local"

            [serve]
            converse = { model = "fast", name = "ask", system = "Be brief.", tools = ["read_*"] }
            tools = ["io:*"]
            conversations = true
            proofs = true
            corpora = { manual = "docs" }
            instructions = "Ask away."
            hosts = ["box.example"]
            origins = ["https://app.example"]
            token = "env:HANDRAIL_TOKEN"

            [serve.prompts.review]
            text = "Review {path}."
            description = "A review"
            """,
        )
    )

    assert config.serve == ServeSettings(
        converse=ConverseSettings(model="fast", name="ask", system="Be brief.", tools=("read_*",)),
        tools=("io:*",),
        conversations=True,
        proofs=True,
        corpora={"manual": tmp_path / "docs"},
        prompts={"review": PromptSettings(text="Review {path}.", description="A review")},
        instructions="Ask away.",
        hosts=("box.example",),
        origins=("https://app.example",),
        token="env:HANDRAIL_TOKEN",
    )
    assert config.serve.secret({"HANDRAIL_TOKEN": "t"}) == "t"
    with pytest.raises(ConfigError, match="HANDRAIL_TOKEN"):
        config.serve.secret({})


def test_everything_that_a_file_can_say_of_the_standard_ensembles(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    text = """
    [models.fast]
    provider = "local"

    [standard.io]
    roots = { docs = "docs" }
    write = ["docs"]
    hosts = ["*.example.org"]
    limits = { rows = 5 }

    [standard]
    probability = true

    [standard.summarization]
    model = "fast"
    piece = 500
    """

    standard = load_config(written(tmp_path, text)).standard

    assert isinstance(standard.io, IoSettings)
    assert (dict(standard.io.roots), standard.io.write, standard.io.limits.rows) == (
        {"docs": tmp_path / "docs"},
        ("docs",),
        5,
    )
    assert standard.probability
    assert standard.summarization is not None
    assert standard.summarization.settings == SummarizationSettings(piece=500)
    off = load_config(written(tmp_path, "[standard.io]\nenabled = false\n[standard.probability]\nenabled = false\n"))
    assert (off.standard.io, off.standard.probability) == (None, False)


def test_a_root_may_stand_in_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home" / "notes").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    standard = load_config(written(tmp_path, '[standard.io]\nroots = { notes = "~/notes" }\n')).standard

    assert dict(standard.io.roots) == {"notes": tmp_path / "home" / "notes"}


def test_a_folder_that_begins_with_a_variable_is_what_the_variable_says(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, '[mcp.a]\ncommand = "x"\ncwd = "${WORK}/here"\n'))

    found = [config.mcp["a"].resolved({"WORK": each}) for each in ("/srv", "below")]

    assert found == [
        StdioEndpoint(command="x", cwd="/srv/here"),
        StdioEndpoint(command="x", cwd=str(tmp_path / "below" / "here")),
    ]


@pytest.mark.requirement("converser.toml")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[mcp.a]\ncomand = "x"', ":2: mcp.a.comand: there is no such key; did you mean 'command'?"),
        ("[mcp.a]\nenabled = true", ":1: mcp.a: a server needs command"),
        ('[mcp.a]\ncommand = "x"\nurl = "https://x"', ":1: mcp.a: a server has both"),
        ('[mcp.a]\ncommand = "x"\nheaders = {}', ":3: mcp.a.headers: is not for a server with a command"),
        ('[mcp.a]\nurl = "https://x"\nargs = []', ":3: mcp.a.args: is not for a server with a url"),
        ("[mcp.a]\ncommand = []", ":2: mcp.a.command: must name a program"),
        ("[mcp.a]\ncommand = 3", ":2: mcp.a.command: must be text"),
        ('[mcp.a]\ncommand = "x"\nargs = ["a", 1]', ":3: mcp.a.args[1]: must be text"),
        ('[mcp.a]\ncommand = "x"\nenv = { A = 1 }', ":3: mcp.a.env.A: must be text"),
        ('[mcp.a]\ncommand = "x"\nenv = {}\nenvironment = {}', ":4: mcp.a.environment: is another spelling"),
        ('[mcp.a]\nurl = "ftp://x"', ":2: mcp.a.url: must be an address"),
        ('[mcp.a]\nurl = "http://["', ":2: mcp.a.url: must be an address"),
        ('[mcp.a]\ncommand = "x"\nusers = {}', ":3: mcp.a.users: is not for a server with a command"),
        ('[mcp.a]\nurl = "https://x"\nusers = {}', ":3: mcp.a.users: names no user"),
        ('[mcp.a]\nurl = "https://x"\nother_users = "shared"', ":3: mcp.a.other_users: is only for a server with"),
        ('[mcp.a]\nurl = "https://x"\nother_users = "all"', ":3: mcp.a.other_users: "),
        (f"{USERS}[mcp.a.users.eve]", ":4: mcp.a.users.eve: a user has an id, and headers"),
        (f"{USERS}[mcp.a.users.eve]\ntoken = 'env:T'", ":5: mcp.a.users.eve.token: there is no such key"),
        (
            f"{USERS}[mcp.a.users.eve]\nheaders = {{ Authorization = 'opensesame' }}",
            ":5: mcp.a.users.eve.headers.Authorization: a secret is not written",
        ),
        ('[mcp.a]\nurl = "https://x"\noauth = true\nusers.ada.headers.A = "env:T"', ":4: mcp.a.users: is not for a"),
        ('[mcp.a]\ncommand = "x"\nera = "ancient"', ":3: mcp.a.era: must be one of"),
        ('[mcp.a]\ncommand = "x"\nprefix = "a b"', ":3: mcp.a.prefix: must be of"),
        ('[mcp.a]\ncommand = "x"\nnew_tools = "maybe"', ":3: mcp.a.new_tools: must be one of"),
        ('[mcp.a]\ncommand = "x"\nsampling = "gpt"', ":3: mcp.a.sampling: there is no [models.gpt]"),
        ('[mcp.a]\ncommand = "x"\ntimeout = 0', ":3: mcp.a.timeout: must be more than 0"),
        ('[mcp.a]\nurl = "https://x"\noauth = { id = "x" }', ":3: mcp.a.oauth.id: there is no such key"),
        ('[mcp."a b"]\ncommand = "x"', ":1: mcp.'a b': the name of a server"),
        ("[mcp]\na = 1", ":2: mcp.a: must be a table"),
        ('[mcp.a]\ncommand = "x"\nenv = { API_KEY = "opensesame" }', ":3: mcp.a.env.API_KEY: a secret is not written"),
        (
            '[mcp.a]\nurl = "https://x"\nheaders = { Authorization = "Bearer x" }',
            ":3: mcp.a.headers.Authorization: a s",
        ),
        ('[mcp.a]\nurl = "https://x"\noauth = { client_secret = "x" }', ":3: mcp.a.oauth.client_secret: a secret"),
        ('[mcp.a]\ncommand = "x"\nargs = ["sk-proj-abcdefghijklmnopqrstuvwxyz"]', ":3: mcp.a.args[0]: this looks like"),
        ('[serve]\ntoken = "opensesame"', ":2: serve.token: a secret is not written"),
        ('[serve.tokens]\nada = "opensesame"', ":2: serve.tokens.ada: a secret is not written"),
        ('[serve.tokens]\nlocal = "env:T"', ":2: serve.tokens.local: a caller has a name, and 'local' is"),
        ("[serve]\ntokens = {}", ":2: serve.tokens: names no caller"),
        ('[serve]\ntoken = "env:T"\ntokens = { ada = "env:A" }', ":3: serve.tokens: is the token of each caller"),
        ("[serve]\nconvers = true", ":2: serve.convers: there is no such key; did you mean 'converse'?"),
        ('[serve]\nconverse = { model = "gpt" }', ":2: serve.converse.model: there is no [models.gpt]"),
        ('[serve]\ncorpora = { a = "nowhere" }', ":2: serve.corpora.a: there is no folder"),
        ('[serve.prompts.a]\ndescription = "x"', ":1: serve.prompts.a: a prompt has"),
        ("[standard.oi]", ":1: standard.oi: there is no such key; the keys here are io"),
        ("[standard.io]\nroot = {}", ":2: standard.io.root: there is no such key; did you mean 'roots'?"),
        ('[standard.io]\nroots = { a = "nowhere" }', ":2: standard.io.roots.a: there is no folder"),
        ('[standard.io]\nroots = ["docs"]', ":2: standard.io.roots: each has a name by which tools call it"),
        ('[standard.io]\nwrite = ["a"]', ":2: standard.io.write: write of io names 'a'"),
        ('[standard.io]\nprivate = ["x"]', ":2: standard.io.private: private of io"),
        ("[standard.io]\nhosts = 3", ":2: standard.io.hosts: must be a list"),
        ('[standard.summarization]\nmodel = "gpt"', ":2: standard.summarization.model: there is no [models.gpt]"),
        ("[standard.summarization]\npiece = 1", ":1: standard.summarization: a piece must have"),
        ("[standard.probability]\nseed = 1", ":2: standard.probability.seed: there is no such key"),
        ('[models.a]\nprovider = "local"\ntools = "x"', ":3: models.a.tools: must be a list"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ConfigError) as wrong:
        load_config(path)

    assert str(wrong.value).startswith(f"{path}{said}")


@pytest.mark.requirement("converser.toml")
def test_all_mistakes_of_a_file_are_told_and_no_more(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """default_model = "fast"
rules = ["allow io:*", "alow x", "deny y", "maybe z"]
[models.fast]
provder = "openai"
[models.slow]
provider = "local"
fallback = ["fast", "nothing"]
[llm]
tools_enabled = 1
tools_max_iterations = 0
[mcp.a]
command = "x"
era = "ancient"
timeout = -1
[mcp.b]
url = 3
""",
    )

    config, found = all_mistakes(read_toml_file(path), lambda table: read_config(table, path))

    assert [(error.line, error.key) for error in found] == [
        (4, "models.fast.provder"),
        (7, "models.slow.fallback[1]"),
        (9, "llm.tools_enabled"),
        (10, "llm.tools_max_iterations"),
        (2, "rules[1]"),
        (2, "rules[3]"),
        (13, "mcp.a.era"),
        (14, "mcp.a.timeout"),
        (16, "mcp.b.url"),
    ]
    assert config is not None
    assert (list(config.models), list(config.mcp), [str(rule) for rule in config.rules]) == (
        ["slow"],
        ["a"],
        ["allow io:*", "deny y"],
    )


def test_neither_the_configuration_nor_the_help_loads_the_mcp_package() -> None:
    code = (
        "import sys, handrail.config.load, handrail.cli.root, handrail.cli.mcp, "
        "handrail.app, handrail.cli.chat.command\n"
        "assert 'mcp' not in sys.modules and 'mcp_types' not in sys.modules and 'pydantic' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
