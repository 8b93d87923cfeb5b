// See top_screen.h.
#include "programs/top_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/memory_limits.h"
#include "core/batch/tier_json.h"

namespace hopfeed {
namespace {

/// Rates and shares between two looks.
struct Between {
  explicit Between(const LoaderSnapshot& before, const LoaderSnapshot& now)
      : seconds(std::max(now.time - before.time, 1e-9)),
        waits((now.waits - before.waits)
                  .shares_of(seconds, seconds * static_cast<double>(now.workers.size()))) {}
  double rate(std::int64_t from, std::int64_t to) const { return static_cast<double>(to - from) / seconds; }
  double share(double from, double to) const { return std::clamp((to - from) / seconds, 0.0, 1.0); }

  double seconds;
  WaitTimes waits;
};

}  // namespace

std::string screen_of(const LoaderSnapshot& before, const LoaderSnapshot& now) {
  const Between between(before, now);
  const auto slots = [&](SlotState state) { return now.slots[static_cast<std::size_t>(state)]; };
  std::string text = fmt::format(
      "rank {} of {}, epoch {}: {} of {} batches   {:.1f} batches/s   {}/s\n"
      "  {}{}\n"
      "  slots: {} free, {} planned, {} filling, {} ready, {} held; {} of memory\n",
      now.rank, now.world_size, now.epoch, now.taken, now.steps, between.rate(before.batches, now.batches),
      format_bytes(static_cast<std::size_t>(between.rate(before.bytes, now.bytes))), to_text(between.waits),
      now.waiting > 0 ? fmt::format("; next() waits for {:.1f} s now", now.waiting) : "",
      slots(SlotState::kFree), slots(SlotState::kPlanned), slots(SlotState::kFilling),
      slots(SlotState::kReady), slots(SlotState::kHeld), format_bytes(now.granted_bytes));
  if (const std::string tiers = (now.tiers - before.tiers).text(); !tiers.empty())
    text += "  " + tiers + "\n";
  text += fmt::format("  {:>6} {:>8}  {:<17}{:>10}{:>10}{:>8}{:>12}{:>12}\n", "worker", "process", "now",
                      "batches/s", "sampling", "gather", "for a slot", "for memory");
  for (std::size_t i = 0; i < now.workers.size() && i < before.workers.size(); ++i) {
    const LoaderSnapshot::Worker &was = before.workers[i], &is = now.workers[i];
    text += fmt::format("  {:>6} {:>8}  {:<17}{:>10.1f}{:>9.0f}%{:>7.0f}%{:>11.0f}%{:>11.0f}%\n", i, is.pid,
                        to_string(is.activity), between.rate(was.batches, is.batches),
                        100 * between.share(was.sampling, is.sampling),
                        100 * between.share(was.gathering, is.gathering),
                        100 * between.share(was.waited_for_slot, is.waited_for_slot),
                        100 * between.share(was.waited_for_memory, is.waited_for_memory));
  }
  return text;
}

nlohmann::json json_of(const LoaderSnapshot& before, const LoaderSnapshot& now) {
  const Between between(before, now);
  nlohmann::json workers = nlohmann::json::array();
  for (std::size_t i = 0; i < now.workers.size() && i < before.workers.size(); ++i) {
    const LoaderSnapshot::Worker &was = before.workers[i], &is = now.workers[i];
    workers.push_back({{"process", is.pid},
                       {"now", to_string(is.activity)},
                       {"batches", is.batches},
                       {"batches_per_s", between.rate(was.batches, is.batches)},
                       {"sampling", between.share(was.sampling, is.sampling)},
                       {"gather", between.share(was.gathering, is.gathering)},
                       {"waited_for_slot", between.share(was.waited_for_slot, is.waited_for_slot)},
                       {"waited_for_memory", between.share(was.waited_for_memory, is.waited_for_memory)}});
  }
  return {{"rank", now.rank},
          {"world_size", now.world_size},
          {"epoch", now.epoch},
          {"steps", now.steps},
          {"taken", now.taken},
          {"batches", now.batches},
          {"batches_per_s", between.rate(before.batches, now.batches)},
          {"bytes_per_s", between.rate(before.bytes, now.bytes)},
          {"waiting", now.waiting},
          {"waited_for_sampling", between.waits.for_sampling},
          {"waited_for_gather", between.waits.for_gather},
          {"waited_for_handover", between.waits.for_handover},
          {"workers_waited_for_slot", between.waits.for_slot},
          {"workers_waited_for_memory", between.waits.for_memory},
          {"slots",
           {{"free", now.slots[0]},
            {"planned", now.slots[1]},
            {"filling", now.slots[2]},
            {"ready", now.slots[3]},
            {"held", now.slots[4]}}},
          {"slot_bytes", now.granted_bytes},
          {"tiers", tiers_json(now.tiers)},
          {"workers", workers}};
}

}  // namespace hopfeed
