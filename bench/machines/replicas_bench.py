#!/usr/bin/env python3
"""What it costs that one owner of four answers late, where its partition has a second server. Prints JSON.

Usage: replicas_bench.py --data DIR [--bin FOLDER] [--fanouts 15,10,5] [--batch-size N] [--epochs N] [--rounds N]
                         [--delay MS]

  --data DIR     a dataset in five partitions: batches are made by a machine that has the first, and ask four owners
  --delay MS     that a relay adds to each question of the late owner and its answer together (50)

The late owner and its replica are each behind a relay, always, so that both cost the same with the delay and without.
Each round has, in an order that turns round: no delay (`even`), the delay (`late`), and the delay without a replica
(`alone`).

late_over_even   batches/s of `late` over those of `even`, of one round
alone_over_even  what the replica saves
asked_twice      share of the questions of `late` that were asked of a second server
even_asked_twice of `even`
"""
import json
import pathlib
import statistics

from machines_bench import ROOT, Relay, Server, parse, sample

OWNERS = 4


def main():
    options, meta = parse(__doc__, parts=OWNERS + 1, bin=ROOT / "build/release/bin", batch_size=1024, epochs=3, delay=50.0)
    options.bin = pathlib.Path(options.bin)
    servers = [Server(options.bin, options.data, p) for p in range(1, OWNERS + 1)]
    replica = Server(options.bin, options.data, 1)
    try:
        late, other = Relay(servers[0].address, 0), Relay(replica.address, 0)
        owners = [late.address] + [server.address for server in servers[1:]]

        def run(delay, peers):
            late.delay = delay / 2000
            told = sample(options, options.data, ["--partitions", "0", "--replicas", "2", "--peers", ",".join(peers)])
            questions = told["tiers"]["peer_questions"]
            return {"batches_per_s": told["batches"] / told["seconds"], "batches": told["batches"], "questions": questions,
                    "asked_twice": told["tiers"]["peer_asked_twice"] / max(1, questions)}
        kinds = {"even": lambda: run(0, [*owners, other.address]),
                 "late": lambda: run(options.delay, [*owners, other.address]),
                 "alone": lambda: run(options.delay, owners)}
        rounds = []
        for number in range(options.rounds):
            names = list(kinds)[number % 3:] + list(kinds)[:number % 3]
            runs = {name: kinds[name]() for name in names}
            rounds.append({**{f"{name}_over_even": runs[name]["batches_per_s"] / runs["even"]["batches_per_s"]
                              for name in ("late", "alone")},
                           "asked_twice": runs["late"]["asked_twice"], "even_asked_twice": runs["even"]["asked_twice"],
                           **{f"{name}_batches_per_s": told["batches_per_s"] for name, told in runs.items()},
                           "batches": runs["even"]["batches"], "questions": runs["late"]["questions"]})
    finally:
        for server in [*servers, replica]:
            server.end()
    print(json.dumps({"bench": "replicas", "data": meta["name"], "fanouts": options.fanouts, "batch_size": options.batch_size,
                      "rounds": options.rounds, "delay_ms": options.delay,
                      "median": {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}, "all": rounds}, indent=1))


if __name__ == "__main__":
    main()
