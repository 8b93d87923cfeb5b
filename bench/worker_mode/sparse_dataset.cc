// See sparse_dataset.h.
#include "bench/worker_mode/sparse_dataset.h"

#include <fstream>

#include "core/base/error.h"
#include "core/dataset/dataset_meta.h"
#include "core/dataset/npy.h"

namespace hopfeed::bench {
namespace fs = std::filesystem;
namespace {

// Head and size; the elements are a hole.
FileMeta write_hole(const fs::path& path, const std::string& descr, const std::vector<std::int64_t>& shape,
                    std::uint64_t item_bytes) {
  fs::create_directories(path.parent_path());
  const std::string head = npy_head(descr, shape);
  std::uint64_t bytes = item_bytes;
  for (std::int64_t dim : shape) bytes *= static_cast<std::uint64_t>(dim);
  std::ofstream(path, std::ios::binary) << head;
  fs::resize_file(path, head.size() + bytes);
  return {.bytes = head.size() + bytes, .xxh3 = 0};
}

}  // namespace

void write_sparse_dataset(const fs::path& folder, std::int64_t num_nodes, std::int64_t num_features,
                          std::int64_t num_edges) {
  NodeTypeMeta node{.count = num_nodes,
                    .partition_offsets = {0, num_nodes},
                    .attrs = {{.name = "x", .shape = {num_features}, .stride_bytes = 4 * num_features}}};
  EdgeTypeMeta edge{.count = num_edges, .partition_edges = {num_edges}, .has_edge_ids = false};
  DatasetMeta meta{.name = "sparse",
                   .fingerprint = std::string(32, '0'),
                   .made_by = "hopfeed-bench",
                   .node_types = {node},
                   .edge_types = {edge}};
  const auto add = [&](const std::string& relative, const std::string& descr,
                       const std::vector<std::int64_t>& shape, std::uint64_t item_bytes) {
    meta.files[relative] = write_hole(folder / relative, descr, shape, item_bytes);
  };
  add(new_ids_path(node), npy_descr(ElementType::kInt32), {num_nodes}, 4);
  add(attr_path(0, node, "x"), npy_descr(ElementType::kFloat32), {num_nodes, num_features}, 4);
  add(hotness_path(0, node), npy_descr(ElementType::kFloat64), {num_nodes}, 8);
  add(rows_path(0, edge), kRowRecordDescr, {num_nodes + 1}, sizeof(RowRecord));
  add(indices_path(0, edge), npy_descr(ElementType::kInt32), {num_edges}, 4);
  // The one record that opening looks at: where the last row ends.
  std::fstream rows(folder / rows_path(0, edge), std::ios::binary | std::ios::in | std::ios::out);
  const RowRecord last{.offset = num_edges, .original_id = -1};
  rows.seekp(-static_cast<std::streamoff>(sizeof(last)), std::ios::end);
  rows.write(reinterpret_cast<const char*>(&last), sizeof(last));
  rows.close();
  std::ofstream(folder / "meta.json") << format_meta(meta);
  if (!rows) throw Error(ErrorCode::kIo, "cannot write the sparse dataset " + folder.string());
}

}  // namespace hopfeed::bench
