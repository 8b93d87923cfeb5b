#!/usr/bin/env bash
# Runs every benchmark and writes this machine's table of results into docs/benchmarks.md.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

folder=$root/build/report bin='' doc=$root/docs/benchmarks.md
rounds=3 seconds=2 workers=2 pages=always prepare='' gpu='' peers='' only=' '
groups=(limits sampler kinds gather channel loader startup server state trainer large)
kinds=(replace weighted weighted-replace temporal temporal-last disjoint hetero labor induced walk link link-strict link-exclude)

listed() { local IFS=,; printf %s "$*" | sed 's/,/, /g'; }

usage() {
  cat <<HELP
Usage: bench/report.sh [options]

Builds the release benchmarks, runs each with its usual options, in rounds by turns, and writes the medians into the table of this
machine in docs/benchmarks.md. Other machines' tables stay, and so do rows that were not measured this time.

  --only GROUP     this group alone: $(listed "${groups[@]}"); may be given again
  --rounds N       of each command ($rounds); the table has the median, smallest and largest
  --seconds S      of each measurement ($seconds)
  --workers N      of the loader ($workers)
  --huge-pages P   auto, never or always ($pages): 2 MiB pages for the datasets
  --prepare        also time what prepares data, once: generate, partition, split-links, co-occurrence
  --gpu            also measure the card (built where nvcc is)
  --peers          also PyG's training step (bench/trainer/compare_with_pyg.sh) and, behind all else, bench/peers.sh: both install
                   other loaders, peers.sh takes an hour and leaves its own table and chart in build/peers
  --dir DIR        where reports go (build/report): runs.jsonl, one line for each run
  --bin DIR        use the programs there, and build nothing
  --doc FILE       another page (docs/benchmarks.md)
  --help           this text

Takes about an hour, 12 GB of disk in the user's cache folder (large: 8 more; state: 8 more, and 17 GB of memory) and a machine that does nothing else.
HELP
}

while (($#)); do
  case $1 in
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
    --help | -h) usage; exit 0 ;;
    --prepare | --gpu | --peers) printf -v "${1#--}" %s yes; shift; continue ;;
    --only | --rounds | --seconds | --workers | --huge-pages | --dir | --bin | --doc) (($# > 1)) || die "$1 needs a value" ;;
    *) die "unknown option '$1' (see bench/report.sh --help)" ;;
  esac
  case $1 in
    --only)
      [[ $2 =~ ^[a-z]+$ && " ${groups[*]} " == *" $2 "* ]] || die "--only: no group '$2'; there are $(listed "${groups[@]}")"
      only+="$2 " ;;
    --rounds | --workers)
      [[ $2 =~ ^[1-9][0-9]{0,2}$ ]] || die "$1 is '$2'; give a whole number from 1 to 999"
      printf -v "${1#--}" %s "$2" ;;
    --seconds) [[ $2 =~ ^[0-9]*\.?[0-9]+$ && $2 =~ [1-9] ]] || die "--seconds is '$2'; give a number above 0"; seconds=$2 ;;
    --huge-pages) [[ $2 =~ ^(auto|never|always)$ ]] || die "--huge-pages is '$2'; give auto, never or always"; pages=$2 ;;
    --dir) [[ -n $2 ]] || die "--dir needs a folder"; folder=$2 ;;
    --bin) [[ -x $2/hopfeed-bench ]] || die "no hopfeed-bench in '$2'; build it (cmake --build --preset release)"; bin=$2 ;;
    --doc) doc=$2 ;;
  esac
  shift 2
done
[[ -w $doc ]] || die "cannot write '$doc'; name a page with --doc"
mkdir -p "$folder" 2>/dev/null || die "cannot make the folder '$folder'; give a writable one with --dir"
folder=$(cd "$folder" && pwd)
[[ -w $folder ]] || die "cannot write into '$folder'; give a writable folder with --dir"

cd "$root"
if [[ -z $bin ]]; then
  step "Build"
  bin=$root/build/release/bin
  build_preset release hopfeed-bench hopfeed-worker hopfeed-server hopfeed-partition || die "the build failed; the compiler's message stands above"
  # Built without Torch there is no such target.
  build_preset release hopfeed-bench-trainer || say "No hopfeed-bench-trainer here: built without Torch."
fi
bin=$(cd "$bin" && pwd)

# --- what is run ------------------------------------------------------------------------------------------------------
wanted() { [[ $only == ' ' || $only == *" $1 "* ]]; }
commands=()   # as the table has them; hopfeed-bench where nothing else is named
! wanted limits || commands+=(limits)
! wanted sampler || commands+=(sampler "sampler --e-id" "sampler --output batch" "sampler --output batch --e-id" "sampler --batch-size 1 --fanouts 1")
if wanted kinds; then
  for kind in "${kinds[@]}"; do commands+=("sampler --kind $kind"); done
  commands+=("sampler --kind labor --instructions avx2")
  for shared in 8 64 256; do commands+=("sampler --kind labor --labor-batches $shared"); done
fi
for group in gather channel; do
  ! wanted "$group" || commands+=("$group")
done
! wanted loader || commands+=("loader --num-workers $workers")
! wanted startup || commands+=(startup)
if wanted server; then
  for part in blocks small sharing failover idle; do commands+=("server --part $part"); done
  commands+=("server --part floods --num-workers $workers --fanouts 10,5" "server --part large --num-workers $workers --features 256")
  commands+=("server --part epoch --num-workers $workers")
fi
if wanted state; then
  for part in pull push step checkpoint memory; do commands+=("state --part $part"); done
fi
[[ ! -x $bin/hopfeed-bench-trainer ]] || ! wanted trainer || commands+=(hopfeed-bench-trainer)
! wanted large || commands+=("sampler --nodes 25000000 --edges 500000000 --features 1")
[[ -z $gpu ]] || commands+=("limits --gpu")

runs=$folder/runs.jsonl
: >"$runs"
failed=0
# record COMMAND REPORT: a line of runs.jsonl. No command has a character that JSON would escape.
record() { printf '{"command": "%s", "report": %s}\n' "$1" "$(<"$2")" >>"$runs"; }

# measure COMMAND: one run of it. A benchmark that fails is told, and the others go on.
measure() {
  local words arguments
  read -ra words <<<"$1"
  if [[ ${words[0]} == hopfeed-bench-trainer ]]; then
    arguments=("$bin/hopfeed-bench-trainer" "${words[@]:1}" --seconds "$seconds")
  else
    local of_run=$pages
    [[ $1 != startup ]] || of_run=auto   # else it is the time that the kernel takes to put the arrays on such pages
    arguments=("$bin/hopfeed-bench" "${words[@]}" --huge-pages "$of_run" --seconds "$seconds")
    # The kinds read no features; a graph with few of them leaves more of the page cache to the edges.
    [[ $1 != *--kind* ]] || arguments+=(--features 4)
  fi
  if "${arguments[@]}" >"$folder/report.json"; then record "$1" "$folder/report.json"; else failed=$((failed + 1)); fi
}

for ((round = 1; round <= rounds; ++round)); do
  step "Round $round of $rounds"
  for ((i = 0; i < ${#commands[@]}; ++i)); do
    say "[$((i + 1))/${#commands[@]}] ${commands[i]}"
    measure "${commands[i]}"
  done
done

# --- what prepares data -----------------------------------------------------------------------------------------------
# timed LABEL COMMAND...: seconds, CPU seconds and peak memory of it.
timed() {
  say "$1"
  python3 - "${@:2}" >"$folder/report.json" <<'PYTHON' && record "$1" "$folder/report.json" || failed=$((failed + 1))
import json, os, subprocess, sys, time
begin = time.monotonic()
program = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(program.pid, 0)
print(json.dumps({"bench": "prepare", "seconds": time.monotonic() - begin, "cpu_seconds": used.ru_utime + used.ru_stime,
                  "peak_bytes": 1024 * used.ru_maxrss}))
sys.exit(status != 0)
PYTHON
}
if [[ -n $prepare ]]; then
  step "Preparing data"
  require_space "$folder" 40 "--prepare"
  data=$folder/data
  rm -rf "$data"
  mkdir -p "$data"
  tool=$bin/hopfeed-partition
  products=(--nodes 2449029 --edges 123718280 --features 100 --classes 47 --seed 1)
  timed "generate, 20 million nodes, a billion edges, 16 features" "$tool" generate "$data/large" --nodes 20000000 --edges 1000000000 \
    --features 16 --classes 47 --seed 1
  timed "verify of it" "$tool" verify "$data/large"
  rm -rf "$data/large"
  timed "generate, products' size" "$tool" generate "$data/products" "${products[@]}"
  timed "partition --parts 4 --method random of it" "$tool" partition "$data/products" "$data/random" --parts 4 --method random
  rm -rf "$data/random"
  timed "partition --parts 4 --metis-degree 8 of it" "$tool" partition "$data/products" "$data/metis" --parts 4 --metis-degree 8
  rm -rf "$data/metis" "$data/products"
  timed "generate --kind bipartite: a million users, four million items, 100 million interactions" "$tool" generate "$data/shop" --kind bipartite --users 1000000 --items 4000000 \
    --interactions 100000000 --seed 1
  timed "split-links --by time of it" "$tool" split-links "$data/shop" "$data/links" --edge-types interacts --by time --num-val 0.1 --num-test 0.1
  rm -rf "$data/shop"
  timed "co-occurrence --edge-type interacts of that" "$tool" co-occurrence "$data/links" "$data/items" --edge-type interacts
  rm -rf "$data"
fi

if [[ -n $peers ]]; then
  step "PyG's training step"
  if bench/trainer/compare_with_pyg.sh --program "$bin/hopfeed-bench-trainer" --rounds "$rounds" --json "$folder/report.json" >/dev/null; then
    record compare_with_pyg.sh "$folder/report.json"
  else
    failed=$((failed + 1))
  fi
fi

step "Table"
python3 bench/report_table.py "$runs" "$doc"
say "Every run: $runs"

if [[ -n $peers ]]; then
  step "Other loaders"
  bench/peers.sh --bin "$bin" || failed=$((failed + 1))
fi
((failed == 0)) || die "$failed runs failed; their rows are as they were"
