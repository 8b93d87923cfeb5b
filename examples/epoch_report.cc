// See epoch_report.h.
#include "examples/epoch_report.h"

#include <fmt/format.h>

#include "core/batch/gpu_use_json.h"
#include "core/batch/tier_json.h"

namespace hopfeed {

EpochMeans means_of(const std::vector<EpochRow>& rows) {
  double seconds = 0, waited = 0, batches = 0;
  for (const EpochRow& row : rows) {
    seconds += row.seconds;
    waited += row.seconds * row.waits.trainer();
    batches += static_cast<double>(row.batches);
  }
  if (rows.empty() || seconds <= 0) return {};
  return {.epoch_seconds = seconds / static_cast<double>(rows.size()),
          .batches_per_s = batches / seconds,
          .wait_fraction = waited / seconds};
}

std::string waits_text(const EpochRow& row) {
  std::string text = to_text(row.waits);
  if (row.hit_rate > 0) text += fmt::format("; {:.0f}% of the rows were held", 100 * row.hit_rate);
  if (const std::string tiers = row.tiers.text(); !tiers.empty()) text += "; " + tiers;
  if (row.gpu.any())
    text += fmt::format("; {} batches sampled by the GPU, {} by the CPU", row.gpu.gpu_batches,
                        row.gpu.cpu_batches);
  return text;
}

nlohmann::json to_json(const EpochRow& row) {
  const WaitTimes& waits = row.waits;
  nlohmann::json json{{"epoch", row.epoch},
                      {"loss", row.loss},
                      {"seconds", row.seconds},
                      {"batches", row.batches},
                      {"batches_per_s", row.batches_per_s},
                      {"trainer_wait_fraction", waits.trainer()},
                      {"hit_rate", row.hit_rate},
                      {"cache_hit_rate", row.tiers.cache_hit_rate()},
                      {"tiers", tiers_json(row.tiers)},
                      {"waits",
                       {{"for_sampling", waits.for_sampling},
                        {"for_gather", waits.for_gather},
                        {"for_handover", waits.for_handover},
                        {"workers_for_slot", waits.for_slot},
                        {"workers_for_memory", waits.for_memory}}}};
  add_gpu_use(json, row.gpu);
  return json;
}

void add_epochs(nlohmann::json& summary, const std::string& prefix, const std::vector<EpochRow>& rows,
                std::int64_t best_epoch) {
  const EpochMeans means = means_of(rows);
  summary[prefix + "epochs"] = rows.size();
  summary[prefix + "best_epoch"] = best_epoch;
  summary[prefix + "epoch_seconds"] = means.epoch_seconds;
  summary[prefix + "batches_per_s"] = means.batches_per_s;
  summary[prefix + "trainer_wait_fraction"] = means.wait_fraction;
}

}  // namespace hopfeed
