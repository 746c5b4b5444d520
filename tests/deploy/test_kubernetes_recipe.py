"""The recipe for Kubernetes without Ray: rendered by kustomize, valid, and true of this program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from manifests import (
    KUSTOMIZATION,
    NEWEST,
    OLDEST,
    ROOT,
    check,
    command_line,
    command_lines,
    containers,
    kustomized,
    matches,
    one_of,
    parse,
    pod_templates,
)

from edgesocket.cli.running import END_MARGIN_S
from edgesocket.config.job import load_job
from edgesocket.config.labels import check_tag_filter, parse_environment_labels
from edgesocket.config.specs import JobSpec
from edgesocket.engine.incarnation import REPLY_GRACE_S
from tests.support.jobs import edgesocket

JOBS = sorted((KUSTOMIZATION / "jobs").glob("*.conf"))


def pod() -> dict[str, Any]:
    (template,) = pod_templates(one_of(kustomized(), "StatefulSet"))
    found: dict[str, Any] = template["spec"]
    return found


def container() -> dict[str, Any]:
    (found,) = containers(kustomized())
    return found


def job(path: Path) -> JobSpec:
    return load_job(
        path.read_text(), str(path), read_file=lambda *_: None, environ={}, variables={}, strict=True, lenient=False
    )


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_object_is_one_that_kubernetes_knows(version: str) -> None:
    objects = kustomized()
    kinds = sorted(one["kind"] for one in objects)
    assert kinds == ["ConfigMap", "NetworkPolicy", "Service", "Service", "StatefulSet"]
    for one in objects:
        check(one, version)


def test_selectors_find_the_pod() -> None:
    objects = kustomized()
    (template,) = pod_templates(one_of(objects, "StatefulSet"))
    selectors = [one["spec"].get("selector", one["spec"].get("podSelector")) for one in objects if "spec" in one]
    assert len(selectors) == 4
    assert all(selector and matches(selector, template["metadata"]["labels"]) for selector in selectors)


def test_there_is_one_pod_and_never_two_of_its_name() -> None:
    spec = one_of(kustomized(), "StatefulSet")["spec"]
    assert spec["replicas"] == 1
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert one_of(kustomized(), "Service", "edgesocket")["metadata"]["name"] == spec["serviceName"]


def test_the_command_exists_and_finds_its_files() -> None:
    args = parse(command_line(container()))
    mounts = {mount["mountPath"]: mount["name"] for mount in container()["volumeMounts"]}
    assert mounts[str(args.job[0])] == "jobs"
    assert mounts[str(Path(args.http_token_file).parent)] == "tokens"
    assert args.http == f"0.0.0.0:{one_of(kustomized(), 'Service', 'edgesocket')['spec']['ports'][0]['port']}"
    state = {one["name"]: one["value"] for one in container()["env"]}["EDGESOCKET_STATE"]
    assert mounts["/var/lib/edgesocket"] == "data"
    assert state.startswith("/var/lib/edgesocket/")


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_each_job_can_run_there_and_is_reached(path: Path) -> None:
    spec = job(path)
    objects = kustomized()
    port = spec.sources[0].options.port
    (published,) = one_of(objects, "Service", path.stem)["spec"]["ports"]
    named = {one["name"]: one["containerPort"] for one in container()["ports"]}
    assert (published["port"], named[published["targetPort"]]) == (port, port)
    edge, _ = one_of(objects, "NetworkPolicy")["spec"]["ingress"]
    assert port in {one["port"] for one in edge["ports"]}
    assert spec.sources[0].options.token_file == f"/run/secrets/edgesocket/{path.stem}"
    assert spec.sinks[0].options.path.startswith("/var/lib/edgesocket/")


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_the_node_that_is_asked_for_is_the_one_of_tag_filter(path: Path) -> None:
    spec = job(path)
    labels = parse_environment_labels({one["name"]: one["value"] for one in container()["env"]}["EDGESOCKET_LABELS"])
    assert labels == pod()["nodeSelector"] == spec.env.tag_filter
    assert check_tag_filter(spec.name, spec.env.tag_filter, labels) == ""


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_a_graceful_end_fits_into_the_time_that_is_given(path: Path) -> None:
    longest_s = REPLY_GRACE_S + job(path).env.checkpoint_timeout_ms / 1000 + END_MARGIN_S
    assert longest_s < pod()["terminationGracePeriodSeconds"]


def test_probes_ask_the_http_port_and_paths_that_need_no_token() -> None:
    for kind, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container()[kind]["httpGet"] == {"path": path, "port": "http"}
    assert {one["name"]: one["containerPort"] for one in container()["ports"]}["http"] == 8080


def test_the_pod_has_no_rights() -> None:
    assert pod()["automountServiceAccountToken"] is False
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_no_secret_is_in_the_recipe() -> None:
    assert "stringData" not in json.dumps(kustomized())
    assert not [one for one in kustomized() if one["kind"] == "Secret"]


def test_the_load_balancer_asks_the_node_and_keeps_addresses() -> None:
    spec = one_of(kustomized(), "Service", "clicks")["spec"]
    assert (spec["type"], spec["externalTrafficPolicy"]) == ("LoadBalancer", "Local")


def test_pinned_to_a_node_the_port_is_open_on_it_and_no_balancer_is_asked_for() -> None:
    objects = kustomized(ROOT / "deploy/kubernetes-pinned")
    for one in objects:
        check(one, NEWEST)
    assert [one["spec"].get("type") for one in objects if one["kind"] == "Service"] == [None]
    (template,) = pod_templates(one_of(objects, "StatefulSet"))
    (only,) = template["spec"]["containers"]
    opened = [(port["containerPort"], port["hostPort"]) for port in only["ports"] if "hostPort" in port]
    assert opened == [(job(JOBS[0]).sources[0].options.port,) * 2]
    taints = [one["key"] for one in template["spec"]["tolerations"] if one["effect"] == "NoSchedule"]
    assert taints == list(template["spec"]["nodeSelector"])


@pytest.mark.parametrize("name", ["kubernetes.md", "networks.md"])
def test_commands_of_the_pages_exist(name: str) -> None:
    lines = list(command_lines((ROOT / "docs" / name).read_text("utf-8")))
    assert lines
    for line in lines:
        parse(line)


@pytest.mark.parametrize("name", ["kubernetes.md", "networks.md"])
def test_jobs_of_the_pages_can_run(name: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```hocon\n(.*?)^```", (ROOT / "docs" / name).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    for index, block in enumerate(blocks):
        (tmp_path / f"job{index}.conf").write_text(block)
    if blocks:
        paths = sorted(tmp_path.glob("*.conf"))
        for path in paths:
            job(path)
        done = edgesocket("check", "--strict", paths[0])
        assert done.returncode == 0, done.stdout + done.stderr
