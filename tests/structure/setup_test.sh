#!/usr/bin/env bash
# scripts/setup.sh on machines that this one is not: a copy of it runs with a PATH of made-up tools (apt-get, dpkg-query,
# sudo, id, df) and another os-release file, and what it says and how it ends is compared with what the README promises.
set -uo pipefail
source "${BASH_SOURCE[0]%/*}/script_checks.sh"

# --- the made-up machine ----------------------------------------------------------------------------------------------
fake() { stub "$sandbox/bin/$1" "$2"; }

# Debian 12, root, every package installed, and an apt-get that would tell on itself. Cases change what they need.
new_case() {
  rm -rf "${sandbox:?}"/*
  mkdir -p "$sandbox/bin" "$sandbox/checkout/scripts"
  cp "$source_root"/scripts/* "$sandbox/checkout/scripts/"
  printf 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n' >"$sandbox/os-release"
  sed 's/#.*//; s/^ *//; /^$/d; s/ .*//' "$source_root/scripts/debian-packages.txt" >"$sandbox/installed"
  local tool
  for tool in awk bash cat cut date df dirname echo env grep head mkdir nproc rm sed sha256sum tee uname xargs; do
    ln -s "$(type -P "$tool")" "$sandbox/bin/$tool"
  done
  fake dpkg-query "sed 's/^/installed /' '$sandbox/installed'"
  fake apt-get "echo \"apt-get \$*\" >>'$sandbox/apt-calls'"
  fake id 'echo 0'
}
lacks() { sed -i "/^$1\$/d" "$sandbox/installed"; }

# setup ARGUMENTS...: runs the copy; leaves $status, $out, $err.
setup() {
  env -i PATH="$sandbox/bin" HOME="$sandbox" HOPFEED_OS_RELEASE="$sandbox/os-release" \
    "$BASH" "$sandbox/checkout/scripts/setup.sh" "$@" >"$sandbox/out" 2>"$sandbox/err" </dev/null
  status=$?
  out=$(<"$sandbox/out")
  err=$(<"$sandbox/err")
}

# --- what is expected -------------------------------------------------------------------------------------------------
apt_untouched() { [[ ! -e $sandbox/apt-calls ]] || fail "should not call apt-get: $(<"$sandbox/apt-calls")"; }

case_of "everything there: nothing is done"
setup --without-torch
succeeds; says "System packages: all there"; apt_untouched

case_of "the compiler for lint and fuzzing is installed where it is asked for"
setup --without-torch --with-clang
refuses_with "still missing: clang-16 clang-tidy-16 libclang-rt-16-dev"
says "libFuzzer"

case_of "unknown option"
setup --with-everything
refuses_with "unknown option '--with-everything'"; apt_untouched

case_of "unsupported distribution"
printf 'ID=fedora\nVERSION_ID=41\nPRETTY_NAME="Fedora Linux 41"\n' >"$sandbox/os-release"
setup --without-torch
refuses_with "Fedora Linux 41"; apt_untouched

case_of "no os-release at all"
rm "$sandbox/os-release"
setup --without-torch
refuses_with "an unknown system"; apt_untouched

case_of "another processor"
rm "$sandbox/bin/uname"; fake uname 'echo riscv64'
setup --without-torch
refuses_with "riscv64"; apt_untouched

case_of "missing packages are named with their reason and installed"
lacks libmetis-dev
fake apt-get "echo \"\$*\" >>'$sandbox/apt-calls'; [[ \$* != *install* ]] || echo libmetis-dev >>'$sandbox/installed'"
setup --without-torch
succeeds; says "libmetis-dev"; says "graph partitioning"
grep -q 'install libmetis-dev$' "$sandbox/apt-calls" || fail "should install libmetis-dev alone"

case_of "Ubuntu 24.04 has its own names"
printf 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04 LTS"\n' >"$sandbox/os-release"
lacks libboost1.81-dev
fake apt-get "[[ \$* != *install* ]] || echo libboost1.83-dev >>'$sandbox/installed'"
setup --without-torch
succeeds; says "libboost1.83-dev"

case_of "neither root nor sudo: one command for an administrator"
lacks g++; lacks cmake
fake id 'echo 1000'
setup --without-torch
refuses_with "administrator"; apt_untouched
says "apt-get update && apt-get install -y --no-install-recommends g++ cmake"
[[ $(grep -c 'apt-get install' "$sandbox/out") == 1 ]] || fail "should print one command"

case_of "sudo that wants a password where nobody can type one"
lacks g++
fake id 'echo 1000'
fake sudo 'exit 1'
setup --without-torch
refuses_with "administrator"; apt_untouched

case_of "sudo that works is used"
lacks g++
fake id 'echo 1000'
fake sudo "if [[ \$1 == -n ]]; then exit 0; fi; echo sudo >>'$sandbox/sudo-calls'; exec \"\$@\""
fake apt-get "[[ \$* != *install* ]] || echo g++ >>'$sandbox/installed'"
setup --without-torch
succeeds
[[ -s $sandbox/sudo-calls ]] || fail "should go through sudo"

case_of "no network for apt"
lacks g++
fake apt-get 'echo "E: Failed to fetch http://debian.example/g++.deb  Temporary failure resolving" >&2; exit 100'
setup --without-torch
refuses_with "no network: apt-get"

case_of "disk full under apt"
lacks g++
fake apt-get 'echo "E: You do not have enough free space in /var/cache/apt/archives/." >&2; exit 100'
setup --without-torch
refuses_with "the disk is full"

case_of "apt that lies about success"
lacks g++
setup --without-torch
refuses_with "still missing: g++"

case_of "too little disk for Torch is said before anything is downloaded"
rm "$sandbox/bin/df"; fake df 'printf "Filesystem 1024-blocks Used Available\n/dev/x 9000000 8000000 1000000\n"'
mkdir -p "$sandbox/checkout/.venv/bin"
printf '#!%s\n' "$sandbox/checkout/.venv/bin/python" >"$sandbox/checkout/.venv/bin/pip"
setup
refuses_with "about 8 GB"

# A .venv whose python answers pip as told: pip_answers TEXT STATUS.
pip_answers() {
  mkdir -p "$sandbox/checkout/.venv/bin" "$sandbox/checkout/.venv/lib/python3.11/site-packages/torch"
  : >"$sandbox/checkout/.venv/lib/python3.11/site-packages/torch/version.py"
  printf '#!%s\n' "$sandbox/checkout/.venv/bin/python" >"$sandbox/checkout/.venv/bin/pip"
  cat >"$sandbox/checkout/.venv/bin/python" <<STUB
#!/bin/bash
[[ \$1 == -m ]] || exit 0
while [[ \$1 != --log ]]; do shift; done
echo "\$2" >"$sandbox/pip-called"
echo "$1" >>"\$2"
exit $2
STUB
  chmod +x "$sandbox/checkout/.venv/bin/python"
}

case_of "no network for pip"
pip_answers "NewConnectionError: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution" 1
setup
refuses_with "no network: pip"

case_of "disk full under pip"
pip_answers "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device" 1
setup
refuses_with "the disk is full"

case_of "pip fails: done again next time; pip succeeds: skipped next time, until the list changes"
pip_answers "ERROR: something else" 1
setup; refuses_with "something else"
pip_answers "Successfully installed" 0
setup; succeeds
rm -f "$sandbox/pip-called"
setup; succeeds; says "Python packages: all there"
[[ ! -e $sandbox/pip-called ]] || fail "should not call pip again"
printf 'another\n' >>"$sandbox/checkout/scripts/requirements.txt"
setup; succeeds
[[ -e $sandbox/pip-called ]] || fail "should call pip for a changed list"

all_hold setup.sh
