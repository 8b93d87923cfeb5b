// See split_links.h.
#include "partition_tool/split_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "core/base/error.h"
#include "core/base/parallel_ranges.h"
#include "partition_tool/kept_links.h"
#include "partition_tool/link_choice.h"
#include "partition_tool/link_negatives.h"
#include "partition_tool/link_targets.h"
#include "partition_tool/read_dataset.h"
#include "partition_tool/rearranged_edges.h"

namespace hopfeed {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::kInvalid, message); }

/// One edge type on its way.
class LinkSplitter {
 public:
  LinkSplitter(const Dataset& dataset, RawGraph& graph, LinkTarget target, const LinkSplitOptions& options,
               const Progress& progress)
      : dataset_(dataset),
        graph_(graph),
        target_(target),
        options_(options),
        progress_(progress),
        meta_(dataset.meta().edge_types[target.type]),
        edges_(graph.edges[target.type]),
        num_sources_(graph.nodes[edges_.src_type].count),
        time_(link_time(meta_, options)),
        links_{.csc = edges_.csc, .undirected = options.is_undirected, .threads = options.threads} {}

  SplitType run();

 private:
  void require_new_splits(const LinkNumbers& numbers) const;
  void check_symmetry() const;
  LinkNumbers numbers_of(std::int64_t all) const;
  void choose();
  KeptLinks gather(LinkPart part) const;
  std::int64_t count(LinkPart part) const;
  IdArray negatives(std::int64_t positives, std::int64_t split);
  void add_splits();
  void filter(const HeldPairs& held);
  void filter_reverse(const HeldPairs& held);
  bool reverse_has_times() const;
  void replace(int type, const char* step, const MakeEntries& make);
  ReadTimes times_of(int type) const;
  void step(const char* what, std::uint64_t done) const { progress_({what, "steps", done, 4}); }

  const Dataset& dataset_;
  RawGraph& graph_;
  const LinkTarget target_;
  const LinkSplitOptions& options_;
  const Progress& progress_;
  const EdgeTypeMeta& meta_;
  RawEdges& edges_;
  const std::int64_t num_sources_;
  const std::string time_;
  const LinkEdges links_;
  std::vector<std::uint8_t> parts_;
  LinkTimes from_;  // by time
  SplitType result_;
};

void LinkSplitter::require_new_splits(const LinkNumbers& numbers) const {
  for (const auto& [name, made] :
       {std::pair{"train", true}, {"valid", numbers.valid > 0}, {"test", numbers.test > 0}}) {
    if (made && meta_.splits.contains(name))
      refuse(fmt::format("edge type {} has the edge split '{}' already", meta_.folder(), name));
  }
}

/// The times of each row, by place in the dataset.
ReadTimes LinkSplitter::times_of(int type) const {
  const auto rows = std::make_shared<const StoredRows>(dataset_, type, graph_.edges[type].csc);
  return [rows, stored = StoredAttr(dataset_, type, time_)](std::int64_t v,
                                                            std::vector<std::int64_t>& times) {
    times.resize(rows->csc().indptr[v + 1] - rows->csc().indptr[v]);
    for (std::size_t k = 0; k < times.size(); ++k)
      std::memcpy(&times[k], stored.at(rows->place(v) + static_cast<std::int64_t>(k)), sizeof(std::int64_t));
  };
}

/// Edges are there both ways exactly where --is-undirected says so: else v -> u would stay and tell of u ->
/// v.
void LinkSplitter::check_symmetry() const {
  if (edges_.src_type != edges_.dst_type) return;
  const ReadTimes read = options_.by == SplitBy::kTime ? times_of(target_.type) : ReadTimes();
  const char* when = read ? " at the same time" : "";
  const bool symmetric = edge_set_sum(links_, false, read) == edge_set_sum(links_, true, read);
  if (options_.is_undirected && !symmetric)
    refuse(
        fmt::format("--is-undirected: edge type {} has edges that are not there the other way round{}; run "
                    "hopfeed-partition to-undirected first",
                    meta_.folder(), when));
  if (!options_.is_undirected && symmetric && !only_loops(links_))
    refuse(fmt::format(
        "edge type {} has each edge the other way round too{}: {} --is-undirected, so that both leave the "
        "graph together",
        meta_.folder(), when, target_.reverse < 0 ? "give" : "import it without its reverse type and give"));
}

LinkNumbers LinkSplitter::numbers_of(std::int64_t all) const {
  LinkNumbers numbers{.valid = options_.num_val.of(all), .test = options_.num_test.of(all)};
  if (numbers.valid > all || numbers.test > all || numbers.valid + numbers.test >= all)
    refuse(fmt::format(
        "--num-val and --num-test ask for {} and {} of {} links of {}; none would be left to train on",
        numbers.valid, numbers.test, all, meta_.folder()));
  const std::int64_t train = all - numbers.valid - numbers.test;
  numbers.supervision = options_.disjoint_train.of(train);
  if (numbers.supervision >= train)
    refuse(fmt::format("--disjoint-train-ratio takes all {} training links of {} out of the graph", train,
                       meta_.folder()));
  return numbers;
}

void LinkSplitter::choose() {
  if (options_.by == SplitBy::kRandom) {
    const std::vector<std::int64_t> before = count_pairs(links_);
    const LinkNumbers numbers = numbers_of(before.back());
    require_new_splits(numbers);
    step("Choosing links", 1);
    parts_ = choose_randomly(links_, before, numbers, options_.seed);
    return;
  }
  const ReadTimes read = times_of(target_.type);
  const LinkNumbers numbers = numbers_of(count_links(links_));
  require_new_splits(numbers);
  const auto from = [&](std::int64_t wanted, std::int64_t count) {
    return wanted > 0 ? latest_links_from(links_, read, count) : std::nullopt;
  };
  from_.test = from(numbers.test, numbers.test);
  from_.valid = from(numbers.valid, numbers.test + numbers.valid);
  from_.supervision = from(numbers.supervision, numbers.test + numbers.valid + numbers.supervision);
  step("Choosing links", 1);
  parts_ = choose_by_time(links_, read, from_);
  for (const auto& [part, wanted, option] :
       {std::tuple{kTestPart, numbers.test, "--num-test"},
        {kValidPart, numbers.valid, "--num-val"},
        {kSupervisionPart, numbers.supervision, "--disjoint-train-ratio"}}) {
    if (wanted > 0 && count(part) == 0)
      refuse(fmt::format(
          "{} asks for {} links of {}, but more have the same time: links of one time stay together", option,
          wanted, meta_.folder()));
  }
}

std::int64_t LinkSplitter::count(LinkPart part) const { return std::ranges::count(parts_, part); }

/// The links of a part in the order of the rows.
KeptLinks LinkSplitter::gather(LinkPart part) const {
  const Csc& csc = edges_.csc;
  const ReadTimes read = time_.empty() ? ReadTimes() : times_of(target_.type);
  std::vector<std::int64_t> begins(options_.threads + 1);  // by worker
  const auto ranges = [&](const auto& body) { parallel_ranges(options_.threads, csc.num_rows(), body); };
  ranges([&](int worker, std::int64_t begin, std::int64_t end) {
    begins[worker + 1] =
        std::count(parts_.begin() + csc.indptr[begin], parts_.begin() + csc.indptr[end], part);
  });
  for (std::size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
  KeptLinks links{.pairs = make_id_array(2 * begins.back(), std::max(num_sources_, csc.num_rows())),
                  .negatives = {},
                  .times = std::vector<std::int64_t>(read ? begins.back() : 0)};
  std::visit(
      [&](auto& pairs, const auto& sources) {
        ranges([&](int worker, std::int64_t begin, std::int64_t end) {
          std::int64_t at = begins[worker];
          std::vector<std::int64_t> times;
          for (std::int64_t v = begin; v < end; ++v) {
            bool has_times = false;
            for (std::int64_t e = csc.indptr[v]; e < csc.indptr[v + 1]; ++e) {
              if (parts_[e] != part) continue;
              using Id = std::decay_t<decltype(pairs[0])>;
              pairs[2 * at] = static_cast<Id>(sources[e]);
              pairs[2 * at + 1] = static_cast<Id>(v);
              if (read && !has_times) read(v, times);
              has_times = true;
              if (read) links.times[at] = times[e - csc.indptr[v]];
              ++at;
            }
          }
        });
      },
      links.pairs, csc.indices);
  return links;
}

IdArray LinkSplitter::negatives(std::int64_t positives, std::int64_t split) {
  // Links of splits that were there before are no negatives either, whether they are edges or not.
  std::vector<std::pair<std::int64_t, std::int64_t>> known;
  for (const auto& [name, size] : meta_.splits) {
    const LinkSplit links = dataset_.edge_split(target_.type, name);
    for (std::int64_t i = 0; i < links.count(); ++i) {
      if (!links.labels.empty() && links.labels[i] == 0) continue;
      known.emplace_back(links.pairs[2 * i], links.pairs[2 * i + 1]);
      if (options_.is_undirected) known.emplace_back(links.pairs[2 * i + 1], links.pairs[2 * i]);
    }
  }
  std::ranges::sort(known);
  const auto count =
      static_cast<std::int64_t>(std::ceil(static_cast<double>(positives) * options_.neg_sampling_ratio));
  result_.negatives += count;
  return draw_negative_links(edges_.csc, known, count,
                             {.num_sources = num_sources_,
                              .square = edges_.src_type == edges_.dst_type,
                              .seed = options_.seed,
                              .edge_type = static_cast<std::uint32_t>(target_.type),
                              .split = split,
                              .threads = options_.threads,
                              .origin = meta_.folder()});
}

void LinkSplitter::add_splits() {
  const bool with_labels = options_.neg_sampling_ratio > 0;
  std::map<std::string, RawLinks>& splits = edges_.splits;
  const auto held = [&](const char* name, LinkPart part, std::int64_t number, bool labels) {
    KeptLinks links = gather(part);
    const std::int64_t positives = id_count(view(links.pairs)) / 2;
    links.with_labels = labels;
    if (labels) links.negatives = negatives(positives, number);
    if (positives > 0) splits[name] = raw_links_of(std::move(links));
    return positives;
  };
  result_.valid = held("valid", kValidPart, 1, with_labels);
  result_.test = held("test", kTestPart, 2, with_labels);
  const bool train_labels = with_labels && options_.add_negative_train_samples;
  if (count(kSupervisionPart) > 0) {
    result_.train = held("train", kSupervisionPart, 0, train_labels);
    return;
  }
  result_.train = count_links(links_) - result_.valid - result_.test;
  splits["train"] = links_of_rows(result_.train, options_.is_undirected, time_,
                                  train_labels ? negatives(result_.train, 0) : IdArray(), train_labels);
}

void LinkSplitter::replace(int type, const char* step, const MakeEntries& make) {
  RawEdges& edges = graph_.edges[type];
  rearrange({.dataset = dataset_,
             .edge_type = type,
             .num_rows = edges.csc.num_rows(),
             .num_sources = graph_.nodes[edges.src_type].count,
             .id_bound = edges.csc.num_edges(),
             .threads = options_.threads,
             .step = step},
            make, progress_, edges);
}

/// Appends the edges of a row for which keep(k-th of the row, edge) holds.
template <class Keep>
void keep_edges(const StoredRows& rows, std::int64_t v, std::vector<EdgeEntry>& out, const Keep& keep) {
  rows.read(v, out);
  std::size_t kept = 0;
  for (std::size_t k = 0; k < out.size(); ++k)
    if (keep(static_cast<std::int64_t>(k), out[k])) out[kept++] = out[k];
  out.resize(kept);
}

bool LinkSplitter::reverse_has_times() const {
  return has_time(dataset_.meta().edge_types[target_.reverse].attrs, time_);
}

void LinkSplitter::filter_reverse(const HeldPairs& held) {
  if (target_.reverse < 0) return;
  RawEdges& reverse = graph_.edges[target_.reverse];
  result_.reverse = graph_.edge_name(reverse);
  if (reverse.rev_of.empty() && edges_.rev_of.empty()) reverse.rev_of = graph_.edge_name(edges_);
  const std::int64_t before = reverse.csc.num_edges();
  const StoredRows rows(dataset_, target_.reverse, reverse.csc);
  if (options_.by == SplitBy::kTime && reverse_has_times()) {
    const ReadTimes read = times_of(target_.reverse);
    if (edge_set_sum({.csc = reverse.csc, .threads = options_.threads}, true, read) !=
        edge_set_sum(links_, false, times_of(target_.type)))
      refuse(fmt::format("{} does not hold the edges of {} the other way round at the same times",
                         result_.reverse, meta_.folder()));
    replace(target_.reverse, "Taking out reverse edges", [&](std::int64_t v, std::vector<EdgeEntry>& out) {
      thread_local std::vector<std::int64_t> times;
      read(v, times);
      keep_edges(rows, v, out,
                 [&](std::int64_t k, const EdgeEntry&) { return from_.part_of(times[k]) == kMessagePart; });
    });
  } else {  // all copies of a pair go, which is more than need to where a pair occurs at several times
    replace(target_.reverse, "Taking out reverse edges", [&](std::int64_t v, std::vector<EdgeEntry>& out) {
      keep_edges(rows, v, out,
                 [&](std::int64_t, const EdgeEntry& edge) { return !held.contains(v, edge.source); });
    });
  }
  result_.reverse_removed = before - reverse.csc.num_edges();
}

void LinkSplitter::filter(const HeldPairs& held) {
  if (options_.by == SplitBy::kRandom) mark_mirrors(links_, held, parts_);  // by time they have been chosen
  filter_reverse(held);  // first: it may compare with the edges as they were
  const StoredRows rows(dataset_, target_.type, edges_.csc);
  replace(target_.type, "Taking out held edges", [&](std::int64_t v, std::vector<EdgeEntry>& out) {
    keep_edges(rows, v, out, [&](std::int64_t k, const EdgeEntry&) {
      return parts_[edges_.csc.indptr[v] + k] == kMessagePart;
    });
  });
}

SplitType LinkSplitter::run() {
  result_ = {.edge_type = meta_.folder(), .reverse = "", .edges = edges_.csc.num_edges()};
  step("Choosing links", 0);
  check_symmetry();
  choose();
  step("Choosing links", 2);
  add_splits();
  step("Choosing links", 3);
  const HeldPairs held(links_, parts_, num_sources_);
  step("Choosing links", 4);
  filter(held);
  result_.message = edges_.csc.num_edges();
  return result_;
}

/// A type that has the same edges the other way round would give away what is held out, whatever it is
/// called.
void refuse_hidden_reverses(const RawGraph& graph, const std::vector<LinkTarget>& targets, int threads) {
  const auto sum = [&](int type, bool swapped) {
    return edge_set_sum({.csc = graph.edges[type].csc, .threads = threads}, swapped, ReadTimes());
  };
  for (const LinkTarget& target : targets) {
    const RawEdges& edges = graph.edges[target.type];
    std::optional<std::uint64_t> own;
    for (int t = 0; t < static_cast<int>(graph.edges.size()); ++t) {
      const RawEdges& other = graph.edges[t];
      if (t == target.type || t == target.reverse || other.src_type != edges.dst_type ||
          other.dst_type != edges.src_type || other.csc.num_edges() == 0)
        continue;
      if (!own) own = sum(target.type, false);
      if (sum(t, true) == *own)
        refuse(
            fmt::format("edge type {} has the edges of {} the other way round and would give away held-out "
                        "links: name it by --rev-edge-types",
                        graph.edge_name(other), graph.edge_name(edges)));
    }
  }
}

}  // namespace

SplitGraph split_links(const Dataset& dataset, const LinkSplitOptions& options, const Progress& progress) {
  if (!(options.neg_sampling_ratio >= 0) || options.neg_sampling_ratio > 1000)
    refuse(fmt::format("--neg-sampling-ratio {} is out of range (0 to 1000)", options.neg_sampling_ratio));
  const std::vector<LinkTarget> targets = link_targets(dataset.meta(), options);
  for (const LinkTarget& target : targets) link_time(dataset.meta().edge_types[target.type], options);
  SplitGraph split{.graph = read_dataset(dataset, options.threads, progress), .types = {}};
  refuse_hidden_reverses(split.graph, targets, options.threads);
  for (const LinkTarget& target : targets)
    split.types.push_back(LinkSplitter(dataset, split.graph, target, options, progress).run());
  return split;
}

}  // namespace hopfeed
