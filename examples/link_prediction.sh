#!/usr/bin/env bash
# From a clone to models that predict links: the dependencies of Debian's packages, and, where the data are there, which artists
# users of LastFM listen to (the two towers of PyG's tutorial on bipartite graphs). Installs what is missing, builds, imports, holds links
# out, trains, reports. Each step prints the command that it runs; what is done already is skipped.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

epochs=20
folder=$root/links
data=${HOPFEED_GRAPHS:-$root/../shared/data}

usage() {
  cat <<HELP
Usage: examples/link_prediction.sh [--epochs N] [--dir DIR]

  --epochs N   epochs to train (20)
  --dir DIR    where everything goes (links/ in this checkout): the datasets in DIR/debian and DIR/lastfm, the best models
               and every figure in DIR/debian-model and DIR/lastfm-model (model.pt, summary.json). Remove DIR to begin anew.
  --help       this text

LastFM is read from HOPFEED_GRAPHS/lastfm (../shared/data/lastfm) in OGB's raw layout, with its test links in test/; without it that
part is left out.
HELP
}

read_options "$@"
prepare_example link_prediction
bin=build/release/bin
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}   # torchrun would say so itself, at length

# dataset FOLDER COMMAND...: runs the command that makes the dataset, unless it is there.
dataset() {
  if [[ -e $1/meta.json ]]; then
    say "Done before: $1"
  else
    run "${@:2}"
  fi
}

# train NAME OPTION...: two trainers on DIR/NAME.
train() {
  local out=$folder/$1-model
  if not_older "$out/summary.json" "$folder/$1/meta.json" && scripts/summary.py "$out/summary.json" --epochs "$epochs" >/dev/null 2>&1; then
    say "Done before: $out/summary.json"
  else
    run .venv/bin/torchrun --standalone --no-python --nproc-per-node=2 "$bin/link_prediction" --data "$folder/$1" --out "$out" \
      --epochs "$epochs" "${@:2}"
  fi
}

step "1. Debian's packages with their types: hold a fifth of the dependencies out"
fetch_package_lists || die "this machine has no package lists of apt, which are the graph; run apt-get update as root first"
dataset "$folder/debian-imported" "$bin/hopfeed-partition" import debian "$folder/debian-imported" --hetero
dataset "$folder/debian-split" "$bin/hopfeed-partition" split-links "$folder/debian-imported" "$folder/debian-split" \
  --edge-types depends --num-val 0.1 --num-test 0.1
dataset "$folder/debian" "$bin/hopfeed-partition" partition "$folder/debian-split" "$folder/debian" --parts 2

step "2. Train with two trainers for $epochs epochs"
train debian --edge-type depends --fanouts 6,3

if [[ -d $data/lastfm/raw ]]; then
  step "3. LastFM: artists that at least three users share, and validation links"
  dataset "$folder/lastfm-imported" "$bin/hopfeed-partition" import ogb "$folder/lastfm-imported" --raw "$data/lastfm" --add-inverse-edge
  dataset "$folder/lastfm-split" "$bin/hopfeed-partition" split-links "$folder/lastfm-imported" "$folder/lastfm-split" \
    --edge-types listens --num-val 0.1 --num-test 0 --neg-sampling-ratio 0
  dataset "$folder/lastfm-shared" "$bin/hopfeed-partition" co-occurrence "$folder/lastfm-split" "$folder/lastfm-shared" \
    --edge-type listens --min-users 3
  dataset "$folder/lastfm" "$bin/hopfeed-partition" partition "$folder/lastfm-shared" "$folder/lastfm" --parts 2

  step "4. Train the two towers with two trainers for $epochs epochs"
  train lastfm --edge-type listens --fanouts 8,4 \
    --edge-fanouts "listens=0,0;trusts=0,0;rev_trusts=0,0" --batch-size 2048 --lr 0.01 --embedding-lr 0.01
else
  say "No $data/lastfm here (HOPFEED_GRAPHS names the folder): the second graph is left out."
fi

step "Done"
for name in debian lastfm; do
  [[ ! -e $folder/$name-model/summary.json ]] || { say "$name:"; scripts/summary.py "$folder/$name-model/summary.json"; }
done
