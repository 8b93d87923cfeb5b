// The description of a graph of several node and edge types in NumPy arrays: a JSON file, paths relative to
// its folder.
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
#include <filesystem>
#include <functional>
#include <string>

#include "partition_tool/import_numpy.h"

namespace hopfeed {

/// Checks all but the arrays. Throws kNotFound, or kInvalid naming the file, the type and the field.
NumpyGraph read_numpy_description(const std::filesystem::path& path);

/// The array that a description names.
using FindArray = std::function<ArraySource(const std::string& name)>;

/// Reads a description from its text; `path` stands for it in errors.
NumpyGraph parse_numpy_description(const std::string& text, const std::filesystem::path& path,
                                   const FindArray& find);

}  // namespace hopfeed
