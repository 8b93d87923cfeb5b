// See wait_times.h.
#include "core/batch/wait_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace hopfeed {
namespace {

struct Part {
  const char* what;
  double share;
};

/// "waiting for sampling 12%, for gather 3%"; `none` where no part reaches half a per cent.
std::string list(const char* head, std::vector<Part> parts, const char* none) {
  std::erase_if(parts, [](const Part& part) { return part.share < 0.005; });
  if (parts.empty()) return none;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.share > b.share; });
  std::string text = head;
  for (const Part& part : parts)
    text += fmt::format("{}{} {:.0f}%", &part == &parts.front() ? " " : ", ", part.what, 100 * part.share);
  return text;
}

}  // namespace

WaitTimes& WaitTimes::operator+=(const WaitTimes& other) {
  for_sampling += other.for_sampling;
  for_gather += other.for_gather;
  for_handover += other.for_handover;
  for_slot += other.for_slot;
  for_memory += other.for_memory;
  return *this;
}

WaitTimes operator-(const WaitTimes& after, const WaitTimes& before) {
  return {.for_sampling = after.for_sampling - before.for_sampling,
          .for_gather = after.for_gather - before.for_gather,
          .for_handover = after.for_handover - before.for_handover,
          .for_slot = after.for_slot - before.for_slot,
          .for_memory = after.for_memory - before.for_memory};
}

WaitTimes WaitTimes::shares_of(double trainer_seconds, double worker_seconds) const {
  const auto share = [](double part, double whole) {
    return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0.0;
  };
  return {.for_sampling = share(for_sampling, trainer_seconds),
          .for_gather = share(for_gather, trainer_seconds),
          .for_handover = share(for_handover, trainer_seconds),
          .for_slot = share(for_slot, worker_seconds),
          .for_memory = share(for_memory, worker_seconds)};
}

std::string to_text(const WaitTimes& shares) {
  const std::string workers = list(
      "; the workers waited", {{"for a free slot", shares.for_slot}, {"for memory", shares.for_memory}}, "");
  return list("waiting",
              {{"for sampling", shares.for_sampling},
               {"for gather", shares.for_gather},
               {"for the handover", shares.for_handover}},
              "no waiting for batches") +
         workers;
}

std::string own_work_text(const WaitTimes& shares) {
  return list("next() made the batches here:",
              {{"sampling", shares.for_sampling},
               {"gather", shares.for_gather},
               {"the rest of it", shares.for_handover}},
              "next() made the batches here, in no time");
}

}  // namespace hopfeed
