// Tells how much memory this process may still take: what the machine has, and what every memory cgroup on
// the way to the root leaves. Under a cgroup an overrun is SIGKILL and no error, so it is asked before
// anything is reserved. It knows versions 1 and 2 of cgroups, mixed set-ups and containers (a mount that
// shows only part of the tree).
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace hopfeed {

struct AvailableMemory {
  std::uint64_t bytes = 0;
  std::string source;  // who sets this limit: "MemAvailable", or the cgroup's file
};

/// Returns the smallest of all limits. `root` is put before every path that is read (tests bring made-up
/// files). Limits that cannot be read do not count; where even MemAvailable cannot, the answer is all ones
/// and the source "unknown".
AvailableMemory available_memory(const std::filesystem::path& root = "/");

/// Throws kNoSpace in one line (needed, available and by whom, `knobs`) where `needed` bytes are not to be
/// had.
void require_memory(std::uint64_t needed, const AvailableMemory& available, const std::string& what,
                    const std::string& knobs);

/// Returns bytes as a message has them: "512 MiB", "12 GiB", "8192 bytes".
std::string format_bytes(std::uint64_t bytes);

}  // namespace hopfeed
