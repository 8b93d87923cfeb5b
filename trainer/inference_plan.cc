// See inference_plan.h.
#include "trainer/inference_plan.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/base/error.h"

namespace hopfeed {
namespace {

torch::Tensor on_host(const torch::Tensor& weights) {
  return weights.detach().to(torch::kCPU, torch::kFloat32).contiguous();
}

class Planner {
 public:
  Planner(const InferredModel& model, const Dataset& dataset) : model_(model), dataset_(dataset) {}

  InferencePlan run() {
    std::vector<std::size_t> before(dataset_.meta().node_types.size(), kNone);
    for (std::size_t l = 0; l < model_.layers.size(); ++l) {
      const bool last = l + 1 == model_.layers.size();
      if (last && model_.classes > 0) take_results(before, plan_.embeddings);
      std::vector<std::size_t> next(before.size(), kNone);
      for (const LayerMaps::Destination& to : model_.layers[l].destinations)
        next[static_cast<std::size_t>(to.node_type)] =
            layer(l + 1, to, before, !last || model_.relu_behind_last);
      before = std::move(next);
    }
    take_results(before, model_.classes > 0 ? plan_.scores : plan_.embeddings);
    return std::move(plan_);
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  const NodeTypeMeta& type(int node_type) const {
    return dataset_.meta().node_types[static_cast<std::size_t>(node_type)];
  }
  /// The table of a type behind the layers so far, or what comes before any.
  std::size_t rows_of(int node_type, std::vector<std::size_t>& tables) {
    std::size_t& table = tables[static_cast<std::size_t>(node_type)];
    if (table != kNone) return table;
    if (const auto found = inputs_.find(node_type); found != inputs_.end()) return found->second;
    InferenceTable input{.name = {.table = "x", .node_type = type(node_type).name}, .node_type = node_type};
    const auto& learned = model_.learned[static_cast<std::size_t>(node_type)];
    if (learned.is_empty()) {
      const AttrView x = dataset_.attr(node_type, "x");
      input.kind = InferenceTable::Kind::kFeatures;
      input.width = x.row_elements;
      input.row_bytes = x.row_bytes;
    } else {
      input.kind = InferenceTable::Kind::kLearned;
      input.width = learned->width();
      input.row_bytes = input.width * static_cast<std::int64_t>(sizeof(float));
    }
    const std::size_t made = add(input);
    if (input.kind == InferenceTable::Kind::kLearned) plan_.stages.push_back({.table = made, .terms = {}});
    return inputs_[node_type] = made;
  }
  std::size_t add(const InferenceTable& table) {
    plan_.tables.push_back(table);
    return plan_.tables.size() - 1;
  }
  std::size_t computed(const std::string& name, int node_type, std::int64_t width) {
    return add({.name = {.table = name, .node_type = type(node_type).name},
                .node_type = node_type,
                .width = width,
                .row_bytes = width * static_cast<std::int64_t>(sizeof(float))});
  }
  void check_width(std::size_t table, const torch::Tensor& weight) const {
    const InferenceTable& read = plan_.tables[table];
    require_valid(read.width == weight.size(1),
                  "the model was made for " + std::to_string(weight.size(1)) + " features, the dataset has " +
                      std::to_string(read.width) + " of node type '" + read.name.node_type + "'");
  }

  std::size_t layer(std::size_t number, const LayerMaps::Destination& to, std::vector<std::size_t>& before,
                    bool relu) {
    const std::int64_t out = to.weight.size(0);
    InferenceStage stage{.terms = {}, .bias = on_host(to.bias), .relu = relu};
    const std::size_t own = rows_of(to.node_type, before);
    check_width(own, to.weight);
    stage.terms.push_back({.kind = InferenceTerm::Kind::kSelf, .table = own, .weight = on_host(to.weight)});
    for (const LayerMaps::Relation& relation : to.relations) {
      const std::size_t source = rows_of(dataset_.csc(relation.edge_type).src_type, before);
      check_width(source, relation.weight);
      const torch::Tensor weight = on_host(relation.weight);
      if (plan_.tables[source].width <= out) {
        stage.terms.push_back({.kind = InferenceTerm::Kind::kMean,
                               .table = source,
                               .edge_type = relation.edge_type,
                               .weight = weight});
        continue;
      }
      const std::size_t messages =
          computed("m" + std::to_string(number) + ".e" + std::to_string(relation.edge_type),
                   plan_.tables[source].node_type, out);
      plan_.stages.push_back(
          {.table = messages,
           .terms = {{.kind = InferenceTerm::Kind::kSelf, .table = source, .weight = weight}}});
      stage.terms.push_back(
          {.kind = InferenceTerm::Kind::kMeanAdded, .table = messages, .edge_type = relation.edge_type});
    }
    stage.table = computed("h" + std::to_string(number), to.node_type, out);
    plan_.stages.push_back(std::move(stage));
    return plan_.stages.back().table;
  }

  void take_results(std::vector<std::size_t>& tables, std::vector<std::size_t>& results) {
    for (const int type : model_.results) results.push_back(rows_of(type, tables));
  }

  const InferredModel& model_;
  const Dataset& dataset_;
  std::map<int, std::size_t> inputs_;
  InferencePlan plan_;
};

}  // namespace

InferredModel inferred(const NodeClassifier& model, const Dataset& dataset, const std::string& title) {
  InferredModel made{
      .title = title, .layers = model.layers(), .results = {}, .classes = model.num_classes(), .learned = {}};
  made.results = {made.layers.back().destinations.front().node_type};
  for (int type = 0; type < dataset.num_node_types(); ++type)
    made.learned.push_back(model.learned_rows(type));
  return made;
}

InferredModel inferred(const LinkModelImpl& model) {
  return {.title = "two towers",
          .layers = model.layers(),
          .relu_behind_last = true,
          .results = model.end_types(),
          .learned = model.learned_rows()};
}

int InferencePlan::last_use(std::size_t table) const {
  for (int at = static_cast<int>(stages.size()) - 1; at >= 0; --at) {
    const std::vector<InferenceTerm>& terms = stages[static_cast<std::size_t>(at)].terms;
    if (std::any_of(terms.begin(), terms.end(), [&](const InferenceTerm& t) { return t.table == table; }))
      return at;
  }
  return -1;
}

InferencePlan plan_inference(const InferredModel& model, const Dataset& dataset) {
  return Planner(model, dataset).run();
}

}  // namespace hopfeed
