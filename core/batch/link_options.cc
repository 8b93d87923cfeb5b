// See link_options.h.
#include "core/batch/link_options.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/base/error.h"
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
