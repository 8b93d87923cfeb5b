// A Flood is a client that a server would rather not have: it sends one kind of frame without a pause. A
// Burner is as much work elsewhere, which tells what a flood costs beside what it takes away.
#pragma once
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "wire/address.h"
#include "wire/messages.h"

namespace hopfeed::bench {

struct FloodKind {
  std::string name;  // of its key in the report
  wire::FrameType type{};
  wire::Bytes payload = {};
};
/// Returns the frames that cost a client nothing: pings, cancels, jobs to close, questions for the status;
/// and jobs of half a megabyte that no server opens, for the dataset of this fingerprint.
std::vector<FloodKind> flood_kinds(const std::string& fingerprint);

/// Sends one kind and reads what it is answered, from a thread of its own, until it is destroyed.
class Flood {
 public:
  Flood(const wire::Address& address, const FloodKind& kind);
  ~Flood();
  double frames() const { return static_cast<double>(frames_); }  // frames that have left

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> frames_{0};
  std::thread thread_;
};

/// A Burner runs threads that use so many cores, as far as there are any, until it is destroyed.
class Burner {
 public:
  explicit Burner(double cores);
  ~Burner();

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace hopfeed::bench
