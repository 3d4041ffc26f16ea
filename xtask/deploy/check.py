"""Checks compose file and Helm chart of deploy/ against Helm, Kubernetes' schemas and the program.

Arguments: the root of the project and the program.
"""

import copy
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import helm_python as helm
import kubernetes_validate
import yaml

ROOT = pathlib.Path(sys.argv[1])
PROGRAM = sys.argv[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm/qiang"
KUBERNETES = "1.31"
# Kinds of the operator of Prometheus. Kubernetes' schemas do not have them.
FOREIGN = ["ServiceMonitor", "PrometheusRule"]
# Series that an adapter makes of other series: docs/operate/kubernetes.md.
ADAPTED = {"qiang_claims_per_second": "qiang_claims_total"}

# Values that the chart is rendered with, beside its defaults.
ALL = {
    "hpa": {"enabled": True},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}},
    "imagePullSecrets": [{"name": "registry"}],
    "trustedProxies": "10.0.0.0/8",
    "secret": {"rabbitmqUrl": "rabbitmq-url"},
    "networkPolicy": {"apiFrom": [{"podSelector": {"matchLabels": {"app": "ingress"}}}]},
    "node": {
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "shop"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "sale", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
    },
    "config": {
        "redis": {
            "topology": "cluster",
            "urls": "redis://redis-1:6379,redis://redis-2:6379",
            "partitions": 12,
            "shard_supply_min": 2000000,
        },
        "settlement": {"transport": "rabbitmq"},
        "server": {"docs": False, "drain_delay_ms": 10000},
    },
}
BARE = {
    "worker": {"replicas": 0},
    "config": {"settlement": {"in_process": True}},
    "pdb": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "migrate": {"enabled": False},
    "secret": {"redisPassword": ""},
}


def fail(text):
    sys.exit(f"error: {text}")


def run(arguments, **environment):
    """Runs a command, which must succeed, and returns its output."""
    ran = subprocess.run(
        arguments, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True
    )
    if ran.returncode:
        fail(f"{' '.join(map(str, arguments))}: {ran.stdout}{ran.stderr}")
    return ran.stdout


def accepts(arguments, name):
    """The program knows the command and its flags."""
    run([PROGRAM, *arguments, "--help"])
    print(f"{name}: qiang {' '.join(arguments)}")


def configuration(text, environment, name):
    """The program accepts a configuration. Returns it with all keys."""
    with tempfile.TemporaryDirectory() as folder:
        secret = pathlib.Path(folder, "secret")
        secret.write_text("0123456789abcdef" * 3)
        file = pathlib.Path(folder, "qiang.toml")
        file.write_text(re.sub(r'(?m)^hs256_secret_file = .*$', f'hs256_secret_file = "{secret}"', text))
        if "QIANG__AUTH__HS256_SECRET_FILE" in environment:
            environment = {**environment, "QIANG__AUTH__HS256_SECRET_FILE": str(secret)}
        run([PROGRAM, "config", "check", "--config", file], **environment)
        shown = run([PROGRAM, "config", "show", "--config", file], **environment)
        keys = dict(line.split("  # ")[0].split(" = ", 1) for line in shown.splitlines())
        return {key: value.strip('"') for key, value in keys.items()}


def port(address):
    return int(address.rsplit(":", 1)[1])


# Compose


def compose():
    folder = DEPLOY / "compose"
    text = (folder / "compose.yaml").read_text()
    document = yaml.safe_load(re.sub(r"\$\{\w+:\?\}", "value", text))
    services = document["services"]
    for name, service in services.items():
        for other, condition in conditions(service).items():
            if other not in services:
                fail(f"{name} depends on {other}, which is no service")
            if condition == "service_healthy" and "healthcheck" not in services[other]:
                fail(f"{name} waits for the health of {other}, which has no check")
        if name != "migrate" and "healthcheck" not in service:
            fail(f"{name} has no health check")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith(".") and not (folder / source).exists():
                fail(f"{name} mounts {source}, which is not there")
            if not source.startswith(".") and source not in document["volumes"]:
                fail(f"{name} mounts the volume {source}, which is not declared")
        for network in service["networks"]:
            if network not in document["networks"]:
                fail(f"{name} is in the network {network}, which is not declared")
    ours = {name: it for name, it in services.items() if "localhost/qiang" in it["image"]}
    if set(ours) != {"migrate", "node-1", "node-2", "worker"}:
        fail(f"services of the program: {sorted(ours)}")
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    listen = {"node-1": "admin.listen", "node-2": "admin.listen", "worker": "worker.listen"}
    for name, service in ours.items():
        if service["image"] != f"localhost/qiang:{version}":
            fail(f"{name} runs {service['image']}, the program is {version}")
        if not service["read_only"] or service["cap_drop"] != ["ALL"]:
            fail(f"{name} may write its root or has capabilities")
        accepts(service["command"], name)
        keys = configuration((folder / "qiang.toml").read_text(), service["environment"], name)
        if name in listen:
            check = service["healthcheck"]["test"]
            accepts(check[2:], f"{name} is checked by")
            if port(check[-1]) != port(keys[listen[name]]):
                fail(f"{name} listens at {keys[listen[name]]} and is checked at {check[-1]}")
        for url in [keys["redis.urls"], keys["ledger.url"]]:
            if "hidden" not in url and url and re.split(r"[@/:]+", url)[1] not in [*services, "qiang"]:
                fail(f"{name} connects to {url}, which is no service")
    if "noeviction" not in services["redis"]["command"]:
        fail("redis may evict keys")
    prometheus(folder, services, keys)
    nginx(services["nginx"])
    print(f"compose: {len(services)} services")


def conditions(service):
    found = service.get("depends_on", {})
    return {name: it["condition"] for name, it in found.items()}


def prometheus(folder, services, keys):
    """The configuration is valid, and each target is a service's operators' listener."""
    with tempfile.TemporaryDirectory() as copied:
        shutil.copy(DEPLOY / "prometheus/qiang.rules.yml", copied)
        shutil.copy(folder / "prometheus.yml", copied)
        run(["promtool", "check", "config", f"{copied}/prometheus.yml"])
    document = yaml.safe_load((folder / "prometheus.yml").read_text())
    targets = document["scrape_configs"][0]["static_configs"][0]["targets"]
    expected = {"node-1": "admin.listen", "node-2": "admin.listen", "worker": "worker.listen"}
    if {it.split(":")[0] for it in targets} != set(expected):
        fail(f"Prometheus asks {targets}")
    for target in targets:
        key = expected[target.split(":")[0]]
        if port(target) != port(keys[key]):
            fail(f"Prometheus asks {target}, and {key} is {keys[key]}")
    sources = yaml.safe_load((folder / "grafana/datasources.yml").read_text())
    name = sources["datasources"][0]["url"].split("/")[2].split(":")[0]
    if name not in services:
        fail(f"Grafana asks {name}, which is no service")
    boards = yaml.safe_load((folder / "grafana/dashboards.yml").read_text())
    path = boards["providers"][0]["options"]["path"]
    if not any(f":{path}/" in it for it in services["grafana"]["volumes"]):
        fail(f"nothing is mounted at Grafana's {path}")


def nginx(service):
    """The command of the service makes a configuration that nginx accepts, with both nodes."""
    with tempfile.TemporaryDirectory() as folder:
        line = service["command"][2].split(" && ")[0]
        # In this order: the project may be below /tmp.
        line = line.replace("/tmp/", f"{folder}/")
        line = line.replace("/etc/qiang/nginx.conf", str(DEPLOY / "nginx.conf"))
        run(["sh", "-c", line])
        file = pathlib.Path(folder, "nginx.conf")
        text = file.read_text()
        for node in ["server node-1:8080;", "server node-2:8080;"]:
            if node not in text:
                fail(f"nginx lacks {node}")
        # Names and folders of the container are not here.
        text = re.sub(r"server node-(\d):8080;", r"server 127.0.0.\1:8080;", text)
        text = text.replace("/var/cache/nginx", folder).replace("/run/", f"{folder}/")
        file.write_text(text)
        run(["/usr/sbin/nginx", "-t", "-c", file], PATH=os.environ["PATH"])


# Helm


def chart():
    if (CHART / "files/qiang.rules.yml").read_text() != (DEPLOY / "prometheus/qiang.rules.yml").read_text():
        fail("copy deploy/prometheus/qiang.rules.yml to deploy/helm/qiang/files")
    found = helm.lint(str(CHART))
    if found["errors"] or any(it["severity"] > 1 for it in found["messages"]):
        fail(f"helm lint: {found}")
    for name, values in [("defaults", {}), ("everything", ALL), ("as little as possible", BARE)]:
        with helm.Chart.load(str(CHART)) as loaded:
            loaded.validate_schema(copy.deepcopy(values))
            texts = loaded.render(copy.deepcopy(values), name="shop", namespace="prod")
        objects = [it for text in texts.values() for it in yaml.safe_load_all(text) if it]
        judge(name, values, objects)
        print(f"chart with {name}: {len(objects)} objects")
    for bad in [{"secret": {"name": ""}}, {"config": {"redis": {"urls": ["a"]}}}, {"node": {"replicas": 0}}]:
        with helm.Chart.load(str(CHART)) as loaded:
            try:
                loaded.validate_schema(bad)
            except helm.HelmError:
                continue
        fail(f"the chart's schema takes {bad}")


def judge(name, values, objects):
    by_kind = {}
    for it in objects:
        by_kind.setdefault(it["kind"], []).append(it)
        if it["kind"] not in FOREIGN:
            kubernetes_validate.validate(it, KUBERNETES, strict=True)
    kinds = {"ConfigMap": 1, "Deployment": 2, "Job": 1, "Service": 2, "PodDisruptionBudget": 2, "NetworkPolicy": 1}
    if values is ALL:
        kinds |= {"HorizontalPodAutoscaler": 1, "ServiceMonitor": 1, "PrometheusRule": 1, "Ingress": 1}
    if values is BARE:
        kinds = {"ConfigMap": 1, "Deployment": 1, "Service": 2}
    if {kind: len(it) for kind, it in by_kind.items()} != kinds:
        fail(f"{name}: kinds {({kind: len(it) for kind, it in by_kind.items()})}")
    text = by_kind["ConfigMap"][0]["data"]["qiang.toml"]
    pods = [it["spec"]["template"] for it in by_kind["Deployment"] + by_kind.get("Job", [])]
    for pod in pods:
        container = pod["spec"]["containers"][0]
        accepts(container["args"], name)
        security = container["securityContext"]
        if not security["readOnlyRootFilesystem"] or not pod["spec"]["securityContext"]["runAsNonRoot"]:
            fail(f"{name}: a pod may write its root, or runs as root")
        for variable in container["env"]:
            if "secretKeyRef" not in variable["valueFrom"]:
                fail(f"{name}: {variable['name']} is not a reference to a secret")
        env = {it["name"]: sample(it["name"]) for it in container["env"]}
        keys = configuration(text, env, name)
        if container["args"][0] == "migrate":
            continue
        listen = keys["admin.listen" if container["args"][0] == "serve" else "worker.listen"]
        ports = {it["name"]: it["containerPort"] for it in container["ports"]}
        if ports["admin"] != port(listen) or listen.startswith("127."):
            fail(f"{name}: probes ask {ports['admin']}, and {container['args'][0]} listens at {listen}")
        if "http" in ports and ports["http"] != port(keys["server.listen"]):
            fail(f"{name}: users ask {ports['http']}, and nodes listen at {keys['server.listen']}")
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"]:
            if container[probe]["httpGet"]["port"] not in ports:
                fail(f"{name}: {probe} asks an unknown port")
        # server.drain_delay_ms, twice server.drain_timeout_ms, settlement.stop_timeout_ms
        stop = int(keys["server.drain_delay_ms"]) + 2 * int(keys["server.drain_timeout_ms"])
        stop += int(keys["settlement.stop_timeout_ms"])
        if stop > 1000 * pod["spec"]["terminationGracePeriodSeconds"]:
            fail(f"{name}: a stop may take {stop} ms")
    expected = {
        ("settlement.in_process", "true" if values is BARE else "false"),
        ("redis.partitions", "12" if values is ALL else "8"),
    }
    for key, value in expected:
        if keys[key] != value:
            fail(f"{name}: {key} is {keys[key]}")
    labels = [it["metadata"]["labels"].items() for it in pods]
    selectors = [it["spec"]["selector"] for it in by_kind["Service"]]
    selectors += [it["spec"]["selector"]["matchLabels"] for it in by_kind["Deployment"]]
    selectors += [it["spec"]["selector"]["matchLabels"] for it in by_kind.get("PodDisruptionBudget", [])]
    selectors += [it["spec"]["podSelector"]["matchLabels"] for it in by_kind.get("NetworkPolicy", [])]
    for selector in selectors:
        if not any(selector.items() <= it for it in labels):
            fail(f"{name}: no pod has {selector}")
    if values is ALL:
        monitored(by_kind, objects)



def monitored(by_kind, objects):
    monitor = by_kind["ServiceMonitor"][0]["spec"]
    wanted = monitor["selector"]["matchLabels"].items()
    services = [it for it in by_kind["Service"] if wanted <= it["metadata"]["labels"].items()]
    names = [port["name"] for it in services for port in it["spec"]["ports"]]
    if names != [monitor["endpoints"][0]["port"]]:
        fail(f"the ServiceMonitor finds the ports {names}")
    rules = by_kind["PrometheusRule"][0]["spec"]
    if rules != yaml.safe_load((DEPLOY / "prometheus/qiang.rules.yml").read_text()):
        fail("the PrometheusRule has other alarms")
    page = (ROOT / "docs/reference/metrics.md").read_text()
    scaler = by_kind["HorizontalPodAutoscaler"][0]["spec"]
    deployments = [it["metadata"]["name"] for it in by_kind["Deployment"]]
    if scaler["scaleTargetRef"]["name"] not in deployments:
        fail("nothing is scaled")
    for metric in scaler["metrics"]:
        series = metric["pods"]["metric"]["name"]
        if f"`{ADAPTED.get(series, series)}`" not in page:
            fail(f"the scaler asks {series}, which is no metric")


def sample(variable):
    """A value of a variable that the program accepts."""
    samples = {
        "QIANG__LEDGER__URL": "postgres://qiang:secret@postgres/qiang",
        "QIANG__SETTLEMENT__RABBITMQ_URL": "amqp://qiang:secret@rabbitmq:5672",
    }
    return samples.get(variable, "secret")


compose()
chart()
