// Tests of importers share this: files that they write, and what the graph of them holds.
#pragma once
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/dataset/npy.h"
#include "partition_tool/import_numpy.h"
#include "partition_tool/import_ogb.h"
#include "tests/partition_tool/made_dataset.h"

namespace hopfeed {

namespace fs = std::filesystem;
using testing::no_progress;
using testing::TempFolder;
using Ids = std::vector<std::int64_t>;

/// Saves an array of one dimension unless a shape is given.
template <class T>
fs::path save(const fs::path& path, const std::vector<T>& items, std::vector<std::int64_t> shape = {}) {
  if (shape.empty()) shape = {std::ssize(items)};
  fs::remove(path);
  write_npy<T>(path, items, shape);
  return path;
}

inline void gzip(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

inline Ids sources(const RawEdges& edges) {
  return std::visit([](const auto& ids) { return Ids(ids.begin(), ids.end()); }, edges.csc.indices);
}

template <class T>
std::vector<T> values_of(const RawNodes& nodes, std::size_t attr) {
  std::size_t width = 1;
  for (const std::int64_t d : nodes.attrs[attr].shape) width *= static_cast<std::size_t>(d);
  std::vector<T> values(static_cast<std::size_t>(nodes.count) * width);
  for (std::int64_t v = 0; v < nodes.count; ++v)
    nodes.attrs[attr].read_row(v, std::as_writable_bytes(std::span(values).subspan(v * width, width)));
  return values;
}

/// Returns the rows of `width` elements of all in-edges of a node.
template <class T>
std::vector<T> in_edge_values(const RawEdges& edges, std::size_t attr, std::int64_t node,
                              std::int64_t width = 1) {
  Ids edge_ids;
  edges.csc.read_edge_ids(node, edge_ids);
  std::vector<T> rows((edges.csc.indptr[node + 1] - edges.csc.indptr[node]) * width);
  edges.attrs[attr].read_rows(node, edge_ids, std::as_writable_bytes(std::span(rows)));
  return rows;
}

}  // namespace hopfeed
