// Trainers make machines that have partitions known to each other: none has to be named in advance, nor again
// where a machine comes back at another address.
#pragma once
#include "peers/peer_options.h"
#include "trainer/world.h"

namespace hopfeed {

/// `peers` of "c10d=HOST:PORT" is the address of this machine's own server; all trainers call this, and
/// `peers` becomes those of all machines, in the order of ranks. Any other `peers` stay. Throws kInvalid
/// where only some trainers say so, or an address is too long.
void share_peers(World& world, PeerOptions& options);

}  // namespace hopfeed
