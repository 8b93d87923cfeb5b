// See served_datasets.h.
#include "server_client_mode/server/served_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "core/dataset/dataset_title.h"
#include "peers/open_partitions.h"
#include "worker_mode/shared_row_cache.h"

namespace hopfeed {
namespace {

std::string whole_path(const std::string& folder) {
  const std::string path = std::filesystem::absolute(folder).string();
  return path.substr(0, std::max<std::size_t>(path.find_last_not_of('/') + 1, 1));
}

/// By its whole path, so that what is said of it later can be told from other words; what is wrong with it
/// now names it as the operator did.
std::unique_ptr<const Dataset> open_named(const std::string& path, const std::string& folder,
                                          const PeerOptions& partitions) {
  try {
    return open_partitions(path, partitions, PeersAt::kSoon);
  } catch (const Error& error) {
    const NamedPlace typed{.folder = path, .name = folder};
    throw Error(error.code(), with_names(error.message(), std::span(&typed, 1)));
  }
}

}  // namespace

ServedDatasets::ServedDatasets(const std::vector<std::string>& folders, const FeatureTiers& tiers,
                               const PeerOptions& partitions) {
  require_valid(!folders.empty(), "the server has no dataset to serve; name its folder (--data)");
  for (const std::string& folder : folders) {
    ServedDataset served{.folder = whole_path(folder), .meta_text = {}, .dataset = {}};
    served.dataset = open_named(served.folder, folder, partitions);
    served.meta_text = format_meta(served.meta());
    check_title(served.meta().name, fmt::format("{}: the dataset's name", folder));
    for (const ServedDataset& other : datasets_) {
      require_valid(other.meta().fingerprint != served.meta().fingerprint,
                    fmt::format("the datasets {} and {} have the same content; name one of them",
                                other.folder, served.folder));
    }
    places_.push_back({.folder = served.folder, .name = served.meta().name});
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
  return {error.code(), without_places(error.message(), places_)};
}

}  // namespace hopfeed
