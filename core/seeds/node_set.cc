// See node_set.h.
#include "core/seeds/node_set.h"

#include <fmt/format.h>

#include <cstring>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/dataset/alias_table.h"
#include "core/sampler/peer_ids.h"
#include "core/seeds/packed_arrays.h"

namespace hopfeed {
namespace {

/// Before the arrays, which follow in this order, 8 bytes an element.
struct PackedNodesHead {
  std::int64_t num_ids = 0, num_times = 0, num_weights = 0, named_by_node = 0;
};

std::vector<std::int64_t> ids_of_mask(const std::vector<std::uint8_t>& mask, const NodeTypeMeta& type) {
  require_valid(static_cast<std::int64_t>(mask.size()) == type.count,
                fmt::format("{}the mask of seeds has {} entries, and type '{}' has {} nodes",
                            marked_file("seeds"), mask.size(), type.name, type.count));
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (mask[i] != 0) ids.push_back(static_cast<std::int64_t>(i));
  require_valid(!ids.empty(), marked_file("seeds") + "the mask of seeds has no node set");
  return ids;
}

void check_ids(std::span<const std::int64_t> ids, const NodeTypeMeta& type) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < type.count) continue;
    throw Error(ErrorCode::kInvalid,
                fmt::format("{}seed {} (position {}) is no node: type '{}' has ids 0 to {}",
                            marked_file("seeds"), ids[i], i, type.name, type.count - 1));
  }
}

std::vector<AliasEntry> table_of_seeds(std::span<const double> weights) {
  try {
    return alias_table(weights);
  } catch (const Error& error) {
    throw Error(error.code(), marked_file("seed_weights") + "the weights of the seeds: " + error.message());
  }
}

/// Checks the alias table of a pack: it is what alias_table() can have made, as far as draws rely on it.
void check_table(std::span<const AliasEntry> table) {
  PackedArrays::require(table.size() <= static_cast<std::size_t>(kMaxWeightedDegree),
                        fmt::format("num_weights is {}, at most {}", table.size(), kMaxWeightedDegree));
  for (std::size_t i = 0; i < table.size(); ++i) {
    const AliasEntry& entry = table[i];
    PackedArrays::require(entry.alias < table.size(),
                          fmt::format("weight {} has alias {} of {}", i, entry.alias, table.size()));
    PackedArrays::require(entry.alias != i || entry.threshold == UINT32_MAX,
                          fmt::format("weight {} has threshold {}", i, entry.threshold));
  }
}

void check_exclusive(const NodeInput& input) {
  require_valid(!input.ids || !input.mask, "seeds are given as ids and as a mask; give one of them");
  require_valid(!(input.ids || input.mask) || input.split == NodeInput{}.split,
                fmt::format("seeds are given, so split '{}' is not read; leave it out", input.split));
}

}  // namespace

int seed_node_type(const DatasetMeta& meta, const std::string& name) {
  require_valid(
      name.find(',') == std::string::npos,
      fmt::format(
          "the seeds are of several node types ('{}'), and a loader has those of one; make a loader for each",
          name));
  return name.empty() ? 0 : meta.node_type(name);
}

NodeSet::NodeSet(const Dataset& dataset, int node_type, const NodeInput& input) {
  check_exclusive(input);
  const NodeTypeMeta& type = dataset.meta().node_types[static_cast<std::size_t>(node_type)];
  if (input.ids || input.mask) {
    take(type, input, {});
  } else if (dataset.has_all_ids()) {
    take(type, input, dataset.split(node_type, input.split));
  } else if (input.times.empty() && input.weights.empty()) {
    in_ranges_ = {.name = input.split,
                  .size = find_split(dataset, Store::kNode, node_type, input.split).count};
  } else {
    split_ids_ = whole_split(dataset, Store::kNode, node_type, input.split).originals;
    take(type, input, split_ids_);
  }
}

NodeSet::NodeSet(const DatasetMeta& meta, int node_type, const NodeInput& input) {
  check_exclusive(input);
  if (!input.ids && !input.mask)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("times or weights are given for split '{}', whose nodes the servers alone have; "
                            "give the nodes beside them ({})",
                            input.split, marked("seeds")));
  take(meta.node_types[static_cast<std::size_t>(node_type)], input, {});
}

void NodeSet::take(const NodeTypeMeta& type, const NodeInput& input, std::span<const std::int64_t> split) {
  named_by_node_ = input.mask.has_value();
  given_ = input.ids || input.mask || !input.times.empty() || !input.weights.empty();
  if (input.ids) own_ids_ = *input.ids;
  if (input.mask) own_ids_ = ids_of_mask(*input.mask, type);
  ids_ = input.ids || input.mask ? std::span<const std::int64_t>(own_ids_) : split;
  if (input.ids) check_ids(ids_, type);
  const auto check_length = [&](std::size_t length, const char* what, const char* field) {
    require_valid(length == 0 || length == ids_.size(),
                  fmt::format("{}there are {} {} for {} seeds; give one for each", marked_file(field), length,
                              what, ids_.size()));
  };
  check_length(input.times.size(), "seed times", "seed_times");
  check_length(input.weights.size(), "seed weights", "seed_weights");
  own_times_ = input.times;
  if (!input.weights.empty()) own_weights_ = table_of_seeds(input.weights);
  times_ = own_times_;
  weights_ = own_weights_;
}

std::vector<std::byte> NodeSet::pack() const {
  const PackedNodesHead head{.num_ids = std::ssize(ids_),
                             .num_times = std::ssize(times_),
                             .num_weights = std::ssize(weights_),
                             .named_by_node = named_by_node_};
  std::vector<std::byte> bytes(sizeof(head) + ids_.size_bytes() + times_.size_bytes() +
                               weights_.size_bytes());
  std::byte* at = bytes.data();
  const auto put = [&at](const void* from, std::size_t size) {
    if (size > 0) std::memcpy(at, from, size);
    at += size;
  };
  put(&head, sizeof(head));
  put(ids_.data(), ids_.size_bytes());
  put(times_.data(), times_.size_bytes());
  put(weights_.data(), weights_.size_bytes());
  return bytes;
}

NodeSet::NodeSet(std::span<const std::byte> packed) : given_(true) {
  PackedArrays arrays(packed);
  const auto head = arrays.head<PackedNodesHead>();
  ids_ = arrays.take<std::int64_t>(head.num_ids, "num_ids");
  times_ = arrays.take_for_each<std::int64_t>(head.num_times, "num_times", ids_.size());
  weights_ = arrays.take_for_each<AliasEntry>(head.num_weights, "num_weights", ids_.size());
  PackedArrays::require(head.named_by_node == 0 || head.named_by_node == 1,
                        fmt::format("named_by_node is {}", head.named_by_node));
  arrays.end();
  check_table(weights_);
  named_by_node_ = head.named_by_node != 0;
}

void NodeSet::check(const DatasetMeta& meta, int node_type) const {
  check_ids(ids_, meta.node_types[static_cast<std::size_t>(node_type)]);
}

NodeList NodeSet::list(const ListOptions& options) const& {
  require_valid(options.shuffle || weights_.empty(),
                "seeds with weights are drawn anew in each epoch, so they have no order to keep; leave out "
                "the weights, "
                "or shuffle");
  if (in_ranges_) return NodeList(*in_ranges_, {.node_type = options.node_type, .shuffle = options.shuffle});
  return NodeList(ids_, {.node_type = options.node_type,
                         .shuffle = options.shuffle,
                         .times = times_,
                         .weights = weights_,
                         .named_by_node = named_by_node_});
}

}  // namespace hopfeed
