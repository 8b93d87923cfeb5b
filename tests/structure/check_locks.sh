#!/bin/sh
# Has clang check what sources say of their locks (core/base/thread_annotations.h): every source that uses the words, or whose
# header does. Exits with 77 (skipped) where there is no clang++.
#
# Usage: check_locks.sh ROOT [CLANG++]
cd "$1" || exit 1
clang=$(command -v "${2:-clang++}" || command -v clang++-14) || exit 77
status=0
for source in $(find core cache channel worker_mode tests/channel tests/worker_mode -name '*.cc' | sort); do
  grep -qE 'MutexLock|GUARDED_BY|REQUIRES\(' "$source" "${source%.cc}.h" 2>/dev/null || continue
  echo "$source"
  "$clang" -std=c++20 -fsyntax-only -Wthread-safety -Werror -I. "$source" || status=1
done
exit $status
