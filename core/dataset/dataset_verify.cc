// Dataset::verify: reads every byte once for its checksum and once more for its meaning.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/base/quantised_rows.h"
#include "core/dataset/alias_table.h"
#include "core/dataset/array_place.h"
#include "core/dataset/dataset.h"
#include "core/dataset/fingerprint.h"
#include "core/dataset/halo_files.h"
#include "core/dataset/id_at.h"
#include "core/dataset/inverse_ids.h"
#include "core/dataset/node_keys.h"
#include "core/dataset/remote_id_files.h"
#include "core/dataset/row_order.h"
#include "core/dataset/time_codes.h"

namespace hopfeed {
namespace {

constexpr std::uint64_t kPieceBytes = 32 << 20;

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::kCorrupt, path.string() + ": " + what);
}

class Verifier {
 public:
  Verifier(const Dataset& dataset, std::function<void(std::uint64_t, std::uint64_t)> progress)
      : dataset_(dataset),
        meta_(dataset.meta()),
        progress_(std::move(progress)),
        originals_(meta_.node_types.size()) {
    for (int p = 0; p < meta_.partitions; ++p)
      if (!dataset.has_partition(p)) elsewhere_.insert(part_folder(p));
    for (const auto& [name, file] : meta_.files)
      if (!is_elsewhere(name)) total_ += (dataset_.whole() ? 2 : 1) * file.bytes;
  }

  /// Once for checksums, once for meaning, which files have together.
  void run() {
    const bool keys = std::filesystem::exists(path("keys"));
    for (const auto& [name, file] : meta_.files)
      if ((keys || !is_keys_path(name)) && !is_left_out_halo(dataset_, name) && !is_elsewhere(name))
        check_file(name, file);
    if (dataset_.whole()) check_meaning(keys);
    progress_(total_, total_);
  }

 private:
  void check_meaning(bool keys) {
    for (int t = 0; t < dataset_.num_node_types(); ++t) {
      check_ids(t);
      if (keys && meta_.node_types[t].has_keys()) check_keys(t);
      check_splits(t);
      for (std::size_t a = 0; a < meta_.node_types[t].attrs.size(); ++a) check_attr(t, static_cast<int>(a));
      for (int p = 0; p < meta_.partitions; ++p) check_hotness(t, p);
      for (int p = 0; p < std::ssize(meta_.node_types[t].remote_rows); ++p) check_remote_rows(t, p);
      if (!meta_.has_rows(meta_.node_types[t]))
        for (int p = 0; p < meta_.partitions; ++p) check_original_ids(t, p);
    }
    for (int e = 0; e < dataset_.num_edge_types(); ++e) {
      check_links(e);
      for (int p = 0; p < meta_.partitions; ++p) {
        check_rows(e, p);
        for (std::size_t a = 0; a < meta_.edge_types[e].attrs.size(); ++a)
          check_edge_attr(e, p, static_cast<int>(a));
        for (const std::string& weight : meta_.edge_types[e].weights) check_weight(e, p, weight);
        for (const std::string& time : meta_.edge_types[e].times) check_time(e, p, time);
        if (meta_.edge_types[e].has_by_id) check_by_id(e, p);
      }
    }
    for (int t = 0; meta_.sharded_ids && t < dataset_.num_node_types(); ++t)
      for (int p = 0; p < meta_.partitions; ++p) check_sources(t, p);
    if (const std::string found = fingerprint_.finish(meta_); found != meta_.fingerprint) {
      damaged(path("meta.json"),
              "the content's fingerprint is " + found + ", the file says " + meta_.fingerprint);
    }
    if (meta_.has_halos()) check_halos(dataset_, [this](std::uint64_t bytes) { advance(bytes); });
  }

  /// With a partition that another machine has.
  bool is_elsewhere(const std::string& name) const {
    return elsewhere_.contains(name.substr(0, name.find('/')));
  }
  std::filesystem::path path(const std::string& relative) const { return dataset_.folder() / relative; }
  void advance(std::uint64_t bytes) { progress_(done_ += bytes, total_); }
  void advance_file(const std::string& relative) { advance(meta_.files.at(relative).bytes); }
  void advance_there(std::initializer_list<std::string> files) {
    for (const std::string& file : files)
      if (meta_.files.contains(file)) advance_file(file);
  }

  void check_file(const std::string& name, const FileMeta& expected) {
    const MappedFile file(path(name));
    if (file.bytes().size() != expected.bytes)
      damaged(file.path(),
              fmt::format("it has {} bytes, meta.json says {}", file.bytes().size(), expected.bytes));
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
    XXH3_64bits_reset(state.get());
    for (std::size_t at = 0; at < file.bytes().size(); at += kPieceBytes) {
      const auto piece =
          file.bytes().subspan(at, std::min<std::size_t>(kPieceBytes, file.bytes().size() - at));
      XXH3_64bits_update(state.get(), piece.data(), piece.size());
      advance(piece.size());
    }
    const std::uint64_t digest = XXH3_64bits_digest(state.get());
    if (digest != expected.xxh3)
      damaged(file.path(),
              fmt::format("its checksum is {:016x}, meta.json says {:016x}", digest, expected.xxh3));
  }

  // new_ids must be a permutation; its inverse is what rows are checked against.
  void check_ids(int t) {
    const NodeTypeMeta& node = meta_.node_types[t];
    originals_[t] = inverse_ids(dataset_, t);
    if (meta_.sharded_ids)
      for (int p = 0; p < meta_.partitions; ++p) advance_file(new_ids_shard_path(p, node));
    else
      advance_file(new_ids_path(node));
    check_all_original_ids(node, originals_[t]);
  }

  // What machines read that have some partitions only.
  void check_all_original_ids(const NodeTypeMeta& node, const std::vector<std::int64_t>& originals) {
    const std::string file = all_original_ids_path(node);
    if (!meta_.files.contains(file)) return;
    const NpyArray array(path(file), HugePages::kNever);
    array.require_descr(npy_descr(node.new_id_type));
    const std::size_t width = element_bytes(node.new_id_type);
    if (array.bytes().size() != originals.size() * width)
      damaged(path(file), fmt::format("it has {} ids, and there are {} nodes", array.bytes().size() / width,
                                      originals.size()));
    for (std::size_t i = 0; i < originals.size(); ++i) {
      const std::int64_t id = id_at(array.bytes().data(), node.new_id_type, static_cast<std::int64_t>(i));
      if (id != originals[i])
        damaged(path(file),
                fmt::format("entry {} says original id {}, new_ids says {}", i, id, originals[i]));
    }
    advance_file(file);
  }

  void check_keys(int t) {
    const NodeTypeMeta& node = meta_.node_types[t];
    const NodeKeys keys(dataset_.folder(), node);
    if (const std::string found = keys.digest(); found != node.keys.digest)
      damaged(path(keys_path(node)), "the keys' digest is " + found + ", meta.json says " + node.keys.digest);
    for (std::int64_t i = 1; i < node.count; ++i)
      if (!keys.less(i - 1, i))
        damaged(path(keys_path(node)), fmt::format("key {} is not behind the one before it", i));
    advance_file(keys_path(node));
    if (node.keys.type == KeyType::kString) advance_file(key_offsets_path(node));
  }

  void check_splits(int t) {
    const NodeTypeMeta& node = meta_.node_types[t];
    for (const auto& [name, count] : node.splits) {
      const auto ids = dataset_.split(t, name);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] >= 0 && ids[i] < node.count) continue;
        const ArrayPlace place = place_in_split(meta_, node, name, static_cast<std::int64_t>(i));
        damaged(path(place.file),
                fmt::format("entry {} is {}, but there are {} nodes", place.entry, ids[i], node.count));
      }
      fingerprint_.add_split(t, name, ids);
      if (meta_.sharded_ids)
        for (int p = 0; p < meta_.partitions; ++p) check_split_shard(t, name, p);
      else
        advance_file(split_path(node, name));
    }
  }

  // The original ids are in range.
  void check_split_shard(int t, const std::string& name, int p) {
    const std::string file = split_shard_path(p, meta_.node_types[t], name);
    const std::span<const std::int64_t> ids = dataset_.split_shard(t, name, p).ids;
    for (std::size_t i = 0; i < ids.size(); i += 2) check_dataset_id(t, ids[i], ids[i + 1], file, i / 2);
    advance_file(file);
  }

  void check_dataset_id(int t, std::int64_t original, std::int64_t id, const std::string& file,
                        std::size_t entry) const {
    if (const std::int64_t known = dataset_.dataset_id(t, original); known != id)
      damaged(path(file), fmt::format("entry {} says dataset id {} of node {}, new_ids says {}", entry, id,
                                      original, known));
  }

  void check_links(int e) {
    using enum Fingerprint::LinkArray;
    const EdgeTypeMeta& edge = meta_.edge_types[e];
    const std::int64_t ends[2] = {meta_.node_types[meta_.edge_src_type(edge)].count,
                                  meta_.node_types[meta_.edge_dst_type(edge)].count};
    for (const auto& [name, count] : edge.splits) {
      const LinkSplit links = dataset_.edge_split(e, name);
      for (std::size_t i = 0; i < links.pairs.size(); ++i) {
        if (links.pairs[i] >= 0 && links.pairs[i] < ends[i % 2]) continue;
        const ArrayPlace place = place_of_link(meta_, edge, name, static_cast<std::int64_t>(i / 2));
        damaged(path(place.file),
                fmt::format("link {} has {} node {}, but there are {}", place.entry,
                            i % 2 == 0 ? "source" : "destination", links.pairs[i], ends[i % 2]));
      }
      const auto add = [&](Fingerprint::LinkArray array, std::span<const std::int64_t> numbers) {
        fingerprint_.add_links(e, name, array, XXH3_128bits(numbers.data(), numbers.size_bytes()));
      };
      add(kPairs, links.pairs);
      if (meta_.has_labels(edge, name)) add(kLabels, links.labels);
      if (meta_.has_times(edge, name)) add(kTimes, links.times);
      if (const auto told = edge.smallest_labels.find(name); told != edge.smallest_labels.end()) {
        const std::int64_t found = links.labels.empty() ? 0 : *std::ranges::min_element(links.labels);
        if (told->second != found)
          damaged(path("meta.json"),
                  fmt::format("the smallest label of edge split {} is {}, the file says {}", name, found,
                              told->second));
      }
      if (!meta_.sharded_ids)
        advance_there(
            {link_pairs_path(edge, name), link_labels_path(edge, name), link_times_path(edge, name)});
      for (int p = 0; meta_.sharded_ids && p < meta_.partitions; ++p) check_link_shard(e, name, p);
    }
  }

  // The original ids are in range.
  void check_link_shard(int e, const std::string& name, int p) {
    const EdgeTypeMeta& edge = meta_.edge_types[e];
    const std::string file = link_pairs_shard_path(p, edge, name);
    const int types[2] = {meta_.edge_src_type(edge), meta_.edge_dst_type(edge)};
    const std::span<const std::int64_t> ids = dataset_.link_shard(e, name, p).pairs;
    for (std::size_t i = 0; i < ids.size(); i += 4)
      for (std::size_t end = 0; end < 2; ++end)
        check_dataset_id(types[end], ids[i + end], ids[i + 2 + end], file, i / 4);
    advance_there({file, link_labels_shard_path(p, edge, name), link_times_shard_path(p, edge, name)});
  }

  // What the rows of a partition have edges from: behind its rows and indices.
  void check_sources(int t, int p) {
    const NodeTypeMeta& node = meta_.node_types[t];
    check_remote_ids(dataset_.folder(), p, node, remote_sources(dataset_.folder(), meta_, t, p),
                     OriginalIdFiles(dataset_.folder(), meta_, node));
    advance_there({remote_ids_path(p, node), id_buckets_path(p, node)});
  }

  void check_attr(int t, int a) {
    const NodeTypeMeta& node = meta_.node_types[t];
    const AttrView view = dataset_.attr(t, node.attrs[a].name);
    const bool labels = node.attrs[a].name == "y" && view.type == ElementType::kInt64 && node.num_classes > 0;
    for (int p = 0; p < meta_.partitions; ++p) {
      const std::string file = attr_path(p, node, node.attrs[a].name);
      const std::int64_t begin = node.partition_offsets[p], rows = node.partition_offsets[p + 1] - begin;
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::byte* row = view.parts[p] + i * view.stride_bytes;
        const std::int64_t label = labels ? *reinterpret_cast<const std::int64_t*>(row) : 0;
        if (labels && (label < -1 || label >= node.num_classes))
          damaged(path(file),
                  fmt::format("row {} has label {}, but there are {} classes", i, label, node.num_classes));
        check_row(view, row, file, i);
        fingerprint_.add_attr(t, originals_[t][begin + i], a,
                              {row, static_cast<std::size_t>(view.row_bytes)});
      }
      advance_file(file);
    }
  }

  void check_row(const AttrView& attr, const std::byte* row, const std::string& file, std::int64_t i) const {
    if (has_scale(attr.type) && !is_quantised_row(attr.type, attr.row_elements, row))
      damaged(path(file), fmt::format("row {} is no row of {}: no numbers give its scale and elements", i,
                                      to_string(attr.type)));
  }

  void check_hotness(int t, int p) {
    const auto hot = dataset_.hotness(t, p);
    const std::string file = hotness_path(p, meta_.node_types[t]);
    for (std::size_t i = 0; i < hot.size(); ++i) {
      if (!(hot[i] >= 0) || (i > 0 && hot[i] > hot[i - 1]))
        damaged(path(file), fmt::format("entry {} breaks the falling order", i));
    }
    advance_file(file);
  }

  void check_remote_rows(int t, int p) {
    const NodeTypeMeta& node = meta_.node_types[t];
    const RankedRows ranked = dataset_.remote_rows(t, p);
    const std::string file = remote_rows_path(p, node);
    std::vector<bool> seen(static_cast<std::size_t>(node.count));
    for (std::int64_t i = 0; i < ranked.count; ++i) {
      const std::int64_t id = ranked[i];
      if (id < 0 || id >= node.count)
        damaged(path(file), fmt::format("entry {} is node {}, but there are {}", i, id, node.count));
      if (id >= node.partition_offsets[p] && id < node.partition_offsets[p + 1])
        damaged(path(file), fmt::format("entry {} is node {} of the partition itself", i, id));
      if (seen[static_cast<std::size_t>(id)])
        damaged(path(file), fmt::format("entry {} names node {} again", i, id));
      seen[static_cast<std::size_t>(id)] = true;
    }
    advance_file(file);
  }

  void check_original_ids(int t, int p) {
    const NodeTypeMeta& node = meta_.node_types[t];
    for (std::int64_t id = node.partition_offsets[p]; id < node.partition_offsets[p + 1]; ++id) {
      if (dataset_.original_id(t, id) != originals_[t][id])
        damaged(path(original_ids_path(p, node)),
                fmt::format("entry {} says original id {}, new_ids says {}", id - node.partition_offsets[p],
                            dataset_.original_id(t, id), originals_[t][id]));
    }
    advance_file(original_ids_path(p, node));
  }

  void check_edge_attr(int e, int p, int a) {
    const EdgeTypeMeta& edge = meta_.edge_types[e];
    const AttrView view = dataset_.edge_attr(e, edge.attrs[a].name);
    const CscPart part = dataset_.csc(e).parts[p];
    const std::string file = edge_attr_path(p, edge, edge.attrs[a].name);
    std::vector<std::byte> rows;
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      rows.clear();
      for (std::int64_t i = part.rows[row].offset; i < part.rows[row + 1].offset; ++i) {
        const std::byte* at = view.parts[p] + i * view.stride_bytes;
        check_row(view, at, file, i);
        rows.insert(rows.end(), at, at + view.row_bytes);
      }
      fingerprint_.add_edge_attr(e, part.rows[row].original_id, a, rows);
    }
    advance_file(file);
  }

  // Alias tables are made again: only the same weights give the same.
  void check_weight(int e, int p, const std::string& name) {
    const EdgeTypeMeta& edge = meta_.edge_types[e];
    const AttrView weights = dataset_.edge_attr(e, name);
    const WeightView tables = dataset_.weight(e, name);
    const CscView csc = dataset_.csc(e);
    const CscPart& part = csc.parts[p];
    AliasBuilder builder;
    std::vector<double> row_weights;
    std::vector<AliasEntry> made;
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      const std::int64_t begin = part.rows[row].offset, end = part.rows[row + 1].offset;
      row_weights.clear();
      for (std::int64_t i = begin; i < end; ++i)
        row_weights.push_back(number_at(weights.parts[p] + i * weights.stride_bytes, weights.type));
      made.resize(row_weights.size());
      try {
        builder.build(row_weights, made);
      } catch (const Error& error) {
        damaged(path(edge_attr_path(p, edge, name)), fmt::format("row {}: {}", row, error.what()));
      }
      const AliasTableView table = tables.table(static_cast<std::size_t>(p), begin, made.size());
      for (std::size_t i = 0; i < made.size(); ++i) {
        if (table[i] != made[i])
          damaged(path(alias_path(p, edge, name)),
                  fmt::format("row {} is not what the weights of its edges give", row));
        if (table.entry_bytes == sizeof(AliasEntry)) continue;
        const auto* sources = reinterpret_cast<const std::byte*>(&table[i] + 1);
        if (id_at(sources, csc.index_type, 0) !=
                id_at(part.indices, csc.index_type, begin + static_cast<std::int64_t>(i)) ||
            id_at(sources, csc.index_type, 1) != id_at(part.indices, csc.index_type, begin + made[i].alias))
          damaged(path(alias_path(p, edge, name)), fmt::format("row {} has other neighbours", row));
      }
    }
    advance_file(alias_path(p, edge, name));
  }

  void check_time(int e, int p, const std::string& name) {
    const EdgeTypeMeta& edge = meta_.edge_types[e];
    const TimeView view = dataset_.time(e, name);
    const CscView csc = dataset_.csc(e);
    const CscPart& part = csc.parts[p];
    if (std::ranges::adjacent_find(view.bounds, std::greater<>()) != view.bounds.end())
      damaged(path(time_bounds_path(edge, name)), "its bounds are not in order");
    std::vector<std::int64_t> times;
    std::vector<std::uint32_t> order;
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      const std::int64_t begin = part.rows[row].offset, end = part.rows[row + 1].offset;
      read_times(e, p, name, begin, end, times);
      order_row(times, order);
      for (std::int64_t i = begin; i < end; ++i) {
        if (view.order[p][i] != order[i - begin] || view.times[p][i] != times[order[i - begin]])
          damaged(path(time_order_path(p, edge, name)),
                  fmt::format("row {} is not in the order of time", row));
        if (view.codes[p][i] != time_code(view.bounds, view.times[p][i]))
          damaged(path(time_codes_path(p, edge, name)),
                  fmt::format("row {} has other codes than its times have", row));
        if (id_at(view.indices[p], csc.index_type, i) !=
            id_at(part.indices, csc.index_type, begin + order[i - begin]))
          damaged(path(time_indices_path(p, edge, name)),
                  fmt::format("row {} has other neighbours than its order of time says", row));
      }
    }
    advance_file(time_order_path(p, edge, name));
    advance_file(times_path(p, edge, name));
    advance_file(time_codes_path(p, edge, name));
    if (p == 0) advance_file(time_bounds_path(edge, name));
    advance_file(time_indices_path(p, edge, name));
  }

  void check_by_id(int e, int p) {
    const EdgeTypeMeta& edge = meta_.edge_types[e];
    const CscView csc = dataset_.csc(e);
    const CscPart& part = csc.parts[p];
    const std::uint32_t* stored = dataset_.by_id(e).order[p];
    std::vector<std::uint32_t> order;
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      const std::int64_t begin = part.rows[row].offset, end = part.rows[row + 1].offset;
      sources_.clear();
      for (std::int64_t i = begin; i < end; ++i)
        sources_.push_back(originals_[csc.src_type][id_at(part.indices, csc.index_type, i)]);
      order_row(sources_, order);
      if (!std::equal(order.begin(), order.end(), stored + begin))
        damaged(path(by_id_path(p, edge)), fmt::format("row {} is not in the order of its source ids", row));
    }
    advance_file(by_id_path(p, edge));
  }

  // Reads the times of the partition's edges [begin, end): their own, or else those of their source nodes.
  void read_times(int e, int p, const std::string& name, std::int64_t begin, std::int64_t end,
                  std::vector<std::int64_t>& times) const {
    const EdgeTypeMeta& edge = meta_.edge_types[e];
    const CscView view = dataset_.csc(e);
    times.clear();
    if (find_attr(edge.attrs, name)) {
      const AttrView attr = dataset_.edge_attr(e, name);
      for (std::int64_t i = begin; i < end; ++i)
        times.push_back(id_at(attr.parts[p] + i * attr.stride_bytes, attr.type, 0));
      return;
    }
    const AttrView attr = dataset_.attr(view.src_type, name);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t source = id_at(view.parts[p].indices, view.index_type, i);
      const int q = partition_of(attr.partition_offsets, source);
      times.push_back(
          id_at(attr.parts[q] + (source - attr.partition_offsets[q]) * attr.stride_bytes, attr.type, 0));
    }
  }

  void check_rows(int e, int p) {
    const EdgeTypeMeta& edge = meta_.edge_types[e];
    const CscView view = dataset_.csc(e);
    const CscPart& part = view.parts[p];
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      const std::int64_t begin = part.rows[row].offset, end = part.rows[row + 1].offset;
      if (begin > end || end > part.num_edges)
        damaged(path(rows_path(p, edge)),
                fmt::format("row {} spans [{}, {}) of {} edges", row, begin, end, part.num_edges));
      const std::int64_t original = part.rows[row].original_id,
                         expected = originals_[view.dst_type][view.partition_offsets[p] + row];
      if (original != expected)
        damaged(path(rows_path(p, edge)),
                fmt::format("row {} says original id {}, new_ids says {}", row, original, expected));
      read_neighbours(view, edge, p, begin, end);
      fingerprint_.add_row(e, original, sources_, edge_ids_);
    }
    advance_file(rows_path(p, edge));
    advance_file(indices_path(p, edge));
    if (view.has_edge_ids) advance_file(edge_ids_path(p, edge));
  }

  void read_neighbours(const CscView& view, const EdgeTypeMeta& edge, int p, std::int64_t begin,
                       std::int64_t end) {
    sources_.clear();
    edge_ids_.clear();
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t source = id_at(view.parts[p].indices, view.index_type, i);
      if (source < 0 || source >= view.num_src_nodes)
        damaged(path(indices_path(p, edge)),
                fmt::format("entry {} is node {}, but there are {}", i, source, view.num_src_nodes));
      sources_.push_back(originals_[view.src_type][source]);
      if (!view.has_edge_ids) continue;
      const std::int64_t id = id_at(view.parts[p].edge_ids, view.edge_id_type, i);
      if (id < 0 || id >= view.num_edges)
        damaged(path(edge_ids_path(p, edge)),
                fmt::format("entry {} is edge {}, but there are {}", i, id, view.num_edges));
      edge_ids_.push_back(id);
    }
  }

  const Dataset& dataset_;
  const DatasetMeta& meta_;
  const std::function<void(std::uint64_t, std::uint64_t)> progress_;
  std::vector<std::vector<std::int64_t>> originals_;  // per node type: dataset id -> original id
  std::vector<std::int64_t> sources_, edge_ids_;      // of the row under way
  Fingerprint fingerprint_;
  std::set<std::string> elsewhere_;  // folders of parts
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace

void Dataset::verify(const std::function<void(std::uint64_t, std::uint64_t)>& progress) const {
  Verifier(*this, progress).run();
}

}  // namespace hopfeed
