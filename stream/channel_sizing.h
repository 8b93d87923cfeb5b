// Plans how large a channel is: slots, bytes, and the check against the machine's memory before anything is
// reserved.
#pragma once
#include <cstddef>
#include <optional>

#include "channel/channel_view.h"
#include "channel/slot_pool.h"
#include "core/base/memory_limits.h"
#include "core/maker/batch_maker.h"
#include "stream/local_execution.h"

namespace hopfeed {

struct ChannelPlan {
  ChannelShape shape;
  SlotPoolOptions pool;
  std::size_t needed = 0;  // bytes at most: records, channel_size, the allowance and the workers' scratch
};

struct SizingInput {
  std::size_t worst_block = 0;  // BatchMaker::max_block_bytes
  BatchMaker::Scratch scratch;  // scratch of each batch that a worker has under way
  std::int64_t batch_size = 1;
  AvailableMemory available;
  std::optional<AvailableMemory> device =
      {};               // memory in which all slots lie at once; none: as they are granted
  int local_world = 1;  // ranks of this machine, each with a loader; the memory is shared out evenly
};

/// Throws kInvalid for absurd options, kNoSpace in one line (needed, available, knobs) where memory does not
/// suffice. `bounded` says whether fanouts bound a batch (BatchOptions::bounded).
///
/// Where fanouts bound a batch, the allowance is one worst-case slot, and each worker's scratch that of a
/// worst-case batch. With -1 among them the worst case is often the whole graph, which hardly any batch
/// comes near; there only the tables count as scratch, the allowance is cut to what three quarters of the
/// memory leave, and a batch that is larger than that is an error when it comes. So are slots that lie on a
/// device cut to three quarters of what that has.
ChannelPlan plan_channel(const LocalExecution& options, bool bounded, const SizingInput& input);

}  // namespace hopfeed
