// See agreement.h.
#include "trainer/agreement.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_text.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMostOfValue = 100;  // characters of one that is told
constexpr int kMostTold = 3;               // differences of one rank

std::string short_value(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found == settings.end()) return "unset";
  return found->second.size() <= kMostOfValue ? found->second : found->second.substr(0, kMostOfValue) + "...";
}

/// "seed is 2 at rank 1 and 1 at rank 0; ...": empty where they agree.
std::string differences(const Settings& first, const Settings& other, std::size_t rank) {
  Settings all = first;
  all.insert(other.begin(), other.end());
  std::string told;
  int count = 0;
  for (const auto& [name, value] : all) {
    const auto a = first.find(name), b = other.find(name);
    if (a != first.end() && b != other.end() && a->second == b->second) continue;
    if (++count > kMostTold) continue;
    told += (told.empty() ? "" : "; ") + marked(name) + " is " + short_value(other, name) + " at rank " +
            std::to_string(rank) + " and " + short_value(first, name) + " at rank 0";
  }
  if (count > kMostTold) told += "; " + std::to_string(count - kMostTold) + " more differ";
  return told;
}

}  // namespace

Settings settings_of(const BatchStream& stream) {
  Settings settings = stream.spec().parts();
  settings["batch-size"] = std::to_string(stream.deal().batch_size);
  settings["drop-last"] = stream.deal().drop_last ? "true" : "false";
  return settings;
}

void require_agreement(World& world, const Settings& settings) {
  if (world.size() == 1) return;
  std::string mine = json_text(settings);  // of whatever bytes: who throws here leaves the others waiting
  const std::vector<torch::Tensor> all = world.gather_rows(
      torch::from_blob(mine.data(), {static_cast<std::int64_t>(mine.size())}, torch::kUInt8));
  std::vector<std::string> texts;
  for (const torch::Tensor& rank : all) {
    const torch::Tensor row = rank.contiguous();
    texts.emplace_back(static_cast<const char*>(row.const_data_ptr()), static_cast<std::size_t>(row.numel()));
  }
  const auto other = std::ranges::find_if(texts, [&](const auto& text) { return text != texts.front(); });
  if (other == texts.end()) return;
  const auto read = [](const std::string& text) { return nlohmann::json::parse(text).get<Settings>(); };
  throw Error(ErrorCode::kInvalid, "the trainers do not train on the same batches: " +
                                       differences(read(texts.front()), read(*other),
                                                   static_cast<std::size_t>(other - texts.begin())) +
                                       "; start all of them with the same dataset and options");
}

void require_agreement(World& world, const BatchStream& stream) {
  Settings settings = settings_of(stream);
  settings["world-size"] = std::to_string(stream.deal().world_size);
  require_agreement(world, settings);
}

void require_dataset(const DatasetMeta& model, const BatchStream& stream) {
  if (stream.meta().fingerprint == model.fingerprint) return;
  throw Error(ErrorCode::kInvalid, "the servers have changed dataset '" + model.name +
                                       "': the model was made for " + model.fingerprint +
                                       ", and the batches are of " + stream.meta().fingerprint +
                                       "; start again, or name the one that is meant by its fingerprint (" +
                                       marked("dataset") + ")");
}

}  // namespace hopfeed
