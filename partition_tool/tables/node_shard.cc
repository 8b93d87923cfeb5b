// See node_shard.h.
#include "partition_tool/tables/node_shard.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/batch/nonfinite.h"
#include "partition_tool/tables/attr_column.h"
#include "partition_tool/tables/dataset_draft.h"
#include "partition_tool/tables/shard_folder.h"

namespace hopfeed {
namespace {

class NodeShard {
 public:
  NodeShard(ArrowStream& stream, const DatasetMeta& draft, int type, int partition,
            const std::filesystem::path& folder)
      : stream_(stream),
        node_(node_type_of(draft, type)),
        type_(type),
        partition_(partition),
        own_ids_(!draft.has_rows(node_)),
        many_types_(draft.node_types.size() > 1),
        rows_(node_.partition_offsets[static_cast<std::size_t>(partition) + 1] -
              node_.partition_offsets[static_cast<std::size_t>(partition)]),
        out_(folder, draft),
        original_(number_column(stream, "original_id", ElementType::kInt64)),
        hotness_(number_column(stream, "hotness", ElementType::kFloat64)) {
    for (const AttrMeta& attr : node_.attrs) columns_.push_back(attr_column(stream, attr));
  }

  void run() {
    open();
    while (const std::optional<ArrowBatch> batch = stream_.next()) take(*batch);
    require_valid(stream_.rows() == rows_,
                  fmt::format("partition {} of node type '{}' has {} rows in its stream, and {} nodes",
                              partition_, node_.name, stream_.rows(), rows_));
    for (std::size_t i = 0; i < paths_.size(); ++i) out_.close(paths_[i], std::move(files_[i]));
    shard_.fingerprint = fingerprint_.sums();
    out_.commit(std::move(shard_));
  }

 private:
  void open(const std::string& path, ElementType type, const std::vector<std::int64_t>& shape) {
    paths_.push_back(path);
    files_.push_back(out_.open(path, npy_descr(type), shape));
  }
  void open() {
    open(hotness_path(partition_, node_), ElementType::kFloat64, {rows_});
    if (own_ids_) open(original_ids_path(partition_, node_), ElementType::kInt64, {rows_});
    for (const AttrMeta& attr : node_.attrs)
      open(attr_path(partition_, node_, attr.name), attr.type,
           {rows_, attr.stride_bytes / static_cast<std::int64_t>(element_bytes(attr.type))});
  }
  void take(const ArrowBatch& batch) {
    const auto rows = static_cast<std::size_t>(batch.rows());
    original_ids_.resize(rows);
    stream_.column_of(batch, original_)
        .read(0, batch.rows(), std::as_writable_bytes(std::span(original_ids_)));
    std::vector<double> hotness(rows);
    stream_.column_of(batch, hotness_).read(0, batch.rows(), std::as_writable_bytes(std::span(hotness)));
    files_[0].write<double>(hotness);
    if (own_ids_) files_[1].write<std::int64_t>(original_ids_);
    for (std::size_t a = 0; a < columns_.size(); ++a) take_attr(batch, a);
  }
  void take_attr(const ArrowBatch& batch, std::size_t a) {
    const AttrMeta& attr = node_.attrs[a];
    const auto width = static_cast<std::size_t>(attr.row_bytes()),
               stride = static_cast<std::size_t>(attr.stride_bytes);
    values_.resize(static_cast<std::size_t>(batch.rows()) * width);
    stream_.column_of(batch, columns_[a]).read(0, batch.rows(), values_);
    if (const std::int64_t bad = count_nonfinite(attr.type, values_, attr.row_bytes()); bad > 0)
      shard_.nonfinite[many_types_ ? node_.name + "/" + attr.name : attr.name] += bad;
    for (std::size_t i = 0; i < original_ids_.size(); ++i)
      fingerprint_.add_attr(type_, original_ids_[i], static_cast<int>(a),
                            std::span(values_).subspan(i * width, width));
    NpyWriter& file = files_[1 + (own_ids_ ? 1 : 0) + a];
    if (width == stride) return file.write_bytes(values_);
    padded_.assign(original_ids_.size() * stride, std::byte{0});
    for (std::size_t i = 0; i < original_ids_.size(); ++i)
      std::memcpy(padded_.data() + i * stride, values_.data() + i * width, width);
    file.write_bytes(padded_);
  }

  ArrowStream& stream_;
  const NodeTypeMeta& node_;
  const int type_, partition_;
  const bool own_ids_, many_types_;
  const std::int64_t rows_;
  ShardFolder out_;
  const std::size_t original_, hotness_;
  std::vector<std::size_t> columns_;  // of the stream, by attribute
  std::vector<std::string> paths_;
  std::vector<NpyWriter> files_;
  std::vector<std::int64_t> original_ids_;
  std::vector<std::byte> values_, padded_;
  Fingerprint fingerprint_;
  Shard shard_;
};

}  // namespace

void write_node_shard(ArrowStream& stream, const DatasetMeta& draft, int node_type, int partition,
                      const std::filesystem::path& folder) {
  require_partition(draft, partition);
  if (!ShardFolder::is_there(folder)) NodeShard(stream, draft, node_type, partition, folder).run();
}

}  // namespace hopfeed
