# What tests of scripts share, to be sourced: a sandbox that goes when they end, and what they expect of a run, which has left $status,
# $out and $err. A case is begun by case_of, which calls the test's own new_case; `shown` is what else a failure prints.
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
sandbox=$(mktemp -d)
trap 'rm -rf "$sandbox"' EXIT
failures=0
shown() { :; }

# stub FILE TEXT: a made-up program.
stub() { mkdir -p "${1%/*}" && printf '#!/bin/bash\n%s\n' "$2" >"$1" && chmod +x "$1"; }
case_of() { name=$1; new_case; }
fail() {
  printf 'FAILED %s: %s\n  status %s\n  out: %s\n  err: %s\n' "$name" "$1" "$status" "$out" "$err"
  shown
  failures=$((failures + 1))
}
succeeds() { ((status == 0)) || fail "should succeed"; }
refuses_with() {
  ((status != 0)) || fail "should not succeed"
  [[ $(wc -l <"$sandbox/err") == 1 ]] || fail "should say one line on stderr"
  [[ $err == *"$1"* ]] || fail "should say '$1'"
}
says() { [[ $out == *"$1"* ]] || fail "should print '$1'"; }
# all_hold NAME: ends the test.
all_hold() {
  ((failures == 0)) && echo "$1: all cases hold"
  exit $((failures > 0))
}
