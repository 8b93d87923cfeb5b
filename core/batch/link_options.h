// Links as the seeds of a batch (PyG's LinkNeighborLoader): of which edge type, what negatives are drawn
// beside them, and what of the links themselves message passing may see. Part of BatchOptions; docs/batch.md
// has the fields that come of it.
#pragma once
#include <cstdint>
#include <string>

namespace hopfeed {

class FieldVisitor;  // core/base/field_visitor.h

/// None; pairs of drawn sources and destinations; destinations drawn for each source.
enum class NegativeMode { kNone, kBinary, kTriplet };
const char* to_string(NegativeMode mode);
/// The inverse; throws kInvalid naming what there is.
NegativeMode negative_mode_from(const std::string& name);

/// Which edges count as absent when neighbours are drawn: none; all that join a pair of the batch, in its
/// direction; and those of the reverse edge type too, or, where none is stored and both ends are of one type,
/// of the same type the other way round.
enum class Exclude { kNone, kSelf, kReverse };
const char* to_string(Exclude exclude);
/// The inverse; throws kInvalid naming what there is.
Exclude exclude_from(const std::string& name);

/// PyG's NegativeSampling.
struct NegativeOptions {
  NegativeMode mode = NegativeMode::kNone;
  double amount =
      1;  // negatives for each link, a whole number for triplets; a batch of P links has ceil(P * amount)
  bool strict = false;  // no negative is an edge of the type, or one of the links of the loader's list
  /// Attributes of the nodes at the ends of the edge type that they are drawn by, in proportion; empty:
  /// uniformly.
  std::string src_weight, dst_weight;

  /// How many negatives a batch of `links` links has.
  std::int64_t count(std::int64_t links) const;
  friend bool operator==(const NegativeOptions&, const NegativeOptions&) = default;
};

struct LinkOptions {
  std::string edge_type;  // "src__rel__dst", or "rel" where one type has it; empty: seeds are nodes
  NegativeOptions negatives;
  Exclude exclude = Exclude::kSelf;

  /// Whether seeds are links.
  bool on() const { return !edge_type.empty(); }
  bool excludes() const { return on() && exclude != Exclude::kNone; }
  void visit(FieldVisitor& fields);
  /// Throws kInvalid naming the option.
  void validate() const;
  friend bool operator==(const LinkOptions&, const LinkOptions&) = default;
};

}  // namespace hopfeed
