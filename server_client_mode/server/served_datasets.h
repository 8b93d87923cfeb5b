// ServedDatasets are the datasets that a server offers, opened once, and told apart by the fingerprint of
// their content: several may have one name.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cache/feature_tiers.h"
#include "channel/machine_memory.h"
#include "core/base/error.h"
#include "core/dataset/dataset.h"
#include "peers/peer_options.h"
#include "server_client_mode/server/told_errors.h"
#include "wire/messages.h"

namespace hopfeed {

struct ServedDataset {
  std::string folder;     // absolute
  std::string meta_text;  // of the manifest, as clients get it
  std::unique_ptr<const Dataset> dataset;
  std::shared_ptr<const MachineMemory> row_cache;  // of its files, for the workers; null: none
  const DatasetMeta& meta() const { return dataset->meta(); }
};

class ServedDatasets {
 public:
  /// Each dataset gets a row cache as `tiers` say. Throws what Dataset throws, kInvalid where two folders
  /// have the same content or there is none.
  explicit ServedDatasets(const std::vector<std::string>& folders, const FeatureTiers& tiers = {},
                          const PeerOptions& partitions = {});

  /// Returns a dataset by fingerprint. Throws kNotFound naming the datasets that there are.
  const ServedDataset& by_fingerprint(const std::string& fingerprint) const;
  /// Returns a dataset by fingerprint or by name, which only one may have; empty: the only one. Throws
  /// kNotFound or kInvalid naming the datasets that there are.
  const ServedDataset& by_title(const std::string& title) const;
  std::vector<wire::Offer::Dataset> offer() const;
  const std::vector<ServedDataset>& all() const { return datasets_; }
  /// Returns what the other side may read of an error: datasets by their names, and no places.
  Error told(const Error& error) const;

 private:
  /// Returns their names: "products (1f2e...), products (7a01...)".
  std::string list() const;
  std::vector<ServedDataset> datasets_;
  std::vector<NamedPlace> places_;
};

}  // namespace hopfeed
