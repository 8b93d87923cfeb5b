// See generate_bipartite.h.
#include "partition_tool/generate_bipartite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/parallel_ranges.h"
#include "core/draws/keyed_random.h"
#include "partition_tool/edges_to_csc.h"
#include "partition_tool/graph_memory.h"
#include "partition_tool/planted_degrees.h"
#include "partition_tool/planted_ranks.h"

namespace hopfeed {
namespace {

// What a stream of random numbers is for: the `epoch` of its key. Others than those of generate.cc.
enum InteractionNumber : std::int64_t { kUserRanks = 16, kItemRanks = 17, kItems = 18, kTimes = 19 };

struct PlantedInteractions {
  BipartiteOptions options;
  PlantedRanks users, items;
  std::vector<std::int64_t> user_begin;  // [users + 1] number of each user's first interaction

  explicit PlantedInteractions(const BipartiteOptions& o)
      : options(o),
        users(o.num_users, {.seed = o.seed, .number = kUserRanks}),
        items(o.num_items, {.seed = o.seed, .number = kItemRanks}),
        user_begin(planted_rows(users, o.num_interactions)) {}

  std::int64_t time(std::int64_t interaction) const {
    NodeStream stream = planted_stream(options.seed, kTimes);
    stream.node = static_cast<std::uint64_t>(interaction);
    const RandomWords words = stream.words(0);
    return static_cast<std::int64_t>(high_product(std::uint64_t{words.word[1]} << 32 | words.word[0],
                                                  static_cast<std::uint64_t>(options.span)));
  }
};

/// The items of one user.
template <class Id>
void draw_items(const PlantedInteractions& planted, const std::vector<Id>& item_of, std::int64_t user,
                std::span<Id> row) {
  const BipartiteOptions& o = planted.options;
  NodeStream stream = planted_stream(o.seed, kItems);
  stream.node = static_cast<std::uint64_t>(user);
  draw_planted(stream,
               {.own = static_cast<std::uint64_t>(planted.users.rank(user) % o.num_tastes),
                .groups = static_cast<std::uint64_t>(o.num_tastes),
                .share = o.loyalty},
               item_of, row);
}

RawAttr taste_attr(const std::shared_ptr<const PlantedInteractions>& planted, const PlantedRanks& ranks) {
  return {.name = "taste",
          .type = ElementType::kInt64,
          .shape = {},
          .read_row = [planted, &ranks](std::int64_t node, std::span<std::byte> row) {
            const std::int64_t taste = ranks.rank(node) % planted->options.num_tastes;
            std::memcpy(row.data(), &taste, sizeof taste);
          }};
}

void write_time(const PlantedInteractions& planted, std::int64_t interaction, std::byte* out) {
  const std::int64_t time = planted.time(interaction);
  std::memcpy(out, &time, sizeof time);
}

void validate(const BipartiteOptions& o) {
  const auto in_range = [](const char* option, std::int64_t value, std::int64_t lo, std::int64_t hi) {
    require_valid(value >= lo && value <= hi,
                  fmt::format("{} {} is out of range ({} to {})", option, value, lo, hi));
  };
  in_range("--users", o.num_users, 1, kMaxNodes);
  in_range("--items", o.num_items, 1, kMaxNodes);
  in_range("--interactions", o.num_interactions, 0, kMaxEdges);
  in_range("--tastes", o.num_tastes, 1, std::min(o.num_users, o.num_items));
  in_range("--span", o.span, 1, std::int64_t{1} << 62);
  require_valid(o.loyalty >= 0 && o.loyalty <= 1,
                fmt::format("--loyalty {} is out of range (0 to 1)", o.loyalty));
}

/// Interactions by item: user and item of each, sorted.
template <class Id>
Csc rows_of_items(const PlantedInteractions& planted, const std::vector<Id>& item_of,
                  const Progress& progress) {
  const BipartiteOptions& o = planted.options;
  std::vector<Id> items(o.num_interactions);
  IdArray users = make_id_array(o.num_interactions, o.num_users);
  progress({"Drawing interactions", "users", 0, static_cast<std::uint64_t>(o.num_users)});
  std::visit(
      [&](auto& user_ids) {
        parallel_ranges(o.threads, o.num_users, [&](int, std::int64_t begin, std::int64_t end) {
          for (std::int64_t u = begin; u < end; ++u) {
            const std::int64_t first = planted.user_begin[u], count = planted.user_begin[u + 1] - first;
            draw_items(planted, item_of, u, std::span(items).subspan(first, count));
            std::fill_n(user_ids.begin() + first, count, static_cast<std::decay_t<decltype(user_ids[0])>>(u));
          }
        });
      },
      users);
  progress({"Drawing interactions", "users", static_cast<std::uint64_t>(o.num_users),
            static_cast<std::uint64_t>(o.num_users)});
  Csc csc = edges_to_csc(
      view(users), std::span<const Id>(items), {.sources = o.num_users, .destinations = o.num_items},
      {.keep_edge_ids = true, .threads = o.threads, .origin = "the interactions"}, progress);
  if (!o.keep_edge_ids) csc.edge_id_kind = EdgeIds::kHeld;  // times are read by them
  return csc;
}

}  // namespace

RawGraph generate_bipartite(const BipartiteOptions& options, const Progress& progress) {
  validate(options);
  // While they are sorted, interactions are there twice; ranks and their inverses, begins of the users' rows.
  want_memory(options.tell_memory,
              {.what = "the generated interactions",
               .knobs = "lower --interactions",
               .bytes = graph_bytes({.num_nodes = options.num_users}) +
                        graph_bytes({.num_nodes = options.num_items,
                                     .num_sources = options.num_users,
                                     .held_edges = options.num_interactions,
                                     .stored_edge_ids = true}) +
                        static_cast<std::uint64_t>(options.num_interactions) *
                            (id_bytes(options.num_users) + id_bytes(options.num_items))});
  const auto planted = std::make_shared<const PlantedInteractions>(options);
  RawGraph graph;
  graph.name = "generated interactions";
  graph.nodes = {
      {.name = "user", .count = options.num_users, .attrs = {taste_attr(planted, planted->users)}},
      {.name = "item", .count = options.num_items, .attrs = {taste_attr(planted, planted->items)}}};
  RawEdges interacts{
      .src_type = 0, .dst_type = 1, .rel = "interacts", .csc = {}, .attrs = {}, .times = {"time"}};
  RawEdges back{
      .src_type = 1, .dst_type = 0, .rel = "rev_interacts", .csc = {}, .attrs = {}, .times = {"time"}};
  back.rev_of = "user__interacts__item";
  std::visit(
      [&]<class Id>(const std::vector<Id>& item_of) {
        interacts.csc = rows_of_items(*planted, item_of, progress);
        back.csc.indptr = planted->user_begin;
        back.csc.make_row = MakeRow<Id>([planted, &item_of](std::int64_t user, std::span<Id> row) {
          draw_items(*planted, item_of, user, row);
        });
        back.csc.edge_id_kind = options.keep_edge_ids ? EdgeIds::kPositions : EdgeIds::kNone;
      },
      planted->items.node_of);
  interacts.attrs.push_back(
      {.name = "time",
       .type = ElementType::kInt64,
       .shape = {},
       .read_rows = [planted](std::int64_t, std::span<const std::int64_t> ids, std::span<std::byte> rows) {
         for (std::size_t i = 0; i < ids.size(); ++i) write_time(*planted, ids[i], rows.data() + 8 * i);
       }});
  back.attrs.push_back(
      {.name = "time",
       .type = ElementType::kInt64,
       .shape = {},
       .read_rows = [planted](std::int64_t user, std::span<const std::int64_t>, std::span<std::byte> rows) {
         for (std::size_t i = 0; i < rows.size() / 8; ++i)
           write_time(*planted, planted->user_begin[user] + static_cast<std::int64_t>(i),
                      rows.data() + 8 * i);
       }});
  graph.edges.push_back(std::move(interacts));
  graph.edges.push_back(std::move(back));
  return graph;
}

}  // namespace hopfeed
