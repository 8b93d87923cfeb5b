// What RecycledBytes keep for others (recycled_bytes.h) goes back to the operating system once nobody has
// wanted it for a while: a process that was busy and rests takes no more memory than it has use for.
#pragma once

namespace hopfeed {

/// Gives back the memory that was there for the taking ever since the call before; what was taken meanwhile
/// stays. Whoever calls it every few seconds costs nobody who is busy a page fault. Any thread.
void trim_recycled() noexcept;

}  // namespace hopfeed
