// Where a server keeps state of training (state/owner), and how much of it: a folder for each dataset, in
// which its checkpoints are written, and the memory of all tables. Several servers may share the folders, so
// nothing in them is locked.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "server_client_mode/server/event_log.h"
#include "server_client_mode/server/served_datasets.h"

namespace hopfeed {

struct StateRoom {
  std::vector<std::filesystem::path> folders = {};  // whole paths, in the order of ServedDatasets::all()
  std::size_t max_memory = 0;                       // of all tables of all datasets
};

/// Returns what tells a dataset from others, of the same name too, in names of folders and in labels:
/// "products-1f2e3d4c", its name and the first 8 characters of its fingerprint. Characters of the name that
/// are not fit for a folder are '_'.
std::string state_title(const DatasetMeta& meta);

/// Makes `parent` and a folder below it for each dataset, where they are not there yet, and tries to write in
/// each. Throws naming the folder that cannot be.
std::vector<std::filesystem::path> make_state_folders(const std::string& parent,
                                                      const ServedDatasets& datasets);

/// Tells how many rows a table of each node type has here.
void log_state_rows(const ServedDatasets& datasets, const EventLog& log);

}  // namespace hopfeed
