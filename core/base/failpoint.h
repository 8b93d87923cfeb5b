// Tests crash at named points: FAILPOINT("name") does what HOPFEED_FAIL says at its n-th hit in this process,
// and is `false` and no code at all where HOPFEED_FAILPOINTS is off (release builds).
//
//   HOPFEED_FAIL=name=action@n[,name=action@n...]        n: the n-th hit, or * for every one
//     kill         SIGKILL to this process           stop       SIGSTOP to this process
//     sleep:MS     sleeps that many milliseconds     exit       leaves with exit code 3
//     yield        gives the core away, now and then for some microseconds, so that threads meet anew
//     error        FAILPOINT is true: the caller fails as it would if the operating system had refused
//   HOPFEED_FAIL_ONCE=FILE     over all processes only one acts: the one that can remove FILE
//   HOPFEED_FAIL_LOG=FILE      the name of each point that is hit is appended to FILE
#pragma once
#include <string_view>

namespace hopfeed {

/// These are all failpoints; a test hits each one.
inline constexpr std::string_view kFailpoints[] = {
    "worker.start",            // hopfeed-worker: before it attaches
    "channel.before_claim",    // a planned slot is found, not yet taken
    "channel.after_claim",     // taken, nothing done
    "worker.after_sample",     // sampled, size known
    "channel.after_ask",       // size told to the loader, grant not yet awaited
    "worker.before_write",     // granted
    "worker.mid_write",        // half of the block written
    "channel.before_publish",  // block whole, still FILLING
    "channel.after_publish",   // READY, nobody told
    "memory.reserve",          // error: the operating system has no memory left
    "worker.batch",            // error: no batch can be made
    "worker.allocate",         // error: no memory for this batch's scratch
    "worker.broken",           // error: the process can make no more batches
    "file.unnamed",            // error: the file system has no files without a name
    "results.shard",           // rows of a shard are written, its foot is not. error: the disk is full
    "dataset.write",           // a step of writing a dataset folder; error: the disk is full
    "device.allocate",         // of gpu/device/host_backend.h. error: the device has no memory left
    "device.share",            // error: the device has no memory for slots that processes share
    "device.import",           // error: a worker cannot import such slots
    "device.lost",             // error: the device is gone for good
    "device.launch",           // before each kernel
    "device.kernel",           // a kernel that goes on when its process is dead (tests/gpu/fake_room.h)
    "cache.joined",            // a process has become a member of the dynamic cache
    "server.read_open",        // before a client's OPEN is read
    "server.answer",           // before a question about partitions is answered
    "cache.locked",            // a process has a section's mutex
    "cache.mid_announce",      // a row of a batch is marked as wanted, its frame not yet moved
    "cache.mid_list",          // a frame is half on its list
    "cache.mid_take",          // a frame is pinned
    "cache.pinned",            // all rows of a batch that are there are pinned
    "cache.mid_claim",         // a frame is to be filled, its row does not know of it
    "cache.reading",           // before each row that is copied into a frame
    "cache.filled",            // all rows are copied, none is valid
    "cache.mid_publish",       // a frame is valid, and on no list
    "cache.mid_rebuild",       // the lists are half made, after the death of the mutex's owner
    "cache.mid_sweep",         // what dead members left is taken back, their slots not yet
};

#ifdef HOPFEED_FAILPOINTS
inline constexpr bool kFailpointsEnabled = true;
bool failpoint_hit(std::string_view name);  // failpoint.cc

consteval std::string_view failpoint_name(std::string_view name) {
  for (std::string_view known : kFailpoints) {
    if (known == name) return name;
  }
  throw "add the name to kFailpoints";
}
#define FAILPOINT(name) (::hopfeed::failpoint_hit(::hopfeed::failpoint_name(name)))
#else
inline constexpr bool kFailpointsEnabled = false;
constexpr bool no_failpoint() {
  return false;
}  // a call, since a bare `false;` is a statement without effect
#define FAILPOINT(name) (::hopfeed::no_failpoint())
#endif

}  // namespace hopfeed
