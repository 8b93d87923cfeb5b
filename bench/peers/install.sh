#!/usr/bin/env bash
# Installs one loader into an environment of its own, DIR/PEER, from PyPI or, pyg-lib, from its sources; does nothing where it is
# already there.
# What cannot be installed is one line in DIR/PEER/missing, which the table shows; the whole story is in DIR/PEER.log.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

usage() {
  cat <<HELP
Usage: bench/peers/install.sh PEER DIR [SOURCES]

  pyglib      torch_geometric with Torch as hopfeed has it, and the CPU sampler of pyg-lib, compiled from SOURCES: a clone
              of its repository with the submodule third_party/parallel-hashmap
  pyg         torch_geometric with Torch as hopfeed has it, and the CPU sampler of torch-sparse's source package
  graphbolt   DGL with GraphBolt
  glt         graphlearn-torch

Their versions are those that work together; each wants Python 3.10 or 3.11 (HOPFEED_PEER_PYTHON names one).
HELP
}

[[ ${1-} != --help && ${1-} != -h ]] || { usage; exit 0; }
(($# == 2 || $# == 3)) || die "give a loader and a folder (see bench/peers/install.sh --help)"
peer=$1 sources=${3-}
torch_version=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$root/scripts/requirements.txt")
pyg_version=2.8.1 sparse_version=0.6.18

pyg_lib_commit=''
if [[ $peer == pyglib ]]; then
  [[ -e $sources/pyg_lib/csrc/sampler/cpu/neighbor_kernel.cpp ]] || die "'$sources' has no sources of pyg-lib; name a clone of its repository"
  [[ -e $sources/third_party/parallel-hashmap/parallel_hashmap/phmap.h ]] ||
    die "'$sources' lacks the submodule third_party/parallel-hashmap; run 'git submodule update --init third_party/parallel-hashmap' there"
  sources=$(cd "$sources" && pwd)
  pyg_lib_commit=$(git -C "$sources" rev-parse HEAD 2>/dev/null) || die "'$sources' is no clone that git knows, so its commit cannot be told"
fi

case $peer in
  pyglib) packages=("torch-geometric==$pyg_version" numpy) ;;
  # setuptools and wheel: torch-sparse's source package is read with what lies in the environment.
  pyg) packages=("torch-geometric==$pyg_version" setuptools wheel numpy) ;;
  # pandas, pyyaml and the last torchdata with datapipes: GraphBolt imports them, the package does not say so.
  graphbolt) packages=(torch==2.2.1 dgl==2.1.0 torchdata==0.7.1 pydantic pyyaml pandas "numpy<2") ;;
  glt) packages=(torch==2.5.1 graphlearn-torch==0.2.4 "torch-geometric==2.6.1" numpy) ;;
  *) die "no loader '$peer'; there are pyglib, pyg, graphbolt and glt" ;;
esac

mkdir -p "$2" 2>/dev/null || die "cannot make the folder '$2'; give a writable one"
folder=$(cd "$2" && pwd)/$peer
log=$folder.log
stamp=$folder/installed
wanted="${packages[*]} $torch_version $sparse_version $pyg_lib_commit $folder"
if [[ $(cat "$stamp" 2>/dev/null) == "$wanted" ]]; then
  say "$peer: all there."
  exit 0
fi

# give_up WHY: what the table will say of this loader.
give_up() {
  mkdir -p "$folder"
  printf '%s\n' "$*" >"$folder/missing"
  die "$peer: $*; details in $log"
}

# The last error that pip or the compiler wrote.
reason() { grep -oE '(ERROR|error): .*|No space left on device' "$log" | tail -n 1 | cut -c 1-160; }

# Prints a Python that the loaders' packages are built for.
find_python() {
  local candidate
  for candidate in "${HOPFEED_PEER_PYTHON-}" python3.11 python3.10 "$HOME"/.pyenv/versions/3.11.*/bin/python3 "$HOME"/.pyenv/versions/3.10.*/bin/python3 /usr/bin/python3; do
    [[ -n $candidate ]] && "$candidate" -c 'import sys, venv; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))' >/dev/null 2>&1 || continue
    command -v "$candidate"
    return
  done
  return 1
}

pip_install() {
  local scratch=$folder/pip-scratch status=0
  mkdir -p "$scratch"   # wheels are unpacked beside their target: /tmp may be small
  TMPDIR=$scratch "$folder/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --quiet --timeout 60 "$@" >>"$log" 2>&1 || status=$?
  rm -rf "$scratch"
  return "$status"
}

# The project's Torch where it has the right one, which saves 5 GB.
use_project_torch() {
  local project=${HOPFEED_PYTHON:-$root/.venv/bin/python3} site
  site=$("$project" -c "import torch, pathlib
if torch.__version__.split('+')[0] == '$torch_version': print(pathlib.Path(torch.__file__).parents[1])" 2>/dev/null) && [[ -n $site ]] || return
  "$project" -m venv --clear "$folder" >>"$log" 2>&1 || return
  printf "import site; site.addsitedir('%s')\n" "$site" >"$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch_of_project.pth"
}

# compile_library NAME INCLUDE... -- SOURCE...: a library of Torch operators, with the compiler's flags that Torch wants.
compile_library() {
  local library=$folder/$1 includes=() flags
  shift
  while [[ $1 != -- ]]; do includes+=(-I "$1"); shift; done
  shift
  flags=$("$folder/bin/python" - <<'PYTHON'
import sysconfig
import torch
from torch.utils import cpp_extension
paths = cpp_extension.include_paths() + [sysconfig.get_path("include")]
libraries = cpp_extension.library_paths()
print(*[f"-I{path}" for path in paths], f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
      *[f"-L{path} -Wl,-rpath,{path}" for path in libraries], "-ltorch -ltorch_cpu -lc10")
PYTHON
  ) || return
  # shellcheck disable=SC2086
  "${CXX:-g++}" -O3 -DNDEBUG -fPIC -shared -std=c++20 "${includes[@]}" "$@" -o "$library" $flags >>"$log" 2>&1
}

# Of torch-sparse only what samples: its other operators take a quarter of an hour to compile and draw nothing.
compile_sparse() {
  local source=$folder/torch-sparse
  rm -rf "$source" && mkdir -p "$source"
  "$folder/bin/python" -m pip download --disable-pip-version-check --no-cache-dir --quiet --no-deps --no-binary :all: --no-build-isolation \
    "torch-sparse==$sparse_version" --dest "$source" >>"$log" 2>&1 || return
  tar -xzf "$source"/*.tar.gz -C "$source" --strip-components 1 || return
  compile_library neighbor_sample.so "$source/csrc" "$source/third_party/parallel-hashmap" -- \
    "$source/csrc/neighbor_sample.cpp" "$source/csrc/cpu/neighbor_sample_cpu.cpp"
}

# Of pyg-lib likewise, without METIS and without MKL's random numbers, as wheels of it are where MKL is not.
compile_pyg_lib() {
  local csrc=$sources/pyg_lib/csrc made=$folder/pyg-lib
  mkdir -p "$made/pyg_lib/csrc" 
  printf '#define WITH_MKL_BLAS() 0\n#define NO_METIS() 1\n' >"$made/pyg_lib/csrc/config.h"
  compile_library pyg_lib_sampler.so "$made" "$sources" "$sources/third_party/parallel-hashmap" -- "$csrc/sampler/neighbor.cpp" \
    "$csrc/sampler/cpu/neighbor_kernel.cpp" "$csrc/random/cpu/biased_sampling.cpp" "$csrc/utils/convert.cpp" "$csrc/utils/check.cpp" || return
  printf '%s\n' "$pyg_lib_commit" >"$folder/pyg_lib_commit"
}

# graphlearn-torch imports torch-sparse for graphs in COO alone; here they come as CSR, and the module may be empty.
stand_in_for_sparse() {
  : >"$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch_sparse.py"
}

say "$peer: installing ${packages[*]} ..."
: >"$log"
rm -rf "$folder"
mkdir -p "$folder"
if [[ $peer != pyg && $peer != pyglib ]] || ! use_project_torch; then
  [[ $peer != pyg && $peer != pyglib ]] || packages+=("torch==$torch_version")
  python=$(find_python) || give_up "no Python 3.10 or 3.11 is here; name one with HOPFEED_PEER_PYTHON"
  "$python" -m venv --clear "$folder" >>"$log" 2>&1 || give_up "no virtual environment can be made with $python"
fi
pip_install "${packages[@]}" || give_up "pip could not install it ($(reason))"
[[ $peer != glt ]] || stand_in_for_sparse
[[ $peer != pyglib ]] || compile_pyg_lib || give_up "pyg-lib's sampler could not be compiled ($(reason))"
[[ $peer != pyg ]] || compile_sparse || give_up "torch-sparse's sampler could not be compiled ($(reason))"
DGLBACKEND=pytorch PYTHONPATH=$root/bench/peers PYTHONDONTWRITEBYTECODE=1 "$folder/bin/python" -W ignore -c "import peer_${peer/pyglib/pyg}" >>"$log" 2>&1 || give_up "it cannot be imported ($(tail -n 1 "$log" | cut -c 1-160))"
printf '%s\n' "$wanted" >"$stamp"
