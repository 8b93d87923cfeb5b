#!/usr/bin/env bash
# A map of Debian: the packages are imported as tables, GraphSAGE is trained to tell their sections, the embedding of every package is
# written, drawn, and searched for the packages nearest to one that you name. Each step prints the command that it runs.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

epochs=10
folder=$root/embeddings_example
like=vim

usage() {
  cat <<HELP
Usage: examples/embeddings.sh [--like PACKAGE] [--epochs N] [--dir DIR]

  --like PACKAGE  the package whose nearest ones are printed (vim)
  --epochs N      epochs to train (10)
  --dir DIR       where everything goes (embeddings_example/ in this checkout): the dataset in DIR/dataset, the embeddings
                  in DIR/embeddings, the drawing in DIR/map.svg
  --help          this text
HELP
}

options=()
while (($#)); do
  case $1 in
    --like=*) like=${1#*=}; shift ;;
    --like) like=${2-}; shift $(($# > 1 ? 2 : 1)) ;;
    *) options+=("$1"); shift ;;
  esac
done
read_options "${options[@]}"
[[ -n $like ]] || die "--like needs a package"
prepare_python_example
import_package_tables

step "3. Train for $epochs epochs, and write the embedding of every package"
if not_older "$folder/embeddings/manifest.json" "$folder/dataset/meta.json" && [[ -e $folder/epochs && $(<"$folder/epochs") == "$epochs" ]]; then
  say "Done before: $folder/embeddings"
else
  rm -f "$folder/epochs"
  run "$python" examples/python/sage_embeddings.py --data "$folder/dataset" --out "$folder/embeddings" --epochs "$epochs"
  printf '%s\n' "$epochs" >"$folder/epochs"
fi

step "4. Draw them, and look around $like"
run "$python" examples/python/embeddings_map.py --results "$folder/embeddings" --data "$folder/dataset" --like "$like" --out "$folder/map.svg"
say "The map is $folder/map.svg. Others: examples/embeddings.sh --like PACKAGE"
