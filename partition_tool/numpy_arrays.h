// Turns NumPy arrays into what importers make of them: edges, attributes, labels, splits, in any of the forms
// that core/dataset/given_array.h reads. Everything throws kInvalid naming the array (its file) for an array
// of another shape or element type, kNotFound or kCorrupt where it cannot be read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dataset/given_array.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct NamedArray {
  std::string name;
  ArraySource source;
};

/// An EdgeIndex is [2, E] integers: row 0 source, row 1 destination; or [E, 2], where it cannot be that.
struct EdgeIndex {
  std::shared_ptr<const GivenArray> array;
  IdArray held_sources, held_destinations;  // copies, where the array is not int32 or int64 in two rows
  IdSpan source, destination;               // of these, or of the array
  std::string note;  // how it was read, where that is not as the array says; empty: nothing to tell
};
/// Opens an edge index. Throws kNoSpace where there is no memory for copies.
EdgeIndex open_edge_index(const ArraySource& source);

/// Returns the largest id; -1 where there are none.
std::int64_t largest_id(const IdSpan& ids);

/// Opens an array with a row for each node: `rows` of them where that is known, else it is known from now on.
std::shared_ptr<const GivenArray> open_rows(const ArraySource& source, std::optional<std::int64_t>& rows);

/// Makes "x" of an array [N, F]: float16 or float32 are kept, float64 is rounded to float32. Rows stay mapped
/// and are read when they are written.
RawAttr feature_attr(const std::shared_ptr<const GivenArray>& array);
/// Makes an attribute of any element type, kept as it is but for uint16 (int32) and uint64 (int64); the first
/// dimension is the node.
RawAttr node_attr(const NamedArray& given, const std::shared_ptr<const GivenArray>& array,
                  std::int64_t num_nodes);
RawEdgeAttr edge_attr(const NamedArray& given, std::int64_t num_edges);
/// Throws kInvalid where a name is none that a file can have, is that of a batch's field
/// (core/batch/field_names.h), is among `taken`, or comes twice.
void check_attr_names(std::vector<std::string> taken, const std::vector<NamedArray>& given, const char* what);

/// Reads labels [N] or [N, 1]: integers, or floats with integral values; negative or NaN: unlabelled, -1.
std::vector<std::int64_t> read_labels(const GivenArray& array, std::int64_t num_nodes);
/// Reads a split: [S] integers, node ids, or a mask [N] of bool.
std::vector<std::int64_t> read_split(const ArraySource& source, std::int64_t num_nodes);

}  // namespace hopfeed
