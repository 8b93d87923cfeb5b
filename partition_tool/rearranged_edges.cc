// See rearranged_edges.h.
#include "partition_tool/rearranged_edges.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "core/base/parallel_ranges.h"
#include "partition_tool/edges_to_csc.h"

namespace hopfeed {
namespace {

/// Ids that are in use, and how many of them are below one: its new number.
class UsedIds {
 public:
  explicit UsedIds(std::int64_t bound) : words_((bound + 63) / 64), before_(words_.size() + 1) {}
  void use(std::int64_t id) {  // from several threads
    std::atomic_ref(words_[id >> 6]).fetch_or(std::uint64_t{1} << (id & 63), std::memory_order_relaxed);
  }
  void count() {
    for (std::size_t i = 0; i < words_.size(); ++i) before_[i + 1] = before_[i] + std::popcount(words_[i]);
  }
  std::int64_t number(std::int64_t id) const {
    return before_[id >> 6] + std::popcount(words_[id >> 6] & ((std::uint64_t{1} << (id & 63)) - 1));
  }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<std::int64_t> before_;
};

void report(const Progress& progress, const char* step, std::int64_t done, std::int64_t total) {
  progress({step, "rows", static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total)});
}

/// Where the attributes of the edges lie: those of row v at of[indptr[v] ..).
struct EdgePlaces {
  std::vector<std::int64_t> indptr;
  IdArray of;  // as EdgeEntry::place
};

/// The attribute of a dataset's edge type for edges that were rearranged.
RawEdgeAttr placed_attr(const Dataset& dataset, int edge_type, const AttrMeta& attr,
                        std::shared_ptr<const EdgePlaces> places, std::vector<std::byte> fill) {
  return {.name = attr.name,
          .type = attr.type,
          .shape = attr.shape,
          .read_rows = [stored = StoredAttr(dataset, edge_type, attr.name), places = std::move(places),
                        fill = std::move(fill)](std::int64_t v, std::span<const std::int64_t>,
                                                std::span<std::byte> rows) {
            std::visit(
                [&](const auto& of) {
                  std::byte* out = rows.data();
                  for (std::int64_t at = places->indptr[v]; at < places->indptr[v + 1]; ++at) {
                    std::memcpy(out, of[at] < 0 ? fill.data() : stored.at(of[at]), stored.row_bytes());
                    out += stored.row_bytes();
                  }
                },
                places->of);
          }};
}

}  // namespace

void rearrange(const RearrangeOptions& options, const MakeEntries& make, const Progress& progress,
               RawEdges& edges) {
  const EdgeTypeMeta& type = options.dataset.meta().edge_types[options.edge_type];
  const bool has_attrs = !type.attrs.empty();
  const std::int64_t num_rows = options.num_rows;
  std::vector<std::int64_t> indptr(num_rows + 1);
  UsedIds used(type.has_edge_ids ? options.id_bound : 0);
  report(progress, options.step, 0, 2 * num_rows);
  parallel_ranges(options.threads, num_rows, [&](int, std::int64_t begin, std::int64_t end) {
    std::vector<EdgeEntry> row;
    for (std::int64_t v = begin; v < end; ++v) {
      row.clear();
      make(v, row);
      indptr[v + 1] = std::ssize(row);
      if (!type.has_edge_ids) continue;
      for (const EdgeEntry& edge : row) used.use(edge.id);
    }
  });
  report(progress, options.step, num_rows, 2 * num_rows);
  std::partial_sum(indptr.begin(), indptr.end(), indptr.begin());
  used.count();
  const std::int64_t num_edges = indptr.back();
  std::int64_t place_bound = num_edges;
  Csc csc{.indptr = std::move(indptr),
          .indices = make_id_array(num_edges, options.num_sources),
          .edge_id_kind = type.has_edge_ids ? EdgeIds::kStored : EdgeIds::kNone,
          .edge_ids = {}};
  if (type.has_edge_ids) csc.edge_ids = make_id_array(num_edges, num_edges);
  const auto places = std::make_shared<EdgePlaces>();
  if (has_attrs) {
    place_bound = std::max(place_bound, options.id_bound);  // at most as many places as old edges
    *places = {.indptr = csc.indptr, .of = make_id_array(num_edges, place_bound)};
  }
  const auto write = [&](auto& indices, auto& ids, auto& of) {
    parallel_ranges(options.threads, num_rows, [&](int, std::int64_t begin, std::int64_t end) {
      std::vector<EdgeEntry> row;
      for (std::int64_t v = begin; v < end; ++v) {
        row.clear();
        make(v, row);
        for (std::int64_t k = 0, at = csc.indptr[v]; k < std::ssize(row); ++k, ++at) {
          indices[at] = static_cast<std::decay_t<decltype(indices[0])>>(row[k].source);
          if (type.has_edge_ids)
            ids[at] = static_cast<std::decay_t<decltype(ids[0])>>(used.number(row[k].id));
          if (has_attrs) of[at] = static_cast<std::decay_t<decltype(of[0])>>(row[k].place);
        }
      }
    });
  };
  std::visit(write, csc.indices, csc.edge_ids, places->of);
  edges.csc = std::move(csc);
  edges.attrs.clear();
  for (const AttrMeta& attr : type.attrs) {
    const auto fill = options.fill.find(attr.name);
    edges.attrs.push_back(placed_attr(options.dataset, options.edge_type, attr, places,
                                      fill == options.fill.end() ? std::vector<std::byte>() : fill->second));
  }
  report(progress, options.step, 2 * num_rows, 2 * num_rows);
}

ReversedRows::ReversedRows(const StoredRows& rows, std::int64_t num_sources, int threads,
                           const Progress& progress)
    : rows_(rows) {
  const Csc& csc = rows.csc();
  IdArray destinations = make_id_array(csc.num_edges(), csc.num_rows());
  std::visit(
      [&](auto& out) {
        parallel_ranges(threads, csc.num_rows(), [&](int, std::int64_t begin, std::int64_t end) {
          for (std::int64_t v = begin; v < end; ++v)
            std::fill(out.begin() + csc.indptr[v], out.begin() + csc.indptr[v + 1],
                      static_cast<std::decay_t<decltype(out[0])>>(v));
        });
      },
      destinations);
  csc_ = edges_to_csc(view(destinations), view(csc.indices),
                      {.sources = csc.num_rows(), .destinations = num_sources},
                      {.keep_edge_ids = true, .threads = threads, .origin = "the reversed edges"}, progress);
}

void ReversedRows::read(std::int64_t row, std::vector<EdgeEntry>& out) const {
  const Csc& csc = rows_.csc();
  const std::int64_t begin = csc_.indptr[row], end = csc_.indptr[row + 1];
  const auto first = static_cast<std::ptrdiff_t>(out.size());
  std::visit(
      [&](const auto& destinations, const auto& positions) {
        for (std::int64_t at = begin; at < end; ++at) {
          const std::int64_t destination = destinations[at], position = positions[at];
          out.push_back({.source = destination,
                         .id = position,
                         .place = rows_.place(destination) + position - csc.indptr[destination]});
        }
      },
      csc_.indices, csc_.edge_ids);
  if (csc.edge_id_kind != EdgeIds::kStored) return;
  std::visit(
      [&](const auto& ids) {
        for (auto edge = out.begin() + first; edge != out.end(); ++edge) edge->id = ids[edge->id];
      },
      csc.edge_ids);
  std::sort(out.begin() + first, out.end(),
            [](const EdgeEntry& a, const EdgeEntry& b) { return a.id < b.id; });
}

void keep_first_of_pairs(std::vector<EdgeEntry>& row, std::vector<std::int64_t>& scratch) {
  scratch.resize(row.size());
  std::iota(scratch.begin(), scratch.end(), 0);
  std::ranges::sort(scratch, [&](std::int64_t a, std::int64_t b) {
    return row[a].source != row[b].source ? row[a].source < row[b].source : a < b;
  });
  const auto again = std::ranges::unique(
      scratch, [&](std::int64_t a, std::int64_t b) { return row[a].source == row[b].source; });
  if (again.empty()) return;
  scratch.erase(again.begin(), again.end());
  std::ranges::sort(scratch);
  for (std::size_t i = 0; i < scratch.size(); ++i) row[i] = row[scratch[i]];
  row.resize(scratch.size());
}

}  // namespace hopfeed
