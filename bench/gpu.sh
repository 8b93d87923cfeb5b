#!/usr/bin/env bash
# What a GPU does with hopfeed, measured on a machine that has one and need not have anything else: programs are packed where they
# can be built, and run where the card is.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

architecture=90 nodes=2449029 edges=61859140 seconds=2 limit_mb=48
programs=(hopfeed-bench hopfeed-partition hopfeed-sample hopfeed-worker gpu_device_test gpu_card_slots_test)

usage() {
  cat <<HELP
Usage: bench/gpu.sh --pack FILE.tar.xz [--architecture N]
       bench/gpu.sh --run FOLDER --out OUT [--quick]

  --pack FILE         builds the programs for cards of compute capability $architecture (--architecture), strips them, and packs them with the
                      libraries that they need and this script; at most $limit_mb MiB. Needs nvcc and no card
  --run FOLDER        where the pack was unpacked, on the machine with the card: tests, sanitizer, limits, sampler, gathers, whole batches;
                      under eight minutes. Needs a driver; compute-sanitizer and ncu are used where they are
  --out OUT           a folder that is there: results.json (a line each), results.md (the tables of docs/gpu.md), logs
  --quick             a graph of 100,000 nodes and short measurements: whether everything runs
  --nodes N, --edges N, --seconds S   of the graph ($nodes, $edges) and of each measurement ($seconds)
  --help              this text
HELP
}

mode='' target='' out='' folder=''
while (($#)); do
  case $1 in
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
    --help | -h) usage; exit 0 ;;
    --quick) nodes=100000 edges=2000000 seconds=0.2; shift; continue ;;
    --pack | --run | --out | --architecture | --nodes | --edges | --seconds) (($# > 1)) || die "$1 needs a value" ;;
    *) die "unknown option '$1' (see bench/gpu.sh --help)" ;;
  esac
  case $1 in
    --pack) mode=pack target=$2 ;;
    --run) mode=run target=$2 ;;
    --out) out=$2 ;;
    --seconds) [[ $2 =~ ^[0-9]*\.?[0-9]+$ && $2 =~ [1-9] ]] || die "--seconds is '$2'; give a number above 0"; seconds=$2 ;;
    *) [[ $2 =~ ^[1-9][0-9]{0,11}$ ]] || die "$1 is '$2'; give a whole number from 1 on"; printf -v "${1#--}" %s "$2" ;;
  esac
  shift 2
done

# Libraries that a machine without this one's packages may lack: not the C library's, and nothing of the driver's.
libraries_of() {
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*|libcuda|libnvidia[^/]*)\.so'
}

pack() {
  command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] || die "nvcc is not here; install a CUDA toolkit, or pack where one is"
  local build=$root/build/gpu-pack bytes
  run cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHOPFEED_TORCH=OFF -DHOPFEED_CUDA=ON -DCMAKE_UNITY_BUILD=ON \
    -DCMAKE_CUDA_ARCHITECTURES="$architecture" >/dev/null
  run cmake --build "$build" -j "$(build_jobs)" --target "${programs[@]}"
  folder=$(mktemp -d)   # not local: the trap runs behind this function
  trap 'rm -rf "$folder"' EXIT
  mkdir -p "$folder/bin" "$folder/lib" "$folder/bench" "$folder/scripts"
  for program in "${programs[@]}"; do strip -o "$folder/bin/$program" "$build/bin/$program"; done
  libraries_of "$folder"/bin/* | xargs -r -I{} cp -L {} "$folder/lib/"
  cp "$root/bench/gpu.sh" "$root/bench/gpu_table.py" "$folder/bench/"
  cp "$root/scripts/common.sh" "$folder/scripts/"
  tar -C "$folder" -cJf "$target" .
  bytes=$(stat -c %s "$target")
  ((bytes <= limit_mb * 1024 * 1024)) || die "$target has $((bytes / 1024 / 1024)) MiB, more than $limit_mb; pack for one architecture alone"
  say "$target: $((bytes / 1024)) KiB"
}

# measured NAME COMMAND...: its JSON line with its name and command into results.json. One that fails is told and the others go on.
measured() {
  local name=$1
  shift
  say "$name: $*"
  if timeout 120 "$@" >"$out/$name.log" 2>&1; then
    python3 "$root/bench/gpu_table.py" --add "$out" "$name" "$*"
  else
    say "  failed ($?): $(tail -1 "$out/$name.log")"
  fi
}

run_all() {
  [[ -x $target/bin/hopfeed-bench ]] || die "$target has no bin/hopfeed-bench; unpack what --pack wrote, and name that folder"
  [[ -d $out ]] || die "--out '$out' is no folder; make it first"
  export LD_LIBRARY_PATH=$target/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  local bin=$target/bin data=$out/../gpu-graph kind
  rm -f "$out/results.json"
  command -v nvidia-smi >/dev/null || die "no card here: there is no nvidia-smi; unpack the pack on the machine that has one"
  run nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee "$out/card.txt" || die "no card: nvidia-smi says so"
  [[ -e $data/meta.json ]] || run "$bin/hopfeed-partition" generate "$data" --nodes "$nodes" --edges "$edges" --features 100 --classes 47 --seed 1 --train-fraction 0.08 >/dev/null
  measured tests "$bin/gpu_device_test" --gtest_output=json:"$out/tests.json"
  measured slots "$bin/gpu_card_slots_test"
  measured limits "$bin/hopfeed-bench" limits --gpu
  for kind in uva cuda; do
    measured "sampler-$kind" "$bin/hopfeed-bench" sampler --data "$data" --graph-mode "$kind" --seconds "$seconds"
    measured "sampler-$kind-disjoint" "$bin/hopfeed-bench" sampler --data "$data" --graph-mode "$kind" --kind disjoint --seconds "$seconds"
    measured "one-seed-$kind" "$bin/hopfeed-bench" sampler --data "$data" --graph-mode "$kind" --batch-size 1 --seconds "$seconds"
  done
  measured gather "$bin/hopfeed-bench" gather --gpu
  for kind in uva cuda; do
    measured "made-graph-$kind" "$bin/hopfeed-bench" made-graph --graph-mode "$kind" --verify --seconds "$seconds"
  done
  if command -v compute-sanitizer >/dev/null; then
    for kind in memcheck racecheck initcheck synccheck; do
      measured "sanitizer-$kind" compute-sanitizer --tool "$kind" --error-exitcode 9 "$bin/gpu_device_test" --gtest_filter='*Uniform*:*Rows*'
    done
  fi
  if command -v ncu >/dev/null; then
    measured ncu ncu --csv --launch-count 60 --metrics dram__throughput.avg.pct_of_peak_sustained_elapsed,gpu__time_duration.sum \
      "$bin/hopfeed-bench" sampler --data "$data" --graph-mode cuda --seconds 0.2
  fi
  python3 "$root/bench/gpu_table.py" --tables "$out" >"$out/results.md"
  say "tables: $out/results.md"
}

case $mode in
  pack) pack ;;
  run) [[ -n $out ]] || die "--run needs --out, a folder for what is measured"; run_all ;;
  *) usage; exit 1 ;;
esac
