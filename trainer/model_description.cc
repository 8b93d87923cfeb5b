// See model_description.h.
#include "trainer/model_description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "trainer/checkpoint.h"
#include "trainer/node_classifier.h"

namespace hopfeed {

std::string ModelDescription::to_json() const {
  return json_text({{"kind", kind},
                    {"type", type},
                    {"fanouts", fanouts},
                    {"edge_fanouts", edge_fanouts},
                    {"hidden", hidden},
                    {"classes", classes},
                    {"dropout", dropout},
                    {"seed", seed},
                    {"dataset", dataset},
                    {"fingerprint", fingerprint},
                    {"node_types", node_types},
                    {"edge_types", edge_types}});
}

ModelDescription ModelDescription::from_json(const std::string& text) {
  const nlohmann::json json = parse_json(text);
  const JsonFields fields(json, "what the model says of itself", ErrorCode::kCorrupt);
  ModelDescription made{.kind = fields.text("kind"),
                        .type = fields.text("type"),
                        .fanouts = fields.wholes("fanouts", -1, INT64_MAX, kMaxHops),
                        .edge_fanouts = {},
                        .hidden = fields.whole("hidden", 1, kMaxHidden),
                        .classes = fields.whole("classes", 0, INT64_MAX),
                        .dropout = fields.real("dropout"),
                        .seed = fields.unsigned_whole("seed"),
                        .dataset = fields.text("dataset"),
                        .fingerprint = fields.text("fingerprint"),
                        .node_types = {},
                        .edge_types = fields.texts("edge_types")};
  for (const auto& [name, value] : fields.at("edge_fanouts").items())
    made.edge_fanouts[name] = JsonFields(fields.at("edge_fanouts"), "fanouts", ErrorCode::kCorrupt)
                                  .wholes(name.c_str(), -1, INT64_MAX, kMaxHops);
  const JsonFields types(fields.at("node_types"), "node types", ErrorCode::kCorrupt);
  for (const auto& [name, value] : fields.at("node_types").items())
    made.node_types[name] = types.whole(name.c_str(), 0, INT64_MAX);
  return made;
}

ModelDescription described(const DatasetMeta& dataset) {
  ModelDescription made{.dataset = dataset.name, .fingerprint = dataset.fingerprint};
  for (const NodeTypeMeta& type : dataset.node_types) made.node_types[type.name] = feature_width(type);
  for (const EdgeTypeMeta& type : dataset.edge_types) made.edge_types.push_back(type.folder());
  return made;
}

ModelDescription description_in(const std::filesystem::path& model) {
  const std::string text = description_text_of_model(model);
  if (text.empty()) return {};
  try {
    return ModelDescription::from_json(text);
  } catch (const Error& error) {
    throw Error(ErrorCode::kCorrupt, model.string() + ": " + error.what());
  }
}

void require_fits(const ModelDescription& model, const DatasetMeta& dataset) {
  const ModelDescription here = described(dataset);
  const std::string head = "the model was trained on '" + model.dataset + "', and '" + dataset.name + "' ";
  for (const auto& [name, width] : model.node_types) {
    const auto found = here.node_types.find(name);
    require_valid(found != here.node_types.end(), head + "has no node type '" + name + "'");
    require_valid(found->second == width, head + "has " + std::to_string(found->second) +
                                              " features of node type '" + name + "', not " +
                                              std::to_string(width));
  }
  for (const std::string& name : model.edge_types)
    require_valid(std::find(here.edge_types.begin(), here.edge_types.end(), name) != here.edge_types.end(),
                  head + "has no edge type '" + name + "'");
  require_valid(here.node_types.size() == model.node_types.size() && here.edge_types == model.edge_types,
                head + "has other node or edge types, or in another order");
}

}  // namespace hopfeed
