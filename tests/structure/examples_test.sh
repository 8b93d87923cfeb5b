#!/usr/bin/env bash
# The scripts in examples/: what they refuse, and, of link_prediction.sh, what it runs, what it skips the next time, and where it stops.
# A copy of them runs with made-up programs that write down how they were called; what the real ones make of the real graphs takes
# minutes and a build with Torch, and tests/trainer asks that of the programs themselves.
set -uo pipefail
source "${BASH_SOURCE[0]%/*}/script_checks.sh"
checkout=$sandbox/checkout

# --- the made-up checkout ---------------------------------------------------------------------------------------------
new_case() {
  rm -rf "${sandbox:?}"/*
  mkdir -p "$checkout"
  cp -r "$source_root/scripts" "$source_root/examples" "$checkout/"
  : >"$sandbox/calls"
  local tool
  stub "$checkout/scripts/setup.sh" 'exit 0'
  for tool in cmake apt-get; do stub "$sandbox/bin/$tool" 'exit 0'; done
  stub "$sandbox/bin/df" 'printf "Filesystem 1024-blocks Used Available\n/dev/x 90000000 0 90000000\n"'
  stub "$sandbox/bin/apt-cache" "printf 'Package: p%s\n' {1..1000}"
  # Both get where to as the third word: import debian OUT, split-links DIR OUT.
  stub "$checkout/build/release/bin/hopfeed-partition" "echo \"\$*\" >>'$sandbox/calls'
[[ \$1 == import || -e \$2/meta.json ]] || exit 2
mkdir -p \"\$3\" && : >\"\$3/meta.json\""
  stub "$checkout/.venv/bin/torchrun" "echo \"torchrun \$*\" >>'$sandbox/calls'
while [[ \$1 != --out ]]; do shift; done
mkdir -p \"\$2\" && printf '{\"edge_type\": \"e\", \"test_auc\": 0.9, \"valid_auc\": 0.9, \"baseline_test_auc\": 0.5, \"epochs\": %s,
\"epoch_seconds\": 1, \"batches_per_s\": 1, \"trainer_wait_fraction\": 0}' \"\$4\" >\"\$2/summary.json\""
}

# example SCRIPT ARGUMENT...: leaves $status, $out, $err; $calls are those of this run.
example() {
  : >"$sandbox/calls"
  PATH=$sandbox/bin:$PATH HOPFEED_GRAPHS=$sandbox/data "$checkout/examples/$1" "${@:2}" >"$sandbox/out" 2>"$sandbox/err" </dev/null
  status=$?
  out=$(<"$sandbox/out")
  err=$(<"$sandbox/err")
  calls=$(sed "s#$checkout/##g" "$sandbox/calls")
}

# --- what is expected -------------------------------------------------------------------------------------------------
shown() { printf '  calls: %s\n' "$calls"; }
calls_are() { [[ $calls == "$1" ]] || fail "should call"$'\n'"$1"; }

debian='import debian links/debian-imported --hetero
split-links links/debian-imported links/debian-split --edge-types depends --num-val 0.1 --num-test 0.1
partition links/debian-split links/debian --parts 2'
lastfm="import ogb links/lastfm-imported --raw $sandbox/data/lastfm --add-inverse-edge
split-links links/lastfm-imported links/lastfm-split --edge-types listens --num-val 0.1 --num-test 0 --neg-sampling-ratio 0
co-occurrence links/lastfm-split links/lastfm-shared --edge-type listens --min-users 3
partition links/lastfm-shared links/lastfm --parts 2"
two='torchrun --standalone --no-python --nproc-per-node=2 build/release/bin/link_prediction'
# train_debian EPOCHS, train_lastfm EPOCHS
train_debian() { echo "$two --data links/debian --out links/debian-model --epochs $1 --edge-type depends --fanouts 6,3"; }
train_lastfm() {
  echo "$two --data links/lastfm --out links/lastfm-model --epochs $1 --edge-type listens --fanouts 8,4 --edge-fanouts" \
    "listens=0,0;trusts=0,0;rev_trusts=0,0 --batch-size 2048 --lr 0.01 --embedding-lr 0.01"
}

for script in quickstart.sh hetero.sh link_prediction.sh server_client.sh cache.sh tables.sh embeddings.sh; do
  case_of "$script: help and bad options"
  example $script --help
  succeeds; says "Usage: examples/$script"
  example $script --epoch 3; refuses_with "unknown option '--epoch' (see examples/$script --help)"
  example $script 3; refuses_with "unknown option '3'"
  for epochs in 0 -1 two 1.5 1000000 ''; do
    example $script --epochs "$epochs"; refuses_with "--epochs is '$epochs'; give a whole number"
    example $script --epochs="$epochs"; refuses_with "--epochs is '$epochs'; give a whole number"
  done
  example $script --epochs; refuses_with "--epochs is ''"
  example $script --dir ''; refuses_with "--dir needs a folder"
  example $script --dir; refuses_with "--dir needs a folder"
  : >"$sandbox/file"
  example $script --dir "$sandbox/file/below"; refuses_with "cannot make the folder '$sandbox/file/below'"
  [[ -z $(find "$checkout" -name 'meta.json') && -z $calls ]] || fail "should begin nothing"
done

case_of "server_client.sh: how often servers are killed"
for seconds in 0 -1 two 1.5 100000; do
  example server_client.sh --kill-every "$seconds"; refuses_with "--kill-every is '$seconds'; give a whole number"
  example server_client.sh --kill-every="$seconds"; refuses_with "--kill-every is '$seconds'; give a whole number"
done
example server_client.sh --kill-every; refuses_with "--kill-every needs a number of seconds"
[[ -z $calls ]] || fail "should begin nothing"

case_of "link_prediction.sh: without LastFM's data"
example link_prediction.sh
succeeds; says "No $sandbox/data/lastfm here"; says "Test ROC-AUC 0.900 after 20 epochs"
calls_are "$debian"$'\n'"$(train_debian 20)"

case_of "link_prediction.sh: both graphs; what is done is skipped; other epochs train again"
mkdir -p "$sandbox/data/lastfm/raw"
example link_prediction.sh --epochs 3
succeeds
calls_are "$debian"$'\n'"$(train_debian 3)"$'\n'"$lastfm"$'\n'"$(train_lastfm 3)"
example link_prediction.sh --epochs 3
succeeds; calls_are ""
says "Done before: $checkout/links/debian"; says "Done before: $checkout/links/lastfm-model/summary.json"
# A step may end within a tick of the clock that the one before it ended in.
find "$checkout/links" -name '*.json' -exec touch -d 2026-01-01 {} +
example link_prediction.sh --epochs 3
succeeds; calls_are ""
touch -d 2026-01-02 "$checkout/links/debian/meta.json"
example link_prediction.sh --epochs 3
succeeds; calls_are "$(train_debian 3)"
example link_prediction.sh --epochs=4
succeeds; calls_are "$(train_debian 4)"$'\n'"$(train_lastfm 4)"
example link_prediction.sh --epochs 4 --dir "$sandbox/elsewhere"
succeeds; [[ -e $sandbox/elsewhere/lastfm-model/summary.json ]] || fail "should write where --dir says"

case_of "link_prediction.sh: it stops at the first command that fails, and goes on from there"
stub "$checkout/.venv/bin/torchrun" 'echo "hopfeed: no" >&2; exit 3'
example link_prediction.sh
((status == 3)) || fail "should end as its command did"
calls_are "$debian"
example link_prediction.sh
calls_are ""

case_of "link_prediction.sh: no package lists"
stub "$sandbox/bin/apt-cache" 'exit 0'
example link_prediction.sh
refuses_with "this machine has no package lists of apt"; calls_are ""

all_hold examples
