#!/usr/bin/env bash
# Installs a build into an empty folder, builds a project of somebody else's against it with find_package(hopfeed), and runs
# that with the installed programs alone.
# Usage: install_test.sh BUILD with-trainer|without-trainer
set -euo pipefail
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1
trainer=OFF
[[ $2 != with-trainer ]] || trainer=ON
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log"
cmake -S "$source_folder" -B "$scratch/build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCMAKE_BUILD_TYPE=Release \
  -DWITH_TRAINER=$trainer -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" >"$scratch/configure.log"
cmake --build "$scratch/build"

export PATH=$scratch/prefix/bin:$PATH
unset HOPFEED_WORKER
shipped=$(find "$scratch/prefix/include" -name '*.h' | wc -l)
echo "$shipped headers are installed"
hopfeed-partition generate "$scratch/data" --nodes 100 --edges 500 --features 4 --classes 2 --seed 1 --train-fraction 0.5
[[ $("$scratch/build/count_batches" "$scratch/data") == "7 batches" ]]
[[ $trainer == OFF ]] || [[ $("$scratch/build/make_model") == *" parameters" ]]
if grep -rqF "$build" "$scratch/prefix/lib/cmake" "$scratch/prefix/include"; then
  echo "the installed package names the build folder" >&2
  exit 1
fi
