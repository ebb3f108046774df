"""What `deploy/` starts is what handrail has: its configurations can be read, and its probes are answered."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handrail.cli.root import root
from handrail.config.load import load_config
from handrail.node.server.node import ServerLimits
from handrail.state.url import StateUrl

yaml: Any = pytest.importorskip("yaml", reason="the manifests are read with PyYAML")
DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = {"separate": "handrail.yaml", "replicas": "replicas.yaml"}
MANIFESTS: dict[str, list[dict[str, Any]]] = {
    name: list(yaml.safe_load_all((DEPLOY / "kubernetes" / file).read_text())) for name, file in FILES.items()
}
PODS = {"separate": "StatefulSet", "replicas": "Deployment"}


def manifest(name: str, kind: str) -> dict[str, Any]:
    return next(each for each in MANIFESTS[name] if each["kind"] == kind)


def configurations() -> dict[str, str]:
    return {
        "container": (DEPLOY / "handrail.toml").read_text(),
        **{name: manifest(name, "ConfigMap")["data"]["handrail.toml"] for name in FILES},
    }


@pytest.mark.parametrize("name", configurations())
def test_its_configurations_can_be_read_and_name_the_ports_that_are_probed(tmp_path: Path, name: str) -> None:
    (tmp_path / "handrail.toml").write_text(configurations()[name])
    node = load_config(tmp_path / "handrail.toml").node
    assert (node.host, node.port, node.metrics) == ("0.0.0.0", 8420, ("0.0.0.0", 9464))
    assert f"EXPOSE {node.port} 9464" in (DEPLOY / "Containerfile").read_text()


@pytest.mark.parametrize("name", FILES)
def test_the_probes_ask_the_port_for_operators_and_there_is_time_to_end(name: str) -> None:
    template = manifest(name, PODS[name])["spec"]["template"]
    pod = template["spec"]
    (node,) = pod["containers"]
    ports = {each["name"]: each["containerPort"] for each in node["ports"]}
    assert ports == {"http": 8420, "operators": 9464}
    asked = {probe: node[f"{probe}Probe"]["httpGet"] for probe in ("startup", "readiness", "liveness")}
    assert {each["port"] for each in asked.values()} == {"operators"}
    assert [each["path"] for each in asked.values()] == ["/health", "/ready", "/health"]
    assert pod["terminationGracePeriodSeconds"] > 5 + 2 * ServerLimits().grace
    labels = template["metadata"]["labels"]
    assert all(each["spec"]["selector"] == labels for each in MANIFESTS[name] if each["kind"] == "Service")
    secret = manifest(name, "Secret")["metadata"]["name"]
    assert node["envFrom"] == [{"secretRef": {"name": secret}}]


@pytest.mark.parametrize("name", FILES)
def test_what_a_pod_mounts_is_there_and_nothing_is_written_elsewhere(name: str) -> None:
    workload = manifest(name, PODS[name])["spec"]
    (node,) = workload["template"]["spec"]["containers"]
    there = {each["name"] for each in workload["template"]["spec"]["volumes"]}
    there |= {each["metadata"]["name"] for each in workload.get("volumeClaimTemplates", ())}
    assert {each["name"] for each in node["volumeMounts"]} == there
    assert {"/var/lib/handrail", "/tmp"} <= {each["mountPath"] for each in node["volumeMounts"]}
    assert node["securityContext"]["readOnlyRootFilesystem"]


def test_replicas_share_the_state_of_the_secret_and_an_upgrade_never_leaves_fewer() -> None:
    url = manifest("replicas", "Secret")["stringData"]["HANDRAIL_STATE"]
    deployment = manifest("replicas", "Deployment")["spec"]
    affinities = [each["spec"].get("sessionAffinity") for each in MANIFESTS["replicas"] if each["kind"] == "Service"]

    assert StateUrl.parse(url).dsn == url
    assert deployment["replicas"] > 1
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert affinities == [None, None]
    assert "postgres" in re.findall(r"\.\[([\w,]+)\]", (DEPLOY / "Containerfile").read_text())[0].split(",")


def test_the_unit_and_the_container_run_commands_that_there_are() -> None:
    unit, start = (DEPLOY / "handrail.service").read_text(), (DEPLOY / "start").read_text()
    named = re.findall(r"^(?:Exec\w+=\S*/)?handrail (\w+)", f"{unit}\n{start}", re.M)
    assert named == ["approve", "serve", "approve"]
    assert {*named, "state", "proof"} <= set(root.table)
    assert os.access(DEPLOY / "start", os.X_OK)
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze comes with Debian's systemd")
def test_systemd_has_nothing_to_say_about_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "handrail.service").read_text()
    here = tmp_path / "handrail.service"
    here.write_text(unit.replace("/opt/handrail/bin/handrail", sys.executable))  # what it starts has to be there
    told = subprocess.run(["systemd-analyze", "verify", "--man=no", str(here)], capture_output=True, text=True)

    assert (told.returncode, [line for line in told.stderr.splitlines() if "handrail" in line]) == (0, [])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("name", FILES)
def test_kubernetes_knows_every_field_of_the_pods(name: str, tmp_path: Path) -> None:
    written = manifest(name, PODS[name])
    (tmp_path / "pods.json").write_text(json.dumps(written))
    # This reads the file as what it is, and leaves out fields that there are not; no cluster is asked.
    words = ("set", "image", "--local", "-f", str(tmp_path / "pods.json"), "*=there", "-o", "json")
    told = subprocess.run(
        ["kubectl", *words], capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)}
    )

    assert told.returncode == 0, told.stderr
    assert left_out(written, json.loads(told.stdout)) == ["spec.template.spec.containers.0.image"]


def left_out(written: Any, read: Any, at: str = "") -> list[str]:
    """Where something that was written is not, or is something else, in what was read."""
    if isinstance(written, dict | list) and type(written) is type(read):
        pairs = written.items() if isinstance(written, dict) else enumerate(written)
        there = read if isinstance(read, dict) else dict(enumerate(read))
        return [each for key, value in pairs for each in left_out(value, there.get(key), f"{at}.{key}".lstrip("."))]
    return [] if str(written) == str(read) else [at]
