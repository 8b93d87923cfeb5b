// A halo is what a partition has of others, so that its machine asks less. The halo of a partition is the
// nodes elsewhere that its rows have edges from, with their rows, their attributes and those of their edges:
// the second hop from own seeds is then drawn here too. DistDGL replicates the nodes along the cut so.
//
// A halo has the files of a partition (part-0000/halo/nodes, part-0000/halo/edges), with its nodes by rising
// dataset id, and which these are (part-0000/halo/places). With sharded ids they are the remote sources of
// the partition (remote_ids.h), and the halo has a list of its own: the nodes that its rows alone have edges
// from.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "core/dataset/dataset.h"
#include "core/dataset/dataset_writer.h"

namespace hopfeed {

/// It is told how many arrays of all are done.
using HalosDone = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Writes the halo of every partition and notes their sizes in `meta`, whose other arrays `writer` has
/// finished. Reads them row by row, and keeps some bits a node and some words a node of a halo in memory.
void write_halos(DatasetWriter& writer, DatasetMeta& meta, const HalosDone& done);

/// Throws kUnsupported where a halo has more rows of a type than 4 bytes number. write_halos() asks it before
/// it writes.
void require_halo_rows(int partition, std::int64_t rows, const std::string& node_type);

/// Returns whether a file, by its path in the dataset, is of a halo that this machine goes without.
bool is_left_out_halo(const Dataset& dataset, const std::string& path);

/// Compares every byte of the halos that are here with what they are copies of. All partitions must be here,
/// and sound.
/// Throws kCorrupt naming the file. Calls `done(bytes)` behind each file.
void check_halos(const Dataset& dataset, const std::function<void(std::uint64_t bytes)>& done);

}  // namespace hopfeed
