#!/usr/bin/env bash
# Trainers on several machines by torchrun alone: the same command on each of them, in any order.
#
#   worker mode            torchrun.sh --head node0 --machines 2 --trainers 4 \
#                              node_classification --data /data/products --out /shared/run --resume
#   server-client mode     torchrun.sh --head node0 --machines 2 --trainers 4 \
#                              node_classification --servers node8:9470,node9:9470 --token-file token --tls-ca ca.crt \
#                              --out /shared/run --resume
#
# docs/cluster.md has the servers' side, and what the folders must be.
set -euo pipefail

usage() {
  cat <<HELP
Usage: examples/cluster/torchrun.sh --head HOST[:PORT] --machines N [OPTION...] PROGRAM [ARGUMENT...]

  --head HOST[:PORT]   the machine where trainers find each other, one of those that run this (port 29400)
  --machines N         machines that run this
  --trainers N         trainers on each of them (1)
  --max-restarts N     times that all trainers are started again when one dies (3)
  --id TEXT            another name for each run whose trainers meet at the same place (hopfeed)
  --help               this text

A training program reads its own options behind it: with --data each trainer has sampling workers of its own, with
--servers it asks hopfeed-server.
HELP
}
die() { echo "torchrun.sh: $*" >&2; exit 2; }
whole() { [[ $2 =~ ^(0|[1-9][0-9]{0,5})$ && $2 -ge $3 ]] || die "$1 is '$2'; give a whole number from $3 on"; }

head= machines= trainers=1 max_restarts=3 id=hopfeed
while (($#)); do
  case $1 in
    --head | --machines | --trainers | --max-restarts | --id)
      (($# > 1)) || die "$1 needs a value"
      option=${1#--}
      printf -v "${option//-/_}" '%s' "$2"
      shift 2
      ;;
    --help | -h) usage; exit 0 ;;
    -*) die "unknown option '$1' (see examples/cluster/torchrun.sh --help)" ;;
    *) break ;;
  esac
done
[[ -n $head ]] || die "--head is required: the machine where trainers find each other"
[[ -n $machines ]] || die "--machines is required: how many machines run this"
whole --machines "$machines" 1
whole --trainers "$trainers" 1
whole --max-restarts "$max_restarts" 0
(($#)) || die "name the training program behind the options"
[[ $head == *:* ]] || head=$head:29400
command -v torchrun >/dev/null || die "there is no torchrun in PATH; activate the environment that has Torch"
command -v "$1" >/dev/null || die "there is no program '$1' here; it must be on every machine, at the same place"

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}   # torchrun would say so itself, at length
exec torchrun --nnodes="$machines" --nproc-per-node="$trainers" --rdzv-backend=c10d --rdzv-endpoint="$head" \
  --rdzv-id="$id" --max-restarts="$max_restarts" --no-python "$@"
