// Imports node-classification datasets in the raw CSV layout of the Open Graph Benchmark's downloads:
//
//   raw/num-node-list.csv.gz                   one line: N
//   raw/num-edge-list.csv.gz                   one line: E (optional)
//   raw/edge.csv.gz                            E lines: source,destination
//   raw/node-feat.csv.gz                       N lines of F numbers (optional)
//   raw/edge-feat.csv.gz                       E lines of F numbers (optional): edge attribute "edge_attr"
//   raw/node-label.csv.gz                      N lines of one class number, nan for none (optional)
//   raw/node_year.csv.gz                       N lines of one integer (optional): attribute "node_year", by
//                                              which time is told
//   split/<scheme>/{train,valid,test}.csv.gz   one node id per line
//
// Datasets of several types have raw/relations instead of raw/edge; docs/importing.md has their files. Each
// file may also lie there without .gz.
#pragma once
#include <filesystem>
#include <string>

#include "partition_tool/graph_memory.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct OgbImportOptions {
  std::filesystem::path raw;      // holds raw/ and split/
  std::string split_scheme;       // folder under split/; may be empty where there is only one
  bool add_inverse_edge = false;  // edge 2i is line i, edge 2i + 1 its inverse (OGB's add_inverse_edge); of
                                  // several types: an edge type rev_REL behind each
  bool keep_edge_ids = true;
  int threads = 1;
  TellMemory tell_memory = {};  // before it is taken
};

/// Imports them. Throws kInvalid or kCorrupt naming file and line, kNotFound naming the file.
RawGraph import_ogb(const OgbImportOptions& options, const Progress& progress);

}  // namespace hopfeed
