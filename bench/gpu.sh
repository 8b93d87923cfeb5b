#!/usr/bin/env bash
# What a GPU does with hopfeed, measured on a machine that has one and need not have anything else: programs are packed where they
# can be built, and run where the card is (bench/gpu/run.py).
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

architecture=90 limit_mb=48 limit_with_wholegraph_mb=58 trainer=0 module='' pyg_lib='' wholegraph=''
programs=(hopfeed-bench hopfeed-partition hopfeed-sample hopfeed-server hopfeed-worker gpu_device_test gpu_card_slots_test)

usage() {
  cat <<HELP
Usage: bench/gpu.sh --pack FILE.tar.xz [--architecture N] [--trainer] [--module FILE.so] [--pyg-lib FILE.so]
                    [--wholegraph FILE.tar.xz]
       bench/gpu.sh --run FOLDER --out OUT [options of bench/gpu/run.py]

  --pack FILE         builds the programs for cards of compute capability $architecture (--architecture; 90 is an H100 and an H200), strips them,
                      and packs them with the libraries that they need and these scripts; at most $limit_mb MiB,
                      with --wholegraph $limit_with_wholegraph_mb. Needs nvcc and no card
  --trainer           with the training programs and their tests; where the card is there must be the Torch that they were built with
  --module FILE       with the Python package, of which this is the compiled module (_core.*.so) for the Python there
  --pyg-lib FILE      with PyG's own sampler, to compare with (bench/peers/install.sh pyglib compiles it)
  --wholegraph FILE   with another loader's sampler for cards, to compare with: a tar of pylibwholegraph and the packages that it needs
                      (docs/gpu.md has the recipe)
  --run FOLDER        where the pack was unpacked, on the machine with the card: tests, sanitizers, limits, samplers, gathers, batches,
                      training. Needs a driver and Python; compute-sanitizer and ncu are used where they are. bench/gpu/run.py --help
                      has the parts and --rehearse, which tries the scripts without a card
  --help              this text
HELP
}

mode='' target='' rest=()
while (($#)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --trainer) trainer=1; shift; continue ;;
    --pack | --run | --architecture | --module | --pyg-lib | --wholegraph) (($# > 1)) || die "$1 needs a value" ;;
    *)
      [[ $mode == run ]] || die "unknown option '$1' (see bench/gpu.sh --help)"
      rest=("$@")
      break ;;
  esac
  case $1 in
    --pack) mode=pack target=$2 ;;
    --run) mode=run target=$2 ;;
    --architecture) [[ $2 =~ ^[1-9][0-9]{1,2}$ ]] || die "--architecture is '$2'; give a compute capability without its point, as 90"; architecture=$2 ;;
    --module | --pyg-lib | --wholegraph)
      [[ -f $2 ]] || die "$1: there is no file '$2'"
      case $1 in --module) module=$2 ;; --pyg-lib) pyg_lib=$2 ;; *) wholegraph=$2 limit_mb=$limit_with_wholegraph_mb ;; esac ;;
  esac
  shift 2
done

# Libraries that a machine without this one's packages may lack: not the compilers', nothing of the driver's, nothing of Torch's.
libraries_of() {
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*|libstdc\+\+|libgcc_s|libcuda|libnvidia[^/]*)\.so|/(torch|nvidia)/'
}

pack() {
  command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] || die "nvcc is not here; install a CUDA toolkit, or pack where one is"
  # Before the build, which takes minutes. grep reads to the end, or tar would die of a closed pipe.
  [[ -z $wholegraph ]] || tar -tf "$wholegraph" 2>/dev/null | grep -xE '(\./)?pylibwholegraph/__init__\.py' >/dev/null ||
    die "--wholegraph: '$wholegraph' is no tar with pylibwholegraph at its top; docs/gpu.md says how to make one"
  local build=$root/build/gpu-pack torch=OFF bytes
  if ((trainer)); then
    torch=ON
    programs+=(node_classification link_prediction trainer_gpu_test)
  fi
  run cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHOPFEED_TORCH=$torch -DHOPFEED_CUDA=ON -DCMAKE_UNITY_BUILD=ON \
    -DCMAKE_CUDA_ARCHITECTURES="$architecture" >/dev/null
  run cmake --build "$build" -j "$(build_jobs)" --target "${programs[@]}"
  folder=$(mktemp -d)   # not local: the trap runs behind this function
  trap 'rm -rf "$folder"' EXIT
  mkdir -p "$folder/bin" "$folder/lib" "$folder/bench" "$folder/scripts"
  for program in "${programs[@]}"; do strip -o "$folder/bin/$program" "$build/bin/$program"; done
  libraries_of "$folder"/bin/* | xargs -r -I{} cp -L {} "$folder/lib/"
  cp -r "$root/bench/gpu.sh" "$root/bench/gpu" "$folder/bench/"
  cp "$root/scripts/common.sh" "$folder/scripts/"
  mkdir -p "$folder/tests"
  cp -r "$root/tests/determinism" "$folder/tests/"
  if [[ -n $module ]]; then
    mkdir "$folder/python"
    cp -r "$root/python/hopfeed" "$folder/python/"
    mkdir "$folder/python/tests"
    cp "$root"/python/tests/{conftest,test_gpu}.py "$folder/python/tests/"
    strip -o "$folder/python/hopfeed/$(basename "$module")" "$module"
  fi
  [[ -z $pyg_lib ]] || strip -o "$folder/lib/$(basename "$pyg_lib")" "$pyg_lib"
  if [[ -n $wholegraph ]]; then   # unpacked: what is compressed twice gets no smaller
    mkdir "$folder/wholegraph"
    tar -C "$folder/wholegraph" --no-same-owner -xf "$wholegraph"
  fi
  tar -C "$folder" -c . | xz -T0 >"$target"
  bytes=$(stat -c %s "$target")
  ((bytes <= limit_mb * 1024 * 1024)) || die "$target has $((bytes / 1024 / 1024)) MiB, more than $limit_mb; pack less (see --help)"
  say "$target: $((bytes / 1024)) KiB"
}

case $mode in
  pack) pack ;;
  run) exec python3 "$(dirname "${BASH_SOURCE[0]}")/gpu/run.py" "$target" "${rest[@]}" ;;
  *) usage; exit 1 ;;
esac
