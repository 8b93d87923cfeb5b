// Stores attributes in another element type: hopfeed-partition convert. Half the bytes of a row are half the
// bytes that a batch gathers, keeps in its slot and sends; what that costs in accuracy is the user's to
// judge.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/base/element_type.h"
#include "core/dataset/dataset.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct ConvertOptions {
  std::map<std::string, ElementType> attrs;  // of every node type and edge type that has one of the name
  int threads = 1;
};

struct ConvertedAttr {
  std::string whose;  // node type, or src__rel__dst
  std::string name;
  ElementType before = ElementType::kFloat32, after = ElementType::kFloat32;
};

struct ConvertedGraph {
  RawGraph graph;  // reads from the dataset's maps
  std::vector<ConvertedAttr> attrs;
};

/// Returns the type that attributes can become, by the name that users know: float32, float16, bfloat16, and
/// int8 and int4, which have a scale per row here. Throws kInvalid for another name.
ElementType convertible_type(const std::string& name);

/// Converts float32 to float16 or bfloat16, and back, by core/base/half_floats.h; these three to int8 or int4
/// with a scale per row, and back to float32, by core/base/quantised_rows.h. Throws kNotFound for a name that
/// no type has, kInvalid for a type that is none of these or is the attribute's already, for weights that
/// edges are drawn by, and for labels with a scale. Rows with NaN or infinity have no scale: reading them
/// throws kInvalid.
ConvertedGraph convert_attrs(const Dataset& dataset, const ConvertOptions& options, const Progress& progress);

}  // namespace hopfeed
