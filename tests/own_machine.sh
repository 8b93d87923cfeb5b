#!/bin/sh
# Runs a test as on a machine of its own: with a /dev/shm, System V segments and a loopback that no other test sees. Tests count the
# names that are left in /dev/shm, write their datasets there (support/no_disk.cc), and choose ports. All of it ends with the test.
# Usage: own_machine.sh COMMAND...     or own_machine.sh --may, whose status says whether this machine allows it
if [ "$1" = --may ]; then
  set -- true
fi
exec unshare -m -i -n sh -c '
  mount -t tmpfs tmpfs /dev/shm && ip link set lo up || exit
  # No name server is to be reached, and nobody shall wait for one.
  sed "s/^hosts:.*/hosts: files/" /etc/nsswitch.conf >/dev/shm/nsswitch &&
    mount --bind /dev/shm/nsswitch /etc/nsswitch.conf && rm /dev/shm/nsswitch || exit
  if [ "$(sed -n "s/^MemAvailable: *\([0-9]*\) kB/\1/p" /proc/meminfo)" -ge 4194304 ]; then   # else on disk, which is slow
    HOPFEED_TEST_MEMORY=$(mktemp -d /dev/shm/hopfeed-tests.XXXXXX) || exit
    export HOPFEED_TEST_MEMORY
  else
    unset HOPFEED_TEST_MEMORY
  fi
  exec "$@"' sh "$@"
