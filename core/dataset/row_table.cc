// See row_table.h.
#include "core/dataset/row_table.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/base/parallel_ranges.h"

namespace hopfeed {
namespace {

template <class Id>
void require_rows(const RowTable& table, std::span<const Id> ids, const std::string& path) {
  if (!are_rows(table, ids))
    throw Error(ErrorCode::kCorrupt, path + ": neighbours that are no nodes; run hopfeed-partition verify");
}

/// Reducer reduces the sources' rows of each row into what `out` has of it. Rows are shared out among
/// threads, and each is one thread's: its numbers do not depend on how many there are.
template <class Number, class Id>
struct Reducer {
  static constexpr std::size_t kRun = 256;  // edges whose sum has the elements' own precision

  const RowTable& table;
  std::span<const std::int64_t> bounds;
  const Id* sources;      // from bounds.front() on
  const Number* weights;  // likewise, or null
  Reduction reduction;
  std::size_t width;
  Number* out;

  void run(std::size_t threads) const {
    const std::size_t rows = bounds.size() - 1;
    const auto shares = static_cast<std::int64_t>(std::min(std::max<std::size_t>(threads, 1), rows));
    parallel_ranges(static_cast<int>(shares), shares, [&](int, std::int64_t begin, std::int64_t end) {
      reduce(cut(begin, shares), cut(end, shares));
    });
  }

 private:
  /// Returns the first row of a share; all have about as many edges.
  std::size_t cut(std::int64_t share, std::int64_t shares) const {
    if (share == shares) return bounds.size() - 1;
    const std::int64_t edge = bounds.front() + (bounds.back() - bounds.front()) / shares * share;
    return static_cast<std::size_t>(std::lower_bound(bounds.begin(), bounds.end() - 1, edge) -
                                    bounds.begin());
  }
  std::size_t edge(std::size_t row) const { return static_cast<std::size_t>(bounds[row] - bounds.front()); }

  void reduce(std::size_t begin, std::size_t end) const {
    PlacesAhead<Id> places(table, {sources + edge(begin), sources + edge(end)}, width * sizeof(Number));
    std::vector<Number> run(width);
    std::vector<double> total(width);
    for (std::size_t row = begin; row < end; ++row) {
      Number* const to = out + row * width;
      const std::size_t first = edge(row), last = edge(row + 1);
      if (reduction == Reduction::kSum && last - first > kRun) {
        std::copy_n(to, width, total.begin());
        for (std::size_t e = first; e < last; ++e) {
          add(run.data(), places, e);
          if ((e - first) % kRun != kRun - 1 && e + 1 != last) continue;
          for (std::size_t i = 0; i < width; ++i) total[i] += static_cast<double>(run[i]), run[i] = 0;
        }
        std::transform(total.begin(), total.end(), to, [](double sum) { return static_cast<Number>(sum); });
      } else {
        for (std::size_t e = first; e < last; ++e) add(to, places, e);
      }
    }
  }

  void add(Number* to, PlacesAhead<Id>& places, std::size_t e) const {
    const auto* const from = reinterpret_cast<const Number*>(places.next());
    const Number weight = weights == nullptr ? Number{1} : weights[e];
    switch (reduction) {
      case Reduction::kSum:
        for (std::size_t i = 0; i < width; ++i) to[i] += weight * from[i];
        break;
      case Reduction::kMax:
        for (std::size_t i = 0; i < width; ++i) to[i] = larger(weight * from[i], to[i]);
        break;
      case Reduction::kMin:
        for (std::size_t i = 0; i < width; ++i) to[i] = -larger(-(weight * from[i]), -to[i]);
        break;
    }
  }
  /// NaN where one of them is.
  static Number larger(Number a, Number b) { return a > b || a != a ? a : b; }
};

}  // namespace

void gather_rows(const RowTable& table, std::span<const std::int64_t> ids, std::size_t bytes,
                 std::byte* out) {
  require_rows(table, ids, "rows");
  PlacesAhead<std::int64_t> places(table, ids, bytes);
  for (std::size_t i = 0; i < ids.size(); ++i) std::memcpy(out + i * bytes, places.next(), bytes);
}

template <class Number>
void reduce_rows(const RowTable& table, const InEdges& edges, const Number* weights, Reduction reduction,
                 std::size_t width, Number* out, std::size_t threads) {
  const std::span<const std::int64_t> bounds = edges.offsets;
  if (bounds.front() < 0 || bounds.back() > edges.count || !std::is_sorted(bounds.begin(), bounds.end()))
    throw Error(ErrorCode::kCorrupt,
                edges.path + ": row offsets that are outside the graph; run hopfeed-partition verify");
  const auto run = [&]<class Id>(const Id* sources) {
    const Reducer<Number, Id> reducer{.table = table,
                                      .bounds = bounds,
                                      .sources = sources + bounds.front(),
                                      .weights = weights,
                                      .reduction = reduction,
                                      .width = width,
                                      .out = out};
    require_rows<Id>(table, {sources + bounds.front(), sources + bounds.back()}, edges.path);
    reducer.run(threads);
  };
  edges.type == ElementType::kInt32 ? run(static_cast<const std::int32_t*>(edges.sources))
                                    : run(static_cast<const std::int64_t*>(edges.sources));
}

template void reduce_rows<float>(const RowTable&, const InEdges&, const float*, Reduction, std::size_t,
                                 float*, std::size_t);
template void reduce_rows<double>(const RowTable&, const InEdges&, const double*, Reduction, std::size_t,
                                  double*, std::size_t);

}  // namespace hopfeed
