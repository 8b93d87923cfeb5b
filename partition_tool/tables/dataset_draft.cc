// See dataset_draft.h.
#include "partition_tool/tables/dataset_draft.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "core/base/element_type.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "partition_tool/dataset_build.h"

namespace hopfeed {
namespace {

constexpr const char* kNoDigest = "00000000000000000000000000000000";

void add_strides(nlohmann::json& type) {
  for (nlohmann::json& attr : type.at("attrs")) {
    const AttrMeta meta{.type = element_type_from(attr.at("element_type").get<std::string>()),
                        .shape = attr.at("shape").get<std::vector<std::int64_t>>()};
    const std::int64_t row = meta.row_bytes();
    if (!attr.contains("stride_bytes")) attr["stride_bytes"] = row > kMaxRowBytes ? row : row_stride(row);
  }
}

}  // namespace

DatasetMeta parse_draft(const std::string& text) {
  nlohmann::json draft = parse_json(text);
  require_valid(!draft.is_discarded(), "the draft of a dataset is no valid JSON: " + json_complaint(text));
  try {
    for (nlohmann::json& node : draft.at("node_types")) {
      add_strides(node);
      if (draft.contains("ids"))  // how many there are, the shards of ids say
        node["remote_sources"] = std::vector<std::int64_t>(draft.at("partitions").get<std::size_t>());
      if (node.contains("keys")) node["keys"] = {{"type", node["keys"]}, {"digest", kNoDigest}};
    }
    for (nlohmann::json& edge : draft.at("edge_types")) add_strides(edge);
    // parse_meta() checks the rest, as that of a file.
    draft["format"] = "hopfeed-dataset";
    draft["version"] = kDatasetVersion;
    draft["checksum"] = "0000000000000000";
    draft["fingerprint"] = kNoDigest;
    draft["files"] = nlohmann::json::object();
    return parse_meta(seal_meta(json_text(draft, 1) + "\n"), "the draft of a dataset");
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInvalid, std::string("the draft of a dataset lacks something: ") + error.what());
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalid, error.message());
  }
}

std::string draft_name(const DatasetMeta& draft) {
  const std::string text = format_meta(draft);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

const NodeTypeMeta& node_type_of(const DatasetMeta& draft, int number) {
  require_valid(number >= 0 && number < std::ssize(draft.node_types),
                fmt::format("the draft of a dataset has no node type {}", number));
  return draft.node_types[static_cast<std::size_t>(number)];
}

const EdgeTypeMeta& edge_type_of(const DatasetMeta& draft, int number) {
  require_valid(number >= 0 && number < std::ssize(draft.edge_types),
                fmt::format("the draft of a dataset has no edge type {}", number));
  return draft.edge_types[static_cast<std::size_t>(number)];
}

void require_partition(const DatasetMeta& draft, int partition) {
  require_valid(
      partition >= 0 && partition < draft.partitions,
      fmt::format("the draft of a dataset has {} partitions, and none is {}", draft.partitions, partition));
}

}  // namespace hopfeed
