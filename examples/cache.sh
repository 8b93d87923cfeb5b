#!/usr/bin/env bash
# How much of the features should a trainer hold, at the end of a wire of 1 GB/s? On the quickstart's graph and on a made-up one
# the tuner says what each ratio will bring; then a client of a sampling server holds three of them, and what it measures stands
# beside. At last three trainers, each with another ratio, learn the same, to the last bit. Each step prints the command that it runs.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

epochs=3
folder=$root/cache_example
ratios=(0.05 0.2 0.5)

usage() {
  cat <<HELP
Usage: examples/cache.sh [--epochs N] [--dir DIR]

  --epochs N   epochs that each of the three trainers learns (3)
  --dir DIR    where everything goes (cache_example/ in this checkout): graphs, curves as SVG, every figure as JSON
  --help       this text
HELP
}

read_options "$@"
prepare_example hopfeed-server hopfeed-sample node_classification
bin=build/release/bin

# --- 1. graphs --------------------------------------------------------------------------------------------------------
step "1. Two graphs"
if [[ -e $folder/packages/meta.json ]]; then
  say "Done before: $folder/packages"
elif fetch_package_lists; then
  run "$bin/hopfeed-partition" import debian "$folder/packages"
else
  say "This machine has no package lists of apt, so a made-up graph takes the place of Debian's package graph."
  run "$bin/hopfeed-partition" generate "$folder/packages" --nodes 60000 --edges 600000 --features 128 --classes 40 --seed 1 \
    --train-fraction 0.6 --valid-fraction 0.2
fi
if [[ -e $folder/generated/meta.json ]]; then
  say "Done before: $folder/generated"
else
  run "$bin/hopfeed-partition" generate "$folder/generated" --nodes 300000 --edges 6000000 --features 100 --classes 40 --seed 1 \
    --train-fraction 0.1 --valid-fraction 0.02
fi

# --- 2. and 3. what the tuner says, what is measured ------------------------------------------------------------------
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true' EXIT

# start_server DATASET: its process in $server, its address in $address.
start_server() {
  : >"$folder/server.out"   # the one before has left its address there
  "$bin/hopfeed-server" --data "$1" --listen 127.0.0.1:0 --num-workers 1 >"$folder/server.out" 2>"$folder/server.log" &
  server=$!
  local tries
  for ((tries = 0; tries < 300; ++tries)); do
    address=$(sed -n 's/^listening on //p' "$folder/server.out")
    [[ -z $address ]] || return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  die "the server does not start: $(tail -n 1 "$folder/server.log")"
}

end_server() {
  kill "$server"
  wait "$server" || true
  server=
}

for graph in packages generated; do
  step "2. $graph: what the tuner says"
  run "$bin/hopfeed-partition" tune "$folder/$graph" --fanouts 15,10,5 --batch-size 1024 --num-workers 1 --link 1e9 --plot "$folder/$graph.svg" \
    --json "$folder/$graph.tune.json"
  step "3. $graph: a client of a server holds ${ratios[*]} of the rows"
  start_server "$folder/$graph"
  for ratio in "${ratios[@]}"; do
    say "\$ $bin/hopfeed-sample --servers $address --fanouts 15,10,5 --batch-size 1024 --cache $ratio"
    "$bin/hopfeed-sample" --servers "$address" --fanouts 15,10,5 --batch-size 1024 --cache "$ratio" \
      --json "$folder/$graph.$ratio.json" >"$folder/$graph.$ratio.batches"
    cmp "$folder/$graph.$ratio.batches" "$folder/$graph.${ratios[0]}.batches" || die "batches differ with another ratio"
  done
  end_server
done

# --- 4. training ------------------------------------------------------------------------------------------------------
step "4. Train on the packages with each ratio"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
start_server "$folder/packages"
for ratio in "${ratios[@]}"; do
  mkdir -p "$folder/train-$ratio"
  run "$bin/node_classification" --servers "$address" --cache "$ratio" --out "$folder/train-$ratio" --epochs "$epochs"
done
end_server

step "Done"
python3 - "$folder" "${ratios[@]}" <<'TABLE' || die "what was measured is not what was said"
import json
import sys

folder, ratios = sys.argv[1], sys.argv[2:]
load = lambda name: json.load(open(f"{folder}/{name}", encoding="utf-8"))
wrong = False
print("graph      ratio   hit rate: said   measured   batches/s")
for graph in ("packages", "generated"):
    curve = [row for row in load(f"{graph}.tune.json")["curve"] if row["policy"] == "stored"]
    for ratio in ratios:
        said = min(curve, key=lambda row: abs(row["ratio"] - float(ratio)))["hit_rate"]
        run = load(f"{graph}.{ratio}.json")
        wrong |= abs(said - run["hit_rate"]) > 0.01
        print(f"{graph:10} {ratio:>5}   {100 * said:13.1f}%   {100 * run['hit_rate']:7.1f}%   {run['batches'] / run['seconds']:9.1f}")
losses = [[row["loss"] for row in load(f"train-{ratio}/summary.json")["epoch_rows"]] for ratio in ratios]
same = all(loss == losses[0] for loss in losses)
rates = [load(f"train-{ratio}/summary.json")["epoch_rows"][-1]["hit_rate"] for ratio in ratios]
wrong |= not 0 < rates[0] < rates[1] < rates[2]
print("All three trainers have the same losses, to the last bit." if same else "The losses differ.")
print("Of the rows of their batches, " + ", ".join(f"{100 * rate:.1f}%" for rate in rates) + " did not travel.")
for graph in ("packages", "generated"):
    print(f"{graph}: {load(f'{graph}.tune.json')['recommended']['reason']}")
sys.exit(wrong or not same)
TABLE
say "The curves are $folder/packages.svg and $folder/generated.svg."
