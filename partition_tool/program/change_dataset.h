// Runs hopfeed-partition split-links, to-undirected, deduplicate, add-self-loops, co-occurrence and convert:
// a dataset becomes one with other edges, or with other attributes.
#pragma once
#include <string>

#include "partition_tool/co_occurrence.h"
#include "partition_tool/convert_attrs.h"
#include "partition_tool/edit_edges.h"
#include "partition_tool/program/make_dataset.h"
#include "partition_tool/split_links.h"

namespace hopfeed {

struct ChangeOptions : WriteOptions {  // fanouts and batch size: those of the input by default
  std::string input;
};

// Each of these makes a dataset of one partition, however the input was cut, and says what it changed. They
// throw kCorrupt, and leave nothing behind, where the input is damaged: its content gets another fingerprint,
// so that nobody would notice later.
void split_links_of(const ChangeOptions& options, const LinkSplitOptions& how);
void make_undirected(const ChangeOptions& options, const EditOptions& how);
void deduplicate_edges(const ChangeOptions& options, const EditOptions& how);
void add_loops(const ChangeOptions& options, const SelfLoopOptions& how);
void count_co_occurrence(const ChangeOptions& options, const CoOccurrenceOptions& how);
void convert_attributes(const ChangeOptions& options, const ConvertOptions& how);

}  // namespace hopfeed
