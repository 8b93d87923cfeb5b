// A channel is a control block, one record per worker, one record per slot, then the slots
// themselves. Every process of the channel maps the same bytes; nothing in them is a pointer.
//
//   offset            size              what
//   0                 4096              ControlBlock
//   4096              1024 * workers    WorkerRecord each
//   ...               1024 * slots      SlotRecord each
//   data_offset       stride * slots    the slots: room for the largest batch each
//
// Slots have memory only where it is granted. data_offset and stride are multiples of the page size, of 2 MiB
// where the stride is that large.
//
// A slot's word holds its state, its owner and its generation, so that one compare-and-swap decides who may
// do what:
//
//   bits 0..3    SlotState
//   bits 4..31   owner: incarnation of the worker that fills it, else 0 (never a pid: those are used again)
//   bits 32..63  generation: grows by one at each PLANNED
//
//   from      to        by       when
//   FREE      PLANNED   loader   a batch is written into the record
//   PLANNED   FILLING   worker   compare-and-swap that leaves its incarnation
//   PLANNED   FREE      loader   compare-and-swap: the batch was abandoned, alone or with its whole epoch
//   FILLING   READY     worker   compare-and-swap: the block (or the error) is whole
//   FILLING   PLANNED   loader   the owner is dead; the same batch again, under a new generation
//   FILLING   FREE      loader   the owner is dead and the batch was abandoned
//   READY     HELD      loader   handed out
//   READY     FREE      loader   the batch was abandoned
//   HELD      FREE      loader   the last view is gone, and no work of a GPU reads the block any more
//
// "Loader" is whoever has the channel and plans it, "worker" whoever fills slots: a process, a thread, a
// connection to a server. One worker may own several slots.
//
// Only PLANNED and FILLING are contended; the other states belong to the loader alone. docs/design.md, "The
// channel".
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "channel/futex.h"
#include "core/batch/tier_counts.h"

namespace hopfeed {

inline constexpr std::uint64_t kChannelMagic = 0x314E484350464F48;  // "HOFPCHN1"
inline constexpr std::uint32_t kChannelVersion = 9;

enum class SlotState : std::uint32_t { kFree = 0, kPlanned = 1, kFilling = 2, kReady = 3, kHeld = 4 };

/// SlotWord has the three parts of a slot's word.
struct SlotWord {
  SlotState state = SlotState::kFree;
  std::uint32_t owner = 0;
  std::uint32_t generation = 0;

  static SlotWord unpack(std::uint64_t word) {
    return {static_cast<SlotState>(word & 15), static_cast<std::uint32_t>(word) >> 4,
            static_cast<std::uint32_t>(word >> 32)};
  }
  std::uint64_t pack() const {
    return (std::uint64_t{generation} << 32) | (std::uint64_t{owner} << 4) |
           static_cast<std::uint64_t>(state);
  }
  friend bool operator==(const SlotWord&, const SlotWord&) = default;
};
inline constexpr std::uint32_t kMaxIncarnation = (1U << 28) - 1;

/// SlotTimes says when things happened to the batch in the slot, in CLOCK_MONOTONIC nanoseconds, which all
/// processes of a machine share; 0: not yet. From these any stall can be told.
struct SlotTimes {
  std::int64_t planned = 0;    // loader: the batch was written into the record; stays where it is made again
  std::int64_t claimed = 0;    // worker: took it
  std::int64_t sampled = 0;    // worker: sampling done, size known
  std::int64_t writing = 0;    // worker: began to write the block
  std::int64_t gathered = 0;   // worker: block written
  std::int64_t published = 0;  // worker: handed over
  std::int64_t taken = 0;      // loader: given to the trainer
  std::int64_t released = 0;   // loader: last view gone; the slot is FREE
};

/// SlotRecord is what both sides read and write of one slot. Atomics are those that the other side may read
/// at any moment; the plain fields belong to whoever the state names.
struct SlotRecord {
  std::atomic<std::uint64_t> word;      // SlotWord
  std::atomic<std::uint64_t> sequence;  // running number over the loader's life
  std::atomic<std::int64_t> epoch;
  std::atomic<std::int64_t> first;
  std::atomic<std::int64_t> count;
  std::atomic<std::uint64_t> granted;      // loader: bytes of memory behind the slot, from its start
  std::atomic<std::uint64_t> wanted;       // worker: bytes of the block, once sampled
  std::atomic<std::uint32_t> grant_event;  // futex of the worker that waits for its grant
  std::atomic<std::uint32_t> abandoned;    // loader: nobody will look at the block
  std::uint64_t used;        // worker: bytes of the block in the slot; 0 with an error or where abandoned
  std::uint32_t worker;      // worker: number of the worker that filled it
  std::uint32_t error_code;  // worker: 1 + ErrorCode where no batch can be made, else 0
  SlotTimes times;
  std::atomic<std::uint32_t> announced;  // worker: the block is whole within a millisecond or so; a hint
  std::atomic<std::uint32_t> job;        // loader: which of the jobs that the workers know; a loader has one
  std::atomic<std::uint32_t> held;       // loader: HeldShare::millionths of its consumer
  std::byte reserved0[4];
  std::int64_t tiers[TierCounts::kNumbers];  // worker: rows of the batch by where they were read
  char error[752];                           // worker: what the error says, NUL-terminated
};
static_assert(sizeof(SlotRecord) == 1024);

enum class WorkerState : std::uint32_t { kStarting = 0, kReady = 1, kFailed = 2 };

/// WorkerRecord is what a worker tells about itself. The loader clears it before each start.
struct WorkerRecord {
  std::atomic<std::uint32_t> state;            // WorkerState
  std::atomic<std::uint32_t> incarnation;      // loader: the name that this worker leaves in slots
  std::atomic<std::int64_t> waited_for_grant;  // nanoseconds, over all incarnations, as all sums here
  std::atomic<std::int64_t> waited_for_slot;   // nanoseconds in which batches were left to plan, but no slot
  std::uint32_t error_code;                    // 1 + ErrorCode, before state kFailed
  std::atomic<std::uint32_t> pid;              // loader: for people to read, nothing decides on it
  std::atomic<std::int64_t> waiting_since;     // for a slot, not yet in the sum; 0: does not wait
  std::atomic<std::int64_t> batches;           // published
  std::atomic<std::int64_t> sampling;          // nanoseconds spent on sampling its batches
  std::atomic<std::int64_t> gathering;         // nanoseconds, without the wait for a grant
  // These say how the dataset's arrays are mapped in this worker, when it last looked: bytes in memory, and
  // those on 2 MiB pages.
  std::atomic<std::uint64_t> dataset_resident, dataset_huge;
  std::atomic<std::uint32_t>
      heartbeat;  // grows with each look for a claim, at least ten times a second where it waits
  std::atomic<std::uint32_t> at_slot;  // 1 + the slot that it works at now, where it has several; 0: none
  std::atomic<std::int64_t> tiers[TierCounts::kNumbers];  // rows of its batches by where they were read
  std::atomic<std::int64_t> gpu_context, gpu_copying, gpu_pinning;  // nanoseconds (gpu_setup.h); 0: no GPU
  // These stay 0 but in graph modes of a GPU (gpu_use.h): batches by who sampled them, and, of this
  // incarnation, bytes in the GPU's memory and HeldShare::millionths of the rows that these are.
  std::atomic<std::int64_t> gpu_batches, cpu_batches, gpu_graph_bytes, gpu_rows_bytes;
  std::atomic<std::uint32_t> gpu_graph_share, gpu_rows_share;
  std::byte reserved[8];
  char error[752];
};
static_assert(sizeof(WorkerRecord) == 1024);

/// LoaderRecord is what the loader tells about itself; it alone writes here.
struct LoaderRecord {
  std::atomic<std::int64_t> epoch;
  std::atomic<std::int64_t> steps, taken;    // batches of the running epoch for this rank; those handed out
  std::atomic<std::int64_t> unplanned;       // batches of the epoch without a slot so far
  std::atomic<std::int64_t> batches, bytes;  // handed out over the loader's life
  // These are the nanoseconds that next() waited over the loader's life, by the stage of the batch
  // (wait_times.h).
  std::atomic<std::int64_t> waited_for_sampling, waited_for_gather, waited_for_handover;
  std::atomic<std::int64_t> waiting_since;  // next() waits, not yet in the sums; 0: it does not
  std::atomic<std::int64_t> rank, world_size;
};

/// ChannelShape has the sizes of a channel; all the rest follows.
struct ChannelShape {
  std::uint32_t num_slots = 0;
  std::uint32_t num_workers = 0;
  std::uint64_t slot_stride = 0;  // bytes from slot to slot
};

struct ControlBlock {
  std::atomic<std::uint64_t> magic;  // stored last
  std::uint32_t version;
  std::uint32_t num_slots;
  std::uint32_t num_workers;
  std::uint32_t reserved0;
  std::uint64_t slot_stride;
  std::uint64_t total_bytes;  // of the whole mapping
  std::byte reserved1[24];
  alignas(64) SharedEvent work_event;                // something was planned, or the end
  alignas(64) SharedEvent loader_event;              // something was published, asked, reported, or
                                                     // a worker died
  alignas(64) std::atomic<std::uint32_t> terminate;  // workers leave
  std::atomic<std::uint32_t>
      grants_pending;  // loader: somebody waits for memory, so tell it of each publication
  alignas(64)
      std::atomic<std::uint64_t> published;  // batches ever; a hint, a dying worker may not count its last
  alignas(64) LoaderRecord loader;
  std::byte reserved2[4096 - 5 * 64 - sizeof(LoaderRecord)];
};
static_assert(sizeof(ControlBlock) == 4096);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace hopfeed
