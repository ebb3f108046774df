"""What `deploy/` starts is what handrail has: its configurations can be read, and its probes are answered."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from handrail.cli.root import root
from handrail.config.load import load_config
from handrail.node.server.node import ServerLimits

yaml: Any = pytest.importorskip("yaml", reason="the manifests are read with PyYAML")
DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "handrail.yaml").read_text()))


def manifest(kind: str) -> dict[str, Any]:
    return next(each for each in MANIFESTS if each["kind"] == kind)


def configurations() -> dict[str, str]:
    return {
        "container": (DEPLOY / "handrail.toml").read_text(),
        "kubernetes": manifest("ConfigMap")["data"]["handrail.toml"],
    }


@pytest.mark.parametrize("name", configurations())
def test_its_configurations_can_be_read_and_name_the_ports_that_are_probed(tmp_path: Path, name: str) -> None:
    (tmp_path / "handrail.toml").write_text(configurations()[name])
    node = load_config(tmp_path / "handrail.toml").node
    assert (node.host, node.port, node.metrics) == ("0.0.0.0", 8420, ("0.0.0.0", 9464))
    assert f"EXPOSE {node.port} 9464" in (DEPLOY / "Containerfile").read_text()


def test_the_probes_ask_the_port_for_operators_and_there_is_time_to_end() -> None:
    pod = manifest("StatefulSet")["spec"]["template"]["spec"]
    (node,) = pod["containers"]
    ports = {each["name"]: each["containerPort"] for each in node["ports"]}
    assert ports == {"http": 8420, "operators": 9464}
    asked = {name: node[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {each["port"] for each in asked.values()} == {"operators"}
    assert [each["path"] for each in asked.values()] == ["/health", "/ready", "/health"]
    assert pod["terminationGracePeriodSeconds"] > 5 + 2 * ServerLimits().grace
    labels = manifest("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert all(each["spec"]["selector"] == labels for each in MANIFESTS if each["kind"] == "Service")
    secret = manifest("Secret")["metadata"]["name"]
    assert node["envFrom"] == [{"secretRef": {"name": secret}}]


def test_the_unit_and_the_container_run_commands_that_there_are() -> None:
    unit, start = (DEPLOY / "handrail.service").read_text(), (DEPLOY / "start").read_text()
    named = re.findall(r"^(?:Exec\w+=\S*/)?handrail (\w+)", f"{unit}\n{start}", re.M)
    assert named == ["approve", "serve", "approve"]
    assert {*named, "state", "proof"} <= set(root.table)
    assert os.access(DEPLOY / "start", os.X_OK)
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit
