#!/bin/sh
# Runs a test with a /dev/shm and System V segments of its own: tests count the names that are left there, and write their datasets
# there (support/no_disk.cc). Both end with the test.
# Usage: own_memory.sh COMMAND...     or own_memory.sh --may, whose status says whether this machine allows it
if [ "$1" = --may ]; then
  exec unshare -m -i mount -t tmpfs tmpfs /dev/shm
fi
exec unshare -m -i sh -c '
  mount -t tmpfs tmpfs /dev/shm || exit
  HOPFEED_TEST_MEMORY=$(mktemp -d /dev/shm/hopfeed-tests.XXXXXX) || exit
  export HOPFEED_TEST_MEMORY
  exec "$@"' sh "$@"
