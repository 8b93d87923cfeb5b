// See halo_files.h.
#include "core/dataset/halo_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/corrupt_file.h"
#include "core/dataset/id_at.h"
#include "core/dataset/npy.h"
#include "core/dataset/remote_id_files.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

/// A file that each partition has, and its halo.
using PartFile = std::function<std::string(int partition)>;
using Put = std::function<void(std::span<const std::byte>)>;

/// What takes the arrays of halos: a writer, or who compares.
class HaloSink {
 public:
  virtual ~HaloSink() = default;
  /// `fill` puts all of it, front to back.
  virtual void array(const std::string& relative, const std::string& descr,
                     const std::vector<std::int64_t>& shape, const std::function<void(const Put&)>& fill) = 0;
  /// With sharded ids: the list of a halo (remote_id_files.h).
  virtual void remote_ids(int part, const NodeTypeMeta& node, const NodeBits& sources,
                          const OriginalIdFiles& originals) = 0;
};

/// Those with an entry for each edge of a type.
std::vector<PartFile> edge_files(const EdgeTypeMeta& edge) {
  std::vector<PartFile> files;
  const auto add = [&](auto path, const std::string& name) {
    files.push_back([&edge, path, name](int p) { return path(p, edge, name); });
  };
  files.push_back([&edge](int p) { return indices_path(p, edge); });
  if (edge.has_edge_ids) files.push_back([&edge](int p) { return edge_ids_path(p, edge); });
  if (edge.has_by_id) files.push_back([&edge](int p) { return by_id_path(p, edge); });
  for (const AttrMeta& attr : edge.attrs) add(edge_attr_path, attr.name);
  for (const std::string& weight : edge.weights) add(alias_path, weight);
  for (const std::string& time : edge.times)
    for (const auto path : {time_order_path, times_path, time_codes_path, time_indices_path}) add(path, time);
  return files;
}

/// From entry to entry of the first dimension.
std::size_t entry_bytes(const NpyHeader& header) {
  std::size_t bytes = header.item_bytes;
  for (std::size_t d = 1; d < header.shape.size(); ++d) bytes *= static_cast<std::size_t>(header.shape[d]);
  return bytes;
}

/// One file of each partition.
class Column {
 public:
  Column(const fs::path& folder, int partitions, const PartFile& file) {
    for (int p = 0; p < partitions; ++p) arrays_.emplace_back(folder / file(p), HugePages::kNever);
  }
  const NpyArray& of(int p) const { return arrays_[static_cast<std::size_t>(p)]; }
  std::span<const std::byte> entries(int p, std::int64_t first, std::int64_t count) const {
    const std::size_t bytes = entry_bytes(of(p).header());
    return of(p).bytes().subspan(static_cast<std::size_t>(first) * bytes,
                                 static_cast<std::size_t>(count) * bytes);
  }
  /// The shape that the header of `count` entries says.
  std::vector<std::int64_t> shape(std::int64_t count) const {
    std::vector<std::int64_t> shape = of(0).header().shape;
    shape[0] = count;
    return shape;
  }

 private:
  std::vector<NpyArray> arrays_;
};

/// By type.
struct HaloSize {
  std::vector<std::int64_t> nodes, edges;
  std::vector<std::int64_t> sources;  // with sharded ids: NodeTypeMeta::halo_sources
};

std::vector<HaloPlace> places_of(const std::vector<std::int64_t>& nodes, std::int64_t count) {
  std::vector<HaloPlace> places(static_cast<std::size_t>(halo_places_shape(count)[0]));
  for (const std::int64_t id : nodes)
    places[static_cast<std::size_t>(id / 64)].nodes |= std::uint64_t{1} << id % 64;
  std::int64_t before = 0;
  for (HaloPlace& place : places) {
    place.before = before;
    before += std::popcount(place.nodes);
  }
  return places;
}

class Halos {
 public:
  Halos(fs::path folder, const DatasetMeta& meta) : folder_(std::move(folder)), meta_(meta) {
    for (const EdgeTypeMeta& edge : meta.edge_types) {
      rows_.push_back(column([&edge](int p) { return rows_path(p, edge); }));
      indices_.push_back(column([&edge](int p) { return indices_path(p, edge); }));
    }
    for (const NodeTypeMeta& node : meta.node_types)
      if (meta.sharded_ids) originals_.emplace_back(folder_, meta, node);
  }

  /// All arrays of the halo of a partition.
  HaloSize put(int p, HaloSink& sink) {
    HaloSize size;
    find_nodes(p);
    for (std::size_t t = 0; t < meta_.node_types.size(); ++t) {
      put_nodes(t, p, sink);
      size.nodes.push_back(std::ssize(nodes_[t]));
    }
    for (std::size_t e = 0; e < meta_.edge_types.size(); ++e) size.edges.push_back(put_edges(e, p, sink));
    for (std::size_t t = 0; t < originals_.size(); ++t) size.sources.push_back(put_sources(t, p, sink));
    return size;
  }

 private:
  Column column(const PartFile& file) const { return {folder_, meta_.partitions, file}; }

  /// The nodes elsewhere that the rows of the partition have edges from.
  void find_nodes(int p) {
    std::vector<std::vector<bool>> wanted;
    for (const NodeTypeMeta& node : meta_.node_types)
      wanted.emplace_back(static_cast<std::size_t>(node.count));
    for (std::size_t e = 0; e < meta_.edge_types.size(); ++e) {
      const EdgeTypeMeta& edge = meta_.edge_types[e];
      const std::byte* const ids = indices_[e].of(p).bytes().data();
      std::vector<bool>& sources = wanted[static_cast<std::size_t>(meta_.edge_src_type(edge))];
      for (std::int64_t i = 0; i < edge.partition_edges[p]; ++i)
        sources[static_cast<std::size_t>(id_at(ids, edge.index_type, i))] = true;
    }
    nodes_.assign(meta_.node_types.size(), {});
    for (std::size_t t = 0; t < nodes_.size(); ++t) {
      const std::vector<std::int64_t>& offsets = meta_.node_types[t].partition_offsets;
      std::fill(wanted[t].begin() + offsets[p], wanted[t].begin() + offsets[p + 1], false);
      for (std::size_t id = 0; id < wanted[t].size(); ++id)
        if (wanted[t][id]) nodes_[t].push_back(static_cast<std::int64_t>(id));
      require_halo_rows(p, std::ssize(nodes_[t]), meta_.node_types[t].name);
    }
  }

  void put_nodes(std::size_t t, int p, HaloSink& sink) {
    const NodeTypeMeta& node = meta_.node_types[t];
    const std::vector<std::int64_t>& nodes = nodes_[t];
    if (!meta_.sharded_ids) {  // else the list of remote sources says which nodes these are
      const std::vector<HaloPlace> places = places_of(nodes, node.count);
      sink.array(halo_places_path(p, node), npy_descr(ElementType::kInt64), halo_places_shape(node.count),
                 [&](const Put& out) { out(std::as_bytes(std::span(places))); });
    }
    for (const AttrMeta& attr : node.attrs) {
      const auto file = [&](int part) { return attr_path(part, node, attr.name); };
      const Column rows = column(file);
      sink.array(file(halo_of(p)), rows.of(0).header().descr, rows.shape(std::ssize(nodes)),
                 [&](const Put& out) {
                   for (const std::int64_t id : nodes) {
                     const int q = partition_of(node.partition_offsets, id);
                     out(rows.entries(q, id - node.partition_offsets[q], 1));
                   }
                 });
    }
  }

  /// Returns how many.
  std::int64_t put_edges(std::size_t e, int p, HaloSink& sink) {
    const EdgeTypeMeta& edge = meta_.edge_types[e];
    const auto dst = static_cast<std::size_t>(meta_.edge_dst_type(edge));
    const std::vector<std::int64_t>& offsets = meta_.node_types[dst].partition_offsets;
    std::vector<RowRecord> records;
    struct Stretch {
      int partition = 0;
      std::int64_t first = 0, count = 0;
    };
    std::vector<Stretch> stretches;
    std::int64_t edges = 0;
    for (const std::int64_t id : nodes_[dst]) {
      const int q = partition_of(offsets, id);
      const RowRecord* row = rows_[e].of(q).as<RowRecord>().data() + (id - offsets[q]);
      stretches.push_back({.partition = q, .first = row[0].offset, .count = row[1].offset - row[0].offset});
      records.push_back({.offset = edges, .original_id = row->original_id});
      edges += stretches.back().count;
    }
    records.push_back({.offset = edges, .original_id = -1});
    sink.array(rows_path(halo_of(p), edge), kRowRecordDescr, {std::ssize(records)},
               [&](const Put& out) { out(std::as_bytes(std::span(records))); });
    for (const PartFile& file : edge_files(edge)) {
      const Column entries = column(file);
      sink.array(file(halo_of(p)), entries.of(0).header().descr, entries.shape(edges), [&](const Put& out) {
        for (const Stretch& of : stretches) out(entries.entries(of.partition, of.first, of.count));
      });
    }
    return edges;
  }

  /// The nodes that the halo's rows have edges from, and that are neither in the partition nor in the halo.
  /// Returns how many.
  std::int64_t put_sources(std::size_t t, int p, HaloSink& sink) {
    const NodeTypeMeta& node = meta_.node_types[t];
    NodeBits sources(node.count);
    for (std::size_t e = 0; e < meta_.edge_types.size(); ++e) {
      const EdgeTypeMeta& edge = meta_.edge_types[e];
      if (edge.src != node.name) continue;
      const auto dst = static_cast<std::size_t>(meta_.edge_dst_type(edge));
      const std::vector<std::int64_t>& offsets = meta_.node_types[dst].partition_offsets;
      for (const std::int64_t id : nodes_[dst]) {
        const int q = partition_of(offsets, id);
        const RowRecord* row = rows_[e].of(q).as<RowRecord>().data() + (id - offsets[q]);
        const std::int64_t count = row[1].offset - row[0].offset;
        sources.add(indices_[e].entries(q, row[0].offset, count).data(), edge.index_type, count);
      }
    }
    sources.remove(node.partition_offsets[p], node.partition_offsets[p + 1]);
    for (const std::int64_t id : nodes_[t]) sources.remove(id);
    sink.remote_ids(halo_of(p), node, sources, originals_[t]);
    return sources.count();
  }

  const fs::path folder_;
  const DatasetMeta& meta_;
  std::vector<OriginalIdFiles> originals_;        // by node type, with sharded ids
  std::vector<Column> rows_, indices_;            // by edge type
  std::vector<std::vector<std::int64_t>> nodes_;  // of the halo under way, by node type
};

class Writing final : public HaloSink {
 public:
  Writing(DatasetWriter& writer, std::uint64_t total, const HalosDone& done)
      : writer_(writer), total_(total), tell_(done) {}
  void array(const std::string& relative, const std::string& descr, const std::vector<std::int64_t>& shape,
             const std::function<void(const Put&)>& fill) override {
    NpyWriter file = writer_.open(relative, descr, shape);
    fill([&](std::span<const std::byte> bytes) { file.write_bytes(bytes); });
    writer_.close(relative, std::move(file));
    tell_(++done_, total_);
  }
  void remote_ids(int part, const NodeTypeMeta& node, const NodeBits& sources,
                  const OriginalIdFiles& originals) override {
    write_remote_ids(writer_, part, node, sources, [&](std::int64_t id) { return originals.at(id); });
    tell_(++done_, total_);
  }

 private:
  DatasetWriter& writer_;
  const std::uint64_t total_;
  const HalosDone& tell_;
  std::uint64_t done_ = 0;
};

constexpr const char* kCutAgain = "cut the dataset again (hopfeed-partition partition --halo 1)";

class Comparing final : public HaloSink {
 public:
  Comparing(const Dataset& dataset, const std::function<void(std::uint64_t)>& done)
      : dataset_(dataset), done_(done) {}
  void array(const std::string& relative, const std::string& descr, const std::vector<std::int64_t>& shape,
             const std::function<void(const Put&)>& fill) override {
    const auto known = dataset_.meta().files.find(relative);
    if (known == dataset_.meta().files.end())
      corrupt_file(dataset_.folder() / "meta.json", "'files' does not list " + relative);
    const NpyArray array(dataset_.folder() / relative, HugePages::kNever);
    array.require_descr(descr);
    if (array.header().shape != shape)
      corrupt_file(array.path(), fmt::format("it has {} rows, and the cut gives {}; {}",
                                             array.header().shape.empty() ? 0 : array.header().shape[0],
                                             shape[0], kCutAgain));
    std::size_t at = 0;
    fill([&](std::span<const std::byte> bytes) {
      if (!bytes.empty() && std::memcmp(array.bytes().data() + at, bytes.data(), bytes.size()) != 0)
        corrupt_file(array.path(),
                     fmt::format("it is not what the cut gives, from byte {} of its elements on or soon "
                                 "behind; {}",
                                 at, kCutAgain));
      at += bytes.size();
    });
    done_(known->second.bytes);
  }
  void remote_ids(int part, const NodeTypeMeta& node, const NodeBits& sources,
                  const OriginalIdFiles& originals) override {
    check_remote_ids(dataset_.folder(), part, node, sources, originals);
    for (const std::string& file : {remote_ids_path(part, node), id_buckets_path(part, node)})
      if (const auto known = dataset_.meta().files.find(file); known != dataset_.meta().files.end())
        done_(known->second.bytes);
      else
        corrupt_file(dataset_.folder() / "meta.json", "'files' does not list " + file);
  }

 private:
  const Dataset& dataset_;
  const std::function<void(std::uint64_t)>& done_;
};

std::uint64_t arrays_of_a_halo(const DatasetMeta& meta) {
  std::uint64_t count = 0;
  for (const NodeTypeMeta& node : meta.node_types) count += 1 + node.attrs.size();  // places, or the list
  for (const EdgeTypeMeta& edge : meta.edge_types) count += 1 + edge_files(edge).size();
  return count;
}

}  // namespace

void require_halo_rows(int partition, std::int64_t rows, const std::string& node_type) {
  if (rows <= INT64_C(0xFFFFFFFF)) return;
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("the halo of partition {} would have {} nodes of type '{}': its rows are numbered by 4 "
                  "bytes, so it has fewer than 2^32; give more --parts, or leave --halo out",
                  partition, rows, node_type));
}

void write_halos(DatasetWriter& writer, DatasetMeta& meta, const HalosDone& done) {
  Halos halos(writer.temporary_folder(), meta);
  Writing writing(writer, arrays_of_a_halo(meta) * static_cast<std::uint64_t>(meta.partitions), done);
  std::vector<HaloSize> sizes;
  for (int p = 0; p < meta.partitions; ++p) sizes.push_back(halos.put(p, writing));
  for (const HaloSize& size : sizes) {
    for (std::size_t t = 0; t < size.nodes.size(); ++t)
      meta.node_types[t].halo_nodes.push_back(size.nodes[t]);
    for (std::size_t t = 0; t < size.sources.size(); ++t)
      meta.node_types[t].halo_sources.push_back(size.sources[t]);
    for (std::size_t e = 0; e < size.edges.size(); ++e)
      meta.edge_types[e].halo_edges.push_back(size.edges[e]);
  }
}

bool is_left_out_halo(const Dataset& dataset, const std::string& path) {
  std::error_code error;
  return is_halo_path(path) && !std::filesystem::is_directory(
                                   dataset.folder() / path.substr(0, path.find("/halo/")) / "halo", error);
}

void check_halos(const Dataset& dataset, const std::function<void(std::uint64_t bytes)>& done) {
  Halos halos(dataset.folder(), dataset.meta());
  Comparing comparing(dataset, done);
  const DatasetMeta& meta = dataset.meta();
  for (int p = 0; p < meta.partitions; ++p) {
    if (is_left_out_halo(dataset, part_folder(halo_of(p)) + "/")) continue;
    const HaloSize size = halos.put(p, comparing);
    bool same = true;
    for (std::size_t t = 0; t < size.nodes.size(); ++t)
      same &= meta.node_types[t].halo_nodes[p] == size.nodes[t];
    for (std::size_t e = 0; e < size.edges.size(); ++e)
      same &= meta.edge_types[e].halo_edges[p] == size.edges[e];
    if (!same)
      corrupt_file(dataset.folder() / "meta.json",
                   fmt::format("'halo_nodes' or 'halo_edges' of partition {} are not what the cut gives; {}",
                               p, kCutAgain));
    for (std::size_t t = 0; t < size.sources.size(); ++t)
      if (meta.node_types[t].halo_sources[p] != size.sources[t])
        corrupt_file(
            dataset.folder() / "meta.json",
            fmt::format("'halo_sources' of partition {} are not what the cut gives; {}", p, kCutAgain));
  }
}

}  // namespace hopfeed
