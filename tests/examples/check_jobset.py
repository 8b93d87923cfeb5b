#!/usr/bin/env python3
"""Checks examples/cluster/jobset.yaml: the JobSet against the part of its schema that is used (jobset_schema.json, written by
hand), each Job template against Kubernetes' schema (kubernetes-validate), and what no schema knows: that ports, names, counts
and secrets fit each other, and that the programs have the options that they are given.

Usage: check_jobset.py ROOT BIN [FILE]   BIN: folder of the built programs; exits 1 with a line per fault, 77 where the
                                         validator is missing (pip install kubernetes-validate)
"""
import functools
import json
import pathlib
import re
import subprocess
import sys

try:
    import jsonschema
    import kubernetes_validate
    import yaml
except ImportError as missing:
    print(f"skipped: no Python module {missing.name}; pip install kubernetes-validate brings what is missing")
    sys.exit(77)

KUBERNETES = "1.31"
NAME = "jobset.yaml"


def containers(job):
    return job["template"]["spec"]["template"]["spec"]["containers"]


def values(container):
    """Options of a container: {"--listen": "0.0.0.0:9470", "--insecure": ""}."""
    return dict((arg.split("=", 1) + [""])[:2] for arg in container["args"] if arg.startswith("--"))


def schema_faults(jobset, schema):
    faults = [f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
              for error in jsonschema.Draft202012Validator(schema).iter_errors(jobset)]
    if faults:
        return faults
    for job in jobset["spec"]["replicatedJobs"]:
        as_job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, "spec": job["template"]["spec"]}
        try:
            kubernetes_validate.validate(as_job, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            faults.append(f"{job['name']}: {'/'.join(map(str, error.path))}: {error.message}")
        if job["template"]["spec"]["template"]["spec"]["restartPolicy"] not in ("Never", "OnFailure"):
            faults.append(f"{job['name']}: a Job's pods restart Never or OnFailure")
    return faults


def probe_faults(server):
    """Probes and annotations ask where --metrics answers."""
    faults = []
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    metrics = int(values(server)["--metrics"].rsplit(":", 1)[1])
    for probe, path in {"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}.items():
        get = server.get(probe, {}).get("httpGet", {})
        if get.get("path") != path or ports.get(get.get("port"), get.get("port")) != metrics:
            faults.append(f"servers: {probe} is not GET {path} on the port of --metrics, {metrics}")
    if ports["batches"] != int(values(server)["--listen"].rsplit(":", 1)[1]):
        faults.append("servers: the port 'batches' is not that of --listen")
    return faults, str(metrics)


def secret_faults(name, job):
    faults = []
    pod = job["template"]["spec"]["template"]["spec"]
    for container in pod["containers"]:
        token = [entry for entry in container["env"] if entry["name"] == "HOPFEED_TOKEN"]
        if not token or "secretKeyRef" not in token[0].get("valueFrom", {}):
            faults.append(f"{name}: HOPFEED_TOKEN comes from no Secret")
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        if set(mounts) != set(volumes):
            faults.append(f"{name}: volumes {sorted(volumes)}, mounts {sorted(mounts)}")
        files = {f"{mounts[volume]}/{item['path']}" for volume in mounts
                 for item in volumes.get(volume, {}).get("secret", {}).get("items", [])}
        faults += [f"{name}: {option} is {value}, which no Secret brings" for option, value in values(container).items()
                   if option.startswith("--tls") and value not in files]
    return faults


def fit_faults(jobset):
    """What no schema knows."""
    jobs = {job["name"]: job for job in jobset["spec"]["replicatedJobs"]}
    if set(jobs) != {"servers", "trainers"}:
        return [f"replicated jobs are {sorted(jobs)}, not servers and trainers"]
    faults = []
    server, trainer = containers(jobs["servers"])[0], containers(jobs["trainers"])[0]
    pods = {name: job["template"]["spec"]["parallelism"] for name, job in jobs.items()}
    for name, job in jobs.items():
        spec = job["template"]["spec"]
        if spec["parallelism"] != spec["completions"] or spec["completionMode"] != "Indexed" or job["replicas"] != 1:
            faults.append(f"{name}: one Indexed Job whose pods all run at a time is what the names count on")
        faults += secret_faults(name, job)
    if jobset["spec"]["successPolicy"].get("targetReplicatedJobs") != ["trainers"]:
        faults.append("successPolicy: the trainers alone decide")
    if jobs["trainers"].get("dependsOn") != [{"name": "servers", "status": "Ready"}]:
        faults.append("trainers: they depend on servers that are Ready")
    probes, metrics = probe_faults(server)
    faults += probes
    annotations = jobs["servers"]["template"]["spec"]["template"]["metadata"]["annotations"]
    if annotations != {"prometheus.io/scrape": "true", "prometheus.io/port": metrics, "prometheus.io/path": "/metrics"}:
        faults.append(f"servers: annotations for Prometheus are {annotations}")
    name = jobset["metadata"]["name"]
    port = values(server)["--listen"].rsplit(":", 1)[1]
    addresses = [f"{name}-servers-0-{i}.{name}:{port}" for i in range(pods["servers"])]
    expected = {"--servers": ",".join(addresses), "--nnodes": str(pods["trainers"]), "--trainers": str(pods["trainers"]),
                "--master-addr": f"{name}-trainers-0-0.{name}", "--node-rank": "$(JOB_COMPLETION_INDEX)"}
    faults += [f"trainers: {option} is {values(trainer).get(option)}, should be {value}" for option, value in expected.items()
               if values(trainer).get(option) != value]
    return faults


@functools.cache
def known_options(program):
    """Of a program; None where it is not built."""
    if not program.is_file():
        print(f"{program.name} is not built; its options are not looked at")
        return None
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    return set(re.findall(r"--[a-z0-9-]+", told))


def option_faults(jobset, programs):
    """Options that a program does not have."""
    faults = []
    for job in jobset["spec"]["replicatedJobs"]:
        container = containers(job)[0]
        words = container["command"] + container["args"]
        at = words.index("--no-python") + 1 if "--no-python" in words else 0
        program, own = words[at], [word.split("=")[0] for word in words[at + 1:]]
        known = known_options(programs / program)
        faults += [f"{job['name']}: {program} has no option {option}" for option in own
                   if known is not None and option not in known]
    return faults


def comment_faults(text, jobset):
    """The certificate that the comment has made names each server."""
    servers = next(job for job in jobset["spec"]["replicatedJobs"] if job["name"] == "servers")
    name = jobset["metadata"]["name"]
    names = [f"DNS:{name}-servers-0-{i}.{name}" for i in range(servers["template"]["spec"]["parallelism"])]
    return [] if f'subjectAltName={",".join(names)}"' in text else ["the comment's certificate does not name all servers"]


def check(text, programs, schema):
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        return [str(error).replace("\n", " ")]
    if len(documents) != 1:
        return [f"{len(documents)} documents, and one was expected"]
    return (schema_faults(documents[0], schema)
            or fit_faults(documents[0]) + comment_faults(text, documents[0]) + option_faults(documents[0], programs))


# What each edit of the file must be found as.
DAMAGES = [
    ("successPolicy:", "succesPolicy:", "succesPolicy"),
    ("targetReplicatedJobs: [trainers]", "targetReplicatedJobs: [servers]", "the trainers alone decide"),
    ("path: /readyz", "path: /ready", "readinessProbe is not GET /readyz"),
    ("--metrics=0.0.0.0:9480", "--metrics=0.0.0.0:9481", "livenessProbe is not GET /healthz"),
    ("restartPolicy: Never", "restartPolicy: Always", "restart Never or OnFailure"),
    ("containerPort: 9470", "containerport: 9470", "servers: "),
    ("backoffLimit: 0", "backoffLimit: none", "trainers: "),
    ("completions: 2", "completions: 3", "one Indexed Job"),
    ("secretKeyRef: {name: hopfeed, key: token}", "configMapKeyRef: {name: hopfeed, key: token}", "comes from no Secret"),
    ("--num-workers=4", "--workers=4", "hopfeed-server has no option --workers"),
    ("hopfeed-servers-0-1.hopfeed:9470", "hopfeed-server-1.hopfeed:9470", "trainers: --servers is"),
    ("--nnodes=2", "--nnodes=1", "trainers: --nnodes is 1, should be 2"),
    ("DNS:hopfeed-servers-0-1.hopfeed", "DNS:hopfeed-servers-0-2.hopfeed", "certificate"),
    ("key: tls.key, path: tls.key", "key: tls.key, path: key", "which no Secret brings"),
    ("status: Ready", "status: Started", "Started"),
    ("kind: JobSet", "kind: [JobSet", "flow sequence"),
]


def main():
    root, programs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    text = (root / "examples/cluster" / NAME).read_text()
    schema = json.loads((pathlib.Path(__file__).parent / "jobset_schema.json").read_text())
    faults = check(text, programs, schema)
    for fault in faults:
        print(f"{NAME}: {fault}")
    missed = 0
    for old, new, part in DAMAGES if not faults else []:
        found = check(text.replace(old, new, 1), programs, schema) if old in text else []
        if not any(part in fault for fault in found):
            missed += 1
            print(f"'{old}' made '{new}' is not found: {found}")
    if not faults and not missed:
        print(f"{NAME}: holds, and {len(DAMAGES)} damaged ones do not")
    return 1 if faults or missed else 0


if __name__ == "__main__":
    sys.exit(main())
