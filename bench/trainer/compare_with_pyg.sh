#!/usr/bin/env bash
# The SAGE step of hopfeed-bench-trainer and PyG's on the same batches, from the same parameters, by turns; prints one JSON line.
#
#   bench/trainer/compare_with_pyg.sh [options] [-- options of hopfeed-bench-trainer: --data, --fanouts, --hidden, ...]
#
#   --venv DIR       virtual environment with PyG; made where it is not there yet (default: build/pyg-venv). A torch of the right
#                    version in .venv of this checkout, or in the Python named by HOPFEED_PYTHON, is used and not loaded again.
#   --program FILE   hopfeed-bench-trainer (default: build/release/bin/hopfeed-bench-trainer)
#   --threads N      Torch's threads, of both (default: 1)
#   --rounds N       turns of each (default: 5)
#   --seconds S      of each measurement (default: 3)
#   --json FILE      also write the line to this file
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
torch_version=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$root/scripts/requirements.txt")
pyg_version=2.8.1

venv=$root/build/pyg-venv program=$root/build/release/bin/hopfeed-bench-trainer threads=1 rounds=5 seconds=3 json=
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    --) shift; break ;;
    --venv | --program | --threads | --rounds | --seconds | --json)
      [ $# -ge 2 ] || { echo "compare_with_pyg.sh: $1 wants a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"; shift 2 ;;
    *) echo "compare_with_pyg.sh: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done
[ -x "$program" ] || { echo "compare_with_pyg.sh: no $program; build it: cmake --build --preset release" >&2; exit 2; }

make_venv() {
  python3 -m venv "$venv"
  local project=${HOPFEED_PYTHON:-$root/.venv/bin/python3} packages
  packages=$("$project" -c "import torch, pathlib
if torch.__version__.split('+')[0] == '$torch_version': print(pathlib.Path(torch.__file__).parents[1])" 2>/dev/null || true)
  if [ -n "$packages" ]; then
    echo "import site; site.addsitedir('$packages')" > "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch_of_project.pth"
  else
    "$venv/bin/pip" install --quiet "torch==$torch_version" numpy
  fi
  "$venv/bin/pip" install --quiet "torch-geometric==$pyg_version"
}
"$venv/bin/python" -c "import torch, torch_geometric as g; assert g.__version__ == '$pyg_version' and torch.__version__.split('+')[0] == '$torch_version'" \
  2>/dev/null || make_venv >&2

folder=$(mktemp -d "${TMPDIR:-/tmp}/hopfeed-step.XXXXXX")
trap 'rm -rf "$folder"' EXIT
"$program" "$@" --dump "$folder"
exec 3>"$folder/lines"
pyg() { "$venv/bin/python" -W ignore "$here/sage_step_pyg.py" "$folder" --threads "$threads" "$@"; }

# Each way of PyG once, to find its best; then ours and that one by turns. Memory that malloc keeps, on huge pages, helps PyG.
kept_memory=(env MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456 GLIBC_TUNABLES=glibc.malloc.hugetlb=1)
pyg --seconds 0 > "$folder/ways"
best=$("$venv/bin/python" -c "import json, sys
print(min(map(json.loads, open(sys.argv[1])), key=lambda line: line['cpu_ms'])['way'])" "$folder/ways")
for ((round = 0; round < rounds; ++round)); do
  "$program" "$@" --threads "$threads" --seconds "$seconds" >&3
  pyg --ways "$best" --seconds "$seconds" >&3
  "${kept_memory[@]}" "$venv/bin/python" -W ignore "$here/sage_step_pyg.py" "$folder" --threads "$threads" --ways "$best" --label kept_memory \
    --seconds "$seconds" >&3
done
exec 3>&-
"$venv/bin/python" "$here/sage_step_summary.py" "$folder/lines" "$folder/ways" | tee ${json:+"$json"}
