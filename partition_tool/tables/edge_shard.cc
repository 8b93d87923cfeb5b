// See edge_shard.h.
#include "partition_tool/tables/edge_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/base/error.h"
#include "core/base/parallel_ranges.h"
#include "core/batch/nonfinite.h"
#include "partition_tool/partition_limits.h"
#include "partition_tool/row_tables.h"
#include "partition_tool/tables/attr_column.h"
#include "partition_tool/tables/dataset_draft.h"
#include "partition_tool/tables/shard_folder.h"

namespace hopfeed {
namespace {

constexpr std::size_t kBlockEdges = 1 << 18;

/// Edges lie here until their rows are whole.
struct EdgeBlock {
  std::vector<std::int64_t> rows, sources, source_ids;  // source_ids: dataset ids
  std::vector<std::vector<std::byte>> attrs;            // packed, by attribute
  std::vector<std::vector<std::int64_t>> node_times;    // by time; empty where the edges have it

  std::size_t size() const { return rows.size(); }
};

template <class T>
void permute(std::vector<T>& items, std::size_t first, std::span<const std::size_t> order,
             std::size_t width = 1) {
  const std::vector<T> before(items.begin() + static_cast<std::ptrdiff_t>(first * width),
                              items.begin() + static_cast<std::ptrdiff_t>((first + order.size()) * width));
  for (std::size_t i = 0; i < order.size(); ++i)
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(order[i] * width), width,
                items.begin() + static_cast<std::ptrdiff_t>((first + i) * width));
}

template <class T>
void drop_front(std::vector<T>& items, std::size_t count) {
  items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(std::min(count, items.size())));
}

/// `Id` is as wide as source ids are stored.
template <class Id>
class EdgeShard {
 public:
  EdgeShard(ArrowStream& stream, const DatasetMeta& draft, const EdgeShardOptions& options,
            const std::filesystem::path& folder)
      : stream_(stream),
        options_(options),
        edge_(edge_type_of(draft, options.edge_type)),
        nodes_(static_cast<std::int64_t>(options.original_ids.size())),
        edges_(edge_.partition_edges[static_cast<std::size_t>(options.partition)]),
        out_(folder, draft),
        row_(number_column(stream, "row", ElementType::kInt64)),
        src_(number_column(stream, "src", ElementType::kInt64)),
        src_new_(number_column(stream, "src_new", ElementType::kInt64)),
        fingerprints_(static_cast<std::size_t>(std::max(1, options.threads))),
        scratch_(fingerprints_.size()) {
    const std::vector<std::int64_t>& offsets =
        draft.node_types[static_cast<std::size_t>(draft.edge_src_type(edge_))].partition_offsets;
    own_begin_ = offsets[static_cast<std::size_t>(options.partition)];
    own_end_ = offsets[static_cast<std::size_t>(options.partition) + 1];
    num_sources_ = offsets.back();
    for (const AttrMeta& attr : edge_.attrs) columns_.push_back(attr_column(stream, attr));
    for (const std::string& time : edge_.times) {
      time_attrs_.push_back(find_attr(edge_.attrs, time));
      time_columns_.push_back(time_attrs_.back() == nullptr ? number_column(stream, time, ElementType::kInt64)
                                                            : 0);
      require_valid(options.time_bounds.contains(time),
                    fmt::format("edge type '{}' has no bounds of time '{}'", edge_.folder(), time));
    }
    block_.attrs.resize(columns_.size());
    block_.node_times.resize(edge_.times.size());
    open();
  }

  void run() {
    while (const std::optional<ArrowBatch> batch = stream_.next()) take(*batch);
    write_block(block_.size());
    write_rows_until(nodes_);
    const std::int64_t found = written_;
    require_valid(found == edges_,
                  fmt::format("partition {} of edge type '{}' has {} edges in its stream, and {} in "
                              "the draft",
                              options_.partition, edge_.folder(), found, edges_));
    files_[0].write_one(RowRecord{written_, -1});
    for (std::size_t i = 0; i < paths_.size(); ++i) out_.close(paths_[i], std::move(files_[i]));
    for (std::size_t i = 1; i < fingerprints_.size(); ++i) fingerprints_[0].merge(fingerprints_[i]);
    shard_.fingerprint = fingerprints_[0].sums();
    out_.commit(std::move(shard_));
  }

 private:
  struct Scratch {
    AliasBuilder builder;
    std::vector<double> weights;
    std::vector<AliasEntry> entries;
    std::vector<std::uint32_t> order;
  };

  std::size_t open(const std::string& path, const std::string& descr,
                   const std::vector<std::int64_t>& shape) {
    paths_.push_back(path);
    files_.push_back(out_.open(path, descr, shape));
    return files_.size() - 1;
  }
  std::size_t open(const std::string& path, ElementType type) {
    return open(path, npy_descr(type), {edges_});
  }

  void open() {
    const int p = options_.partition;
    open(rows_path(p, edge_), kRowRecordDescr, {nodes_ + 1});
    index_file_ = open(indices_path(p, edge_), edge_.index_type);
    if (edge_.has_edge_ids) id_file_ = open(edge_ids_path(p, edge_), edge_.edge_id_type);
    for (const AttrMeta& attr : edge_.attrs)
      attr_files_.push_back(
          open(edge_attr_path(p, edge_, attr.name), npy_descr(attr.type),
               {edges_, attr.stride_bytes / static_cast<std::int64_t>(element_bytes(attr.type))}));
    for (const std::string& weight : edge_.weights)
      alias_files_.push_back(open(alias_path(p, edge_, weight), npy_descr(ElementType::kUint32),
                                  {edges_, sizeof(AliasRecord<Id>) / sizeof(std::uint32_t)}));
    for (const std::string& time : edge_.times) {
      time_files_.push_back(open(time_order_path(p, edge_, time), ElementType::kUint32));
      open(times_path(p, edge_, time), ElementType::kInt64);
      open(time_codes_path(p, edge_, time), ElementType::kInt16);
      open(time_indices_path(p, edge_, time), edge_.index_type);
    }
    if (edge_.has_by_id) by_id_file_ = open(by_id_path(p, edge_), ElementType::kUint32);
  }

  // ---- edges come

  template <class T>
  void append(const ArrowBatch& batch, std::size_t column, std::size_t width, std::vector<T>& items) {
    const std::size_t before = items.size();
    items.resize(before + static_cast<std::size_t>(batch.rows()) * width);
    stream_.column_of(batch, column)
        .read(0, batch.rows(), std::as_writable_bytes(std::span(items).subspan(before)));
  }

  void take(const ArrowBatch& batch) {
    const std::size_t before = block_.size();
    append(batch, row_, 1, block_.rows);
    append(batch, src_, 1, block_.sources);
    append(batch, src_new_, 1, block_.source_ids);
    for (std::size_t a = 0; a < columns_.size(); ++a)
      append(batch, columns_[a], static_cast<std::size_t>(edge_.attrs[a].row_bytes()), block_.attrs[a]);
    for (std::size_t t = 0; t < edge_.times.size(); ++t)
      if (time_attrs_[t] == nullptr) append(batch, time_columns_[t], 1, block_.node_times[t]);
    check_order(before);
    if (block_.size() < kBlockEdges) return;
    // The last row may go on in the next batch.
    const auto last = std::ranges::lower_bound(block_.rows, block_.rows.back());
    write_block(static_cast<std::size_t>(last - block_.rows.begin()));
    require_room();
  }

  void check_order(std::size_t from) {
    for (std::size_t i = from; i < block_.size(); ++i) {
      const std::int64_t row = block_.rows[i];
      const bool rises =
          i == 0 || std::pair(block_.rows[i - 1], block_.sources[i - 1]) <= std::pair(row, block_.sources[i]);
      const std::int64_t source = block_.source_ids[i];
      require_valid(
          row >= next_row_ && row < nodes_ && rises && source >= 0 && source < num_sources_,
          fmt::format("an edge of type '{}' from node {} (dataset id {}) to row {} of partition {} is out "
                      "of order, or there is no such node",
                      edge_.folder(), block_.sources[i], source, row, options_.partition));
    }
  }

  void require_room() const {
    std::size_t each = (3 + block_.node_times.size()) * sizeof(std::int64_t);
    for (const AttrMeta& attr : edge_.attrs) each += static_cast<std::size_t>(attr.row_bytes());
    if (block_.size() * each <= options_.max_row_bytes) return;
    throw Error(
        ErrorCode::kNoSpace,
        fmt::format("node {} has over {} in-edges of type '{}', which do not fit into memory together; give "
                    "more --memory",
                    options_.original_ids[static_cast<std::size_t>(block_.rows.back())], block_.size(),
                    edge_.folder()));
  }

  // ---- rows that are whole

  /// Edges of one pair are in the order of their attributes' bytes.
  void order_parallel_edges(std::size_t count) {
    if (columns_.empty()) return;
    for (std::size_t first = 0, end = 0; first < count; first = end) {
      for (end = first + 1; end < count && block_.rows[end] == block_.rows[first] &&
                            block_.sources[end] == block_.sources[first];)
        ++end;
      if (end - first < 2) continue;
      std::vector<std::size_t> order(end - first);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        for (std::size_t k = 0; k < columns_.size(); ++k) {
          const auto width = static_cast<std::size_t>(edge_.attrs[k].row_bytes());
          const std::byte* const values = block_.attrs[k].data() + first * width;
          if (const int order = std::memcmp(values + a * width, values + b * width, width); order != 0)
            return order < 0;
        }
        return false;
      });
      for (std::size_t k = 0; k < columns_.size(); ++k)
        permute(block_.attrs[k], first, order, static_cast<std::size_t>(edge_.attrs[k].row_bytes()));
    }
  }

  void write_block(std::size_t count) {
    if (count == 0) return;
    order_parallel_edges(count);
    row_ends_.clear();
    row_begins_.clear();
    for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
      while (end < count && block_.rows[end] == block_.rows[begin]) ++end;
      require_row_length(options_.original_ids[static_cast<std::size_t>(block_.rows[begin])],
                         static_cast<std::int64_t>(end - begin),
                         {.weights = edge_.weights, .times = edge_.times, .by_id = edge_.has_by_id});
      row_begins_.push_back(begin);
      row_ends_.push_back(end);
      write_rows_until(block_.rows[begin]);
      files_[0].write_one(RowRecord{written_, options_.original_ids[static_cast<std::size_t>(next_row_++)]});
      written_ += static_cast<std::int64_t>(end - begin);
    }
    write_ends(count);
    write_attrs(count);
    for (std::size_t w = 0; w < edge_.weights.size(); ++w) write_alias(w, count);
    for (std::size_t t = 0; t < edge_.times.size(); ++t) write_times(t, count);
    if (edge_.has_by_id) write_by_id(count);
    drop_front(block_.rows, count);
    drop_front(block_.sources, count);
    drop_front(block_.source_ids, count);
    for (std::size_t a = 0; a < columns_.size(); ++a)
      drop_front(block_.attrs[a], count * static_cast<std::size_t>(edge_.attrs[a].row_bytes()));
    for (std::vector<std::int64_t>& times : block_.node_times) drop_front(times, count);
  }

  /// Nodes without in-edges.
  void write_rows_until(std::int64_t row) {
    for (; next_row_ < row; ++next_row_)
      files_[0].write_one(RowRecord{written_, options_.original_ids[static_cast<std::size_t>(next_row_)]});
  }

  /// Calls row(worker, node, begin, end) for each row of the block.
  template <class Row>
  void for_rows(const Row& row) {
    parallel_ranges(options_.threads, std::ssize(row_begins_),
                    [&](int worker, std::int64_t first, std::int64_t last) {
                      for (std::int64_t i = first; i < last; ++i) {
                        const std::size_t begin = row_begins_[static_cast<std::size_t>(i)];
                        row(static_cast<std::size_t>(worker), static_cast<std::size_t>(block_.rows[begin]),
                            begin, row_ends_[static_cast<std::size_t>(i)]);
                      }
                    });
  }

  void write_numbers(std::size_t file, ElementType type, std::span<const std::int64_t> numbers) {
    if (type == ElementType::kInt64) return files_[file].write<std::int64_t>(numbers);
    narrow_.assign(numbers.begin(), numbers.end());
    files_[file].write<std::int32_t>(narrow_);
  }

  void write_ends(std::size_t count) {
    ids_.assign(block_.source_ids.begin(), block_.source_ids.begin() + static_cast<std::ptrdiff_t>(count));
    files_[index_file_].write<Id>(ids_);
    for (std::size_t i = 0; i < count; ++i)
      shard_.edges_cut += block_.source_ids[i] < own_begin_ || block_.source_ids[i] >= own_end_;
    edge_ids_.resize(edge_.has_edge_ids ? count : 0);
    for_rows([&](std::size_t worker, std::size_t node, std::size_t begin, std::size_t end) {
      std::span<std::int64_t> ids;
      if (edge_.has_edge_ids) {
        ids = std::span(edge_ids_).subspan(begin, end - begin);
        const std::int64_t first = options_.first_edge_ids[node];
        require_valid(first >= 0 && first <= edge_.count - std::ssize(ids),
                      fmt::format("the in-edges of node {} are told to begin with edge {}, and there are {}",
                                  options_.original_ids[node], first, edge_.count));
        std::iota(ids.begin(), ids.end(), first);
      }
      fingerprints_[worker].add_row(options_.edge_type, options_.original_ids[node],
                                    std::span(block_.sources).subspan(begin, end - begin), ids);
    });
    if (edge_.has_edge_ids) write_numbers(id_file_, edge_.edge_id_type, edge_ids_);
  }

  void write_attrs(std::size_t count) {
    for (std::size_t a = 0; a < columns_.size(); ++a) {
      const AttrMeta& attr = edge_.attrs[a];
      const auto width = static_cast<std::size_t>(attr.row_bytes()),
                 stride = static_cast<std::size_t>(attr.stride_bytes);
      const std::span<const std::byte> values = std::span(block_.attrs[a]).first(count * width);
      if (const std::int64_t bad = count_nonfinite(attr.type, values, attr.row_bytes()); bad > 0)
        shard_.nonfinite[edge_.folder() + "/" + attr.name] += bad;
      for_rows([&](std::size_t worker, std::size_t node, std::size_t begin, std::size_t end) {
        fingerprints_[worker].add_edge_attr(options_.edge_type, options_.original_ids[node],
                                            static_cast<int>(a),
                                            values.subspan(begin * width, (end - begin) * width));
      });
      if (width == stride) {
        files_[attr_files_[a]].write_bytes(values);
        continue;
      }
      padded_.assign(count * stride, std::byte{0});
      for (std::size_t i = 0; i < count; ++i)
        std::memcpy(padded_.data() + i * stride, values.data() + i * width, width);
      files_[attr_files_[a]].write_bytes(padded_);
    }
  }

  void write_alias(std::size_t w, std::size_t count) {
    const AttrMeta& attr = *find_attr(edge_.attrs, edge_.weights[w]);
    const std::span<const std::byte> values =
        block_.attrs[static_cast<std::size_t>(&attr - edge_.attrs.data())];
    const auto width = static_cast<std::size_t>(attr.row_bytes());
    std::vector<AliasRecord<Id>> records(count);
    for_rows([&](std::size_t worker, std::size_t node, std::size_t begin, std::size_t end) {
      Scratch& mine = scratch_[worker];
      weights_to_doubles(attr.type, values.subspan(begin * width, (end - begin) * width), mine.weights);
      const std::size_t bad = first_bad_weight(mine.weights);
      if (bad < mine.weights.size())
        throw Error(ErrorCode::kInvalid,
                    fmt::format("weight '{}' of an edge of type '{}' from node {} to node {} {}", attr.name,
                                edge_.folder(), block_.sources[begin + bad], options_.original_ids[node],
                                why_bad(mine.weights[bad])));
      alias_records<Id>(mine.builder, mine.weights, std::span(ids_).subspan(begin, end - begin), mine.entries,
                        records.data() + begin);
    });
    files_[alias_files_[w]].template write<AliasRecord<Id>>(records);
  }

  void write_times(std::size_t t, std::size_t count) {
    std::vector<std::int64_t> own;
    if (time_attrs_[t] != nullptr) {
      own.resize(count);
      const auto attr = static_cast<std::size_t>(time_attrs_[t] - edge_.attrs.data());
      std::memcpy(own.data(), block_.attrs[attr].data(), count * sizeof(std::int64_t));
    }
    const std::span<const std::int64_t> times = time_attrs_[t] != nullptr ? own : block_.node_times[t];
    std::vector<std::uint32_t> orders(count);
    std::vector<std::int64_t> sorted(count);
    std::vector<std::int16_t> codes(count);
    std::vector<Id> indices(count);
    const std::vector<std::int64_t>& bounds = options_.time_bounds.at(edge_.times[t]);
    for_rows([&](std::size_t worker, std::size_t, std::size_t begin, std::size_t end) {
      order_by_time<Id>(times.subspan(begin, end - begin), bounds,
                        std::span(ids_).subspan(begin, end - begin), scratch_[worker].order,
                        {.order = orders.data() + begin,
                         .times = sorted.data() + begin,
                         .codes = codes.data() + begin,
                         .indices = indices.data() + begin});
    });
    const std::size_t file = time_files_[t];
    files_[file].template write<std::uint32_t>(orders);
    files_[file + 1].template write<std::int64_t>(sorted);
    files_[file + 2].template write<std::int16_t>(codes);
    files_[file + 3].template write<Id>(indices);
  }

  /// Sources rise within a row already.
  void write_by_id(std::size_t count) {
    std::vector<std::uint32_t> orders(count);
    for_rows([&](std::size_t, std::size_t, std::size_t begin, std::size_t end) {
      std::iota(orders.begin() + static_cast<std::ptrdiff_t>(begin),
                orders.begin() + static_cast<std::ptrdiff_t>(end), 0U);
    });
    files_[by_id_file_].template write<std::uint32_t>(orders);
  }

  ArrowStream& stream_;
  const EdgeShardOptions& options_;
  const EdgeTypeMeta& edge_;
  const std::int64_t nodes_, edges_;
  std::int64_t own_begin_ = 0, own_end_ = 0, num_sources_ = 0;  // dataset ids of the partition's own sources
  ShardFolder out_;
  const std::size_t row_, src_, src_new_;  // columns
  std::vector<std::size_t> columns_, time_columns_;
  std::vector<const AttrMeta*> time_attrs_;  // null: the time is of source nodes
  std::vector<std::string> paths_;
  std::vector<NpyWriter> files_;
  std::size_t index_file_ = 0, id_file_ = 0, by_id_file_ = 0;
  std::vector<std::size_t> attr_files_, alias_files_, time_files_;
  EdgeBlock block_;
  std::vector<std::size_t> row_begins_, row_ends_;  // of the block's rows that have edges
  std::int64_t next_row_ = 0, written_ = 0;
  std::vector<Id> ids_;
  std::vector<std::int64_t> edge_ids_;
  std::vector<std::int32_t> narrow_;
  std::vector<std::byte> padded_;
  std::vector<Fingerprint> fingerprints_;  // one per thread, and so are these:
  std::vector<Scratch> scratch_;
  Shard shard_;
};

void require_rows(const DatasetMeta& draft, const EdgeTypeMeta& edge, const EdgeShardOptions& options) {
  const NodeTypeMeta& node = node_type_of(draft, draft.edge_dst_type(edge));
  const auto p = static_cast<std::size_t>(options.partition);
  const std::int64_t rows = node.partition_offsets[p + 1] - node.partition_offsets[p];
  const auto in_range = [](std::int64_t end) {
    return [end](std::int64_t id) { return id >= 0 && id < end; };
  };
  require_valid(std::ssize(options.original_ids) == rows &&
                    std::ranges::all_of(options.original_ids, in_range(node.count)),
                fmt::format("partition {} of node type '{}' has {} nodes, and others are told",
                            options.partition, node.name, rows));
  require_valid(!edge.has_edge_ids || std::ssize(options.first_edge_ids) == rows,
                fmt::format("edge type '{}' stores edge ids, and where those of each row begin is not told",
                            edge.folder()));
  for (const auto& [time, bounds] : options.time_bounds) require_time_bounds(time, bounds);
}

}  // namespace

void write_edge_shard(ArrowStream& stream, const DatasetMeta& draft, const EdgeShardOptions& options,
                      const std::filesystem::path& folder) {
  if (ShardFolder::is_there(folder)) return;
  const EdgeTypeMeta& edge = edge_type_of(draft, options.edge_type);
  require_partition(draft, options.partition);
  require_rows(draft, edge, options);
  if (edge.index_type == ElementType::kInt32)
    EdgeShard<std::int32_t>(stream, draft, options, folder).run();
  else
    EdgeShard<std::int64_t>(stream, draft, options, folder).run();
}

}  // namespace hopfeed
