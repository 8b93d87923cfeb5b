#!/usr/bin/env bash
# Installs what is missing, builds, runs the tests. The last line is "N passed, N failed, N skipped".
set -uo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

usage() {
  cat <<HELP
Usage: tests/run.sh [PART... | all | change]

  release       everything, as users build it; the only part with Torch's tests
  determinism   one table of digests, all equal: the programs of release and of a build for this processor alone, which
                has no Torch: installed, it is used by a project of somebody else's
  lint          clang-tidy, and clang's check of what a mutex guards, over the files without Torch; their headers, each by
                itself (clang-16)
  asan          the folders without Torch under AddressSanitizer and UndefinedBehaviorSanitizer, with assertions
  tsan          those of them that have threads under ThreadSanitizer
  gpus          the kernels compile for sm_80, sm_90, sm_100 and sm_120, and as PTX; skipped where nvcc is not
  python        the wheel, as pip makes it: with NumPy alone, with torch and PyG, its lifetimes under AddressSanitizer, its examples
  fuzz          the readers of datasets, batches, frames, logins, specs, questions about state and results, and the sampler under libFuzzer (clang-16), a minute each (HOPFEED_FUZZ_SECONDS)
  engines       imports by Spark and by Ray on clusters of two workers each, servers and trainers on Ray, with the package of the
                release build; installs both (about 1 GB), wants Java 17, and runs only when asked for
  dev           the same as a debug build; runs only when asked for, since asan sees all that it does

Without PART release and determinism run: what shows that this build can be trusted on this machine. all: all parts but engines
and dev.
change: the same, without what other tests show as well (tests/README.md), for .ci/run. Reports lie in build/results/<part>:
ctest.xml, gtest/*.xml.
  --help    this text
HELP
}

parts=() left_out=()
for argument in "$@"; do
  case $argument in
    release | determinism | lint | asan | tsan | gpus | fuzz | python | engines | dev) parts+=("$argument") ;;
    all) parts+=(release determinism lint asan tsan gpus fuzz python) ;;
    change)
      parts+=(release determinism lint asan tsan gpus fuzz python)
      left_out=(--label-exclude '^only_in_all$')
      ;;
    --help | -h) usage; exit 0 ;;
    *) die "unknown part '$argument' (see tests/run.sh --help)" ;;
  esac
done
((${#parts[@]})) || parts=(release determinism)

# Tests count the names in /dev/shm and the semaphores that are there, which other programs make as well: where the machine lets
# us, the run has both to itself.
if [[ -z ${HOPFEED_OWN_SHM-} ]] && unshare -m -i mount -t tmpfs tmpfs /dev/shm 2>/dev/null; then
  HOPFEED_OWN_SHM=1 exec unshare -m -i bash -c 'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"' "$root/tests/run.sh" "$@"
fi

# Tests that need no disk write their datasets here, where there is room (tests/support/no_disk.cc). One name in /dev/shm for the
# whole run, so the counts of names stay as they are.
if (($(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }') >= 2 * 1024 * 1024)) &&
  HOPFEED_TEST_MEMORY=$(mktemp -d /dev/shm/hopfeed-tests.XXXXXX 2>/dev/null); then
  export HOPFEED_TEST_MEMORY
  trap 'rm -rf "$HOPFEED_TEST_MEMORY"' EXIT
fi

cd "$root" || exit
step "Installing what is missing"
setup_options=(--without-torch)
[[ ! " ${parts[*]} " =~ " "(release|determinism|python|engines)" " ]] || setup_options=()
[[ ! " ${parts[*]} " =~ " "(lint|fuzz)" " ]] || setup_options+=(--with-clang)
scripts/setup.sh "${setup_options[@]}" || exit

# ThreadSanitizer of g++ 12 wants its shadow memory where newer kernels may randomise mappings to; this holds them still.
without_aslr=()
if setarch -R true 2>/dev/null; then without_aslr=(setarch -R); fi

# run_tests PRESET FOLDER: builds and runs what ctest knows. A job of ctest is a third of a core (tests/CMakeLists.txt).
run_tests() {
  local part=$1 folder=$2 prefix=()
  [[ $part != tsan ]] || prefix=("${without_aslr[@]}")
  build_preset "$part" || return
  GTEST_OUTPUT="xml:$folder/gtest/" run "${prefix[@]}" ctest --preset "$part" "${left_out[@]}" -j "$((3 * $(nproc)))" --output-junit "$folder/ctest.xml" && return
  step "$part: what failed, once more and one by one"   # count_results.py says what for
  mkdir -p "$folder/second/gtest"
  GTEST_OUTPUT="xml:$folder/second/gtest/" run "${prefix[@]}" ctest --preset "$part" -j 1 --rerun-failed --output-junit "$folder/second/ctest.xml"
}

# compare_builds FOLDER: the table of digests. The build for this processor is also the one that shows that partition tool,
# workers and loader need no Torch, neither here nor installed.
compare_builds() {
  local programs=(hopfeed-partition hopfeed-sample hopfeed-worker spaced_sampler) installed=fail
  build_preset release "${programs[@]}" && build_preset native "${programs[@]}" hopfeed-server hopfeed-top || return
  run tests/determinism/compare.py x86-64-v2=build/release/bin native=build/native/bin --report "$1/ctest.xml"
  run tests/install/install_test.sh "$root/build/native" without-trainer && installed=run
  mkdir -p "$1/native"
  printf '<testsuite><testcase name="install" status="%s"/></testsuite>\n' "$installed" >"$1/native/ctest.xml"
  results+=("$1/native")
}

# lint_sources FOLDER: nothing is built, clang reads the units that a build of this preset would compile.
lint_sources() {
  run cmake --preset lint && run tests/structure/lint.py build/lint --report "$1/ctest.xml"
}

# fuzz_targets FOLDER: what libFuzzer finds lies in build/fuzz/found; once fixed, the file belongs into tests/fuzz/corpus.
fuzz_targets() {
  local seconds=${HOPFEED_FUZZ_SECONDS:-60} name status names=(dataset batch_block sampler frame handshake spec pack results state) failed=() found=$root/build/fuzz/found
  build_preset fuzz || return
  for name in "${names[@]}"; do
    mkdir -p "$found/$name" "$root/build/fuzz/corpus/$name"
    run "build/fuzz/bin/fuzz_$name" "-max_total_time=$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=8192 -verbosity=0 \
      -artifact_prefix="$found/$name/" "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name" || failed+=("$name")
  done
  {
    printf '<testsuite name="fuzz">\n'
    for name in "${names[@]}"; do
      [[ " ${failed[*]} " == *" $name "* ]] && status=fail || status=run
      printf '<testcase classname="fuzz" name="%s" status="%s"/>\n' "$name" "$status"
    done
    printf '</testsuite>\n'
  } >"$1/ctest.xml"
}

results=()
for part in "${parts[@]}"; do
  begin=$SECONDS
  step "$part: build and test"
  folder=$root/build/results/$part
  rm -rf "$folder"
  mkdir -p "$folder/gtest"
  results+=("$folder")
  case $part in
    determinism) compare_builds "$folder" ;;
    lint) lint_sources "$folder" ;;
    python) run tests/python/test_package.sh "$folder" ;;
    engines) build_python_module hopfeed-partition hopfeed-server hopfeed-worker && run tests/engines/run.sh --results "$folder" ;;
    gpus) run tests/gpu/compile_kernels.py "$folder" ;;
    fuzz) fuzz_targets "$folder" ;;
    *) run_tests "$part" "$folder" ;;
  esac
  say "$part took $(((SECONDS - begin + 59) / 60)) min"
done

step "All of it"
python3 tests/count_results.py "${results[@]}"
