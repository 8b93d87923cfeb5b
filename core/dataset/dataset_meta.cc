// See dataset_meta.h. meta.json's text is read and written in dataset_meta_text.cc.
#include "core/dataset/dataset_meta.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {

std::int64_t AttrMeta::row_elements() const {
  std::int64_t n = 1;
  for (std::int64_t d : shape) n *= d;
  return n;
}

std::int64_t AttrMeta::row_bytes() const {
  return bytes_of_row(type, shape).value_or(std::numeric_limits<std::int64_t>::max());
}

const AttrMeta* find_attr(const std::vector<AttrMeta>& attrs, const std::string& name) {
  const auto found = std::ranges::find(attrs, name, &AttrMeta::name);
  return found == attrs.end() ? nullptr : &*found;
}

bool has_time(const std::vector<AttrMeta>& attrs, const std::string& name) {
  const AttrMeta* attr = find_attr(attrs, name);
  return attr && attr->type == ElementType::kInt64 && attr->row_elements() == 1;
}

int DatasetMeta::node_type(const std::string& type_name) const {
  std::string known;
  for (std::size_t i = 0; i < node_types.size(); ++i) {
    if (node_types[i].name == type_name) return static_cast<int>(i);
    known += (i ? ", " : "") + node_types[i].name;
  }
  throw Error(ErrorCode::kNotFound, "no node type '" + type_name + "'; the dataset has: " + known);
}

int DatasetMeta::edge_type(const std::string& name) const {
  std::string known, named;
  int found = -1, matches = 0;
  const auto list = [](std::string& names, const std::string& another) {
    names += (names.empty() ? "" : ", ") + another;
  };
  for (std::size_t i = 0; i < edge_types.size(); ++i) {
    const std::string folder = edge_types[i].folder();
    if (folder == name) return static_cast<int>(i);
    list(known, folder);
    if (edge_types[i].rel != name) continue;
    found = static_cast<int>(i), ++matches;
    list(named, folder);
  }
  if (matches == 1) return found;
  throw Error(ErrorCode::kNotFound, matches == 0
                                        ? "no edge type '" + name + "'; the dataset has: " + known
                                        : "several edge types are named '" + name + "'; say which: " + named);
}

int DatasetMeta::reverse_edge_type(int edge_type) const {
  const EdgeTypeMeta& edge = edge_types[edge_type];
  for (std::size_t i = 0; i < edge_types.size(); ++i) {
    if (edge_types[i].rev_of == edge.folder() || edge.rev_of == edge_types[i].folder())
      return static_cast<int>(i);
  }
  return -1;
}

namespace {

bool any_has_scale(const std::vector<AttrMeta>& attrs) {
  return std::ranges::any_of(attrs, has_scale, &AttrMeta::type);
}

}  // namespace

int EdgeTypeMeta::version() const {
  if (any_has_scale(attrs)) return kScaledDatasetVersion;
  if (!weights.empty()) return kWeightsDatasetVersion;
  if (!times.empty()) return kTimesDatasetVersion;
  return has_links() ? kLinksDatasetVersion : kPlainDatasetVersion;
}

bool DatasetMeta::has_scales() const {
  const auto has = [](const auto& type) { return any_has_scale(type.attrs); };
  return std::ranges::any_of(node_types, has) || std::ranges::any_of(edge_types, has);
}

int DatasetMeta::version() const {
  int version = has_scales() ? kScaledDatasetVersion : kPlainDatasetVersion;
  for (const EdgeTypeMeta& edge : edge_types) version = std::max(version, edge.version());
  if (std::ranges::any_of(node_types, &NodeTypeMeta::has_keys)) version = kKeysDatasetVersion;
  if (sharded_ids) version = kShardedIdsDatasetVersion;
  return version;
}

const char* to_string(KeyType type) {
  switch (type) {
    case KeyType::kNone:
      return "none";
    case KeyType::kInt64:
      return "int64";
    case KeyType::kString:
      return "string";
    case KeyType::kUuid:
      return "uuid";
  }
  return "unknown";
}

KeyType key_type_from(const std::string& word) {
  for (const KeyType type : {KeyType::kInt64, KeyType::kString, KeyType::kUuid})
    if (word == to_string(type)) return type;
  throw Error(ErrorCode::kInvalid, fmt::format("'{}' is no type of keys: int64, string or uuid", word));
}

bool DatasetMeta::can_be_shared_out() const {
  return sharded_ids || std::ranges::all_of(node_types, [&](const NodeTypeMeta& node) {
           return files.contains(all_original_ids_path(node));
         });
}

bool DatasetMeta::has_rows(const NodeTypeMeta& node) const {
  return std::any_of(edge_types.begin(), edge_types.end(),
                     [&](const EdgeTypeMeta& edge) { return edge.dst == node.name; });
}

void check_name(const std::string& name, const char* what) {
  const bool valid = !name.empty() && name.size() < kMaxNameBytes && name[0] != '.' &&
                     name.find("__") == std::string::npos &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return std::isalnum(c) || c == '_' || c == '.' || c == '-';
                     });
  if (!valid) {
    throw Error(ErrorCode::kInvalid, fmt::format("{} '{}' is no valid name: use 1 to {} of letters, digits, "
                                                 "'_', '.', '-' (no leading '.', no '__')",
                                                 what, name.substr(0, 64), kMaxNameBytes - 1));
  }
}

}  // namespace hopfeed
