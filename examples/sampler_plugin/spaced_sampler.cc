// A sampler of one's own in forty lines: of each row it takes at most CAP neighbours, evenly spaced over the imported order, from a
// start that is drawn. It is built as a shared library, which loaders and workers load:
//
//   hopfeed-sample DATASET --plugin libspaced_sampler.so --sampler spaced --sampler-options 10 --fanouts 1,1
//
// --sampler-options is CAP; the number of --fanouts is the number of hops.
#include <algorithm>
#include <cstdlib>

#include "core/keyed_random.h"
#include "core/sampler_plugin.h"

namespace {

using namespace hopfeed;

class SpacedSampler : public CustomSampler {
 public:
  SpacedSampler(const Dataset& dataset, const BatchOptions& options)
      : cap_(std::strtoull(options.sampler_options.c_str(), nullptr, 10)), hops_(options.fanouts.size()) {
    if (cap_ < 1 || cap_ > 65'535 || dataset.num_edge_types() != 1)
      throw std::invalid_argument("give 1 to 65535 as sampler options, and a graph of one edge type");
    reader_ = std::make_unique<RowReader>(dataset, 0);
  }

  void sample(const SampleRequest& request, SampleBuilder& out) override {
    std::size_t begin = 0;
    for (std::size_t hop = 0; hop < hops_; ++hop, out.end_hop()) {
      const std::size_t end = out.nodes(0).size();  // the frontier: what the last hop added
      StreamOptions stream{.purpose = Purpose::kPlugin,
                           .seed = request.key.seed,
                           .epoch = request.key.epoch,
                           .first = request.key.first,
                           .hop = static_cast<std::uint32_t>(hop)};
      NodeStream draws{.key = stream_key(stream)};
      stream.hop += 1U << 16;  // draws that are refused go on in a stream of their own
      draws.retry_key = stream_key(stream);
      for (; begin < end; ++begin) {
        const Row row = reader_->row(out.nodes(0)[begin]);
        const std::uint64_t taken = std::min(row.degree, cap_);
        draws.node = static_cast<std::uint64_t>(row.original_id);
        const std::uint64_t start = row.degree > cap_ ? draw_below_wide(draws, 0, row.degree) : 0;
        for (std::uint64_t j = 0; j < taken; ++j) {
          const std::uint64_t i = (start + j * row.degree / taken) % row.degree;
          const std::uint32_t source = out.add_node(0, reader_->neighbor(row, i));
          out.add_edge(0, source, static_cast<std::uint32_t>(begin), row, i);
        }
      }
    }
  }

  std::size_t num_hops() const override { return hops_; }

  SampleBounds bounds(int, std::int64_t seeds) const override {
    SampleBounds bounds{.nodes = {seeds}, .edges = {0}, .seeds = seeds, .arrays = {}};
    for (std::int64_t frontier = seeds, hop = 0; hop < static_cast<std::int64_t>(hops_); ++hop) {
      frontier =
          std::min(saturating_product(frontier, static_cast<std::int64_t>(cap_)), reader_->csc().num_edges);
      bounds.edges[0] = saturating_sum(bounds.edges[0], frontier);
      bounds.nodes[0] = std::min(saturating_sum(bounds.nodes[0], frontier), reader_->csc().num_src_nodes);
    }
    return bounds;
  }

 private:
  const std::uint64_t cap_;
  const std::size_t hops_;
  std::unique_ptr<RowReader> reader_;
};

}  // namespace

HOPFEED_SAMPLER_PLUGIN("spaced", SpacedSampler)
