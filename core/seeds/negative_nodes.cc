// See negative_nodes.h.
#include "core/seeds/negative_nodes.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/alias_table.h"
#include "core/dataset/attr_value.h"
#include "core/draws/negative_rule.h"
#include "core/sampler/peer_ids.h"
#include "core/sampler/peer_rows.h"

namespace hopfeed {
namespace {

/// The alias table of every node, by original id.
std::vector<AliasEntry> table_of(const Dataset& dataset, int node_type, const std::string& name) {
  const WholeNodeAttr whole(dataset, node_type, name, sizeof(double) + sizeof(AliasEntry));
  const AttrView& attr = whole.view();
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalid, fmt::format("negatives cannot be drawn by attribute '{}' of node type "
                                                 "'{}': {}",
                                                 name, dataset.meta().node_types[node_type].name, why));
  };
  std::vector<double> weights(static_cast<std::size_t>(dataset.num_nodes(node_type)));
  const auto read = [&]<class T>(T) {
    for_all_dataset_ids(dataset, node_type, [&](std::int64_t first, std::span<const std::int64_t> ids) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        weights[static_cast<std::size_t>(first) + i] = static_cast<double>(attr_value<T>(attr, ids[i]));
    });
  };
  if (!is_scalar(attr)) refuse("it is not one number per node");
  switch (attr.type) {
    case ElementType::kFloat32:
      read(float{});
      break;
    case ElementType::kFloat64:
      read(double{});
      break;
    case ElementType::kInt32:
      read(std::int32_t{});
      break;
    case ElementType::kInt64:
      read(std::int64_t{});
      break;
    default:
      refuse("it is neither float32, float64, int32 nor int64");
  }
  try {
    return alias_table(weights);
  } catch (const Error& error) {
    refuse(error.message());
  }
  return {};
}

}  // namespace

NegativeNodes::NegativeNodes(const Dataset& dataset, const NegativeNodesOptions& options)
    : node_type_(options.node_type), count_(dataset.num_nodes(options.node_type)), by_time_(options.by_time) {
  if (options.weight.empty()) return;
  std::vector<AliasEntry> table = table_of(dataset, node_type_, options.weight);
  std::vector<std::uint64_t> weights;
  if (by_time_ || options.weighed) {
    weights.resize(table.size());
    alias_weights(table, weights.data());
  }
  if (by_time_) {
    sums_.resize(weights.size() + 1);
    for (std::size_t i = 0; i < weights.size(); ++i)
      sums_[i + 1] = sums_[i] + weights[static_cast<std::size_t>(node(static_cast<std::int64_t>(i)))];
  } else {
    table_ = std::move(table);
  }
  if (options.weighed) weights_ = std::move(weights);
}

std::uint64_t NegativeNodes::total(std::int64_t existing) const {
  if (!sums_.empty()) return sums_[static_cast<std::size_t>(existing)];
  return static_cast<std::uint64_t>(existing) * (table_.empty() ? 1 : kColumn);
}

std::int64_t NegativeNodes::draw(const NodeStream& stream, std::uint32_t attempt,
                                 std::int64_t existing) const {
  if (!table_.empty()) return draw_node(stream, attempt, table_);
  return node(sums_.empty() ? draw_node(stream, attempt, existing)
                            : draw_by_sums(stream, attempt,
                                           std::span(sums_).first(static_cast<std::size_t>(existing) + 1)));
}

std::size_t NegativeNodes::bytes() const {
  return table_.capacity() * sizeof(AliasEntry) +
         (sums_.capacity() + weights_.capacity()) * sizeof(std::uint64_t);
}

}  // namespace hopfeed
