// Dataset::verify: reads every byte once for its checksum and once more for its meaning.
#include <fmt/format.h>

#include <cmath>

#include "core/dataset.h"
#include "core/error.h"
#include "core/fingerprint.h"

namespace hopfeed {
namespace {

[[noreturn]] void corrupt(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::kCorrupt, path.string() + ": " + what);
}

std::int64_t id_at(const void* ids, ElementType type, std::int64_t i) {
  return type == ElementType::kInt32 ? static_cast<const std::int32_t*>(ids)[i] : static_cast<const std::int64_t*>(ids)[i];
}

constexpr std::uint64_t kReportBytes = 32 << 20;

}  // namespace

void Dataset::verify_impl(ProgressRef progress) const {
  std::uint64_t total = 0, done = 0;
  for (const auto& [name, file] : meta_.files) total += 2 * file.bytes;   // once for checksums, once for meaning
  const auto advance = [&](std::uint64_t bytes) { progress(done += bytes, total); };

  for (const auto& [name, expected] : meta_.files) {
    const MappedFile file(folder_ / name);
    if (file.bytes().size() != expected.bytes) corrupt(file.path(), fmt::format("it has {} bytes, meta.json says {}", file.bytes().size(), expected.bytes));
    XXH3_state_t* state = XXH3_createState();
    XXH3_64bits_reset(state);
    for (std::size_t at = 0; at < file.bytes().size(); at += kReportBytes) {
      const auto piece = file.bytes().subspan(at, std::min<std::size_t>(kReportBytes, file.bytes().size() - at));
      XXH3_64bits_update(state, piece.data(), piece.size());
      advance(piece.size());
    }
    const std::uint64_t digest = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    if (digest != expected.xxh3) corrupt(file.path(), fmt::format("its checksum is {:016x}, meta.json says {:016x}", digest, expected.xxh3));
  }

  Fingerprint fingerprint;
  // Dataset id -> original id per node type, from new_ids, which must be a permutation.
  std::vector<std::vector<std::int64_t>> originals(meta_.node_types.size());
  for (int t = 0; t < num_node_types(); ++t) {
    const NodeTypeMeta& node = meta_.node_types[t];
    originals[t].assign(node.count, -1);
    for (std::int64_t original = 0; original < node.count; ++original) {
      const std::int64_t id = dataset_id(t, original);
      if (originals[t][id] != -1) corrupt(nodes_[t].new_ids.path(), fmt::format("nodes {} and {} share dataset id {}", originals[t][id], original, id));
      originals[t][id] = original;
    }
    advance(nodes_[t].new_ids.bytes().size());
    for (const auto& [name, count] : node.splits) {
      const auto ids = split(t, name);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < 0 || ids[i] >= node.count) corrupt(folder_ / split_path(node, name), fmt::format("entry {} is {}, but there are {} nodes", i, ids[i], node.count));
      }
      fingerprint.add_split(t, name, ids);
    }
    for (std::size_t a = 0; a < node.attrs.size(); ++a) {
      const NodeAttrView view = attr(t, node.attrs[a].name);
      const bool labels = node.attrs[a].name == "y" && view.type == ElementType::kInt64 && node.num_classes > 0;
      for (int p = 0; p < meta_.partitions; ++p) {
        const std::int64_t begin = node.partition_offsets[p], rows = node.partition_offsets[p + 1] - begin;
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::byte* row = view.parts[p] + i * view.stride_bytes;
          if (labels) {
            const std::int64_t label = *reinterpret_cast<const std::int64_t*>(row);
            if (label < -1 || label >= node.num_classes) corrupt(nodes_[t].attrs[a][p].path(), fmt::format("row {} has label {}, but there are {} classes", i, label, node.num_classes));
          }
          fingerprint.add_attr(t, originals[t][begin + i], static_cast<int>(a), {row, static_cast<std::size_t>(view.row_bytes)});
        }
        advance(static_cast<std::uint64_t>(rows) * view.stride_bytes);
      }
    }
    for (int p = 0; p < meta_.partitions; ++p) {
      const auto hot = hotness(t, p);
      for (std::size_t i = 0; i < hot.size(); ++i) {
        if (!(hot[i] >= 0) || (i > 0 && hot[i] > hot[i - 1])) corrupt(nodes_[t].hotness[p].path(), fmt::format("entry {} breaks the falling order", i));
      }
    }
  }

  std::vector<std::int64_t> sources, ids;
  for (int t = 0; t < num_edge_types(); ++t) {
    const CscView view = csc(t);
    for (int p = 0; p < meta_.partitions; ++p) {
      const CscPart& part = view.parts[p];
      const std::int64_t base = view.partition_offsets[p];
      for (std::int64_t row = 0; row < part.num_rows; ++row) {
        const std::int64_t begin = part.rows[row].offset, end = part.rows[row + 1].offset;
        if (begin > end || end > part.num_edges) corrupt(edges_[t].rows[p].path(), fmt::format("row {} spans [{}, {}) of {} edges", row, begin, end, part.num_edges));
        const std::int64_t original = part.rows[row].original_id;
        if (original != originals[view.dst_type][base + row]) {
          corrupt(edges_[t].rows[p].path(), fmt::format("row {} says original id {}, new_ids says {}", row, original, originals[view.dst_type][base + row]));
        }
        sources.clear();
        ids.clear();
        for (std::int64_t e = begin; e < end; ++e) {
          const std::int64_t source = id_at(part.indices, view.index_type, e);
          if (source < 0 || source >= view.num_src_nodes) {
            corrupt(edges_[t].indices[p].path(), fmt::format("entry {} is node {}, but there are {}", e, source, view.num_src_nodes));
          }
          sources.push_back(originals[view.src_type][source]);
          if (view.has_edge_ids) {
            ids.push_back(id_at(part.edge_ids, view.edge_id_type, e));
            if (ids.back() < 0 || ids.back() >= view.num_edges) corrupt(edges_[t].edge_ids[p].path(), fmt::format("entry {} is edge {}, but there are {}", e, ids.back(), view.num_edges));
          }
        }
        fingerprint.add_row(t, original, sources, ids);
        if (row % 65'536 == 0) advance(0);
      }
      advance(edges_[t].rows[p].bytes().size() + edges_[t].indices[p].bytes().size());
    }
  }
  if (const std::string found = fingerprint.finish(meta_); found != meta_.fingerprint) {
    corrupt(folder_ / "meta.json", "the content's fingerprint is " + found + ", meta.json says " + meta_.fingerprint);
  }
  progress(total, total);
}

}  // namespace hopfeed
