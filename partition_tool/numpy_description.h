// A description tells a graph of several node and edge types in NumPy arrays. It is a JSON file, paths
// relative to its folder.
//
//   {"name": "music",
//    "nodes": [{"name": "user", "count": 1892, "features": "user_x.npy", "labels": "user_y.npy",
//               "splits": {"train": "train.npy"}, "attrs": {"joined": "joined.npy"}},
//              {"name": "artist", "count": 4489}],
//    "edges": [{"src": "user", "rel": "listens", "dst": "artist", "index": "listens.npy",
//               "attrs": {"plays": "plays.npy", "at": "at.npy"}, "weights": ["plays"], "times": ["at"]}]}
//
// "nodes" and "edges" are in the order that types get their numbers in; the first node type is what a loader
// takes seeds of where it is told no other. Only the names, "src", "rel", "dst" and "index" are required.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partition_tool/numpy_arrays.h"

namespace hopfeed {

/// NumpyNodes has the arrays of one node type; empty: none (numpy_arrays.h has their forms).
struct NumpyNodes {
  std::string name = "node";
  /// Where it is not given, there are as many as rows of features, labels or attrs, else the largest id in
  /// the edges + 1.
  std::optional<std::int64_t> count = {};
  ArraySource features, labels;  // attributes "x" and "y"
  std::map<std::string, ArraySource> splits;
  std::vector<NamedArray> attrs;
};

/// NumpyEdges has the arrays of one edge type.
struct NumpyEdges {
  std::string src = "node", rel = "to", dst = "node";
  ArraySource index;
  std::vector<NamedArray> attrs;     // the first dimension is E, in the order of `index`
  std::vector<std::string> weights;  // of attrs: one number each that edges can be drawn by
  std::vector<std::string>
      times;  // of attrs, or else of the source nodes' attrs: one int64 each that rows shall be ordered by
  std::string rev_of = {};  // "src__rel__dst" of the type that these are the reverse of; empty: of none
};

/// NumpyGraph is what a description says.
struct NumpyGraph {
  std::string name;
  std::vector<NumpyNodes> nodes;
  std::vector<NumpyEdges> edges;
};

/// Checks all but the arrays. Throws kNotFound, or kInvalid naming the file, the type and the field.
NumpyGraph read_numpy_description(const std::filesystem::path& path);

/// Finds the array that a description names.
using FindArray = std::function<ArraySource(const std::string& name)>;

/// Reads a description from its text; `path` stands for it in errors.
NumpyGraph parse_numpy_description(const std::string& text, const std::filesystem::path& path,
                                   const FindArray& find);

}  // namespace hopfeed
