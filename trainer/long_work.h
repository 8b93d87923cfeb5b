// Work of ranks that may take longer than they wait for each other (World::timeout): owners write and read
// gigabytes. It is done on a thread of its own, while all ranks tell each other that they are there.
#pragma once
#include <chrono>
#include <functional>

#include "trainer/world.h"

namespace hopfeed {

/// It is told about once a second how long the work has taken so far.
using WorkTold = std::function<void(std::chrono::seconds so_far)>;

/// Does `work`; null: this rank has none. All ranks call it together, and all return once the last one has
/// done its own. `work` runs on another thread, and leaves `world` alone. Throws what it has thrown, and
/// where that of another rank has, an Error with its code and words, behind which rank it was.
void do_together(World& world, const std::function<void()>& work, const WorkTold& told = {});

}  // namespace hopfeed
