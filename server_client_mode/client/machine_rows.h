// MachineRows are rows that a client holds, of which a machine has one copy for all its ranks
// (channel/machine_memory.h): who asks first loads them over the wire, the others map them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cache/held_rows.h"

namespace hopfeed {

struct MachineRows {
  std::shared_ptr<const HeldRows> rows;
  bool finite = true;  // no value of them is NaN or infinite
};

struct MachineRowsOptions {
  std::string order;  // names dataset, order of rows and attributes: whoever has the same may share them
  const DatasetMeta& meta;
  const BatchOptions& batch;
  HeldShare share;
  /// Loads all of them; returns whether they are finite. Throws.
  std::function<bool(HeldRows& rows)> load;
  /// It is called about once a second while another rank loads them, or memory is taken for them.
  std::function<void()> meanwhile;
};

/// Gets the rows. Throws what load throws, kNoSpace.
MachineRows machine_rows(const MachineRowsOptions& options);

struct AgreedShare {
  HeldShare share;
  std::shared_ptr<const void> agreement;  // lasts as long as somebody keeps it; null: there was nobody to ask
};

/// Returns the share that the ranks of this machine hold of what `name` names: what the first of them
/// decides. Free memory is another number in each rank, and the rows have to be the same.
AgreedShare agreed_share(const std::string& name, const std::function<HeldShare()>& decide);

}  // namespace hopfeed
