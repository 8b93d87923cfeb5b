// See link_fields.h.
#include "core/seeds/link_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "core/batch/field_names.h"

namespace hopfeed {
namespace {

namespace field = batch_field;

void append(const std::vector<std::int64_t>& from, std::vector<std::int64_t>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

/// The links that strict negatives must not be. Those in ranges are asked for, all of them.
KnownLinks LinkFields::known_links(const Dataset& dataset, const LinkList& list) {
  if (!list.in_ranges()) return KnownLinks(list.pairs());
  const SplitEntries all = whole_split(dataset, Store::kEdge, list.edge_type(), list.split());
  std::vector<std::int64_t> pairs;
  pairs.reserve(2 * all.originals.size());
  for (std::size_t i = 0; i < all.originals.size(); ++i)
    pairs.insert(pairs.end(), {all.originals[i], all.destination_originals[i]});
  return KnownLinks(pairs);
}

LinkFields::LinkFields(const Dataset& dataset, const LinkList& list, const BatchOptions& options)
    : dataset_(dataset),
      list_(list),
      options_(options.link),
      trees_(options.trees()),
      timed_(!options.time.empty()),
      src_type_(dataset.csc(list.edge_type()).src_type),
      dst_type_(dataset.csc(list.edge_type()).dst_type),
      peer_ids_(dataset) {
  require_valid(
      options_.on(),
      fmt::format("the options ask for nodes as seeds, and links are given; name their edge type ({})",
                  marked("link")));
  check();
  if (options_.exclude == Exclude::kReverse) find_reverse();
  if (options_.negatives.mode == NegativeMode::kNone) return;
  if (options_.negatives.strict) check_links(dataset, list.edge_type(), list.pairs(), list.file());
  negatives_.emplace(dataset, list.edge_type(), options,
                     options_.negatives.strict ? known_links(dataset, list) : KnownLinks());
}

void LinkFields::check() const {
  require_valid(
      !timed_ || list_.has_times(),
      fmt::format("sampling by time needs the time of each link; give times ({}), or a split that has them",
                  marked("links.times")));
  require_valid(!triplet() || !list_.has_labels(),
                "triplets have no labels, since their destinations are told apart by name; leave the labels "
                "out, or choose binary");
  require_valid(options_.negatives.mode != NegativeMode::kBinary || list_.smallest_label() >= 0,
                marked_file("links.labels") +
                    "a label of the links is below 0, and negatives have label 0; give labels of 0 or more");
}

// Against a damaged file: its links were checked by nobody yet.
void LinkFields::check_batch(const LinkList::Positions& positions) const {
  const std::int64_t sources = dataset_.num_nodes(src_type_), destinations = dataset_.num_nodes(dst_type_);
  const auto outside = [](std::int64_t id, std::int64_t count) { return id < 0 || id >= count; };
  for (std::size_t i = 0; i < positions.sources.size(); ++i)
    if (outside(positions.sources[i], sources) || outside(positions.destinations[i], destinations))
      check_links(dataset_, list_.edge_type(), list_.pairs(), list_.file());  // throws, and names the first
}

void LinkFields::find_reverse() {
  reverse_type_ = dataset_.meta().reverse_edge_type(list_.edge_type());
  if (reverse_type_ < 0 && src_type_ == dst_type_) reverse_type_ = list_.edge_type();
  const std::string name = dataset_.meta().edge_types[list_.edge_type()].folder();
  require_valid(reverse_type_ >= 0,
                fmt::format("edge type '{}' has no reverse in {}, so exclude reverse has no meaning; name it "
                            "where it is imported "
                            "(rev_of), make one with hopfeed-partition to-undirected, or choose exclude self",
                            name, dataset_.folder().string()));
}

bool LinkFields::labelled() const {
  return !triplet() && (list_.has_labels() || options_.negatives.mode == NegativeMode::kBinary);
}

std::span<const TypedSeeds> LinkFields::seeds(const BatchKey& key) {
  const Made& made = made_.take(key, [this](const BatchKey& of, Made& it) { make(of, it); });
  return {made.seeds.data(), num_types()};
}

void LinkFields::expect(const BatchKey& key) {
  made_.expect(key, [this](const BatchKey& of, Made& made) { make(of, made); });
}

void LinkFields::make(const BatchKey& key, Made& made) {
  list_.links(key, made.positions);
  if (list_.in_ranges()) ask_links(made);
  check_batch(made.positions);
  if (negatives_)
    negatives_->draw({.key = key,
                      .sources = made.positions.sources,
                      .times = timed_ ? std::span<const std::int64_t>(made.positions.times)
                                      : std::span<const std::int64_t>(),
                      .input_id = made.positions.input_id},
                     made.drawn);
  made.sources = made.positions.sources;
  made.sources.insert(made.sources.end(), made.drawn.sources.begin(), made.drawn.sources.end());
  made.destinations = made.positions.destinations;
  made.destinations.insert(made.destinations.end(), made.drawn.destinations.begin(),
                           made.drawn.destinations.end());
  trees_ ? seed_apart(made) : seed_together(made);
  const std::size_t num_entries = num_types();
  for (std::size_t i = 0; i < num_entries; ++i)
    made.entries[i].ids.assign(made.entries[i].originals.size(), -1);
  if (list_.in_ranges()) take_ids_of_links(made);
  for (std::size_t i = 0; i < num_entries; ++i) ask_ids_left(i, made);
  peer_ids_.take();
  for (std::size_t i = 0; i < num_entries; ++i) {
    Entry& entry = made.entries[i];
    for (std::size_t k = 0; k < entry.left.size(); ++k) entry.ids[entry.left[k]] = entry.left_ids[k];
    made.seeds[i] = {.node_type = type_of(i), .ids = entry.ids, .times = entry.times};
  }
  if (options_.exclude != Exclude::kNone) exclude_links(made);
}

// The links of the batch, which lie in ranges at the partitions.
void LinkFields::ask_links(Made& made) {
  peer_ids_.ask_split(Store::kEdge, list_.edge_type(), list_.split(), made.positions.input_id, made.links);
  peer_ids_.take();
  made.positions.sources = made.links.originals;
  made.positions.destinations = made.links.destination_originals;
  made.positions.labels = made.links.labels;
  made.positions.times = made.links.times;
}

// They came with the links.
void LinkFields::take_ids_of_links(Made& made) const {
  Entry &of_sources = made.entries[0], &of_destinations = made.entries[num_types() - 1];
  for (std::size_t l = 0; l < made.links.ids.size(); ++l) {
    of_sources.ids[static_cast<std::size_t>(made.source_locals[l])] = made.links.ids[l];
    of_destinations.ids[static_cast<std::size_t>(made.destination_locals[l])] = made.links.destination_ids[l];
  }
}

void LinkFields::ask_ids_left(std::size_t number, Made& made) {
  Entry& entry = made.entries[number];
  entry.left.clear();
  entry.left_originals.clear();
  for (std::size_t i = 0; i < entry.ids.size(); ++i) {
    if (entry.ids[i] >= 0) continue;
    entry.left.push_back(i);
    entry.left_originals.push_back(entry.originals[i]);
  }
  entry.left_ids.resize(entry.left.size());
  peer_ids_.ask_dataset_ids(type_of(number), entry.left_originals, entry.left_ids);
}

void LinkFields::exclude_links(Made& made) const {
  const Entry &of_sources = made.entries[0], &of_destinations = made.entries[num_types() - 1];
  made.excluded.begin(dataset_.num_edge_types());
  for (std::size_t l = 0; l < made.positions.sources.size(); ++l) {
    const std::int64_t source = of_sources.ids[static_cast<std::size_t>(made.source_locals[l])],
                       destination =
                           of_destinations.ids[static_cast<std::size_t>(made.destination_locals[l])];
    made.excluded.add(list_.edge_type(), source, destination);
    if (reverse_type_ >= 0) made.excluded.add(reverse_type_, destination, source);
  }
  made.excluded.finish();
}

// Each node once, in the order of original ids.
void LinkFields::seed_together(Made& made) {
  Ids& sources = made.entries[0].originals;
  const auto copy_places = [this](std::size_t first, std::size_t count, Ids& locals) {
    const std::span<const std::int64_t> places = ordered_.places().subspan(first, count);
    locals.assign(places.begin(), places.end());
  };
  sources = made.sources;
  if (src_type_ == dst_type_) {
    append(made.destinations, sources);
    ordered_.order(sources);
    copy_places(0, made.sources.size(), made.source_locals);
    copy_places(made.sources.size(), made.destinations.size(), made.destination_locals);
    return;
  }
  ordered_.order(sources);
  copy_places(0, made.sources.size(), made.source_locals);
  Ids& destinations = made.entries[1].originals;
  destinations = made.destinations;
  ordered_.order(destinations);
  copy_places(0, made.destinations.size(), made.destination_locals);
}

// Each end in a tree of its own; times go with the links, round and round over their negatives.
void LinkFields::seed_apart(Made& made) const {
  Entry &of_sources = made.entries[0],
        &of_destinations = src_type_ == dst_type_ ? made.entries[0] : made.entries[1];
  for (Entry& entry : made.entries) {
    entry.originals.clear();
    entry.times.clear();
  }
  const std::size_t links = made.positions.sources.size();
  const auto add = [&](const Ids& ids, Entry& entry, Ids& locals) {
    locals.resize(ids.size());
    std::iota(locals.begin(), locals.end(), std::ssize(entry.originals));
    append(ids, entry.originals);
    for (std::size_t l = 0; timed_ && l < ids.size(); ++l)
      entry.times.push_back(made.positions.times[l % links]);
  };
  add(made.sources, of_sources, made.source_locals);
  add(made.destinations, of_destinations, made.destination_locals);
}

void LinkFields::write_owners(std::span<const std::int64_t> trees, std::int64_t* out) const {
  const Made& made = made_.now();
  const std::int64_t sources = std::ssize(made.sources), links = std::ssize(made.positions.sources);
  for (const std::int64_t tree : trees) *out++ = (tree < sources ? tree : tree - sources) % links;
}

std::vector<SeedCount> LinkFields::most_seeds(std::int64_t positions) const {
  const std::int64_t negatives = options_.negatives.count(positions),
                     sources = positions + (triplet() ? 0 : negatives), destinations = positions + negatives;
  if (src_type_ == dst_type_) return {{.node_type = src_type_, .count = sources + destinations}};
  return {{.node_type = src_type_, .count = sources}, {.node_type = dst_type_, .count = destinations}};
}

void LinkFields::lay_out(Store store, int type, const SeedRoom& room, BlockWriter& out,
                         SeedArrays& at) const {
  if (store != Store::kEdge || type != list_.edge_type()) return;
  const auto add = [&](std::string_view name, const BlockShape& shape,
                       ElementType element = ElementType::kInt64) {
    return out.add({.name = name, .store = store, .type = type, .element = element, .shape = shape});
  };
  const std::int64_t links = room.positions, all = links + options_.negatives.count(links);
  at.input_id = add(field::kInputId, {links});
  if (triplet()) {
    at.src_index = add(field::kSrcIndex, {links});
    at.dst_pos_index = add(field::kDstPosIndex, {links});
    at.dst_neg_index = all == 2 * links ? add(field::kDstNegIndex, {links})
                                        : add(field::kDstNegIndex, {links, (all - links) / links});
    if (timed_) at.seed_time = add(field::kSeedTime, {links});
  } else {
    at.edge_label_index = add(field::kEdgeLabelIndex, {2, all});
    if (labelled())
      at.edge_label =
          add(field::kEdgeLabel, {all}, list_.has_labels() ? ElementType::kInt64 : ElementType::kFloat32);
    if (timed_) at.edge_label_time = add(field::kEdgeLabelTime, {all});
  }
  if (options_.negatives.strict) at.num_negative_retries = add(field::kNumNegativeRetries, {});
}

void LinkFields::write(const Sample& /*sample*/, const SeedArrays& at, BlockWriter& out) const {
  const Made& made = made_.now();
  std::ranges::copy(made.positions.input_id, out.data<std::int64_t>(at.input_id));
  if (at.num_negative_retries >= 0) *out.data<std::int64_t>(at.num_negative_retries) = made.drawn.retries;
  triplet() ? write_triplets(at, out) : write_labels(at, out);
}

void LinkFields::write_labels(const SeedArrays& at, BlockWriter& out) const {
  const Made& made = made_.now();
  auto* index = out.data<std::int64_t>(at.edge_label_index);
  std::ranges::copy(made.destination_locals, std::ranges::copy(made.source_locals, index).out);
  const std::size_t links = made.positions.sources.size(), all = made.sources.size();
  if (at.edge_label_time >= 0) {
    auto* times = out.data<std::int64_t>(at.edge_label_time);
    for (std::size_t l = 0; l < all; ++l) times[l] = made.positions.times[l % links];
  }
  if (at.edge_label < 0) return;
  if (!list_.has_labels()) {
    auto* labels = out.data<float>(at.edge_label);
    std::fill_n(std::fill_n(labels, links, 1.0F), all - links, 0.0F);
    return;
  }
  // Label 0 is that of negatives: where a user has it too, all of his move up by one, as PyG's do.
  const bool shift = options_.negatives.mode == NegativeMode::kBinary && list_.smallest_label() == 0;
  auto* labels = out.data<std::int64_t>(at.edge_label);
  for (std::size_t l = 0; l < links; ++l) labels[l] = made.positions.labels[l] + (shift ? 1 : 0);
  std::fill_n(labels + links, all - links, 0);
}

// A row of `dst_neg_index` has the negatives of its link.
void LinkFields::write_triplets(const SeedArrays& at, BlockWriter& out) const {
  const Made& made = made_.now();
  const std::size_t links = made.positions.sources.size(), each = made.destinations.size() / links - 1;
  std::ranges::copy(made.source_locals, out.data<std::int64_t>(at.src_index));
  std::copy_n(made.destination_locals.begin(), links, out.data<std::int64_t>(at.dst_pos_index));
  auto* negatives = out.data<std::int64_t>(at.dst_neg_index);
  for (std::size_t i = 0; i < links; ++i)
    for (std::size_t k = 0; k < each; ++k)
      negatives[i * each + k] = made.destination_locals[(k + 1) * links + i];
  if (at.seed_time >= 0) std::ranges::copy(made.positions.times, out.data<std::int64_t>(at.seed_time));
}

std::size_t LinkFields::bytes() const { return table_bytes() + made_.bytes() + ordered_.bytes(); }

std::size_t LinkFields::Made::bytes() const {
  std::size_t numbers = 0;
  for (const Ids* list :
       {&positions.input_id, &positions.sources, &positions.destinations, &positions.labels, &positions.times,
        &links.originals, &links.ids, &links.destination_originals, &links.destination_ids, &links.labels,
        &links.times, &sources, &destinations, &source_locals, &destination_locals})
    numbers += list->capacity();
  return excluded.bytes() + drawn.bytes() + entries[0].bytes() + entries[1].bytes() +
         numbers * sizeof(std::int64_t);
}

std::size_t LinkFields::Entry::bytes() const {
  return sizeof(std::int64_t) * (originals.capacity() + ids.capacity() + times.capacity() + left.capacity() +
                                 left_originals.capacity() + left_ids.capacity());
}

std::size_t LinkFields::scratch_bytes(std::int64_t positions) const {
  std::int64_t numbers = (6 + 6) * positions;  // what the list gives, and what links in ranges bring
  std::size_t most = 0;
  for (const SeedCount& entry : most_seeds(positions)) {
    numbers += 8 * entry.count;  // ends, their locals, entries
    most = std::max(most, static_cast<std::size_t>(entry.count));
  }
  std::size_t bytes =
      2 * sizeof(std::int64_t) * static_cast<std::size_t>(numbers) +  // of vectors that grew
      NegativeDraws::Negatives::max_bytes(options_.negatives.count(positions), options_.negatives.strict);
  if (!trees_) bytes += OrderedIds::max_bytes(most);
  if (options_.exclude != Exclude::kNone)
    bytes += ExcludedEdges::max_bytes(dataset_.num_edge_types(),
                                      static_cast<std::size_t>(positions) * (reverse_type_ < 0 ? 1 : 2));
  return bytes;
}

}  // namespace hopfeed
