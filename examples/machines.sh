#!/usr/bin/env bash
# One graph on several machines that ask each other: each is a network namespace of its own, joined by a bridge, with one
# partition, a server that answers for it, and (the first two) a trainer with a worker beside it. They learn what the
# quickstart's two trainers learn on one machine: the same losses, to the last bit, also while servers are killed. Each step
# prints the command that it runs.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

epochs=20
folder=$root/machines
machines=2
deal=even
kill_every=

usage() {
  cat <<HELP
Usage: examples/machines.sh [--epochs N] [--dir DIR] [--machines N] [--deal even|local] [--kill-every SECONDS]

  --epochs N             epochs to train (20)
  --dir DIR              where everything goes (machines/ in this checkout): a folder for each machine, with its partition
                         and what its server says, the best model in DIR/model.pt, every figure in DIR/summary.json
  --machines N           machines, and partitions: 2 to 8 (2); two of them train
  --deal local           each trainer trains on the seeds of its own partition: other losses than on one machine, and fewer
                         rows that travel
  --kill-every SECONDS   kill one of the servers (SIGKILL) every so many seconds, in turn, and start it again
  --help                 this text

It makes network namespaces, which root may, and takes them away at its end. The dataset and the losses to compare with are
those of examples/quickstart.sh, which is run first where it has not been run with as many epochs.
HELP
}

others=()
while (($#)); do
  case $1 in
    --machines=* | --deal=* | --kill-every=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
    --machines) machines=${2-}; shift $(($# > 1 ? 2 : 1)) ;;
    --deal) deal=${2-}; shift $(($# > 1 ? 2 : 1)) ;;
    --kill-every) kill_every=${2-}; shift $(($# > 1 ? 2 : 1)) ;;
    *) others+=("$1"); shift ;;
  esac
done
read_options "${others[@]}"
[[ $deal == even || $deal == local ]] || die "--deal is '$deal'; give even or local"
[[ $machines =~ ^[2-8]$ ]] || die "--machines is '$machines'; give 2 to 8"
[[ -z $kill_every || $kill_every =~ ^[1-9][0-9]{0,4}$ ]] ||
  die "--kill-every is '$kill_every'; give a whole number of seconds from 1 on"
(($(id -u) == 0)) || die "network namespaces are root's to make; run this as root, or in a container that may make them"
command -v ip >/dev/null || die "there is no program 'ip'; install iproute2"
prepare_example hopfeed-server node_classification
bin=$root/build/release/bin

# --- 1. the quickstart ------------------------------------------------------------------------------------------------
step "1. The quickstart: the graph, and what one machine learns"
one=$root/quickstart
if ! not_older "$one/summary.json" "$one/dataset/meta.json" ||
  ! scripts/summary.py "$one/summary.json" --epochs "$epochs" >/dev/null 2>&1; then
  [[ ! -e $one/summary.json ]] || one=$folder/quickstart   # that run has other epochs: leave it alone
  run examples/quickstart.sh --epochs "$epochs" --dir "$one"
else
  say "Done before: $one/summary.json"
fi

# --- 2. machines ------------------------------------------------------------------------------------------------------
# Names of at most 15 bytes, of this process.
bridge=hf$$b
name_of() { echo "hf$$m$1"; }
address_of() { echo "10.213.77.$((10 + $1))"; }
killer=

end_machines() {
  [[ -z $killer ]] || kill "$killer" 2>/dev/null || true
  local file m
  for file in "$folder"/machine-*/server.pid; do
    [[ ! -e $file ]] || kill "$(<"$file")" 2>/dev/null || true
  done
  rm -f "$folder"/machine-*/server.pid
  for ((m = 0; m < machines; ++m)); do ip netns del "$(name_of "$m")" 2>/dev/null || true; done
  ip link del "$bridge" 2>/dev/null || true
}

make_machine() {
  local name
  name=$(name_of "$1")
  ip netns add "$name"
  ip link add "v$name" type veth peer name eth0 netns "$name"
  ip link set "v$name" master "$bridge" up
  ip -n "$name" addr add "$(address_of "$1")/24" dev eth0
  ip -n "$name" link set eth0 up
  ip -n "$name" link set lo up
}

step "2. Cut the graph into $machines partitions, and give each machine its own"
cut=$folder/cut
if not_older "$cut/meta.json" "$one/imported/meta.json" && [[ -d $cut/part-000$((machines - 1)) && ! -d $cut/part-000$machines ]]; then
  say "Done before: $cut"
else
  run "$bin/hopfeed-partition" partition "$one/imported" "$cut" --parts "$machines" --overwrite
fi
trap end_machines EXIT
ip link add "$bridge" type bridge
ip link set "$bridge" up
to=()
peers=
for ((m = 0; m < machines; ++m)); do
  make_machine "$m"
  rm -rf "$folder/machine-$m"
  mkdir -p "$folder/machine-$m"
  to+=(--to "$m=$folder/machine-$m/data")
  peers+=${peers:+,}$(address_of "$m"):9470
done
run "$bin/hopfeed-partition" push "$cut" "${to[@]}"

# start_server MACHINE: answers for its partition.
start_server() {
  local here=$folder/machine-$1 tries
  ip netns exec "$(name_of "$1")" "$bin/hopfeed-server" --data "$here/data" --peers "$peers" --num-workers 1 \
    --listen "$(address_of "$1"):9470" --insecure >"$here/server.out" 2>>"$here/server.log" &
  local pid=$!
  echo "$pid" >"$here/server.pid"
  disown "$pid"   # bash tells of no death that was meant
  for ((tries = 0; tries < 300; ++tries)); do
    ! grep -q '^listening on ' "$here/server.out" || return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  die "the server of machine $1 does not start: $(tail -n 1 "$here/server.log")"
}

step "3. Start a server on each"
for ((m = 0; m < machines; ++m)); do
  say "\$ ip netns exec $(name_of "$m") hopfeed-server --data $folder/machine-$m/data --peers $peers --listen $(address_of "$m"):9470 --insecure &"
  start_server "$m"
done

# --- 4. trainers ------------------------------------------------------------------------------------------------------
: >"$folder/killed.out"
if [[ -n $kill_every ]]; then
  say "Every $kill_every s one of them is killed and started again."
  (
    trap - EXIT
    m=0
    while sleep "$kill_every"; do
      kill -9 "$(<"$folder/machine-$m/server.pid")" 2>/dev/null || true
      sleep 0.2   # for its port
      start_server "$m"
      echo "killed" >>"$folder/killed.out"
      m=$(((m + 1) % machines))
    done
  ) &
  killer=$!
fi

step "4. Train with a trainer on each of two machines for $epochs epochs"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} GLOO_SOCKET_IFNAME=eth0
# train MACHINE OUT: where ranks meet is on machine 0.
train() {
  ip netns exec "$(name_of "$1")" .venv/bin/torchrun --nnodes=2 --node-rank="$1" --nproc-per-node=1 --no-python \
    --master-addr="$(address_of 0)" --master-port=29500 "$bin/node_classification" --data "$folder/machine-$1/data" \
    --peers "$peers" --out "$2" --epochs "$epochs" --deal "$deal" --cores $(($1 % $(nproc)))   # here they share the cores of one
}
say "\$ torchrun --nnodes=2 --node-rank=N ... node_classification --data machine-N/data --peers $peers --epochs $epochs"
train 1 "$folder" >"$folder/machine-1/trainer.log" 2>&1 &
other=$!
train 0 "$folder" || die "the trainer of machine 0 failed; that of machine 1 says: $(tail -n 1 "$folder/machine-1/trainer.log")"
wait "$other" || die "the trainer of machine 1 failed: $(tail -n 1 "$folder/machine-1/trainer.log")"

# --- 5. the proof -----------------------------------------------------------------------------------------------------
step "5. Compare with one machine"
if [[ $deal == local ]]; then
  say "Batches are other ones than on one machine, so only what was learned is compared."
  scripts/summary.py "$one/summary.json"
else
  scripts/same_losses.py "$folder/summary.json" "$one/summary.json" "one machine" || die "the losses differ from one machine's"
fi
[[ -z $kill_every ]] || say "Servers were killed $(wc -l <"$folder/killed.out") times meanwhile."
say "The model is $folder/model.pt, every figure is in $folder/summary.json, what servers said in $folder/machine-*/server.log."
