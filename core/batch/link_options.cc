// See link_options.h.
#include "core/batch/link_options.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/field_visitor.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

bool is_whole(double number) { return static_cast<double>(static_cast<std::int64_t>(number)) == number; }

/// Those that are not at their defaults.
std::vector<std::string> set_options(const LinkOptions& options) {
  const NegativeOptions &set = options.negatives, unset;
  std::vector<std::string> names;
  const auto add = [&](bool is_set, const char* field) {
    if (is_set) names.push_back(marked(field));
  };
  add(set.mode != unset.mode, "negatives");
  add(set.amount != unset.amount, "amount");
  add(set.strict, "strict");
  add(!set.src_weight.empty(), "src_weight");
  add(!set.dst_weight.empty(), "dst_weight");
  add(options.exclude != LinkOptions{}.exclude, "exclude");
  return names;
}

}  // namespace

const char* to_string(NegativeMode mode) {
  switch (mode) {
    case NegativeMode::kNone:
      return "none";
    case NegativeMode::kBinary:
      return "binary";
    case NegativeMode::kTriplet:
      break;
  }
  return "triplet";
}

NegativeMode negative_mode_from(const std::string& name) {
  for (NegativeMode mode : {NegativeMode::kNone, NegativeMode::kBinary, NegativeMode::kTriplet})
    if (name == to_string(mode)) return mode;
  throw Error(ErrorCode::kInvalid, fmt::format("negatives '{}' are none of none, binary and triplet", name));
}

const char* to_string(Exclude exclude) {
  switch (exclude) {
    case Exclude::kNone:
      return "none";
    case Exclude::kSelf:
      return "self";
    case Exclude::kReverse:
      break;
  }
  return "reverse";
}

Exclude exclude_from(const std::string& name) {
  for (Exclude exclude : {Exclude::kNone, Exclude::kSelf, Exclude::kReverse})
    if (name == to_string(exclude)) return exclude;
  throw Error(ErrorCode::kInvalid, fmt::format("exclude '{}' is none of none, self and reverse", name));
}

std::int64_t NegativeOptions::count(std::int64_t links) const {
  if (mode == NegativeMode::kNone) return 0;
  const double wanted = static_cast<double>(links) * amount;
  const auto below = static_cast<std::int64_t>(wanted);
  return below + (static_cast<double>(below) < wanted);
}

void LinkOptions::visit(FieldVisitor& fields) {
  fields.text({.name = "link",
               .help = "Seeds are links of this edge type, by name or by `src__name__dst`",
               .keyword = "edge_type",
               .key = "edge_type",
               .type = "EdgeTypeName",
               .group = "links"},
              edge_type);
  fields.choice(
      {.name = "negatives",
       .help = "With `link`: none, pairs that are drawn (binary), or destinations for each source (triplet)",
       .group = "links"},
      {.names = {"none", "binary", "triplet"},
       .get = [this] { return to_string(negatives.mode); },
       .set = [this](const std::string& name) { negatives.mode = negative_mode_from(name); }});
  fields.real({.name = "amount", .help = "Negatives for each link", .group = "negatives"}, negatives.amount);
  fields.flag({.name = "strict",
               .help = "No negative is an edge of the type, or one of the links of the list",
               .group = "negatives"},
              negatives.strict);
  fields.text({.name = "src_weight",
               .help = "Draw the sources of negatives in proportion to this node attribute",
               .group = "links"},
              negatives.src_weight);
  fields.text({.name = "dst_weight",
               .help = "Draw the destinations of negatives in proportion to this node attribute",
               .group = "links"},
              negatives.dst_weight);
  fields.choice(
      {.name = "exclude",
       .help = "Edges that neighbours do not come by: none, those of the batch's links (self), or these and "
               "their reverses (reverse)",
       .group = "negatives"},
      {.names = {"none", "self", "reverse"},
       .get = [this] { return to_string(exclude); },
       .set = [this](const std::string& name) { exclude = exclude_from(name); }});
}

void LinkOptions::validate() const {
  if (!on()) {
    require_valid(*this == LinkOptions{},
                  fmt::format("{} given, but seeds are links only where their edge type is named ({}); name "
                              "it, or leave these out",
                              fmt::join(set_options(*this), ", "), marked("link")));
    return;
  }
  const NegativeOptions& n = negatives;
  if (n.mode == NegativeMode::kNone) {
    require_valid(n == NegativeOptions{},
                  fmt::format("{}, {}, {} and {} are of negatives; choose binary or triplet ({}), or "
                              "leave them out",
                              marked("amount"), marked("strict"), marked("src_weight"), marked("dst_weight"),
                              marked("negatives")));
    return;
  }
  require_valid(n.amount > 0 && n.amount <= kMaxNegativeAmount,
                fmt::format("{} negatives for each link ({}); choose above 0 and at most {}", n.amount,
                            marked("amount"), kMaxNegativeAmount));
  if (n.mode != NegativeMode::kTriplet) return;
  require_valid(is_whole(n.amount),
                fmt::format("{} negatives for each link of a triplet ({}); choose a whole number", n.amount,
                            marked("amount")));
  require_valid(
      n.src_weight.empty(),
      fmt::format("triplets draw no sources, so {} has no meaning; leave it out or choose binary ({})",
                  marked("src_weight"), marked("negatives")));
}

}  // namespace hopfeed
