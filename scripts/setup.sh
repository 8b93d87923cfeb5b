#!/usr/bin/env bash
# Installs what hopfeed needs and the machine lacks: system packages by apt (debian-packages.txt, for some tests also
# debian-packages-clang.txt), Python packages by pip into .venv (requirements.txt). Says what and why; does nothing the second time.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<HELP
Usage: scripts/setup.sh [--without-torch] [--with-clang]

Installs what is missing of
  scripts/debian-packages.txt   with apt-get, as root or through sudo
  scripts/requirements.txt      with pip, into the folder .venv of this checkout (about 5 GB, most of it Torch)

  --without-torch   leave out the second part: enough to build and test everything but the trainer
  --with-clang      also the compiler that tests/run.sh lint and fuzz need (scripts/debian-packages-clang.txt)
  --help            this text
HELP
}

with_torch=yes
package_lists=("$root/scripts/debian-packages.txt")
for argument in "$@"; do
  case $argument in
    --without-torch) with_torch=no ;;
    --with-clang) package_lists+=("$root/scripts/debian-packages-clang.txt") ;;
    --help | -h) usage; exit 0 ;;
    *) die "unknown option '$argument' (see scripts/setup.sh --help)" ;;
  esac
done

venv=$root/.venv
log=$root/build/setup.log
{ mkdir -p "$root/build" && : >"$log"; } 2>/dev/null ||
  die "cannot write $log; make $root writable for $(id -un), or check that the disk is not full"

# --- which distribution -----------------------------------------------------------------------------------------------
# Sets `distribution` to one that the package list knows. HOPFEED_OS_RELEASE lets the tests stand on another one.
find_distribution() {
  local file=${HOPFEED_OS_RELEASE:-/etc/os-release} id='' version='' name=''
  if [[ -r $file ]]; then
    # shellcheck disable=SC1090
    IFS='|' read -r id version name < <(. "$file" && printf '%s|%s|%s\n' "${ID:-}" "${VERSION_ID:-}" "${PRETTY_NAME:-}")
  fi
  distribution=$id-$version
  case $distribution in
    debian-12 | ubuntu-24.04) ;;
    *) die "this is ${name:-an unknown system}, and setup knows only Debian 12 and Ubuntu 24.04; install the packages of scripts/debian-packages.txt by their names here, then build as README.md shows" ;;
  esac
  [[ $(uname -m) == x86_64 ]] || die "this machine is $(uname -m), and hopfeed builds for x86_64 only so far"
}

# --- system packages --------------------------------------------------------------------------------------------------
# Prints "name why" for each package of the lists that dpkg does not have.
missing_packages() {
  local line name ubuntu_name installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p')
  while IFS= read -r line; do
    read -r name ubuntu_name _ <<<"${line%%#*}" || true
    [[ -n $name ]] || continue
    [[ $distribution != ubuntu-* || -z $ubuntu_name ]] || name=$ubuntu_name
    grep -qxF -- "$name" <<<"$installed" || printf '%s %s\n' "$name" "${line#*# }"
  done < <(cat "${package_lists[@]}")
}

# Says in one sentence why apt failed, by what it wrote into the log.
explain_apt_failure() {
  if grep -qE "No space left on device|enough free space" "$log"; then
    die "the disk is full: apt-get could not install the system packages; free about 2 GB and run this again (details in build/setup.log)"
  elif grep -qE "Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|Network is unreachable|Failed to fetch|Connection timed out" "$log"; then
    die "no network: apt-get could not reach the package servers; check the connection (and the proxy, if there is one) and run this again (details in build/setup.log)"
  elif grep -q "Could not get lock" "$log"; then
    die "another program is installing packages (apt's lock is held); let it finish and run this again"
  fi
  local reason
  reason=$(grep -m1 '^E: ' "$log" || true)
  die "apt-get could not install the system packages${reason:+ (${reason#E: })}; the details are in build/setup.log"
}

install_packages() {
  local missing names=() elevate=() command
  missing=$(missing_packages)
  if [[ -z $missing ]]; then
    say "System packages: all there."
    return
  fi
  mapfile -t names < <(cut -d' ' -f1 <<<"$missing")
  say "System packages: ${#names[@]} missing, to be installed with apt-get:"
  while read -r name why; do printf '  %-20s %s\n' "$name" "$why"; done <<<"$missing"

  command="apt-get update && apt-get install -y --no-install-recommends ${names[*]}"
  if (($(id -u) != 0)); then
    # sudo may ask for a password where somebody sits at a terminal; elsewhere it has to work without.
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [[ -t 0 && -t 2 ]] && sudo -v; }; }; then
      elevate=(sudo)
    else
      say ""
      say "This command, run as root by an administrator, installs them:"
      say "  $command"
      die "not root and no sudo: give the command above to an administrator, then run this again"
    fi
  fi
  # Lists that cannot be refreshed are no reason to stop: the packages may be known and cached. The installation decides.
  say "  refreshing the package lists ..."
  "${elevate[@]}" env LC_ALL=C apt-get -q update >>"$log" 2>&1 </dev/null || true
  "${elevate[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 install "${names[@]}" </dev/null 2>&1 |
    tee -a "$log" | sed -u -n 's/^\(Get:\|Setting up\)/  &/p' || explain_apt_failure
  missing=$(missing_packages | cut -d' ' -f1 | xargs)
  [[ -z $missing ]] || die "apt-get reported success, but these are still missing: $missing; see build/setup.log"
}

# --- Python packages --------------------------------------------------------------------------------------------------
explain_pip_failure() {
  if grep -qE "No space left on device" "$log"; then
    die "the disk is full: pip could not install Torch; free about 8 GB below $root and run this again (details in build/setup.log)"
  elif grep -qE "CERTIFICATE_VERIFY_FAILED|SSLError" "$log"; then
    die "pip does not trust the package server's certificate; set PIP_CERT to your network's certificate file and run this again (details in build/setup.log)"
  elif grep -qE "NewConnectionError|name resolution|ConnectTimeout|ReadTimeout|Connection (refused|reset|broken|aborted)|Network is unreachable|ProxyError" "$log"; then
    die "no network: pip could not reach the Python package index; check the connection (and the proxy, if there is one) and run this again (details in build/setup.log)"
  fi
  local reason
  reason=$(grep -m1 -o 'ERROR: .*' "$log" || true)
  die "pip could not install the Python packages${reason:+ (${reason#ERROR: })}; the details are in build/setup.log"
}

# The stamp is written after the last step alone, so that an installation that was cut off is taken up again. It names the
# place too: programs in .venv/bin carry it in their first line and break where the checkout is moved.
install_python_packages() {
  local requirements=$root/scripts/requirements.txt stamp=$venv/hopfeed-requirements.sha256 wanted
  wanted="$(sha256sum <"$requirements") $venv"
  if [[ -x $venv/bin/python && $(cat "$stamp" 2>/dev/null) == "$wanted" ]]; then
    say "Python packages: all there (.venv)."
    return
  fi
  if ! head -n 1 "$venv/bin/pip" 2>/dev/null | grep -qF "$venv/bin/python"; then
    say "Python: making the virtual environment .venv ..."
    /usr/bin/python3 -m venv --clear "$venv" >>"$log" 2>&1 ||
      die "python3 could not make the virtual environment .venv; see build/setup.log"
  fi
  say "Python packages, with pip into .venv:"
  sed -n 's/^\([^# ]\{1,\}\) *# */  \1: /p' "$requirements"
  compgen -G "$venv/lib/python3*/site-packages/torch/version.py" >/dev/null || require_space "$root" 8 "installing Torch"
  # Wheels are unpacked beside their target: /tmp may be small, and the space was checked here.
  local scratch=$venv/pip-scratch
  rm -rf "$scratch"
  mkdir -p "$scratch"
  # --no-compile: Python compiles what it imports, a small part of all, which would take half a minute here.
  TMPDIR=$scratch "$venv/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --no-compile --retries 5 --timeout 30 \
    --log "$log" -r "$requirements" 2>/dev/null || { rm -rf "$scratch"; explain_pip_failure; }
  rm -rf "$scratch"
  "$venv/bin/python" -c 'import numpy, torch' 2>>"$log" ||
    die "the Python packages in .venv cannot be imported; remove the folder .venv and run this again (details in build/setup.log)"
  printf '%s\n' "$wanted" >"$stamp"
}

find_distribution
install_packages
[[ $with_torch == no ]] || install_python_packages
