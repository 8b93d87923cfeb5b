#!/usr/bin/env bash
# Tests of imports by Spark and by Ray, with the package of build/release/python.
# Usage: run.sh [--results FOLDER] [ARGUMENT OF PYTEST...], as -k spark. FOLDER gets ctest.xml, and gtest/NAME.xml of each run of pytest.
# Their packages lie in build/engines/venv (about 1 GB, made once); HOPFEED_ENGINES_VENV names another environment that has them.
set -uo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
tests=$root/tests/engines package=$root/build/release/python results=
if [[ ${1-} == --results ]]; then
  results=${2:?--results wants a folder}
  shift 2
fi

[[ -e $package/hopfeed ]] || die "$package/hopfeed is not there; tests/run.sh engines builds it"

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
version=$("$java" -version 2>&1 | sed -nE '1s/.*"([0-9]+).*/\1/p')
((${version:-0} >= 17)) || die "Spark needs Java 17 or newer, which is not here; apt-get install openjdk-17-jre-headless"

venv=${HOPFEED_ENGINES_VENV-}
if [[ -z $venv ]]; then
  venv=$root/build/engines/venv
  if ! cmp -s "$tests/requirements.txt" "$venv/installed.txt"; then
    mkdir -p "$root/build/engines"
    require_space "$root/build/engines" 2 "the virtual environment of Spark and Ray"
    say "Installing Spark and Ray into build/engines/venv, about 1 GB"
    { /usr/bin/python3 -m venv "$venv" && run "$venv/bin/pip" install -q -r "$tests/requirements.txt"; } || die "the packages of $tests/requirements.txt could not be installed"
    # Torch and PyG for the test of ray_train.py, behind what lies here: those of scripts/setup.sh, where they are.
    ours=("$root"/.venv/lib/python3*/site-packages)
    [[ ! -d ${ours[0]}/torch ]] || echo "${ours[0]}" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch_of_setup.pth"
    cp "$tests/requirements.txt" "$venv/installed.txt"
  fi
fi
[[ -x $venv/bin/python ]] || die "$venv/bin/python is not there; HOPFEED_ENGINES_VENV names a virtual environment with the packages of $tests/requirements.txt"

cd "$root" || exit
export PYTHONPATH=$package
cases='' status=0

# test_by_pytest NAME ARGUMENT...: of pytest.
test_by_pytest() {
  local name=$1 code
  shift
  run "$venv/bin/python" -m pytest -q --no-header -p no:cacheprovider ${results:+--junitxml "$results/gtest/$name.xml"} "$@"
  code=$?
  ((code == 0)) || status=1
  cases+="<testcase name=\"$name\" status=\"$( ((code < 2)) && echo run || echo fail)\"/>"   # 1: some failed, which the report tells
}

test_by_pytest clusters "$tests" "$@"
if "$venv/bin/python" -c 'import torch, torch_geometric' 2>/dev/null; then   # elsewhere it skips, for want of Spark
  test_by_pytest results "$root/python/tests/test_results.py" -k Spark
fi
[[ -z $results ]] || printf '<testsuite name="engines">%s</testsuite>\n' "$cases" >"$results/ctest.xml"
exit "$status"
