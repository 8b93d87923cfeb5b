// See kept_links.h.
#include "partition_tool/kept_links.h"

#include <algorithm>
#include <memory>

namespace hopfeed {
namespace {

constexpr std::int64_t kBlockLinks = 1 << 16;

/// Gives all of `pairs` in blocks. A negative has the time of the positive of its number.
void give_blocks(const IdArray& pairs, const KeptLinks& links, std::int64_t label,
                 const std::function<void(const LinkBlock&)>& take) {
  std::visit(
      [&](const auto& ids) {
        std::vector<std::int64_t> block, labels, times;
        const std::int64_t count = std::ssize(ids) / 2;
        for (std::int64_t first = 0; first < count; first += kBlockLinks) {
          const std::int64_t links_here = std::min(kBlockLinks, count - first);
          block.assign(ids.begin() + 2 * first, ids.begin() + 2 * (first + links_here));
          labels.assign(links.with_labels ? links_here : 0, label);
          times.resize(links.times.empty() ? 0 : links_here);
          for (std::size_t i = 0; i < times.size(); ++i)
            times[i] = links.times[(first + static_cast<std::int64_t>(i)) % std::ssize(links.times)];
          take({.pairs = block, .labels = labels, .times = times});
        }
      },
      pairs);
}

}  // namespace

RawLinks raw_links_of(KeptLinks links) {
  const auto kept = std::make_shared<const KeptLinks>(std::move(links));
  return {.count = (id_count(view(kept->pairs)) + id_count(view(kept->negatives))) / 2,
          .has_labels = kept->with_labels,
          .has_times = !kept->times.empty(),
          .read = [kept](const RawEdges&, const std::function<void(const LinkBlock&)>& take) {
            give_blocks(kept->pairs, *kept, 1, take);
            give_blocks(kept->negatives, *kept, 0, take);
          }};
}

RawLinks links_of_rows(std::int64_t positives, bool undirected, const std::string& time, IdArray negatives,
                       bool with_labels) {
  const auto kept = std::make_shared<const IdArray>(std::move(negatives));
  return {.count = positives + id_count(view(*kept)) / 2,
          .has_labels = with_labels,
          .has_times = !time.empty(),
          .read = [kept, undirected, time, with_labels](const RawEdges& of,
                                                        const std::function<void(const LinkBlock&)>& take) {
            const auto attr = std::ranges::find(of.attrs, time, &RawEdgeAttr::name);
            std::vector<std::int64_t> pairs, labels, times, ids, row_times;
            const auto flush = [&](std::int64_t label) {
              labels.assign(with_labels ? pairs.size() / 2 : 0, label);
              take({.pairs = pairs, .labels = labels, .times = times});
              pairs.clear();
              times.clear();
            };
            std::vector<std::int64_t> all_times;  // only where negatives need them again
            const Csc& csc = of.csc;
            std::visit(
                [&](const auto& sources) {
                  for (std::int64_t v = 0; v < csc.num_rows(); ++v) {
                    const std::int64_t begin = csc.indptr[v], degree = csc.indptr[v + 1] - begin;
                    if (!time.empty()) {
                      csc.read_edge_ids(v, ids);
                      row_times.resize(degree);
                      attr->read_rows(v, ids, std::as_writable_bytes(std::span(row_times)));
                    }
                    for (std::int64_t k = 0; k < degree; ++k) {
                      if (undirected && sources[begin + k] > v) continue;
                      pairs.insert(pairs.end(), {sources[begin + k], v});
                      if (!time.empty()) times.push_back(row_times[k]);
                      if (!time.empty() && id_count(view(*kept)) > 0) all_times.push_back(row_times[k]);
                    }
                    if (std::ssize(pairs) >= 2 * kBlockLinks) flush(1);
                  }
                },
                csc.indices);
            flush(1);
            give_blocks(
                *kept,
                {.pairs = {}, .negatives = {}, .times = std::move(all_times), .with_labels = with_labels}, 0,
                take);
          }};
}

}  // namespace hopfeed
