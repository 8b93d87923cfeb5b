// See node_fields.h.
#include "core/seeds/node_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/batch/field_names.h"
#include "core/sampler/peer_rows.h"
#include "core/seeds/nodes_by_time.h"

namespace hopfeed {

namespace field = batch_field;

NodeFields::NodeFields(const Dataset& dataset, const NodeList& list, const BatchOptions& options)
    : dataset_(dataset), list_(list), timed_(!options.time.empty()), peer_ids_(dataset) {
  require_valid(!options.link.on(), "the options ask for links as seeds, and nodes are given; give links");
  const std::string& seed_time = options.seed_time.empty() ? options.time : options.seed_time;
  const NodeTypeMeta& type = dataset.meta().node_types[static_cast<std::size_t>(list.node_type())];
  if (timed_ && !list.has_times() && options.seed_time.empty() && !find_attr(type.attrs, seed_time))
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("seeds of type '{}' have no attribute '{}' that is their time; name another of theirs "
                    "({}), or give the time of each ({})",
                    type.name, seed_time, marked("seed_time"), marked("seed_times")));
  if (timed_ && !list.has_times()) {
    node_times(dataset, list.node_type(), seed_time);  // throws where it is none
    time_ = seed_time;
  }
  if (!timed_ && list.has_times())
    throw Error(ErrorCode::kInvalid,
                fmt::format("seed times are given, but no time to sample by ({})", marked("time")));
  if (list.has_times() && !options.seed_time.empty())
    throw Error(ErrorCode::kInvalid,
                fmt::format("seed times are given and named as an attribute too ({}); leave one of them out",
                            marked("seed_time")));
}

std::span<const TypedSeeds> NodeFields::seeds(const BatchKey& key) {
  return {&made_.take(key, [this](const BatchKey& of, Made& made) { make(of, made); }).seeds, 1};
}

void NodeFields::expect(const BatchKey& key) {
  made_.expect(key, [this](const BatchKey& of, Made& made) { make(of, made); });
}

void NodeFields::make(const BatchKey& key, Made& made) {
  list_.seeds(key, made.positions);
  if (list_.in_ranges()) {
    peer_ids_.ask_split(Store::kNode, list_.node_type(), list_.split(), made.positions.input_id,
                        made.entries);
    peer_ids_.take();
    made.ids = made.entries.ids;
  } else {
    made.ids.resize(made.positions.original_id.size());
    peer_ids_.ask_dataset_ids(list_.node_type(), made.positions.original_id, made.ids);
    peer_ids_.take();
  }
  if (list_.has_times()) {
    made.times = made.positions.times;
  } else if (!time_.empty()) {
    made.times.resize(made.ids.size());
    gather_rows_of_all(dataset_, Store::kNode, list_.node_type(), time_, made.ids,
                       reinterpret_cast<std::byte*>(made.times.data()));
  }
  made.seeds = {.node_type = list_.node_type(), .ids = made.ids, .times = made.times};
}

std::vector<SeedCount> NodeFields::most_seeds(std::int64_t positions) const {
  return {{.node_type = list_.node_type(), .count = positions}};
}

void NodeFields::lay_out(Store store, int type, const SeedRoom& room, BlockWriter& out,
                         SeedArrays& at) const {
  if (store != Store::kNode || type != list_.node_type()) return;
  const auto add = [&](std::string_view name, const BlockShape& shape) {
    return out.add({.name = name, .store = store, .type = type, .shape = shape});
  };
  at.input_id = add(field::kInputId, {room.positions});
  at.batch_size = add(field::kBatchSize, {});
  if (room.seeds_repeat) at.seed_index = add(field::kSeedIndex, {room.positions});
  if (timed_) at.seed_time = add(field::kSeedTime, {room.positions});
}

void NodeFields::write(const Sample& sample, const SeedArrays& at, BlockWriter& out) const {
  const Made& made = made_.now();
  std::ranges::copy(made.positions.input_id, out.data<std::int64_t>(at.input_id));
  *out.data<std::int64_t>(at.batch_size) = sample.num_seeds;
  if (at.seed_index >= 0) std::ranges::copy(sample.seed_index, out.data<std::int64_t>(at.seed_index));
  if (at.seed_time >= 0) std::ranges::copy(made.times, out.data<std::int64_t>(at.seed_time));
}

std::size_t NodeFields::Made::bytes() const {
  std::size_t numbers = 0;
  for (const std::vector<std::int64_t>* list : {&positions.input_id, &positions.original_id, &positions.times,
                                                &ids, &times, &entries.originals, &entries.ids})
    numbers += list->capacity();
  return numbers * sizeof(std::int64_t);
}

std::size_t NodeFields::scratch_bytes(std::int64_t positions) const {
  return 16 * sizeof(std::int64_t) * static_cast<std::size_t>(positions);  // eight vectors that grew
}

}  // namespace hopfeed
