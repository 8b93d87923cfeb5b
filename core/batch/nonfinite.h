// Finds NaN and infinities. They pass through hopfeed bit by bit; whoever does not want them asks here.
#pragma once
#include <cstdint>
#include <span>

#include "core/base/element_type.h"
#include "core/batch/batch_view.h"

namespace hopfeed {

/// Returns how many of the values are NaN or infinite; 0 for types that know neither. Of types with a scale,
/// whose rows have `row_bytes` each, it counts scales. `values` need not be aligned.
std::int64_t count_nonfinite(ElementType type, std::span<const std::byte> values, std::int64_t row_bytes);

/// Throws kInvalid where a node attribute of the batch, whole or packed, has NaN or an infinity: names the
/// batch, the node as in `n_id`, attribute and column.
void require_finite(const BatchView& batch);

}  // namespace hopfeed
