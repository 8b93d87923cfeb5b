#!/usr/bin/env bash
# From tables with keys of their own to an answer under those keys: Debian's packages as Parquet, imported, trained on, and the
# packages nearest to one that you name. Each step prints the command that it runs.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

epochs=2
folder=$root/tables_example
near=vim

usage() {
  cat <<HELP
Usage: examples/tables.sh [--near PACKAGE] [--epochs N] [--dir DIR]

  --near PACKAGE  the package whose nearest ones are printed (vim)
  --epochs N      epochs to train (2)
  --dir DIR       where everything goes (tables_example/ in this checkout): the tables in DIR/tables, the dataset in DIR/dataset
  --help          this text
HELP
}

options=()
while (($#)); do
  case $1 in
    --near=*) near=${1#*=}; shift ;;
    --near) near=${2-}; shift $(($# > 1 ? 2 : 1)) ;;
    *) options+=("$1"); shift ;;
  esac
done
read_options "${options[@]}"
[[ -n $near ]] || die "--near needs a package"
prepare_example
python=$root/.venv/bin/python
cmake --preset release -DHOPFEED_PYTHON_MODULE=ON -DPython_EXECUTABLE="$python" >/dev/null || die "the Python module cannot be configured"
build_preset release _core || die "the build of the Python module failed; the compiler's message stands above"
export PYTHONPATH=$root/build/release/python HOPFEED_PYTHON=$python OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

step "1. Debian's packages as tables"
if [[ -e $folder/tables/description.json ]]; then
  say "Done before: $folder/tables"
else
  fetch_package_lists || die "this machine has no package lists of apt; run this on Debian or Ubuntu"
  run "$python" examples/python/debian_tables.py "$folder/tables"
fi

step "2. Import them"
if not_older "$folder/dataset/meta.json" "$folder/tables/description.json"; then
  say "Done before: $folder/dataset"
else
  run build/release/bin/hopfeed-partition import tables "$folder/dataset" "$folder/tables/description.json" --dangling drop --overwrite --json "$folder/import.json"
fi

step "3. Train, embed all packages, and look around $near"
run "$python" examples/python/nearest.py --data "$folder/dataset" --near "$near" --epochs "$epochs"
say "Others: $python examples/python/nearest.py --data $folder/dataset --near PACKAGE, with PYTHONPATH=$PYTHONPATH"
