#!/usr/bin/env bash
# Tests of imports by Spark and by Ray, with the package of build/release/python.
# Usage: run.sh [ARGUMENT OF PYTEST...], as -k spark or --junitxml FILE
# Their packages lie in build/engines/venv (about 1 GB, made once); HOPFEED_ENGINES_VENV names another environment that has them.
set -uo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
tests=$root/tests/engines package=$root/build/release/python

[[ -e $package/hopfeed ]] || die "$package/hopfeed is not there; build it first: cmake --preset release && cmake --build --preset release"

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
run "$venv/bin/python" -m pytest -q --no-header -p no:cacheprovider "$tests" "$@"
status=$?
if "$venv/bin/python" -c 'import torch, torch_geometric' 2>/dev/null; then   # elsewhere it skips, for want of Spark
  run "$venv/bin/python" -m pytest -q --no-header -p no:cacheprovider "$root/python/tests/test_results.py" -k Spark || status=1
fi
exit "$status"
