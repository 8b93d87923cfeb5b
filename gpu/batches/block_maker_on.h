// Makes batch blocks in a device's memory (host_backend.h says what a backend is): the sample stays there,
// and kernels write it into the slot beside gathered rows, so that nothing large passes through the host. The
// bytes are BatchMaker's. What the device does not sample (device_sampler.h) is a BatchMaker's whole batch,
// copied to the slot.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/quantised_rows.h"
#include "core/batch/aligned_block.h"
#include "core/maker/batch_source.h"
#include "core/maker/block_arrays.h"
#include "core/maker/block_maker.h"
#include "gpu/batches/device_room.h"
#include "gpu/batches/device_rows.h"
#include "gpu/batches/device_sampler.h"
#include "gpu/batches/slots_on.h"
#include "gpu/engine/hop_engine_on.h"
#include "gpu/kernels/block_kernels.h"
#include "gpu/memory/device_array.h"
#include "gpu/memory/device_memory_budget.h"

namespace hopfeed::gpu {

template <class Backend>
class BlockMakerOn final : public BlockMaker {
 public:
  /// All must outlive it; blocks are written into slots of `slots`. Throws what BatchMaker and the engine
  /// throw.
  BlockMakerOn(const Dataset& dataset, const BatchSource& source, const BatchOptions& options,
               const DeviceBlockOptions& device, SlotsOn<Backend>& slots,
               const typename Backend::Options& backend)
      : keeps_(device.keeps),
        dataset_(dataset),
        options_(options),
        slots_(slots),
        cpu_(source.maker(dataset, options)),
        parts_(cpu_.parts()),
        sampler_(dataset, options, sampler_options(device, backend)),
        node_bits_(options.trees() ? sampler_.node_bits() : 63) {
    if (engine_ == nullptr) own_backend_ = std::make_unique<Backend>(backend);
    const typename Backend::Scope scope(this->backend());
    memory_ = std::make_unique<Memory>(this->backend());
    for (int t = 0; t < dataset.num_node_types(); ++t) place_ids(t);
    if (engine_ != nullptr) place_all_rows(device);
    this->backend().wait();
  }

  void bound_scratch(std::shared_ptr<ScratchBudget> budget) override {
    cpu_.bound_scratch(std::move(budget));
  }
  std::size_t sample(const BatchKey& key, HeldShare /*held*/) override {
    const std::span<const TypedSeeds> seeds = parts_.seeds.seeds(key);
    key_before_ = std::exchange(key_, key);
    on_cpu_ = sampler_.sample_there({.key = key, .seeds = seeds, .excluded = parts_.seeds.excluded()},
                                    [this] { parts_.seeds.expect(next_key()); }) != Fallback::kNone;
    if (on_cpu_) return cpu_.sample(key);
    BlockArrays::count(sample_of(), key, counts_);
    parts_.features.most_rows(counts_.of, counts_.feature_rows);
    parts_.layout.lay_out(counts_, writer_, places_);
    return writer_.bytes();
  }

  void write(std::span<std::byte> block, const std::function<void()>& nearly_done) override {
    const typename Backend::Scope scope(backend());
    const auto offset = static_cast<std::size_t>(block.data() - slots_.host_data());
    block_ = slots_.data() + offset;
    slots_.before_write(offset, backend());
    if (on_cpu_) {
      cpu_.write(block, nearly_done);
      backend().copy(block_, block.data(), block.size());
    } else {
      write_host_part(block);
      large_.clear();
      for (int t = 0; t < dataset_.num_node_types(); ++t) write_nodes(t);
      for (int e = 0; e < dataset_.num_edge_types(); ++e) write_edges(e);
      gather();
      send_host_part(block);
      if (nearly_done) nearly_done();
    }
    backend().wait();
    if (!on_cpu_) count_rows();
  }

  void drop() override { cpu_.drop(); }
  std::span<const std::byte> written(std::span<const std::byte> block) override {
    const typename Backend::Scope scope(backend());
    copy_.resize(block.size());
    backend().copy(copy_.bytes().data(), block_, block.size());
    backend().wait();
    return copy_.bytes();
  }
  TierCounts tier_counts() const override {
    TierCounts counts = cpu_.tier_counts();
    return counts += rows_read_;
  }
  GpuUse gpu_use() const override {
    GpuUse use = sampler_.gpu_use();
    use.graph_bytes += ids_bytes_;
    use.rows_bytes = held_bytes_;
    use.rows = held_;
    return use;
  }

 private:
  template <class T>
  using Array = DeviceArray<Backend, T>;
  template <class T>
  using Pinned = DeviceArray<Backend, T, Where::kPinned>;

  /// Ids are the arrays of original ids of one node type, on the host and on the device.
  struct Ids {
    explicit Ids(Backend& b) : parts(b), offsets(b) {}
    std::vector<DeviceIdPart> host_parts;
    Array<DeviceIdPart> parts;
    Array<std::int64_t> offsets;
    DeviceIds view;
  };
  struct Memory {
    explicit Memory(Backend& b) : plain_ids(b), owners(b), sent(b), runs(b), host_bytes(b), host_runs(b) {}
    Array<std::int64_t> plain_ids, owners;
    Array<std::byte> sent;
    Array<HostRun> runs;
    Pinned<std::byte> host_bytes;
    Pinned<HostRun> host_runs;
    std::vector<std::unique_ptr<Ids>> ids;                   // [node types]
    std::vector<std::unique_ptr<DeviceRows<Backend>>> rows;  // [attributes]
  };

  DeviceSamplerOptions sampler_options(const DeviceBlockOptions& device,
                                       const typename Backend::Options& backend) {
    return {.place = device.place,
            .make_engine =
                [this, backend, free = device.free_bytes](EnginePlan plan) {
                  plan.free_bytes = free;
                  auto engine = std::make_unique<HopEngineOn<Backend>>(plan, backend);
                  engine_ = engine.get();
                  return engine;
                },
            .most_uncounted_edges = device.most_uncounted_edges,
            .hot = device.graph_cache,
            .results_on_device = true};
  }
  Backend& backend() { return engine_ != nullptr ? engine_->backend() : *own_backend_; }
  const Sample& sample_of() const { return sampler_.device_sample(); }
  std::uint64_t node_mask() const { return (std::uint64_t{1} << node_bits_) - 1; }

  /// Row records have the original ids of nodes that edges end at, and the engine has placed those.
  void place_ids(int t) {
    auto ids = std::make_unique<Ids>(backend());
    const std::vector<std::int64_t>& offsets =
        dataset_.meta().node_types[static_cast<std::size_t>(t)].partition_offsets;
    for (int p = 0; engine_ != nullptr && p < dataset_.meta().partitions; ++p) {
      const OriginalIds from = dataset_.original_ids(t, p);
      ids->host_parts.push_back(ids_on_device(from, p));
    }
    ids->parts.reserve(ids->host_parts.size());
    backend().copy(ids->parts.data(), ids->host_parts.data(), ids->host_parts.size() * sizeof(DeviceIdPart));
    ids->offsets.reserve(offsets.size());
    backend().copy(ids->offsets.data(), offsets.data(), offsets.size() * sizeof(std::int64_t));
    ids->view = {.parts = ids->parts.data(),
                 .partition_offsets = ids->offsets.data(),
                 .num_parts = static_cast<int>(ids->host_parts.size())};
    memory_->ids.push_back(std::move(ids));
  }
  DeviceIdPart ids_on_device(const OriginalIds& from, int p) {
    DeviceIdPart ids;
    ids.stride = from.stride;
    for (int e = 0; e < dataset_.num_edge_types(); ++e) {
      if (from.count == 0 ||
          &dataset_.csc(e).parts[static_cast<std::size_t>(p)].rows->original_id != from.first)
        continue;
      const DevicePart& part = engine_->part(static_cast<std::size_t>(e), static_cast<std::size_t>(p));
      ids.first = &part.rows->original_id;
      if (part.num_hot_rows > 0) ids.hot = &part.hot_rows->original_id;
      ids.num_hot = part.num_hot_rows;
      return ids;
    }
    const std::size_t bytes = static_cast<std::size_t>(from.count * from.stride) * sizeof(std::int64_t);
    ids.first =
        static_cast<const std::int64_t*>(engine_->backend().place_graph(from.first, bytes, engine_->place()));
    if (engine_->place() == GraphPlace::kDevice) ids_bytes_ += bytes;
    return ids;
  }

  void place_all_rows(const DeviceBlockOptions& device) {
    std::vector<BudgetedRows> of_nodes;
    for (std::size_t i = 0; i < parts_.features.size(); ++i) {
      const FeatureName& name = parts_.features.name(i);
      if (name.store != Store::kNode) continue;
      const AttrView attr = dataset_.attr(name.type, name.name);
      of_nodes.push_back({.partition_offsets = attr.partition_offsets, .row_bytes = attr.row_bytes});
    }
    const std::size_t taken = engine_->graph_bytes() + engine_->device_bytes() + ids_bytes_;
    if (device.cache.any())
      held_ = fit_share(device.cache, of_nodes, device.free_bytes - std::min(taken, device.free_bytes));
    held_bytes_ = held_bytes(held_, of_nodes);
    for (std::size_t i = 0; i < parts_.features.size(); ++i) place_rows(parts_.features.name(i));
  }

  void place_rows(const FeatureName& name) {
    const AttrView attr = name.store == Store::kNode ? dataset_.attr(name.type, name.name)
                                                     : dataset_.edge_attr(name.type, name.name);
    RowsPlan plan{
        .rows = {.parts = {attr.parts.begin(), attr.parts.end()},
                 .partition_offsets = {attr.partition_offsets.begin(), attr.partition_offsets.end()},
                 .row_bytes = attr.row_bytes,
                 .stride = attr.stride_bytes,
                 .type = attr.type,
                 .elements = attr.row_elements},
        .held = {},
        .place = GraphPlace::kHost};
    if (name.store == Store::kNode) plan.held = held_rows(held_, attr.partition_offsets);
    plan.sort_ids = !plan.all_held();  // reads over UVA wait for the GPU's page tables else
    memory_->rows.push_back(std::make_unique<DeviceRows<Backend>>(backend(), plan));
  }

  /// Returns the batch that is likely to be the next: as far behind this one as this one is behind the last.
  BatchKey next_key() const {
    BatchKey next = key_;
    const bool follows =
        key_before_.count > 0 && key_before_.epoch == key_.epoch && key_before_.first < key_.first;
    next.first += follows ? key_.first - key_before_.first : key_.count;
    return next;
  }

  template <class T>
  T* on_device(int array) {
    large_.push_back(array);
    return reinterpret_cast<T*>(block_ + writer_.entries()[static_cast<std::size_t>(array)].offset);
  }

  /// Writes head, gaps and small arrays into the host's memory of the slot.
  void write_host_part(std::span<std::byte> block) {
    const Sample& sample = sample_of();
    writer_.begin(parts_.layout.header(key_), block);
    parts_.seeds.write(sample, places_.seeds, writer_);
    for (std::size_t t = 0; t < places_.num_sampled_nodes.size(); ++t)
      std::ranges::copy(sample.nodes[t].per_hop, writer_.data<std::int64_t>(places_.num_sampled_nodes[t]));
    for (std::size_t e = 0; e < places_.num_sampled_edges.size(); ++e)
      std::ranges::copy(sample.edges[e].per_hop, writer_.data<std::int64_t>(places_.num_sampled_edges[e]));
  }

  void write_nodes(int t) {
    const auto type = static_cast<std::size_t>(t);
    const SampledNodes& nodes = sample_of().nodes[type];
    const std::uint64_t count = nodes.dataset_ids.size();
    backend().launch(count, WriteOriginalIds{nodes.dataset_ids.data(), node_mask(), nodes.original_ids.data(),
                                             nodes.original_ids.size(), memory_->ids[type]->view,
                                             on_device<std::int64_t>(places_.n_id[type])});
    if (options_.dataset_ids)
      backend().launch(count, WriteDatasetIds{nodes.dataset_ids.data(), node_mask(),
                                              on_device<std::int64_t>(places_.dataset_id[type])});
    if (!options_.trees()) return;
    if (t == 0) send_owners();
    backend().launch(count, WriteOwners{nodes.dataset_ids.data(), node_bits_, memory_->owners.data(),
                                        on_device<std::int64_t>(places_.batch[type])});
  }
  /// Sends whose tree each is, for every tree that there can be: one for each seed.
  void send_owners() {
    const auto trees = static_cast<std::size_t>(sample_of().num_seeds);
    trees_.resize(trees);
    for (std::size_t i = 0; i < trees; ++i) trees_[i] = static_cast<std::int64_t>(i);
    owners_.resize(trees);
    parts_.seeds.write_owners(trees_, owners_.data());
    memory_->owners.reserve(trees);
    backend().copy(memory_->owners.data(), owners_.data(), trees * sizeof(std::int64_t));
  }

  void write_edges(int e) {
    const auto type = static_cast<std::size_t>(e);
    const SampledEdges& edges = sample_of().edges[type];
    const std::uint64_t count = edges.sources.size();
    backend().launch(count, WriteEdgeIndex{edges.sources.data(), edges.targets.data(), count,
                                           on_device<std::int64_t>(places_.edge_index[type])});
    if (options_.edge_ids)
      backend().copy(on_device<std::int64_t>(places_.e_id[type]), edges.edge_ids.data(),
                     count * sizeof(std::int64_t));
  }

  void gather() {
    for (std::size_t i = 0; i < memory_->rows.size(); ++i) {
      const FeatureName& name = parts_.features.name(i);
      const auto type = static_cast<std::size_t>(name.type);
      const std::span<const std::int64_t> ids = name.store == Store::kEdge
                                                    ? sample_of().edges[type].positions
                                                    : sample_of().nodes[type].dataset_ids;
      const std::int64_t* plain = ids.data();
      if (name.store == Store::kNode && options_.trees()) {
        memory_->plain_ids.reserve(ids.size());
        backend().launch(ids.size(), WriteDatasetIds{ids.data(), node_mask(), memory_->plain_ids.data()});
        plain = memory_->plain_ids.data();
      }
      memory_->rows[i]->gather(plain, ids.size(), on_device<std::byte>(places_.features[i]));
    }
  }

  /// Sends all of the block that is no large array, in as few copies as there can be.
  void send_host_part(std::span<const std::byte> block) {
    std::ranges::sort(large_);
    runs_.clear();
    std::uint64_t from = 0, at = 0;
    const auto add = [&](std::uint64_t end) {
      if (end > at) runs_.push_back({.from = from, .to = at});
      from += end - at;
    };
    for (const int array : large_) {
      const BlockEntry& entry = writer_.entries()[static_cast<std::size_t>(array)];
      add(entry.offset);
      at = entry.offset + entry.bytes;
    }
    add(block.size());
    Memory& memory = *memory_;
    memory.host_bytes.reserve(from);
    memory.host_runs.reserve(runs_.size());
    std::ranges::copy(runs_, memory.host_runs.data());
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const std::uint64_t end = i + 1 < runs_.size() ? runs_[i + 1].from : from;
      std::memcpy(memory.host_bytes.data() + runs_[i].from, block.data() + runs_[i].to, end - runs_[i].from);
    }
    memory.sent.reserve(from);
    memory.runs.reserve(runs_.size());
    backend().copy(memory.sent.data(), memory.host_bytes.data(), from);
    backend().copy(memory.runs.data(), memory.host_runs.data(), runs_.size() * sizeof(HostRun));
    backend().launch(from, WriteHostRuns{memory.sent.data(), memory.runs.data(), runs_.size(), block_});
  }

  void count_rows() {
    rows_read_ = {};
    for (std::size_t i = 0; i < memory_->rows.size(); ++i) {
      const RowCounts counts = memory_->rows[i]->counts();
      const FeatureName& name = parts_.features.name(i);
      const AttrView attr = name.store == Store::kNode ? dataset_.attr(name.type, name.name)
                                                       : dataset_.edge_attr(name.type, name.name);
      rows_read_.device_rows += static_cast<std::int64_t>(counts.on_device);
      rows_read_.device_bytes += static_cast<std::int64_t>(counts.on_device) * attr.row_bytes;
      rows_read_.memory_rows += static_cast<std::int64_t>(counts.over_uva);
      rows_read_.memory_bytes += static_cast<std::int64_t>(counts.over_uva) * attr.row_bytes;
    }
  }

  const std::shared_ptr<const void> keeps_;
  const Dataset& dataset_;
  const BatchOptions options_;
  SlotsOn<Backend>& slots_;
  BatchMaker cpu_;
  const BatchMaker::Parts parts_;
  HopEngineOn<Backend>* engine_ = nullptr;  // the sampler's; null: the device does not sample so
  DeviceSampler sampler_;
  std::unique_ptr<Backend> own_backend_;  // where there is no engine
  const int node_bits_;
  HeldShare held_;                              // rows of each node attribute, on the device
  std::size_t held_bytes_ = 0, ids_bytes_ = 0;  // on the device: of these rows, of original ids
  std::unique_ptr<Memory> memory_;

  // What follows is of the batch under way.
  BatchKey key_, key_before_;
  bool on_cpu_ = false;
  BlockWriter writer_;
  BlockArrays::Counts counts_;
  BlockArrays::Places places_;
  std::byte* block_ = nullptr;  // on the device
  std::vector<int> large_;      // arrays that the device writes
  std::vector<HostRun> runs_;
  std::vector<std::int64_t> trees_, owners_;
  AlignedBlock copy_;
  TierCounts rows_read_;
};

}  // namespace hopfeed::gpu
