#!/usr/bin/env bash
# From a clone to a model trained on a graph of several types: installs what is missing, builds, imports Debian's package graph
# with and without its types, trains on both, reports. Each step prints the command that it runs; what is done already is
# skipped.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

epochs=20
folder=$root/hetero

usage() {
  cat <<HELP
Usage: examples/hetero.sh [--epochs N] [--dir DIR]

  --epochs N   epochs to train (20)
  --dir DIR    where everything goes (hetero/ in this checkout): the datasets in DIR/typed and DIR/homogeneous, the best
               models in DIR/model.pt and DIR/homogeneous.pt, every figure in DIR/summary.json. Remove DIR to begin anew.
  --help       this text
HELP
}

read_options "$@"
prepare_example hetero_classification
bin=build/release/bin

step "1. Import Debian's package graph, with its types and without"
fetch_package_lists || die "this machine has no package lists of apt, which are the graph; run apt-get update as root first"
for kind in typed homogeneous; do
  types=()
  [[ $kind == homogeneous ]] || types=(--hetero)
  if [[ -e $folder/$kind-imported/meta.json ]]; then
    say "Done before: $folder/$kind-imported"
  else
    run "$bin/hopfeed-partition" import debian "$folder/$kind-imported" "${types[@]}"
  fi
done

step "2. Cut each into two partitions"
for kind in typed homogeneous; do
  if not_older "$folder/$kind/meta.json" "$folder/$kind-imported/meta.json"; then
    say "Done before: $folder/$kind"
  else
    run "$bin/hopfeed-partition" partition "$folder/$kind-imported" "$folder/$kind" --parts 2 --overwrite
  fi
done

step "3. Train with two trainers for $epochs epochs, 4. infer over all nodes"
if not_older "$folder/summary.json" "$folder/typed/meta.json" && scripts/summary.py "$folder/summary.json" --epochs "$epochs" >/dev/null 2>&1; then
  say "Done before: $folder/summary.json"
else
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}   # torchrun would say so itself, at length
  run .venv/bin/torchrun --standalone --no-python --nproc-per-node=2 "$bin/hetero_classification" \
    --data "$folder/typed" --homogeneous "$folder/homogeneous" --out "$folder" --epochs "$epochs" \
    --fanouts 4,2 --edge-fanouts "depends=6,4;rev_depends=6,4;built_from=0,6;maintained_by=0,8;tagged=0,8" \
    --without tagged,rev_tagged   # tags nearly name the sections that are to be guessed: what do the other types say?
fi

step "Done"
scripts/summary.py "$folder/summary.json"
say "The dataset is $folder/typed, the model $folder/model.pt, every figure is in $folder/summary.json."
