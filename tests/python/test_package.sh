#!/usr/bin/env bash
# Builds the wheel as users do, tests it where NumPy alone is, where torch and PyG are, and under AddressSanitizer.
# Usage: test_package.sh RESULTS (a folder; gets ctest.xml, and gtest/NAME.xml of each run of pytest)
set -uo pipefail
results=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
mkdir -p "$results/gtest"
cases=''

# note NAME STATUS: run or fail.
note() { cases+="<testcase name=\"$1\" status=\"$2\"/>"; }

# test_with NAME PYTHON TEST...: with the package that PYTHON finds.
test_with() {
  local name=$1 python=$2
  shift 2
  echo "python: $name"
  "$python" -m pytest -q --no-header -p no:cacheprovider --junitxml "$results/gtest/$name.xml" "$@"
  (($? < 2)) && note "$name" run || note "$name" fail   # 1: some failed, which the report tells
}

# The wheel's interpreters: this machine's own, and the stable ABI's lowest where it is to be had.
wheels=build/python/wheels
rm -rf build/python && mkdir -p "$wheels"
python3 -m venv build/python/plain && build/python/plain/bin/pip install -q pytest || exit
build/python/plain/bin/pip wheel -q --no-deps -w "$wheels" . || exit
wheel=$(echo "$wheels"/*.whl)

# NumPy alone: what needs torch is skipped, and says so.
build/python/plain/bin/pip install -q "$wheel" || exit
test_with plain build/python/plain/bin/python python/tests --ignore=python/tests/test_launch_ssh.py   # it is long, and comes below

bin=$(build/python/plain/bin/python -c 'import hopfeed.programs as p, os; print(os.path.dirname(p.program("hopfeed-worker")))')

# Torch and PyG.
.venv/bin/pip install -q --no-deps --force-reinstall "$wheel" || exit
test_with pyg .venv/bin/python python/tests

# Lifetimes under AddressSanitizer, leaks too. The interpreter leaks a little itself: a leak is ours where the module is in it.
cmake --preset asan -DHOPFEED_PYTHON_MODULE=ON -DPython_EXECUTABLE="$PWD/.venv/bin/python" >build/python/asan.log &&
  cmake --build build/asan --target _core hopfeed-worker hopfeed-partition hopfeed-sample hopfeed-server >>build/python/asan.log || { cat build/python/asan.log; exit 1; }
log=$PWD/build/python/sanitizer
HOPFEED_BIN=$PWD/build/asan/bin PYTHONPATH=$PWD/build/asan/python PYTHONMALLOC=malloc \
  ASAN_OPTIONS=handle_sigbus=0:log_path=$log LSAN_OPTIONS=exitcode=0 \
  LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" \
  test_with asan .venv/bin/python python/tests/test_loader.py python/tests/test_lifetime.py python/tests/test_servers.py
if grep -lE "\.(cc|h):[0-9]" "$log".* 2>/dev/null; then
  cat "$log".* >&2
  note asan_report fail
else
  note asan_report run
fi

# Each example for a moment, on a graph that takes a second to make.
data=build/python/data
"$bin/hopfeed-partition" generate "$data" --nodes 4000 --edges 40000 --features 16 --classes 5 --seed 1 --train-fraction 0.5 >build/python/generate.log 2>&1
example() {
  local name=$1
  shift
  echo "example: $name"
  OMP_NUM_THREADS=1 "$@" --epochs 1 --fanouts 5 5 && note "$name" run || note "$name" fail
}
example pyg_sage .venv/bin/python examples/python/pyg_sage.py --data "$data"
example ddp .venv/bin/torchrun --standalone --nproc-per-node=2 examples/python/ddp.py --data "$data"
HOPFEED_DATA=$data example distributed_sage .venv/bin/torchrun --standalone --nproc-per-node=2 examples/python/distributed_sage.py
example lightning_sage .venv/bin/python examples/python/lightning_sage.py --data "$data" --out build/python/lightning

printf '<testsuite name="python">%s</testsuite>\n' "$cases" >"$results/ctest.xml"
