#!/usr/bin/env bash
# hopfeed and other loaders on the same graph, in the same run, by turns: installs them, measures, writes figures, a table and a chart.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

folder=$root/build/peers bin=$root/build/release/bin
nodes=2449029 edges=123718280 rounds=3 seconds='' json='' pyg_lib='' only=() chosen=' ' gpu=0 data=''
measures=(node link weighted labor hetero loader handover kill)

listed() { local IFS=,; printf %s "$*" | sed 's/,/, /g'; }

usage() {
  cat <<HELP
Usage: bench/peers.sh [options]

Measures hopfeed, PyG, GraphBolt and graphlearn-torch on one graph: sampled edges, loaders, hand-over, a killed worker. Each of the others lives in
an environment of its own below DIR and runs at the best of its settings; what cannot be installed is told in the table.

  --quick       30,000 nodes, 1.5 million edges, short measurements: minutes instead of an hour, its figures mean little
  --nodes N     of the generated graph ($nodes, the size of ogbn-products); it has 100 features
  --edges N     of the generated graph ($edges)
  --only PEER   hopfeed and this peer alone: pyglib, pyg, graphbolt or glt; may be given again
  --pyg-lib DIR PyG with pyg-lib's sampler too (pyglib), compiled from this clone of its repository: PyPI has no wheel of it
  --measure M   this measure alone: $(listed "${measures[@]}"); may be given again
  --rounds N    turns of each ($rounds)
  --seconds S   of each measurement (3; with --gpu 1)
  --dir DIR     where everything goes (build/peers): environments, graphs, results.json, results.md, results.svg
  --bin DIR     hopfeed's programs (build/release/bin)
  --json FILE   write the figures to this file too
  --gpu         samplers on this machine's card instead: hopfeed's and WholeGraph's, which Python must have (pylibwholegraph); the graph in
                the card's memory, and read in place. Needs a build with CUDA; the others are named with the reason why they are not there
  --data FOLDER with --gpu: this dataset in place of the generated graph
  --help        this text

Needs about 13 GB of disk (--quick: 10), most of it the others' Torches, and nothing else on the machine that measures.
HELP
}

# whole OPTION VALUE: refuses what is no number from 1 on.
whole() { [[ $2 =~ ^[1-9][0-9]{0,11}$ ]] || die "$1 is '$2'; give a whole number from 1 on"; }

while (($#)); do
  case $1 in
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
    --help | -h) usage; exit 0 ;;
    --quick) nodes=30000 edges=1500000 rounds=2 seconds=1; shift; continue ;;
    --gpu) gpu=1; shift; continue ;;
    --nodes | --edges | --rounds | --seconds | --only | --measure | --dir | --bin | --json | --pyg-lib | --data) (($# > 1)) || die "$1 needs a value" ;;
    *) die "unknown option '$1' (see bench/peers.sh --help)" ;;
  esac
  case $1 in
    --nodes | --edges | --rounds) whole "$1" "$2"; printf -v "${1#--}" %s "$2" ;;
    --seconds) [[ $2 =~ ^[0-9]*\.?[0-9]+$ && $2 =~ [1-9] ]] || die "--seconds is '$2'; give a number above 0"; seconds=$2 ;;
    --only)
      case $2 in
        hopfeed | pyglib | pyg | graphbolt | glt) only+=("$2") ;;
        *) die "--only: no loader '$2'; there are hopfeed, pyglib, pyg, graphbolt and glt" ;;
      esac ;;
    --measure)
      [[ $2 =~ ^[a-z]+$ && " ${measures[*]} " == *" $2 "* ]] || die "--measure: no measure '$2'; there are $(listed "${measures[@]}")"
      chosen+="$2 " ;;
    --dir) [[ -n $2 ]] || die "--dir needs a folder"; folder=$2 ;;
    --bin) bin=$2 ;;
    --json) json=$2 ;;
    --data) [[ -e $2/meta.json ]] || die "--data: '$2' is no dataset folder; give one that hopfeed-partition made"; data=$(cd "$2" && pwd) ;;
    --pyg-lib) [[ -d $2 ]] || die "--pyg-lib: there is no folder '$2'"; pyg_lib=$(cd "$2" && pwd) ;;
  esac
  shift 2
done
[[ -n $pyg_lib || " ${only[*]} " != *" pyglib "* ]] || die "--only pyglib needs its sources; name a clone of its repository with --pyg-lib"
((gpu)) || [[ -z $data ]] || die "--data is of --gpu; give both, or --nodes and --edges"
programs=(hopfeed-bench hopfeed-sample hopfeed-worker)
if ((gpu)); then
  [[ $chosen == ' ' && -z $pyg_lib && ${#only[@]} == 0 ]] || die "--gpu has a measure of its own; leave out --measure, --only and --pyg-lib"
  nvidia-smi -L >/dev/null 2>&1 || die "no card here: nvidia-smi is missing or finds none; run --gpu on a machine that has one"
  programs=(hopfeed-bench hopfeed-partition)
fi
for program in "${programs[@]}"; do
  [[ -x $bin/$program ]] || die "no $program in '$bin'; build it (cmake --build --preset release) or name the folder with --bin"
done
[[ -z $json || -w $json || (! -e $json && -d $(dirname "$json") && -w $(dirname "$json")) ]] || die "cannot write '$json'; name another file with --json"
mkdir -p "$folder" 2>/dev/null || die "cannot make the folder '$folder'; give a writable one with --dir"
folder=$(cd "$folder" && pwd) bin=$(cd "$bin" && pwd)
[[ -w $folder ]] || die "cannot write into '$folder'; give a writable folder with --dir"

# --- on a card ----------------------------------------------------------------------------------------------------
if ((gpu)); then
  # A build without CUDA says so by itself.
  said=$(XDG_CACHE_HOME=$folder/data "$bin/hopfeed-bench" sampler --graph-mode cuda --nodes 1000 --edges 10000 --seconds 0.01 2>&1 >/dev/null) ||
    die "hopfeed cannot sample on this card: ${said##*$'\n'}"
  out=$folder/gpu-$nodes-$edges/results   # its graph lies beside it
  mkdir -p "$out"
  more=(--nodes "$nodes" --edges "$edges" --rounds "$rounds" --seconds "${seconds:-1}" --within 3600)
  if [[ -n $data ]]; then more+=(--data "$data"); else require_space "$folder" 4 "the graph"; fi
  status=0
  python3 "$root/bench/gpu/run.py" "$root" --bin "$bin" --out "$out" --part peers "${more[@]}" || status=$?
  [[ -z $json || ! -e $out/peers.json ]] || cp "$out/peers.json" "$json"
  [[ ! -e $out/peers.json ]] || say "Figures: $out/peers.json, table: results.md"
  exit "$status"
fi
seconds=${seconds:-3}
peers=(pyg graphbolt glt)
[[ -z $pyg_lib ]] || peers=(pyglib "${peers[@]}")
((${#only[@]} == 0)) || mapfile -t peers < <(printf '%s\n' "${only[@]}" | grep -vx hopfeed | sort -u)

# --- the other loaders --------------------------------------------------------------------------------------------
step "Peers"
python=''
for peer in "${peers[@]}"; do
  [[ -e $folder/$peer/installed ]] || require_space "$folder" 5 "installing $peer"
  # A loader that cannot be installed is a line of the table, not the end.
  from=()
  [[ $peer != pyglib ]] || from=("$pyg_lib")
  "$root/bench/peers/install.sh" "$peer" "$folder" "${from[@]}" || continue
  python=$folder/$peer/bin/python
done

# --- the graphs -------------------------------------------------------------------------------------------------------
step "Graphs"
features=100
graphs=$folder/graphs   # links to the exports of the datasets that this run measures
sizes=(--nodes "$nodes" --edges "$edges" --features "$features")
export XDG_CACHE_HOME=$folder/data
# dataset_of KIND: what hopfeed-bench made last of these sizes; its name also tells the versions of the generator and of the format.
dataset_of() {
  local suffix='' last='' dataset
  case $1 in weighted) suffix=-weights ;; hetero) suffix=-types ;; esac
  for dataset in "$XDG_CACHE_HOME"/hopfeed-bench/generated-*-"$nodes-$edges-$features$suffix"; do
    if [[ -e $dataset/meta.json && (-z $last || $dataset/meta.json -nt $last/meta.json) ]]; then last=$dataset; fi
  done
  say "$last"
}

wanted() { [[ $chosen == ' ' || $chosen == *" $1 "* ]]; }
kinds=(plain)
for kind in weighted hetero; do
  ! wanted "$kind" || kinds+=("$kind")
done
for kind in "${kinds[@]}"; do   # each makes its dataset where none of its version is there
  run "$bin/hopfeed-bench" sampler --kind "${kind/plain/uniform}" "${sizes[@]}" --seconds 0.01 >/dev/null
done
if [[ -n $python ]]; then
  mkdir -p "$graphs"
  for kind in "${kinds[@]}"; do
    dataset=$(dataset_of "$kind")
    exported=$folder/exports/${dataset##*/}
    [[ -e $exported/graph.json ]] || run "$python" "$root/bench/peers/export.py" "$dataset" "$exported"
    ln -sfn "$exported" "$graphs/$kind"
  done
fi

# --- the figures ------------------------------------------------------------------------------------------------------
step "Measuring: $rounds rounds"
names=$(IFS=,; echo "hopfeed${peers[*]:+,${peers[*]}}")
in_order=$(for measure in "${measures[@]}"; do ! wanted "$measure" || echo "$measure"; done | paste -sd,)
python3 "$root/bench/peers/measure.py" --dir "$folder" --graphs "$graphs" --bin "$bin" --json "$folder/results.json" --peers "$names" \
  --measures "$in_order" "${sizes[@]}" --rounds "$rounds" --seconds "$seconds"
python3 "$root/bench/peers/table.py" "$folder/results.json" >"$folder/results.md"
python3 "$root/bench/peers/chart.py" "$folder/results.json" >"$folder/results.svg"
[[ -z $json ]] || cp "$folder/results.json" "$json"
step "Done"
cat "$folder/results.md"
say ""
say "Figures: $folder/results.json, table: results.md, chart: results.svg"
