#!/usr/bin/env bash
# Installs what is missing, builds, runs every test. The last line is "N passed, N failed, N skipped".
set -uo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

usage() {
  cat <<HELP
Usage: tests/run.sh [PART...]

  release       everything, as users build it; the only part with Torch's tests
  determinism   one table of digests, all equal: the programs of release and of a build for this processor alone
  asan          the folders without Torch under AddressSanitizer and UndefinedBehaviorSanitizer, with assertions
  tsan          the same under ThreadSanitizer
  dev           the same as a debug build; runs only when asked for, since asan sees all that it does

Without PART all but dev run. Reports lie in build/results/<part>: ctest.xml, gtest/*.xml.
  --help    this text
HELP
}

parts=()
for argument in "$@"; do
  case $argument in
    release | determinism | asan | tsan | dev) parts+=("$argument") ;;
    --help | -h) usage; exit 0 ;;
    *) die "unknown part '$argument' (see tests/run.sh --help)" ;;
  esac
done
((${#parts[@]})) || parts=(release determinism asan tsan)

cd "$root" || exit
step "Installing what is missing"
setup_options=(--without-torch)
[[ ! " ${parts[*]} " =~ " "(release|determinism)" " ]] || setup_options=()
scripts/setup.sh "${setup_options[@]}" || exit

# ThreadSanitizer of g++ 12 wants its shadow memory where newer kernels may randomise mappings to; this holds them still.
without_aslr=()
if setarch -R true 2>/dev/null; then without_aslr=(setarch -R); fi

# Tests start workers and trainers of their own, so half of the cores is what they may be given at a time.
test_jobs=$(($(nproc) / 2))
((test_jobs >= 1)) || test_jobs=1

# run_tests PRESET FOLDER: builds and runs what ctest knows.
run_tests() {
  local part=$1 folder=$2 prefix=() options=()
  case $part in
    asan) options=(--exclude-regex '^(structure_|channel_slot_protocol_test)') ;;   # scripts and a model in one thread: once is enough
    tsan)
      prefix=("${without_aslr[@]}")
      options=(--exclude-regex '^(structure_|core_random_test|channel_slot_)') ;;   # nor do models and chi-squares of one thread race
  esac
  build_preset "$part" || return
  GTEST_OUTPUT="xml:$folder/gtest/" run "${prefix[@]}" ctest --preset "$part" -j "$test_jobs" "${options[@]}" --output-junit "$folder/ctest.xml"
}

# compare_builds FOLDER: the table of digests. The build for this processor is also the one that shows that partition tool,
# workers and loader need no Torch.
compare_builds() {
  local programs=(hopfeed-partition hopfeed-sample hopfeed-worker)
  build_preset release "${programs[@]}" && build_preset native "${programs[@]}" || return
  run tests/determinism/compare.py x86-64-v2=build/release/bin native=build/native/bin --report "$1/ctest.xml"
}

results=()
for part in "${parts[@]}"; do
  begin=$SECONDS
  step "$part: build and test"
  folder=$root/build/results/$part
  rm -rf "$folder"
  mkdir -p "$folder/gtest"
  results+=("$folder")
  if [[ $part == determinism ]]; then compare_builds "$folder"; else run_tests "$part" "$folder"; fi
  say "$part took $(((SECONDS - begin + 59) / 60)) min"
done

step "All of it"
python3 tests/count_results.py "${results[@]}"
