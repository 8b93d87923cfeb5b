# What the project's shell scripts share: how they speak, how they fail, how they build. Sourced, never run.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
# One line on stderr that names the thing and says what to do; then the end.
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
# Shows a command as a user would type it, then runs it.
run() { printf '$ %s\n' "$*"; "$@"; }

# require_space FOLDER GIGABYTES WHAT: the disk is checked before the work, since a full one in its middle is hard to tell.
require_space() {
  local free_kib
  free_kib=$(df -Pk "$1" | awk 'NR == 2 { print $4 }')
  ((free_kib >= $2 * 1024 * 1024)) ||
    die "$3 needs about $2 GB of free disk below $1, which has $((free_kib / 1024)) MB; free some or move the checkout, then run this again"
}

# Compilers of Torch's headers take about 2 GB each, so memory bounds the jobs as well as cores do.
build_jobs() {
  local cores available_kib by_memory
  cores=$(nproc)
  available_kib=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
  by_memory=$((available_kib / (2 * 1024 * 1024)))
  ((by_memory >= 1)) || by_memory=1
  say $((cores < by_memory ? cores : by_memory))
}

# build_preset PRESET [TARGET...]: configures once (ninja configures again by itself when a CMakeLists.txt changes), builds
# what is out of date. The status is that of the build.
build_preset() {
  local preset=$1
  shift
  local targets=()
  (($# == 0)) || targets=(--target "$@")
  if [[ ! -e $root/build/$preset/build.ninja ]]; then
    run cmake --preset "$preset" || return
  fi
  run cmake --build --preset "$preset" -j "$(build_jobs)" "${targets[@]}"
}

# apt's own lists are the Debian graph. A fresh container may have none until somebody refreshes them. Fails where there are none.
fetch_package_lists() {
  command -v apt-cache >/dev/null || return
  # grep reads to the end, or apt-cache would die of a closed pipe.
  if (($(apt-cache dumpavail 2>/dev/null | grep -c '^Package:') < 1000)); then
    (($(id -u) == 0)) && run apt-get -q update >/dev/null 2>&1 || return
    (($(apt-cache dumpavail 2>/dev/null | grep -c '^Package:') >= 1000))
  fi
}

# read_options ARGUMENT...: --epochs and --dir of an example into $epochs and $folder, which hold the defaults; usage prints its
# help. The folder is made.
read_options() {
  while (($#)); do
    case $1 in
      --epochs=* | --dir=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
      --epochs) epochs=${2-}; shift $(($# > 1 ? 2 : 1)) ;;
      --dir) folder=${2-}; shift $(($# > 1 ? 2 : 1)) ;;
      --help | -h) usage; exit 0 ;;
      *) die "unknown option '$1' (see examples/${0##*/} --help)" ;;
    esac
  done
  [[ $epochs =~ ^[1-9][0-9]{0,5}$ ]] || die "--epochs is '$epochs'; give a whole number from 1 on"
  [[ -n $folder ]] || die "--dir needs a folder"
  mkdir -p "$folder" 2>/dev/null || die "cannot make the folder '$folder'; give a writable one with --dir"
  folder=$(cd "$folder" && pwd)
  [[ -w $folder ]] || die "cannot write into '$folder'; give a writable folder with --dir"
}

# not_older MADE FROM: MADE is there, and FROM has not changed since. Files written within a tick of the kernel's clock have the same
# time, so "newer than" would make a fast step be done again.
not_older() { [[ -e $1 && ! $2 -nt $1 ]]; }

# prepare_example TARGET...: what an example needs before its first step: the setup, and its programs built in build/release/bin.
prepare_example() {
  cd "$root" || exit
  step "Setup: what hopfeed needs"
  scripts/setup.sh
  step "Build"
  require_space "$root" 1 "building"
  build_preset release hopfeed-partition hopfeed-worker "$@" || die "the build failed; the compiler's message stands above"
}

# build_python_module [TARGET...]: the package in build/release/python, for the Python of .venv, and these programs beside.
build_python_module() {
  cmake --preset release -DHOPFEED_PYTHON_MODULE=ON -DPython_EXECUTABLE="$root/.venv/bin/python" >/dev/null || return
  build_preset release _core "$@"
}

# prepare_python_example TARGET...: the same with the Python module, for examples that import tables; $python runs them.
prepare_python_example() {
  prepare_example "$@"
  python=$root/.venv/bin/python
  build_python_module || die "the build of the Python module failed; the compiler's message stands above"
  export PYTHONPATH=$root/build/release/python HOPFEED_PYTHON=$python OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
}

# import_package_tables: steps 1 and 2 of examples on Debian's packages: as tables in $folder/tables, as a dataset in $folder/dataset.
import_package_tables() {
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
}
