"""The manifests fit Kubernetes, each other, and the program that they run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import httpx
import kubernetes_validate
import pytest
import yaml

from tests.deploy.files import (
    DEPLOY,
    known_variables,
    load_all,
    load_config,
    parse_command,
)
from tests.http_server import served
from tests.support import write

FOLDER = DEPLOY / "kubernetes"
[KUSTOMIZATION] = load_all(FOLDER / "kustomization.yaml")
OBJECTS = [each for file in KUSTOMIZATION["resources"] for each in load_all(FOLDER / file)]
CONFIG = load_config(FOLDER / "config.yaml")


def the(kind: str, name: str = "skills-mcp") -> dict[str, Any]:
    """Return the only object of a kind and a name."""
    [found] = [each for each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


POD = the("Deployment")["spec"]["template"]
[CONTAINER] = POD["spec"]["containers"]
PORTS = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
OPERATIONS = "skills-mcp-operations"
PROBES = ("startup", "readiness", "liveness")


def selectors(value: Any) -> Iterator[dict[str, str]]:
    """Return the labels of every selector of pods in an object."""
    if isinstance(value, list):
        for each in value:
            yield from selectors(each)
    elif isinstance(value, dict):
        for key, below in value.items():
            if key in {"selector", "labelSelector", "podSelector"}:
                yield below.get("matchLabels", below)
            else:
                yield from selectors(below)


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize(
    "manifest", OBJECTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}"
)
def test_each_object_is_one_that_kubernetes_takes(manifest: dict[str, Any], version: str) -> None:
    used = kubernetes_validate.validate(manifest, version, strict=True)

    assert used == version


def test_a_key_that_kubernetes_does_not_know_is_found() -> None:
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate({**the("Deployment"), "replica": 2}, "1.37", strict=True)


def test_the_kustomization_lists_every_file() -> None:
    [generated] = KUSTOMIZATION["configMapGenerator"]
    listed = {*KUSTOMIZATION["resources"], *generated["files"], "kustomization.yaml"}

    assert {file.name for file in FOLDER.iterdir() if file.is_file()} == listed
    assert [each["name"] for each in KUSTOMIZATION["images"]] == [CONTAINER["image"]]


COMPONENTS = [FOLDER / each / "kustomization.yaml" for each in KUSTOMIZATION["components"]]
ADDED = [
    each
    for file in COMPONENTS
    for name in load_all(file)[0].get("resources", ())
    for each in load_all(file.with_name(name))
]


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_each_object_of_a_component_is_one_that_kubernetes_takes(version: str) -> None:
    assert {"StatefulSet", "Service", "NetworkPolicy"} == {each["kind"] for each in ADDED}
    for each in ADDED:
        assert kubernetes_validate.validate(each, version, strict=True) == version


def test_what_components_change_exists() -> None:
    folders = {each["mountPath"] for each in CONTAINER["volumeMounts"]}

    for file in COMPONENTS:
        for entry in load_all(file)[0]["patches"]:
            target, patch = the(entry["target"]["kind"]), yaml.safe_load(entry["patch"])
            if isinstance(patch, list):
                assert find_lists(target) >= {each["path"].removesuffix("/-") for each in patch}
                continue
            [container] = patch["spec"]["template"]["spec"]["containers"]
            variables = {each["name"]: each.get("value", "") for each in container["env"]}
            assert container["name"] == CONTAINER["name"]
            assert variables.keys() - {"PGPASSWORD"} <= known_variables()
            files = [value for name, value in variables.items() if name.endswith("_FILE")]
            assert {str(PurePosixPath(each).parent) for each in files} <= folders


def find_lists(value: Any, path: str = "") -> set[str]:
    """Return the JSON pointers of the lists in an object."""
    entries = value.items() if isinstance(value, dict) else ()
    below = [*enumerate(value)] if isinstance(value, list) else [*entries]
    found = {path} if isinstance(value, list) else set()
    return found.union(*(find_lists(each, f"{path}/{key}") for key, each in below))


def test_the_whole_is_built_and_fits() -> None:
    ours = str(Path(sys.executable).parent)
    kubectl = shutil.which("kubectl", path=os.pathsep.join((ours, os.environ["PATH"])))
    if kubectl is None:
        pytest.skip("kubectl is installed with the development tools on Linux only")
    done = subprocess.run([kubectl, "kustomize", FOLDER], capture_output=True, check=True)
    built = {
        (each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)
    }
    for each in built.values():
        kubernetes_validate.validate(each, "1.37", strict=True)

    [rule] = built["Ingress", "skills-mcp"]["spec"]["rules"]
    policy = built["NetworkPolicy", "skills-mcp"]["spec"]
    [container] = built["Deployment", "skills-mcp"]["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert [each["path"] for each in rule["http"]["paths"]][-2:] == ["/events", "/"]
    assert policy["egress"][-1]["ports"] == [{"port": 5432, "protocol": "TCP"}]
    assert variables["SKILLS_MCP_EVENTS_ENABLED"] == "true"


def test_all_selectors_find_the_pods() -> None:
    labels = POD["metadata"]["labels"].items()

    for manifest in OBJECTS:
        for selector in selectors(manifest):
            assert selector.items() <= labels, manifest["metadata"]["name"]


def test_a_pod_may_do_nothing_but_serve() -> None:
    pod, container = POD["spec"], CONTAINER["securityContext"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_command_and_the_variables_exist() -> None:
    variables = {each["name"] for each in CONTAINER["env"]}

    parsed = parse_command(CONTAINER["args"])

    assert variables <= known_variables()
    assert parsed["config_file"].name == "config.yaml"


def test_the_settings_lie_where_the_command_looks() -> None:
    file = PurePosixPath(str(parse_command(CONTAINER["args"])["config_file"]))
    [generated] = KUSTOMIZATION["configMapGenerator"]
    volumes = {each["name"]: each for each in POD["spec"]["volumes"]}
    mounts = {each["mountPath"]: each["name"] for each in CONTAINER["volumeMounts"]}

    source = volumes[mounts[str(file.parent)]]

    assert source["configMap"]["name"] == generated["name"]
    assert file.name in generated["files"]


def test_secrets_are_files_of_the_mounted_secret() -> None:
    [token] = [e["value"] for e in CONTAINER["env"] if e["name"].endswith("TOKEN_FILE")]
    folders = {each["mountPath"] for each in CONTAINER["volumeMounts"]}

    for file in (token, CONFIG.http.webhook_secret_file):
        assert str(PurePosixPath(file).parent) in folders
    assert not [each for each in OBJECTS if each["kind"] == "Secret"]


def test_ports_and_their_names_belong_together() -> None:
    services = {name: the("Service", name)["spec"] for name in ("skills-mcp", OPERATIONS)}
    exposed = {
        name: [port["targetPort"] for port in spec["ports"]] for name, spec in services.items()
    }
    probes = [CONTAINER[f"{kind}Probe"] for kind in PROBES]

    assert {
        "mcp": CONFIG.http.port,
        "operations": CONFIG.http.operations_port,
    } == PORTS
    assert exposed == {"skills-mcp": ["mcp"], OPERATIONS: ["operations"]}
    assert {probe["httpGet"]["port"] for probe in probes} == {"operations"}
    for spec in services.values():
        assert [port["port"] for port in spec["ports"]] == [
            PORTS[port["targetPort"]] for port in spec["ports"]
        ]


def test_only_mcp_can_be_reached_through_the_ingress() -> None:
    [rule] = the("Ingress")["spec"]["rules"]
    [certificate] = the("Ingress")["spec"]["tls"]
    backends = [path["backend"]["service"] for path in rule["http"]["paths"]]

    assert {each["name"] for each in backends} == {"skills-mcp"}
    assert {each["port"]["name"] for each in backends} == {"mcp"}
    assert rule["host"] == urlsplit(CONFIG.http.base_url).hostname
    assert certificate["hosts"] == [rule["host"]]


def test_all_paths_that_are_asked_for_are_answered(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret", "0123456789abcdef")
    http = {
        "base_url": CONFIG.http.base_url,
        "auth": {"issuer": "http://127.0.0.1:1/nothing-listens-here"},
        "webhook_secret_file": str(secret),
    }
    [rule] = the("Ingress")["spec"]["rules"]
    outside = {path["path"] for path in rule["http"]["paths"]}
    probes = {CONTAINER[f"{kind}Probe"]["httpGet"]["path"] for kind in PROBES}

    with served({"http": http}) as server:
        server.wait_for_log("Serving 27 skills")
        named = {"Host": rule["host"]}
        url = httpx.URL(server.url)
        statuses = {
            path: httpx.post(url.join(path), headers=named).status_code
            for path in outside - {url.path}
        }
        asked = {path: httpx.get(server.operations_url + path).status_code for path in probes}

    assert asked == {"/healthz": 200, "/readyz": 200}
    # A path that does not exist needs a token, too, so 401 would say nothing.
    assert url.path in outside
    assert statuses == {
        "/.well-known/oauth-protected-resource": 405,
        "/mcp/server-card": 405,
        "/.well-known/ai-catalog.json": 405,
        "/hooks/git": 403,
    }


def test_a_pod_has_the_time_to_end() -> None:
    http, given = CONFIG.http, POD["spec"]["terminationGracePeriodSeconds"]
    readiness = CONTAINER["readinessProbe"]

    assert http.drain_seconds + http.shutdown_seconds + 10 <= given
    assert http.drain_seconds > (readiness["periodSeconds"] * readiness["failureThreshold"])


def test_the_network_lets_each_port_in_once_and_out_what_is_needed() -> None:
    policy = the("NetworkPolicy")["spec"]
    inwards = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    outwards = {port["port"] for rule in policy["egress"] for port in rule["ports"]}

    assert inwards == list(PORTS)
    assert all(rule["from"] for rule in policy["ingress"])
    assert outwards == {53, 443}


def test_the_autoscaler_and_the_budget_leave_one_replica() -> None:
    scaler, budget = the("HorizontalPodAutoscaler"), the("PodDisruptionBudget")

    assert "replicas" not in the("Deployment")["spec"]
    assert scaler["spec"]["scaleTargetRef"]["name"] == "skills-mcp"
    assert scaler["spec"]["minReplicas"] > budget["spec"]["maxUnavailable"]
    assert CONFIG.http.stateless
