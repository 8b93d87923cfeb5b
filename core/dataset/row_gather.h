// Gathers rows of an attribute: out[i] = attr[ids[i]], rows tightly packed. Reads ahead, so that many cache
// misses are under way at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dataset/graph_view.h"

namespace hopfeed {

/// Gathers rows into `out`, which has ids.size() * attr.row_bytes bytes. The caller has checked the ids (of
/// nodes or edges, in the dataset's order).
void gather_rows(const AttrView& attr, std::span<const std::int64_t> ids, std::byte* out);

/// Writes out[i] = original id of nodes[i], from the row records of an edge type that ends at the node type.
void gather_original_ids(const CscView& csc, std::span<const std::int64_t> nodes, std::int64_t* out);

}  // namespace hopfeed
