// Makes edge types anew from those of a dataset: rows that keep, leave out, turn around or add edges, while
// each edge keeps its attributes and edges keep their order. Edge ids are numbered anew in the old order, so
// that they are the positions of an edge list again. What lies in memory are the ends, the ids and one number
// for each edge with attributes.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"
#include "partition_tool/stored_edges.h"

namespace hopfeed {

struct RearrangeOptions {
  /// The edges were this dataset's: they keep its attributes, and have ids where it has.
  const Dataset& dataset;
  int edge_type = 0;
  std::int64_t num_rows = 0, num_sources = 0;
  std::int64_t id_bound = 0;  // EdgeEntry::id is below
  int threads = 1;
  const char* step = "Rearranging edges";
  /// It has for an attribute what edges without a place have of it, as long as a row.
  std::map<std::string, std::vector<std::byte>> fill = {};
};

/// Fills an empty list with the edges of a row in the order that they will have. Called twice for each row,
/// from several threads, with the same result.
using MakeEntries = std::function<void(std::int64_t row, std::vector<EdgeEntry>& out)>;

/// Gives `edges` the rows that are made, in place of those it has. `make` may read these. The dataset must
/// outlive `edges`.
void rearrange(const RearrangeOptions& options, const MakeEntries& make, const Progress& progress,
               RawEdges& edges);

/// ReversedRows are the edges of a type the other way round, one row for each of its source nodes, in the
/// order of their ids: what an import of the list with its ends exchanged would give.
class ReversedRows {
 public:
  ReversedRows(const StoredRows& rows, std::int64_t num_sources, int threads, const Progress& progress);
  /// Appends the row of a source node; ids and places are those of the edges that are turned around.
  void read(std::int64_t row, std::vector<EdgeEntry>& out) const;

 private:
  const StoredRows& rows_;
  Csc csc_;  // ids are positions in the stored rows one after the other
};

/// Leaves the first edge of each pair, in the order that they have. `scratch` is reused memory.
void keep_first_of_pairs(std::vector<EdgeEntry>& row, std::vector<std::int64_t>& scratch);

}  // namespace hopfeed
