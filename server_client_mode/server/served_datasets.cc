// See served_datasets.h.
#include "server_client_mode/server/served_datasets.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "core/dataset/dataset_title.h"
#include "peers/open_partitions.h"
#include "worker_mode/shared_row_cache.h"

namespace hopfeed {

ServedDatasets::ServedDatasets(const std::vector<std::string>& folders, const FeatureTiers& tiers,
                               const PeerOptions& partitions) {
  require_valid(!folders.empty(), "the server has no dataset to serve; name its folder (--data)");
  for (const std::string& folder : folders) {
    ServedDataset served{.folder = std::filesystem::absolute(folder).string(),
                         .meta_text = {},
                         .dataset = open_partitions(folder, partitions, PeersAt::kSoon)};
    served.meta_text = format_meta(served.meta());
    check_title(served.meta().name, fmt::format("{}: the dataset's name", folder));
    for (const ServedDataset& other : datasets_) {
      require_valid(other.meta().fingerprint != served.meta().fingerprint,
                    fmt::format("the datasets {} and {} have the same content; name one of them",
                                other.folder, served.folder));
    }
    for (const std::string& place : {served.folder, folder})  // messages have the one or the other
      places_.push_back(
          {.folder = place.substr(0, place.find_last_not_of('/') + 1), .name = served.meta().name});
    served.row_cache = shared_row_cache(*served.dataset, tiers);
    datasets_.push_back(std::move(served));
  }
}

std::string ServedDatasets::list() const {
  std::string text;
  for (const ServedDataset& served : datasets_)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", served.meta().name, served.meta().fingerprint);
  return text;
}

const ServedDataset& ServedDatasets::by_fingerprint(const std::string& fingerprint) const {
  for (const ServedDataset& served : datasets_) {
    if (served.meta().fingerprint == fingerprint) return served;
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("the server has no dataset of fingerprint {}; it has {}", fingerprint, list()));
}

const ServedDataset& ServedDatasets::by_title(const std::string& title) const {
  if (title.empty()) {
    require_valid(datasets_.size() == 1,
                  fmt::format("the server has several datasets; name one of them (--dataset): {}", list()));
    return datasets_.front();
  }
  const ServedDataset* found = nullptr;
  for (const ServedDataset& served : datasets_) {
    if (served.meta().fingerprint == title) return served;
    if (served.meta().name != title) continue;
    require_valid(
        found == nullptr,
        fmt::format("the server has several datasets '{}'; name one by its fingerprint: {}", title, list()));
    found = &served;
  }
  if (found == nullptr)
    throw Error(ErrorCode::kNotFound,
                fmt::format("the server has no dataset '{}'; it has {}", title, list()));
  return *found;
}

std::vector<wire::Offer::Dataset> ServedDatasets::offer() const {
  std::vector<wire::Offer::Dataset> offered;
  for (const ServedDataset& served : datasets_)
    offered.push_back({.name = served.meta().name, .fingerprint = served.meta().fingerprint});
  return offered;
}

Error ServedDatasets::told(const Error& error) const {
  return {error.code(), without_places(error.what(), places_)};
}

}  // namespace hopfeed
