#!/usr/bin/env python3
"""What batches cost on machines that nobody has: a model of what the code asks (cost_model.py), with costs that are measured on one and two
machines (measure_costs.py; network namespaces, which are root's to make). Prints JSON.

Usage: simulate.py measure --folder DIR --costs FILE [--data DIR | --nodes N --edges N --features N] [--bin FOLDER] [--rounds N]
       simulate.py validate --folder DIR --costs FILE [--data DIR | ...] [--bin FOLDER] [--rounds N] [--many 16,64]
       simulate.py predict --costs FILE --machines 100,1000 --nodes N --edges N [--fanouts 15,10,5] [--batch-size N] [--features N]
                           [--link GBIT] [--usual MS] [--p99 MS] [--trainers N] [--workers N] [--replicated]

  --folder DIR   for the graph, whole and cut at random into 2, 3 and 4; what is there is taken as it is
  --data DIR     a dataset of one partition with node type 'node', a split 'train' and no edge ids; else a graph is generated
                 (600,000 nodes, 12,000,000 edges, 128 float32 features)
  --rounds N     of each measurement, of which the median counts, of CPU seconds the least (3)

measure    writes --costs: CPU seconds and anonymous memory of what a batch is made of, by least squares over six kinds of batches on one
           machine, and on two of which the other has a third, a half and two thirds of the partitions; `fit_error`, the largest
validate   measures, and by turns the same batches on four machines, of which nothing goes into --costs: for each figure what was predicted, what was measured and the
           relative `error`; batches/s through a link that takes a third of what the machine took (tbf), and with 20 ms each way (a relay).
           --many: also that many servers, with a partition each, on the second of two machines. Exit status 1: an error is
           beyond 5% (bytes, questions) or 15% (CPU, memory, batches/s)
predict    of each number of machines, which all make batches and answer: bytes, questions, CPU seconds and memory of a batch, bytes of a
           machine's folder with sharded and with replicated ids, connections, and what batches/s of a machine a link (--link, 100
           Gbit/s) and the answers' times (--usual, 0.5 ms; of 1 in 100 --p99, 50 ms) leave. A machine has --trainers (8) and --workers (8).
           Edges come from anywhere evenly, so that next to no node is met twice: the most that a batch can have
"""
import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys

from cost_model import (Deployment, cpu_terms, fit, memory_terms, on_the_wire, partition_bytes, predicted, random_shape, rate_of_delay,
                        rate_of_link, share_of_unknown, slowest_of, traffic_of)
from machines_bench import Relay
from measure_costs import SHAPES, UNDER_WAY, Cluster, Setup, deployment_of, connection_memory, four, here_too, measure_rounds, prepare, setups, shape_of
from namespaces import Failed

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLOSE, NEAR = 0.05, 0.15
DELAY = 0.020  # seconds, each way
LEAST_MEMORY = 4 << 20  # of a batch: what is less is the start's, and what malloc keeps


def error(found, expected):
    return found / expected - 1


# ---- measure

def measured_shapes(options):
    return {name: shape_of(options, fanouts, batch_size) for name, (fanouts, batch_size, _, _) in SHAPES.items()}


def costs_of(options, shapes, wanted, measured):
    """Fits the costs to what was measured in the setups of `wanted`, and writes them."""
    records, cpu, memory = {}, [], []
    for where, setup in wanted.items():
        for name, (fanouts, _, features, _) in SHAPES.items():
            shape, deployment, found, kind = shapes[name], deployment_of(setup, features), measured[name, where], f"{name}, {where}"
            records[kind] = {"measured": found, "shape": dataclasses.asdict(shape), "deployment": dataclasses.asdict(deployment), "fanouts": fanouts}
            cpu.append((kind, cpu_terms(shape, deployment, fanouts), found["cpu"]))
            if setup.machines > 1 and found["batch_memory"] > LEAST_MEMORY:
                memory.append((kind, memory_terms(shape, deployment, fanouts), found["batch_memory"]))
    costs = {}
    for kind, found in (("cpu", cpu), ("memory", memory)):
        costs[kind] = fit([terms for _, terms, _ in found], [value for _, _, value in found])
        errors = {name: error(predicted(costs[kind], terms), value) for name, terms, value in found}
        worst = max(errors, key=lambda name: abs(errors[name]))
        costs[kind + "_fit_error"] = {"mean": statistics.mean(map(abs, errors.values())), worst: errors[worst]}
    told = {"data": str(options.data or f"{options.nodes} nodes, {options.edges} edges"), "features": options.features, "rounds": options.rounds,
            **costs, "all": records}
    options.costs.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return {key: value for key, value in told.items() if key != "all"}


def measure(options):
    prepare(options)
    wanted = setups(options)
    costs = costs_of(options, measured_shapes(options), wanted, measure_rounds(options, wanted, options.rounds))
    return {"bench": "simulate measure", **costs}, True


# ---- validate

def compared(expected, found, limit):
    return {"predicted": expected, "measured": found, "error": error(expected, found), "within": bool(abs(error(expected, found)) <= limit)}


def compare_costs(costs, measured, shape, deployment, fanouts):
    traffic = traffic_of(shape, deployment, fanouts)
    payload = measured["question_bytes"] + measured["answer_bytes"]
    return {"questions": compared(traffic.questions, measured["questions"], CLOSE),
            "bytes": compared(traffic.asked_bytes + traffic.answered_bytes, payload, CLOSE),
            "rows": compared(traffic.rows, measured["drawn_rows"], CLOSE), "edges": compared(traffic.edges, measured["drawn_edges"], CLOSE),
            "ids": compared(traffic.ids, measured["original_ids"] + measured["mapped_ids"], CLOSE),
            "cpu": compared(predicted(costs["cpu"], cpu_terms(shape, deployment, fanouts)), measured["cpu"], NEAR)}


def compare_all(costs, shapes, setup, measured):
    found = {}
    for name, (fanouts, _, features, _) in SHAPES.items():
        shape, deployment, of = shapes[name], deployment_of(setup, features), measured[name, "validated"]
        found[name] = compare_costs(costs, of, shape, deployment, fanouts)
        if of["batch_memory"] > LEAST_MEMORY:
            found[name]["memory"] = compared(predicted(costs["memory"], memory_terms(shape, deployment, fanouts)), of["batch_memory"], NEAR)
        found[name]["rate"] = of["rate"]
    return found | {"start": {"seconds": of["start_seconds"], "anonymous": of["start_anonymous"]}}


def through_link(cluster, shapes, free, rounds, name="three hops"):
    """The link to the first machine takes a third of the bytes that it took."""
    fanouts, batch_size, features, batches = SHAPES[name]
    traffic = traffic_of(shapes[name], deployment_of(cluster.setup, features), fanouts)
    bits = int(on_the_wire(traffic.bytes_in) * 8 * free / 3)
    device = "v" + cluster.first.name
    subprocess.run(["tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{bits}bit", "burst", "256kb", "latency", "50ms"], check=True)
    try:
        rate = statistics.median(cluster.sample(fanouts, batch_size, features, batches)["rate"] for _ in range(rounds))
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", device, "root"], check=True)
    return {"bits_per_s": bits, "free_rate": free, "rate": compared(rate_of_link(traffic.bytes_in, bits), rate, NEAR)}


def with_delay(cluster, shapes, costs, rounds, name="small"):
    """Relays, which run here, are 20 ms late in each direction."""
    fanouts, batch_size, features, batches = SHAPES[name]
    deployment = deployment_of(cluster.setup, features)
    traffic = traffic_of(shapes[name], deployment, fanouts)
    with here_too(cluster) as host:
        peers = ",".join(Relay(address, DELAY, host).address for address in cluster.servers)
        rate = statistics.median(cluster.sample(fanouts, batch_size, features, batches // 16, peers=peers)["rate"] for _ in range(rounds))
    busy = predicted(costs["cpu"], cpu_terms(shapes[name], deployment, fanouts))
    return {"delay": DELAY, "rounds": traffic.rounds,
            "rate": compared(rate_of_delay(traffic, 2 * DELAY, busy, UNDER_WAY), rate, NEAR)}


def beyond(found):
    """Whether one of the comparisons in it is out of bounds."""
    if isinstance(found, dict):
        return found.get("within") is False or any(beyond(value) for value in found.values())
    return False


def validate(options):
    prepare(options)
    shapes, wanted = measured_shapes(options), setups(options)
    measured = measure_rounds(options, wanted | {"validated": four(options)}, options.rounds)
    costs = costs_of(options, shapes, wanted, measured)
    found = compare_all(costs, shapes, four(options), measured)
    with Cluster(options, four(options)) as cluster:
        found["link"] = through_link(cluster, shapes, found["three hops"]["rate"], options.rounds)
        found["delay"] = with_delay(cluster, shapes, costs, options.rounds)
    good = not beyond(found)
    found["connection"] = connection_memory(options)
    for servers in options.many:  # how far it carries: told, and no error
        prepare(options, [servers + 1])
        setup = Setup(options.folder / f"cut-{servers + 1}", servers + 1, 1, 2, servers)
        found[f"{servers} servers"] = compare_all(costs, shapes, setup, measure_rounds(options, {"validated": setup}, 1))
    return {"bench": "simulate validate", **costs, "four": found}, good


# ---- predict

def predict(options):
    costs = json.loads(options.costs.read_text(encoding="utf-8"))
    fanouts = [int(one) for one in options.fanouts.split(",")]
    shape = random_shape(options.nodes, options.edges / options.nodes, fanouts, options.batch_size)
    found = [deployed(options, costs, shape, fanouts, machines) for machines in options.machines]
    return {"bench": "simulate predict", "nodes": options.nodes, "edges": options.edges, "features": options.features, "fanouts": fanouts,
            "batch_size": options.batch_size, "link_gbit": options.link, "usual_ms": options.usual, "p99_ms": options.p99,
            "rows_per_batch": shape.nodes, "edges_per_batch": shape.drawn, "deployments": found}, True


def deployed(options, costs, shape, fanouts, machines):
    of = Deployment(machines=machines, sharded=not options.replicated, id_bytes=4 if options.nodes <= 1 << 31 else 8,
                    feature_bytes=(4 * options.features,))
    traffic, terms = traffic_of(shape, of, fanouts), cpu_terms(shape, of, fanouts)
    folder = {way: partition_bytes(options.nodes, options.edges, machines, of.id_bytes, 4 * options.features, sharded=way == "sharded")
              for way in ("sharded", "replicated")}
    servers = of.contacted(shape.nodes)
    waits = {replicas: slowest_of(servers, options.usual / 1000, options.p99 / 1000, replicas) for replicas in (1, 2)}
    cpu = {name: costs["cpu"][name] * amount for name, amount in terms.items()}
    return {"machines": machines, "questions": traffic.questions, "questions_of_a_round": traffic.most_at_once, "rounds": traffic.rounds,
            "bytes": traffic.bytes, "question_bytes": traffic.asked_bytes, "ids_asked": traffic.ids, "unknown_ids": share_of_unknown(shape, of),
            "cpu_seconds": sum(cpu.values()), "cpu_of": cpu, "memory": predicted(costs["memory"], memory_terms(shape, of, fanouts)),
            "folder": folder, "folder_bytes": {way: sum(parts.values()) for way, parts in folder.items()},
            "connections_of_a_process": machines - 1, "connections_of_a_server": (machines - 1) * (options.trainers + options.workers + 1),
            "batches_per_s_of_link": rate_of_link(traffic.bytes, options.link * 1e9),
            "round_seconds": waits[1], "round_seconds_with_replicas": waits[2],
            "batches_per_s_of_waits": options.workers * rate_of_delay(traffic, waits[1], 1e-9, UNDER_WAY) if traffic.rounds else None}


def numbers(text):
    return [int(float(one)) for one in text.split(",") if one]


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("what", nargs="?", choices=("measure", "validate", "predict"))
    for name in ("folder", "costs", "data"):
        parser.add_argument("--" + name, type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    for name, default in {"nodes": 600_000, "edges": 12_000_000, "features": 128, "rounds": 3, "batch-size": 1024, "workers": 8,
                          "trainers": 8}.items():
        parser.add_argument("--" + name, type=lambda text: int(float(text)), default=default)
    for name, default in {"link": 100.0, "usual": 0.5, "p99": 50.0}.items():
        parser.add_argument("--" + name, type=float, default=default)
    parser.add_argument("--machines", type=numbers, default=[100, 1000])
    parser.add_argument("--many", type=numbers, default=[])
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--replicated", action="store_true")
    parser.add_argument("--help", "-h", action="store_true")
    options = parser.parse_args()
    if options.help or options.what is None or options.costs is None or (options.what != "predict" and options.folder is None):
        sys.exit(__doc__.strip())
    if options.folder:
        options.folder = options.folder.resolve()
        options.folder.mkdir(parents=True, exist_ok=True)
    try:
        report, good = {"measure": measure, "validate": validate, "predict": predict}[options.what](options)
    except Failed as failure:
        sys.exit(f"simulate.py: {failure}")
    print(json.dumps(report, indent=1, default=float))  # of numbers that are NumPy's
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
