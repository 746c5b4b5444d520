"""The Helm chart: what it makes is valid, fits together, and names nothing that does not exist here."""

from __future__ import annotations

import base64
import copy
import importlib.util
import json
import os
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from manifests import (
    CHART,
    EVERYTHING,
    JOB,
    LEAST,
    NEWEST,
    OLDEST,
    ON_A_VOLUME,
    ONE_JOB,
    ROOT,
    ValuesRefusedError,
    chart,
    check,
    command_line,
    command_lines,
    containers,
    matches,
    one_of,
    parse,
    pod_templates,
    render,
)

from edgesocket.cluster.pods import LABEL_PREFIX, LABEL_VALUE
from edgesocket.config.job import load_job

VALUES = {"least": LEAST, "one job": ONE_JOB, "everything": EVERYTHING, "on a volume": ON_A_VOLUME}
every_kind_of_values = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())


def with_values(path: str, value: Any) -> dict[str, Any]:
    """The values of one job with one of them set: `a.b.0.c`."""
    values = copy.deepcopy(ONE_JOB)
    at: Any = values
    *parents, last = path.split(".")
    for name in parents:
        at = at.setdefault(name, {})
    at[last] = value
    return values


# ---- valid -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@every_kind_of_values
def test_every_object_is_one_that_kubernetes_and_kuberay_know(values: dict[str, Any], version: str) -> None:
    objects = chart(values)
    assert {"RayCluster", "Deployment", "CronJob", "NetworkPolicy", "Role"} <= {one["kind"] for one in objects}
    for one in objects:
        check(one, version)


def test_a_field_that_does_not_exist_is_noticed() -> None:
    cluster = copy.deepcopy(one_of(chart(ONE_JOB), "RayCluster"))
    cluster["spec"]["workerGroupSpecs"][0]["label"] = {}
    with pytest.raises(Exception, match="label"):
        check(cluster, NEWEST)
    service = copy.deepcopy(one_of(chart(ONE_JOB), "Service", "clicks"))
    service["spec"]["externalTrafficPolicies"] = "Local"
    with pytest.raises(Exception, match="externalTrafficPolicies"):
        check(service, NEWEST)


@every_kind_of_values
def test_helm_has_nothing_to_say_about_it(values: dict[str, Any]) -> None:
    helm = pytest.importorskip("helm_python", reason="needs Helm: pip install helm-python-sdk")
    report = helm.lint(CHART, values, strict=True, kube_version=f"v{OLDEST}.0")
    assert not report["errors"]
    assert [message for message in report["messages"] if message["severity"] > 1] == []


def test_the_oldest_version_is_that_of_the_chart() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={OLDEST}.0-0"


@every_kind_of_values
def test_names_are_there_once_and_short_enough(values: dict[str, Any]) -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in chart(values)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name) for _, name in names)
    long = render({**values, "jobs": {"j" * 22: {"port": 10091, "config": JOB}}}, release="r" * 53)
    names_of_long = re.findall(r"^  name: (\S+)$", "\n".join(long.values()), re.MULTILINE)
    assert names_of_long
    assert max(map(len, names_of_long)) <= 63


# ---- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("repicas", 2, "repicas"),
        ("image.repo", "x", "repo"),
        ("state.s3.url", "https://bucket", "/state/s3/url"),
        ("state.volume.size", "ten", "/state/volume/size"),
        ("jobs.clicks", {"config": JOB}, "port"),
        ("jobs.clicks", {"port": 10091}, "config"),
        ("jobs.clicks.port", "10091", "/jobs/clicks/port"),
        ("jobs.clicks.port", 80, "/jobs/clicks/port"),
        ("jobs.clicks.port", 70000, "/jobs/clicks/port"),
        ("jobs.clicks.port", 20000, "/jobs/clicks/port"),
        ("jobs.clicks.port", 29999, "/jobs/clicks/port"),
        ("jobs.clicks.port", 6379, "/jobs/clicks/port"),
        ("jobs.clicks.port", 8081, "/jobs/clicks/port"),
        ("jobs.clicks.token", "secret", "token"),
        ("jobs.Clicks", {"port": 10091, "config": JOB}, "Clicks"),
        ("jobs.a_b", {"port": 10091, "config": JOB}, "a_b"),
        ("service.type", "ExternalName", "/service/type"),
        ("service.externalTrafficPolicy", "local", "/service/externalTrafficPolicy"),
        ("service.allowFrom", [], "/service/allowFrom"),
        ("service.allowFrom", ["everywhere"], "/service/allowFrom"),
        ("ray.version", "2.48.0", "/ray/version"),
        ("ray.version", 2.6, "/ray/version"),
        ("ray.settings", {"RAY_AUTH_MODE": 1}, "/ray/settings"),
        ("workers", [], "/workers"),
        ("workers", [{"name": "edge"}], "replicas"),
        ("workers", [{"name": "edge", "replicas": -1}], "/workers/0/replicas"),
        ("workers", [{"name": "e", "replicas": 1, "labels": {"edge-ingress": True}}], "/workers/0/labels"),
        ("workers", [{"name": "e", "replicas": 1, "labels": {"ray.io/zone": "a"}}], "ray.io/zone"),
        ("workers", [{"name": "e", "replicas": 1, "labels": {"zone": "two words"}}], "/workers/0/labels"),
        ("reconcile.schedule", "often", "/reconcile/schedule"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(path: str, value: object, said: str) -> None:
    with pytest.raises(ValuesRefusedError, match=re.escape(said)):
        render(with_values(path, value))


def test_state_needs_one_place_and_not_two() -> None:
    with pytest.raises(ValuesRefusedError, match=r"set state\.s3\.url"):
        render({})
    with pytest.raises(ValuesRefusedError, match="not both"):
        render(with_values("state.volume.enabled", True))


def test_every_value_is_in_the_schema_and_explained() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    properties = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert set(values) == set(properties) - {"global"}
    for name, value in values.items():
        if isinstance(value, dict) and "properties" in properties[name]:
            assert set(value) == set(properties[name]["properties"]), name
    assert set(values["workers"][0]) == set(properties["workers"]["items"]["properties"])


# ---- reached ---------------------------------------------------------------------------------------------------------


def test_each_job_has_an_address_that_follows_it() -> None:
    objects = chart(EVERYTHING)
    cluster = one_of(objects, "RayCluster")
    for name, job in EVERYTHING["jobs"].items():
        spec = one_of(objects, "Service", f"-{name}")["spec"]
        assert [(port["port"], port["targetPort"]) for port in spec["ports"]] == [(job["port"], job["port"])]
        assert spec["selector"] == {
            "ray.io/cluster": cluster["metadata"]["name"],
            f"{LABEL_PREFIX}{name}": LABEL_VALUE,
        }
        assert spec["publishNotReadyAddresses"] is True


def test_load_balancers_ask_the_node_and_keep_addresses() -> None:
    spec = one_of(chart(ONE_JOB), "Service", "clicks")["spec"]
    assert (spec["type"], spec["externalTrafficPolicy"]) == ("LoadBalancer", "Local")
    assert spec["loadBalancerSourceRanges"] == ["0.0.0.0/0"]
    kinds = {one["metadata"]["name"]: one["spec"] for one in chart(EVERYTHING) if one["kind"] == "Service"}
    assert "externalTrafficPolicy" not in kinds["edge-edgesocket-taps"], "a ClusterIP has none"
    assert kinds["edge-edgesocket-no"]["externalTrafficPolicy"] == "Local"
    assert "loadBalancerSourceRanges" not in kinds["edge-edgesocket-no"]


@every_kind_of_values
def test_nothing_probes_an_edge_port(values: dict[str, Any]) -> None:
    edge = {job["port"] for job in values.get("jobs", {}).values()}
    for container in containers(chart(values)):
        names = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container.get(kind, {})
            for how in ("httpGet", "tcpSocket", "grpc"):
                port = probe.get(how, {}).get("port")
                assert names.get(port, port) not in edge


@every_kind_of_values
def test_from_outside_only_edge_ports_are_reached(values: dict[str, Any]) -> None:
    edge = {job["port"] for job in values.get("jobs", {}).values()}
    open_to_networks = {
        port["port"]
        for policy in chart(values)
        if policy["kind"] == "NetworkPolicy"
        for rule in policy["spec"].get("ingress", ())
        if any("ipBlock" in peer for peer in rule["from"])
        for port in rule["ports"]
    }
    assert open_to_networks == edge


@every_kind_of_values
def test_every_pod_is_under_a_network_policy(values: dict[str, Any]) -> None:
    objects = chart(values)
    policies = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    for one in objects:
        for template in pod_templates(one):
            labels = template["metadata"]["labels"]
            assert any(matches(policy["podSelector"], labels) for policy in policies), one["metadata"]["name"]
    assert all(policy["policyTypes"] == ["Ingress"] for policy in policies)
    assert all("from" in rule for policy in policies for rule in policy.get("ingress", ())), "a rule is for somebody"


@every_kind_of_values
def test_every_selector_selects_something(values: dict[str, Any]) -> None:
    objects = chart(values)
    here = {f"{LABEL_PREFIX}{name}": LABEL_VALUE for name in values.get("jobs", {})}
    pods = [template["metadata"]["labels"] | here for one in objects for template in pod_templates(one)]
    for one in objects:
        spec = one.get("spec", {})
        selectors = [spec[key] for key in ("selector", "podSelector") if key in spec]
        for rule in spec.get("ingress", ()):
            peers = [peer["podSelector"] for peer in rule["from"] if "podSelector" in peer]
            selectors += [peer for peer in peers if "kuberay-operator" not in str(peer)]
        for selector in selectors:
            assert any(matches(selector, labels) for labels in pods), (one["metadata"]["name"], selector)


# ---- what runs -------------------------------------------------------------------------------------------------------


@every_kind_of_values
def test_every_command_and_option_exists(values: dict[str, Any]) -> None:
    verbs = set()
    for container in containers(chart(values)):
        if container["name"].startswith("ray-"):
            assert not {"args", "command"} & set(container), "KubeRay writes the command"
        elif "command" in container:
            assert container["command"][:2] == ["python", "-m"]
            assert importlib.util.find_spec(container["command"][2])
        else:
            args = parse(command_line(container))
            verbs.add(container["args"][0])
            assert getattr(args, "cluster", None) is None, "EDGESOCKET_CLUSTER says it"
    assert verbs == {"lookup", "reconcile"} | ({"submit"} if values.get("jobs") else set())


@every_kind_of_values
def test_every_variable_of_ours_is_read_somewhere(values: dict[str, Any]) -> None:
    names = {variable["name"] for container in containers(chart(values)) for variable in container.get("env", ())}
    ours = {name for name in names if name.startswith("EDGESOCKET_")}
    assert ours == {"EDGESOCKET_CLUSTER", "EDGESOCKET_HTTP", "EDGESOCKET_HTTP_TOKEN", "EDGESOCKET_SCRATCH"}
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src/edgesocket").rglob("*.py"))
    assert all(f'"{name}"' in source for name in ours)


def settings_of_ray() -> dict[str, str]:
    lines = (ROOT / "deploy/ray/ray.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_ray_has_the_settings_that_are_shipped_for_it() -> None:
    shipped = settings_of_ray()
    cluster = one_of(chart(ONE_JOB), "RayCluster")
    for template in pod_templates(cluster):
        env = {one["name"]: one.get("value") for one in template["spec"]["containers"][0]["env"]}
        assert {name: env.get(name) for name in shipped if name.startswith("RAY_")} == {
            name: value for name, value in shipped.items() if name.startswith("RAY_")
        }
    (group,) = cluster["spec"]["workerGroupSpecs"]
    assert group["rayStartParams"]["min-worker-port"] == shipped["EDGESOCKET_MIN_WORKER_PORT"]
    assert group["rayStartParams"]["max-worker-port"] == shipped["EDGESOCKET_MAX_WORKER_PORT"]
    for one in (group, cluster["spec"]["headGroupSpec"]):
        assert one["rayStartParams"]["object-store-memory"] == shipped["EDGESOCKET_OBJECT_STORE_BYTES"]
        assert all(isinstance(value, str) for value in one["rayStartParams"].values())
    assert cluster["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0", "no job runs on the head"


def test_labels_of_a_group_are_what_ray_and_people_find() -> None:
    groups = one_of(chart(EVERYTHING), "RayCluster")["spec"]["workerGroupSpecs"]
    assert [group["labels"] for group in groups] == [{"zone": "a"}, {"zone": "b"}]
    for group in groups:
        assert "labels" not in group["rayStartParams"], "KubeRay refuses it"
        assert group["labels"].items() <= group["template"]["metadata"]["labels"].items()
        assert group["minReplicas"] == group["replicas"] == group["maxReplicas"]
    assert groups[0]["template"]["spec"]["nodeSelector"] == {"zone": "a"}


def test_the_job_files_arrive_as_they_are_written() -> None:
    data = one_of(chart(EVERYTHING), "ConfigMap")["data"]
    assert set(data) == {"clicks.conf", "no.conf", "taps.conf"}
    assert data["clicks.conf"].strip() == JOB.strip()


def test_a_change_of_jobs_changes_no_pod_that_runs() -> None:
    more = with_values("jobs.b", {"port": 10092, "config": JOB})
    before, after = (one_of(chart(values), "RayCluster")["spec"] for values in (ONE_JOB, more))
    for spec in (before, after):
        for group in spec["workerGroupSpecs"]:
            group["template"]["spec"]["containers"][0].pop("ports")
    assert before == after


# ---- secrets and rights ----------------------------------------------------------------------------------------------


def test_tokens_are_made_at_random_and_long_enough() -> None:
    found = [
        {one["metadata"]["name"]: one["data"] for one in _fresh(ONE_JOB) if one["kind"] == "Secret"} for _ in range(2)
    ]
    for secrets in found:
        assert {name: sorted(data) for name, data in secrets.items()} == {
            "edge-edgesocket-tokens": ["clicks"],
            "edge-edgesocket-ray": ["http", "ray"],
        }
        tokens = [base64.b64decode(value).decode() for data in secrets.values() for value in data.values()]
        assert all(re.fullmatch(r"[A-Za-z0-9]{32,}", token) for token in tokens)
    assert found[0] != found[1]


def _fresh(values: dict[str, Any]) -> list[dict[str, Any]]:
    made = render(values)
    return [one for name, text in made.items() if name.endswith(".yaml") for one in yaml.safe_load_all(text) if one]


def test_secrets_of_ones_own_are_used_and_none_is_made() -> None:
    objects = chart(EVERYTHING)
    assert not [one for one in objects if one["kind"] == "Secret"]
    text = json.dumps(objects)
    for name in ("edge-tokens", "ray-token", "edge-s3", "kafka"):
        assert f'"{name}"' in text


@every_kind_of_values
def test_no_secret_stands_in_a_pod(values: dict[str, Any]) -> None:
    for container in containers(chart(values)):
        for variable in container.get("env", ()):
            if re.search(r"TOKEN|SECRET|PASSWORD|KEY", variable["name"]):
                assert "secretKeyRef" in variable["valueFrom"]


@every_kind_of_values
def test_pods_have_no_more_rights_than_they_need(values: dict[str, Any]) -> None:
    objects = chart(values)
    for one in objects:
        for template in pod_templates(one):
            pod = template["spec"]
            labels_pods = pod["serviceAccountName"].endswith("-lookup")
            assert pod.get("automountServiceAccountToken", True) is labels_pods
            assert pod["securityContext"]["runAsNonRoot"] is True
            for container in pod["containers"]:
                security = container["securityContext"]
                assert security["allowPrivilegeEscalation"] is False
                assert security["capabilities"] == {"drop": ["ALL"]}
                ray = container["name"].startswith("ray-")
                assert security.get("readOnlyRootFilesystem", False) is not ray
    assert one_of(objects, "Role")["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]}]
    assert not [one for one in objects if one["kind"].startswith("ClusterRole")]


# ---- staying up ------------------------------------------------------------------------------------------------------


def test_drains_take_one_worker_at_a_time() -> None:
    assert one_of(chart(EVERYTHING), "PodDisruptionBudget")["spec"]["minAvailable"] == 2
    single = chart({**LEAST, "workers": [{"name": "edge", "replicas": 1}]})
    assert not [one for one in single if one["kind"] == "PodDisruptionBudget"], "it would stop every drain"


def test_state_on_a_volume_is_shared_and_outlives_the_release() -> None:
    objects = chart(ON_A_VOLUME)
    claim = one_of(objects, "PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    for one in objects:
        for template in pod_templates(one):
            pod = template["spec"]
            volume = {"name": "state", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
            assert volume in pod["volumes"]
            for container in pod["containers"]:
                root = {one["name"]: one.get("value") for one in container.get("env", ())}.get("EDGESOCKET_CLUSTER")
                mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
                assert (root in mounts) is (root is not None)


@every_kind_of_values
def test_every_mount_has_its_volume(values: dict[str, Any]) -> None:
    for one in chart(values):
        for template in pod_templates(one):
            volumes = {volume["name"] for volume in template["spec"]["volumes"]}
            mounted = {
                mount["name"] for container in template["spec"]["containers"] for mount in container["volumeMounts"]
            }
            assert mounted == volumes


# ---- what people read ------------------------------------------------------------------------------------------------


def test_what_helm_prints_are_commands_that_exist() -> None:
    notes = render(ONE_JOB)["NOTES.txt"]
    lines = list(command_lines(notes))
    assert [line[0] for line in lines] == ["collect", "jobs"]
    for line in lines:
        parse(line)
    assert "There is no job yet" in render(LEAST)["NOTES.txt"]


def test_helm_warns_of_load_balancers_that_may_try_the_edge_port() -> None:
    assert "WARNING" in render(with_values("service.externalTrafficPolicy", "Cluster"))["NOTES.txt"]


def test_the_example_of_values_yaml_runs() -> None:
    text = (CHART / "values.yaml").read_text()
    commented = text.partition("# jobs:\n")[2].partition("#\n#")[0]
    example = yaml.safe_load("jobs:\n" + re.sub(r"^# ?", "", commented, flags=re.MULTILINE))
    objects = chart({**LEAST, **example})
    conf = one_of(objects, "ConfigMap")["data"]["clicks.conf"]
    spec = load_job(conf, "clicks.conf", read_file=lambda *_: None, environ={}, variables={}, strict=True)
    assert spec.env.tag_filter == {"edge-ingress": "true"}
    assert spec.sources[0].options.port == example["jobs"]["clicks"]["port"]
    mounts = containers([one_of(objects, "RayCluster")])[1]["volumeMounts"]
    token_file = spec.sources[0].options.token_file
    assert token_file is not None
    assert token_file.rpartition("/")[0] in {mount["mountPath"] for mount in mounts}


@pytest.mark.parametrize("helm", [os.environ.get("HELM") or shutil.which("helm") or "the library only"])
def test_the_command_line_of_helm_makes_the_same(helm: str) -> None:
    """Where there is a `helm` command, or $HELM names one, its output is that of the library."""
    if helm == "the library only":
        return
    made = subprocess.run(
        [helm, "template", "edge", str(CHART), "--namespace", "ns", "--values", "-", "--kube-version", NEWEST],
        input=json.dumps(EVERYTHING),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(made) if one}
    assert names == {(one["kind"], one["metadata"]["name"]): one for one in chart(EVERYTHING)}


def test_the_values_of_the_page_are_taken() -> None:
    page = (ROOT / "docs/kubernetes.md").read_text("utf-8")
    values: dict[str, Any] = {}
    for block in re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        values |= yaml.safe_load(block)
    assert {"jobs", "volumes"} <= set(values)
    objects = chart(values)
    for one in objects:
        check(one, NEWEST)
    for name, job in values["jobs"].items():
        spec = load_job(job["config"], f"{name}.conf", read_file=lambda *_: None, environ={}, variables={}, strict=True)
        assert spec.sources[0].options.port == job["port"]
        assert any(spec.env.tag_filter.items() <= group["labels"].items() for group in values["workers"])
