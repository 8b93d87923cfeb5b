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
prepare_python_example
import_package_tables

step "3. Train, embed all packages, and look around $near"
run "$python" examples/python/nearest.py --data "$folder/dataset" --near "$near" --epochs "$epochs"
say "Others: $python examples/python/nearest.py --data $folder/dataset --near PACKAGE, with PYTHONPATH=$PYTHONPATH"
