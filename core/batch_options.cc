// See batch_options.h.
#include "core/batch_options.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>
#include <string_view>

#include "core/error.h"
#include "core/json_text.h"
#include "core/limits.h"

namespace hopfeed {

void BatchOptions::validate() const {
  if (static_cast<std::int64_t>(fanouts.size()) > kMaxHops) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} hops are asked for; at most {} are sampled", fanouts.size(), kMaxHops));
  }
  for (std::int64_t fanout : fanouts) {
    if (fanout == -1 || (fanout >= 1 && fanout <= kMaxFanout)) continue;
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("fanout {} is not between 1 and {}; use -1 for all neighbours", fanout, kMaxFanout));
  }
}

std::string BatchOptions::to_json() const {
  nlohmann::json json = {{"fanouts", fanouts},
                         {"replace", replace},
                         {"edge_ids", edge_ids},
                         {"dataset_ids", dataset_ids},
                         {"attrs", nullptr}};
  if (attrs) json["attrs"] = *attrs;
  return json_text(json);  // keys sorted, no spaces: one text per value
}

BatchOptions BatchOptions::from_json(const std::string& text) {
  try {
    const nlohmann::json json = parse_json(text);
    BatchOptions options{.fanouts = json.at("fanouts"),
                         .replace = json.at("replace"),
                         .edge_ids = json.at("edge_ids"),
                         .dataset_ids = json.at("dataset_ids"),
                         .attrs = std::nullopt};
    if (!json.at("attrs").is_null()) options.attrs = json.at("attrs").get<std::vector<std::string>>();
    options.validate();
    return options;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInvalid, std::string("bad batch options: ") + error.what());
  }
}

std::uint64_t BatchOptions::hash() const {
  const std::string text = to_json();
  return XXH3_64bits(text.data(), text.size());
}

std::vector<std::int64_t> parse_fanouts(const std::string& text) {
  std::vector<std::int64_t> fanouts;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size()) {
      throw Error(ErrorCode::kInvalid,
                  fmt::format("'{}' in fanouts '{}' is no number; write them like 15,10,5", part, text));
    }
    fanouts.push_back(value);
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
    if (rest.empty())
      throw Error(ErrorCode::kInvalid,
                  fmt::format("fanouts '{}' end with a comma; write them like 15,10,5", text));
  }
  return fanouts;
}

}  // namespace hopfeed
