// Measures what the machine allows for blocks over loopback: a bare send and receive loop over warm memory,
// crc32c, AES-GCM, and an echo of one small message. The wire is held against these.
#pragma once
#include <cstddef>

namespace hopfeed::bench {

struct LoopRate {
  double bytes_per_s = 0;
  double sender_cpu_s_per_byte = 0, receiver_cpu_s_per_byte = 0;
  double cpu_s_per_byte() const { return sender_cpu_s_per_byte + receiver_cpu_s_per_byte; }
};

/// LoopSums says whether each side also makes the crc32c of a whole block, as it is sent and once it has
/// come.
enum class LoopSums { kNone, kCrc };

/// Runs two threads for `seconds`: one sends blocks of `bytes` from two warm ones in turn, the other receives
/// into two.
LoopRate bare_loop(std::size_t bytes, double seconds, LoopSums sums = LoopSums::kNone);
/// Returns the CPU seconds that the crc32c of a byte costs, chunk by chunk in the cache, as the wire does it
/// on each side.
double crc_cpu_s_per_byte();
/// Returns the bytes a second that one core encrypts by AES-256-GCM in records of 16 KiB.
double aes_gcm_bytes_per_s(double seconds);
/// Returns the median microseconds of `bytes` there and back between two threads over loopback.
double echo_us_median(std::size_t bytes, double seconds);
/// Returns the median microseconds from ringing an eventfd to the end of the sleep of who polls it.
double wake_us_median(double seconds);
/// Returns the bytes a second that iperf3 tells of loopback; 0 where it is not installed.
double iperf3_bytes_per_s(double seconds);

}  // namespace hopfeed::bench
