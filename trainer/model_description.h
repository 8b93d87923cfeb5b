// A ModelDescription is what model.pt says of its model beside the parameters: enough to make the model again
// and to tell whether a dataset fits it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {

struct ModelDescription {
  std::string kind;  // "nodes" or "links": what it is trained on
  std::string type;  // the classified node type, or the links' edge type (folder())
  std::vector<std::int64_t> fanouts;
  std::map<std::string, std::vector<std::int64_t>> edge_fanouts;
  std::int64_t hidden = 0, classes = 0;  // classes of nodes
  double dropout = 0;
  std::uint64_t seed = 0;                          // of learned rows' first values
  std::string dataset, fingerprint;                // what it was trained on
  std::map<std::string, std::int64_t> node_types;  // width of features; 0: none
  std::vector<std::string> edge_types;             // folder() of each

  bool empty() const { return kind.empty(); }
  std::string to_json() const;
  /// Throws kCorrupt.
  static ModelDescription from_json(const std::string& text);
};

/// Returns a description with what the dataset says filled in.
ModelDescription described(const DatasetMeta& dataset);

/// Returns what a model's file says; empty where an earlier release wrote it. Throws kNotFound, kCorrupt.
ModelDescription description_in(const std::filesystem::path& model);

/// Throws kInvalid naming the first type or width that the dataset has not as the model needs it.
void require_fits(const ModelDescription& model, const DatasetMeta& dataset);

}  // namespace hopfeed
