#!/usr/bin/env bash
# Two sampling servers and two trainers, four processes, on the quickstart's graph; and the proof that they learn what the
# quickstart's two trainers with workers of their own learn: the same losses, to the last bit. With --kill-every a server is
# killed and started again all the time, and the losses are the same still. Each step prints the command that it runs.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

epochs=20
folder=$root/server_client
kill_every=

usage() {
  cat <<HELP
Usage: examples/server_client.sh [--epochs N] [--dir DIR] [--kill-every SECONDS]

  --epochs N             epochs to train (20)
  --dir DIR              where everything goes (server_client/ in this checkout): the servers' token and logs, the best
                         model in DIR/model.pt, every figure in DIR/summary.json
  --kill-every SECONDS   kill one of the servers (SIGKILL) every so many seconds, in turn, and start it again
  --help                 this text

The dataset and the losses to compare with are those of examples/quickstart.sh, which is run first where it has not been run with
as many epochs.
HELP
}

others=()
while (($#)); do
  case $1 in
    --kill-every=*) kill_every=${1#*=} ;;
    --kill-every) kill_every=${2-}; [[ -n $kill_every ]] || die "--kill-every needs a number of seconds"; shift ;;
    *) others+=("$1") ;;
  esac
  shift
done
read_options "${others[@]}"
[[ -z $kill_every || $kill_every =~ ^[1-9][0-9]{0,4}$ ]] ||
  die "--kill-every is '$kill_every'; give a whole number of seconds from 1 on"
prepare_example hopfeed-server node_classification
bin=build/release/bin

# --- 1. the quickstart ------------------------------------------------------------------------------------------------
step "1. The quickstart: the dataset, and what worker mode learns"
worker_mode=$root/quickstart
if ! not_older "$worker_mode/summary.json" "$worker_mode/dataset/meta.json" ||
  ! scripts/summary.py "$worker_mode/summary.json" --epochs "$epochs" >/dev/null 2>&1; then
  [[ ! -e $worker_mode/summary.json ]] || worker_mode=$folder/quickstart   # that run has other epochs: leave it alone
  run examples/quickstart.sh --epochs "$epochs" --dir "$worker_mode"
else
  say "Done before: $worker_mode/summary.json"
fi
dataset=$worker_mode/dataset

# --- 2. servers -------------------------------------------------------------------------------------------------------
addresses=(127.0.0.1:0 127.0.0.1:0)
killer=

end_servers() {
  [[ -z $killer ]] || kill "$killer" 2>/dev/null || true
  local file
  for file in "$folder"/server-*.pid; do   # whoever has started the one that runs now
    [[ ! -e $file ]] || kill "$(<"$file")" 2>/dev/null || true
  done
  rm -f "$folder"/server-*.pid
}

# start_server NUMBER: at its address; the first time at a port that is free, which it prints.
start_server() {
  local out=$folder/server-$1.out
  "$bin/hopfeed-server" --data "$dataset" --listen "${addresses[$1]}" --num-workers 1 --token-file "$folder/token" \
    >"$out" 2>>"$folder/server-$1.log" &
  local pid=$! tries
  echo "$pid" >"$folder/server-$1.pid"
  disown "$pid"   # bash tells of no death that was meant
  for ((tries = 0; tries < 300; ++tries)); do
    if grep -q '^listening on ' "$out"; then
      addresses[$1]=$(sed -n 's/^listening on //p' "$out")
      return
    fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  die "server $1 does not start: $(tail -n 1 "$folder/server-$1.log")"
}

step "2. Start two servers, each with one sampling worker"
rm -f "$folder"/server-*.{log,out,pid}
(umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$folder/token")
trap end_servers EXIT
for number in 0 1; do
  say "\$ $bin/hopfeed-server --data $dataset --listen ${addresses[$number]} --num-workers 1 --token-file $folder/token &"
  start_server "$number"
  say "Server $number listens on ${addresses[$number]} (process $(<"$folder/server-$number.pid"))."
done

# --- 3. trainers ------------------------------------------------------------------------------------------------------
if [[ -n $kill_every ]]; then
  say "Every $kill_every s one of them is killed and started again."
  (
    trap - EXIT
    number=0
    while sleep "$kill_every"; do
      kill -9 "$(<"$folder/server-$number.pid")" 2>/dev/null || true
      sleep 0.2   # for its port
      start_server "$number"
      echo "killed" >>"$folder/killed.out"
      number=$((1 - number))
    done
  ) &
  killer=$!
fi
: >"$folder/killed.out"

step "3. Train with two trainers for $epochs epochs"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}   # torchrun would say so itself, at length
run .venv/bin/torchrun --standalone --no-python --nproc-per-node=2 "$bin/node_classification" \
  --servers "${addresses[0]},${addresses[1]}" --token-file "$folder/token" --out "$folder" --epochs "$epochs"

# --- 4. the proof -----------------------------------------------------------------------------------------------------
step "4. Compare with worker mode"
scripts/same_losses.py "$folder/summary.json" "$worker_mode/summary.json" "worker mode" || die "the losses differ from worker mode's"
[[ -z $kill_every ]] || say "Servers were killed $(wc -l <"$folder/killed.out") times meanwhile."
say "The model is $folder/model.pt, every figure is in $folder/summary.json, what the servers said in $folder/server-*.log."
