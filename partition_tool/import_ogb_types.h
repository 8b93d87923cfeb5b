// OGB's raw layout of graphs of several node and edge types:
//
//   raw/num-node-dict.csv.gz                names of the node types; their numbers of nodes (or num-nodes.csv beside raw/)
//   raw/triplet-type-list.csv.gz            lines of source type,relation,destination type; otherwise the folders of relations
//   raw/relations/SRC___REL___DST/          edge, num-edge-list (optional) as without types; edge-feat (optional): the edge
//                                           attribute "edge_attr"; edge-weight (optional): "edge_weight", ready for weighted draws
//   raw/node-feat/TYPE/node-feat.csv.gz     optional: "x"
//   raw/node-label/TYPE/node-label.csv.gz   optional: "y"
//   split/<scheme>/TYPE/{train,valid,test}.csv.gz   of the types that have splits; split/ is optional
#pragma once
#include "partition_tool/import_ogb.h"

namespace hopfeed {

/// Node types with a split come first, otherwise they keep their order; edge types are in rising order of names, each followed
/// by its inverse rev_REL where those are asked for.
RawGraph import_ogb_types(const OgbImportOptions& options, const Progress& progress);

}  // namespace hopfeed
