// See node_set.h.
#include "core/seeds/node_set.h"

#include <fmt/format.h>

#include <cstring>

#include "core/base/error.h"
#include "core/base/option_name.h"
#include "core/dataset/alias_table.h"

namespace hopfeed {
namespace {

/// Before the arrays, which follow in this order, 8 bytes an element.
struct PackedNodesHead {
  std::int64_t num_ids = 0, num_times = 0, num_weights = 0, named_by_node = 0;
};

std::vector<std::int64_t> ids_of_mask(const std::vector<std::uint8_t>& mask, const NodeTypeMeta& type) {
  require_valid(static_cast<std::int64_t>(mask.size()) == type.count,
                fmt::format("{}the mask of seeds has {} entries, and type '{}' has {} nodes",
                            option_file("seeds"), mask.size(), type.name, type.count));
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (mask[i] != 0) ids.push_back(static_cast<std::int64_t>(i));
  require_valid(!ids.empty(), option_file("seeds") + "the mask of seeds has no node set");
  return ids;
}

void check_ids(std::span<const std::int64_t> ids, const NodeTypeMeta& type) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    require_valid(ids[i] >= 0 && ids[i] < type.count,
                  fmt::format("{}seed {} (position {}) is no node: type '{}' has ids 0 to {}",
                              option_file("seeds"), ids[i], i, type.name, type.count - 1));
  }
}

std::vector<AliasEntry> table_of_seeds(std::span<const double> weights) {
  try {
    return alias_table(weights);
  } catch (const Error& error) {
    throw Error(error.code(), option_file("seed_weights") + "the weights of the seeds: " + error.what());
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
  const bool whole = input.ids || input.mask;
  take(dataset.meta().node_types[static_cast<std::size_t>(node_type)], input,
       whole ? std::span<const std::int64_t>() : dataset.split(node_type, input.split));
}

NodeSet::NodeSet(const DatasetMeta& meta, int node_type, const NodeInput& input) {
  check_exclusive(input);
  if (!input.ids && !input.mask)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("times or weights are given for split '{}', whose nodes the servers alone have; "
                            "give the nodes beside them (seeds)",
                            input.split));
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
                  fmt::format("{}there are {} {} for {} seeds; give one for each", option_file(field), length,
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
  PackedNodesHead head;
  const auto fail = [] {
    throw Error(ErrorCode::kCorrupt, "the seeds that a worker was given cannot be read");
  };
  if (packed.size() < sizeof(head)) fail();
  std::memcpy(&head, packed.data(), sizeof(head));
  static_assert(sizeof(AliasEntry) == sizeof(std::int64_t));
  const std::byte* at = packed.data() + sizeof(head);
  std::size_t left = (packed.size() - sizeof(head)) / sizeof(std::int64_t);
  const auto take = [&](std::int64_t count) {
    if (count < 0 || static_cast<std::size_t>(count) > left) fail();
    const std::byte* begin = at;
    at += static_cast<std::size_t>(count) * sizeof(std::int64_t);
    left -= static_cast<std::size_t>(count);
    return begin;
  };
  ids_ = {reinterpret_cast<const std::int64_t*>(take(head.num_ids)), static_cast<std::size_t>(head.num_ids)};
  times_ = {reinterpret_cast<const std::int64_t*>(take(head.num_times)),
            static_cast<std::size_t>(head.num_times)};
  weights_ = {reinterpret_cast<const AliasEntry*>(take(head.num_weights)),
              static_cast<std::size_t>(head.num_weights)};
  named_by_node_ = head.named_by_node != 0;
}

NodeList NodeSet::list(const ListOptions& options) const& {
  require_valid(options.shuffle || weights_.empty(),
                "seeds with weights are drawn anew in each epoch, so they have no order to keep; leave out "
                "the weights, "
                "or shuffle");
  return NodeList(ids_, {.node_type = options.node_type,
                         .shuffle = options.shuffle,
                         .times = times_,
                         .weights = weights_,
                         .named_by_node = named_by_node_});
}

}  // namespace hopfeed
