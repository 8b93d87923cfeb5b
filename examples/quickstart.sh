#!/usr/bin/env bash
# From a clone to a trained model: installs what is missing, builds, imports a real graph, trains, reports.
# Each step prints the command that it runs; what is done already is skipped.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

epochs=20
folder=$root/quickstart

usage() {
  cat <<HELP
Usage: examples/quickstart.sh [--epochs N] [--dir DIR]

  --epochs N   epochs to train (20)
  --dir DIR    where everything goes (quickstart/ in this checkout): the dataset in DIR/dataset, the best model in
               DIR/model.pt, every figure in DIR/summary.json. Remove DIR to begin anew.
  --help       this text
HELP
}

read_options "$@"
prepare_example node_classification
bin=build/release/bin

# --- 1. a graph -------------------------------------------------------------------------------------------------------
step "1. Import a graph"
if [[ -e $folder/imported/meta.json ]]; then
  say "Done before: $folder/imported"
elif fetch_package_lists; then
  run "$bin/hopfeed-partition" import debian "$folder/imported"
else
  say "This machine has no package lists of apt, so a made-up graph takes the place of Debian's package graph:"
  say "its accuracy says nothing about real data."
  run "$bin/hopfeed-partition" generate "$folder/imported" --nodes 60000 --edges 600000 --features 128 --classes 40 --seed 1 \
    --train-fraction 0.6 --valid-fraction 0.2
fi

step "2. Cut it into two partitions"
if not_older "$folder/dataset/meta.json" "$folder/imported/meta.json"; then
  say "Done before: $folder/dataset"
else
  run "$bin/hopfeed-partition" partition "$folder/imported" "$folder/dataset" --parts 2 --overwrite
fi

# --- 3. and 4. training and the report --------------------------------------------------------------------------------
step "3. Train with two trainers for $epochs epochs, 4. infer over all nodes"
if not_older "$folder/summary.json" "$folder/dataset/meta.json" && scripts/summary.py "$folder/summary.json" --epochs "$epochs" >/dev/null 2>&1; then
  say "Done before: $folder/summary.json"
else
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}   # torchrun would say so itself, at length
  run .venv/bin/torchrun --standalone --no-python --nproc-per-node=2 "$bin/node_classification" \
    --data "$folder/dataset" --out "$folder" --epochs "$epochs"
fi

step "Done"
scripts/summary.py "$folder/summary.json"
say "The dataset is $folder/dataset, the model $folder/model.pt, every figure is in $folder/summary.json."
