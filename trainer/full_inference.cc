// See full_inference.h.
#include "trainer/full_inference.h"

#include <sys/stat.h>
#include <torch/version.h>
#include <xxhash.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <fstream>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/base/disk_room.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/parallel_ranges.h"
#include "core/sampler/peer_rows.h"
#include "results/boundary.h"
#include "results/run_folder.h"
#include "results/sliced_means.h"
#include "results/table_rows.h"
#include "trainer/row_products.h"
#include "trainer/tensor_pool.h"

namespace hopfeed {
namespace {

constexpr std::uint64_t kRunFormat = 1;  // of the sums' order and the blocks: it is part of a run's id

/// XXH3-128 of what decides a run.
class RunHash {
 public:
  RunHash() : state_(XXH3_createState(), XXH3_freeState) {
    if (!state_) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }
  void add(const void* bytes, std::size_t count) {
    const std::uint64_t size = count;
    XXH3_128bits_update(state_.get(), &size, sizeof size);
    XXH3_128bits_update(state_.get(), bytes, count);
  }
  void add(const std::string& text) { add(text.data(), text.size()); }
  void add(std::uint64_t number) { add(&number, sizeof number); }
  void add(const torch::Tensor& tensor) {
    if (!tensor.defined()) return add(std::uint64_t{0});
    for (const std::int64_t size : tensor.sizes()) add(static_cast<std::uint64_t>(size));
    const torch::Tensor whole = tensor.contiguous();
    add(whole.const_data_ptr(), whole.nbytes());
  }
  RunId finish() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {.high = hash.high64, .low = hash.low64};
  }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

/// The number of a folder's file system; 0 where that is not told.
dev_t disk_of(const std::filesystem::path& folder) {
  struct stat status;
  return ::stat(folder.c_str(), &status) == 0 ? status.st_dev : 0;
}

/// Boundaries are those of the plan's tables. Tables that are read over the same edges have the same one.
class Boundaries {
 public:
  Boundaries(const Dataset& dataset, const InferencePlan& plan) {
    std::vector<std::set<int>> edge_types(plan.tables.size());
    for (const InferenceStage& stage : plan.stages)
      for (const InferenceTerm& term : stage.terms)
        if (term.edge_type >= 0) edge_types[term.table].insert(term.edge_type);
    for (std::size_t table = 0; table < plan.tables.size(); ++table) {
      const auto [of_types, is_new] = sets_.try_emplace(edge_types[table]);
      if (is_new && !edge_types[table].empty()) {
        const std::vector<int> types(edge_types[table].begin(), edge_types[table].end());
        of_types->second = boundary_of(dataset, plan.tables[table].node_type, types);
      }
      by_table_.push_back(&of_types->second);
    }
  }
  Boundaries(const Boundaries&) = delete;
  Boundaries& operator=(const Boundaries&) = delete;
  const RankedSet& operator[](std::size_t table) const { return *by_table_[table]; }

 private:
  std::map<std::set<int>, RankedSet> sets_;  // by edge types, which all come from one type of nodes
  std::vector<const RankedSet*> by_table_;
};

}  // namespace

std::string processor_kind() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t at = line.find(": ");
    if (at != std::string::npos) return at::get_cpu_capability() + ", " + line.substr(at + 2);
  }
  return at::get_cpu_capability();
}

struct FullInference::Impl {
  Impl(const InferredModel& model, const Dataset& dataset, InferenceOptions options)
      : model(model),
        dataset(dataset),
        options(std::move(options)),
        plan(plan_inference(model, dataset)),
        boundaries(dataset, plan) {
    for (const InferenceTable& table : plan.tables)
      for (const int part : this->dataset.partitions())
        require_valid(rows_of(table.node_type, part) <= std::int64_t{UINT32_MAX},
                      "partition " + std::to_string(part) + " has too many nodes of type '" +
                          table.name.node_type + "': 2^32 is the most; cut the graph into more partitions");
    for (const InferenceStage& stage : plan.stages) total += rows_here(plan.tables[stage.table].node_type);
    run_id = id();
  }

  // ---- what there is
  const std::vector<std::int64_t>& offsets(int node_type) const {
    return dataset.meta().node_types[static_cast<std::size_t>(node_type)].partition_offsets;
  }
  std::int64_t rows_of(int node_type, int part) const {
    const auto p = static_cast<std::size_t>(part);
    return offsets(node_type)[p + 1] - offsets(node_type)[p];
  }
  std::int64_t height_of(const InferenceTable& table) const {
    return shard_rows(table.row_bytes, options.shard_bytes);
  }
  std::uint64_t rows_here(int node_type) const {
    std::int64_t rows = 0;
    for (const int part : dataset.partitions()) rows += rows_of(node_type, part);
    return static_cast<std::uint64_t>(rows);
  }

  RunId id() const {
    RunHash hash;
    hash.add(kRunFormat);
    hash.add(static_cast<std::uint64_t>(kProductRows));
    hash.add(static_cast<std::uint64_t>(options.shard_bytes));
    hash.add(dataset.meta().fingerprint);
    hash.add(manifest_hash(dataset.meta()));
    hash.add(std::string(TORCH_VERSION));
    hash.add(processor_kind());
    hash.add(options.device.str());
    for (const InferenceStage& stage : plan.stages) {
      hash.add(plan.tables[stage.table].name.table + "/" + plan.tables[stage.table].name.node_type);
      for (const InferenceTerm& term : stage.terms) {
        hash.add(static_cast<std::uint64_t>(term.kind));
        hash.add(static_cast<std::uint64_t>(term.edge_type + 1));
        hash.add(term.weight);
      }
      hash.add(stage.bias);
      hash.add(static_cast<std::uint64_t>(stage.relu));
      if (plan.tables[stage.table].kind == InferenceTable::Kind::kLearned) add_learned(stage, hash);
    }
    return hash.finish();
  }
  void add_learned(const InferenceStage& stage, RunHash& hash) const {
    const DistEmbedding& embedding = learned(stage);
    if (!model.rows_digest.empty()) return hash.add(model.rows_digest);
    if (embedding->at_owners()) return hash.add(std::uint64_t{1});
    const LearnedTable& table = embedding->table();
    hash.add(table.options().seed);
    table.for_each_learned([&](std::int64_t row, const float* numbers) {
      hash.add(static_cast<std::uint64_t>(row));
      hash.add(numbers, static_cast<std::size_t>(table.options().width) * sizeof(float));
    });
  }
  DistEmbedding learned(const InferenceStage& stage) const {
    return model.learned[static_cast<std::size_t>(plan.tables[stage.table].node_type)];
  }
  std::string about() const {
    return json_text({{"model", model.title},
                      {"dataset", dataset.meta().name},
                      {"fingerprint", dataset.meta().fingerprint},
                      {"partitions", dataset.meta().partitions},
                      {"torch", TORCH_VERSION},
                      {"processor", processor_kind()}});
  }

  // ---- which stages are left
  bool takes(const ResultSink& sink, std::size_t table) const {
    const auto& tables = sink.kind() == ResultSink::Kind::kScores ? plan.scores : plan.embeddings;
    return !sink.finished() && std::find(tables.begin(), tables.end(), table) != tables.end();
  }
  std::vector<ResultSink*> sinks_of(std::size_t table) const {
    std::vector<ResultSink*> found;
    for (ResultSink* sink : sinks)
      if (takes(*sink, table)) found.push_back(sink);
    return found;
  }
  bool is_whole(std::size_t table) const {
    const InferenceTable& t = plan.tables[table];
    if (t.kind == InferenceTable::Kind::kFeatures) return true;
    for (const int part : dataset.partitions())
      for (std::int64_t first = 0; first < rows_of(t.node_type, part); first += height_of(t))
        if (!folder->layers().has(t.name, part, first)) return false;
    return true;
  }
  /// By stage: whether its table is still to be made, since somebody reads it.
  std::vector<bool> left() const {
    std::vector<bool> wanted(plan.tables.size()), left(plan.stages.size());
    for (std::size_t t = 0; t < wanted.size(); ++t) wanted[t] = !sinks_of(t).empty() || peers_want(t);
    for (std::size_t s = plan.stages.size(); s-- > 0;) {
      left[s] = wanted[plan.stages[s].table] && !is_whole(plan.stages[s].table);
      if (!left[s]) continue;
      for (const InferenceTerm& term : plan.stages[s].terms) wanted[term.table] = true;
    }
    return left;
  }
  /// Whether another machine may still ask for rows of a table. That of features is asked of the dataset.
  bool peers_want(std::size_t table) const {
    const InferenceTable& t = plan.tables[table];
    if (dataset.whole() || t.kind == InferenceTable::Kind::kFeatures || !is_read_over_edges(table))
      return false;
    for (int part = 0; part < dataset.meta().partitions; ++part)
      if (!dataset.has_partition(part) && !folder->fetched(t.name, part)) return true;
    return false;
  }
  bool is_read_over_edges(std::size_t table) const {
    for (const InferenceStage& stage : plan.stages)
      for (const InferenceTerm& term : stage.terms)
        if (term.table == table && term.edge_type >= 0) return true;
    return false;
  }

  // ---- what it takes on disk
  /// The stage that makes a table; -1: it is there.
  int made_at(std::size_t table) const {
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      if (plan.stages[s].table == table) return static_cast<int>(s);
    return -1;
  }
  /// The stage that fetches a table's rows from elsewhere.
  int fetched_at(std::size_t table) const {
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      for (const InferenceTerm& term : plan.stages[s].terms)
        if (term.table == table && term.edge_type >= 0) return static_cast<int>(s);
    return INT_MAX;
  }
  /// Of a table, while a stage computes: its rows here, and those that were fetched.
  std::uint64_t table_bytes(std::size_t table, int stage, const std::vector<ResultSink*>& given) const {
    const InferenceTable& t = plan.tables[table];
    const int last = plan.last_use(table), made = made_at(table);
    const bool stays =
        last < 0 || (!dataset.whole() && is_read_over_edges(table)) ||
        std::any_of(given.begin(), given.end(), [&](const ResultSink* sink) { return takes(*sink, table); });
    std::uint64_t rows = made >= 0 && made <= stage && (stays || last >= stage) ? rows_here(t.node_type) : 0;
    if (fetched_at(table) <= stage && stage <= last)
      rows += static_cast<std::uint64_t>(boundaries[table].size());
    return rows * static_cast<std::uint64_t>(t.row_bytes);
  }
  /// Of means whose sources exceed the memory.
  std::uint64_t means_bytes(const InferenceStage& stage) const {
    std::uint64_t bytes = 0;
    for (const InferenceTerm& term : stage.terms) {
      if (term.edge_type < 0) continue;
      const InferenceTable& read = plan.tables[term.table];
      const std::uint64_t row = static_cast<std::uint64_t>(read.width) * sizeof(float);
      const std::uint64_t sources =
          rows_here(read.node_type) + static_cast<std::uint64_t>(boundaries[term.table].size());
      if (sources * row > options.memory) bytes += rows_here(plan.tables[stage.table].node_type) * row;
    }
    return bytes;
  }
  std::uint64_t layers_at(int stage, const std::vector<ResultSink*>& given) const {
    std::uint64_t bytes = means_bytes(plan.stages[static_cast<std::size_t>(stage)]);
    for (std::size_t t = 0; t < plan.tables.size(); ++t) bytes += table_bytes(t, stage, given);
    return bytes;
  }
  InferenceDisk disk(const std::vector<ResultSink*>& given) const {
    InferenceDisk disk;
    for (int s = 0; s < std::ssize(plan.stages); ++s)
      disk.layers = std::max(disk.layers, layers_at(s, given));
    for (const ResultSink* sink : given) disk.results += sink->disk().bytes;
    return disk;
  }
  /// Layers and those results that lie on their disk need room together, other results on each disk.
  void require_room() const {
    std::map<dev_t, ResultDisk> others;
    const dev_t here = disk_of(options.folder);
    std::vector<std::uint64_t> needed(plan.stages.size() + 1);  // while a stage computes; at the end
    for (int s = 0; s < std::ssize(plan.stages); ++s)
      needed[static_cast<std::size_t>(s)] = layers_at(s, sinks);
    for (const ResultSink* sink : sinks) {
      const ResultDisk results = sink->disk();
      const std::uint64_t left = results.bytes - std::min(results.bytes, results.written);
      if (left == 0) continue;
      if (const dev_t disk = disk_of(results.folder); disk != here) {
        others[disk].folder = results.folder;
        others[disk].bytes += left;
        continue;
      }
      int first = static_cast<int>(plan.stages.size());  // that gives it rows
      for (std::size_t t = 0; t < plan.tables.size(); ++t)
        if (takes(*sink, t) && made_at(t) >= 0) first = std::min(first, made_at(t));
      for (std::size_t s = static_cast<std::size_t>(first); s < needed.size(); ++s) needed[s] += left;
    }
    const std::uint64_t most = *std::max_element(needed.begin(), needed.end()),
                        there = bytes_in(options.folder);
    require_disk_room(options.folder, most - std::min(most, there), options.folder);
    for (const auto& [disk, results] : others)
      require_disk_room(results.folder, results.bytes, results.folder);
  }

  // ---- computing
  void tell(std::uint64_t more) {
    done += more;
    if (options.progress) options.progress(done, total);
  }

  void run() {
    // A run clears its folder once all is given and fetched: then it was over before.
    const auto finished = [](const ResultSink* sink) { return sink->finished(); };
    if (folder->is_new() && !sinks.empty() && std::all_of(sinks.begin(), sinks.end(), finished))
      return folder->clear();
    const std::vector<bool> todo = left();
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const InferenceStage& stage = plan.stages[s];
      if (todo[s])
        compute(stage);
      else
        tell(rows_here(plan.tables[stage.table].node_type));
      give(stage.table);
      remove_used(static_cast<int>(s));
    }
    for (std::size_t t = 0; t < plan.tables.size(); ++t)
      if (plan.tables[t].kind == InferenceTable::Kind::kFeatures) give(t);
    for (ResultSink* sink : sinks)
      if (!sink->finished()) sink->finish();
    note_all_fetched();
    clear();
  }

  /// Opens what a term reads, with its boundary where it goes over edges.
  std::unique_ptr<TableRows> open(std::size_t table, bool over_edges) {
    const InferenceTable& t = plan.tables[table];
    const bool features = t.kind == InferenceTable::Kind::kFeatures;
    std::unique_ptr<TableRows> rows =
        features ? std::make_unique<TableRows>(dataset, t.node_type, "x")
                 : std::make_unique<TableRows>(dataset, t.node_type, *folder, t.name, t.width);
    if (over_edges && !dataset.whole()) {
      fetch(table);
      rows->add_boundary(*folder, t.name, boundaries[table]);
    }
    if (features && options.check_finite) require_finite(t.node_type, rows->rows());
    return rows;
  }
  void fetch(std::size_t table) {
    const InferenceTable& t = plan.tables[table];
    const auto fetched = [&](int part, std::span<const std::uint32_t> rows, std::span<const std::int64_t> ids,
                             std::byte* out) {
      if (options.progress) options.progress(done, total);
      if (t.kind == InferenceTable::Kind::kFeatures)
        return gather_rows_of_all(dataset, Store::kNode, t.node_type, "x", ids, out);
      if (options.peers == nullptr) dataset.require_peers(part);
      options.peers->fetch(run_id, t.name, part, rows, t.row_bytes, out);
    };
    fetch_boundary(*folder, t.name, boundaries[table], offsets(t.node_type), t.row_bytes, height_of(t),
                   fetched);
    if (t.kind != InferenceTable::Kind::kFeatures && options.peers != nullptr &&
        !options.peers->note_fetched(run_id, t.name, false))
      not_noted.insert(table);
  }

  /// Tables and means that a stage reads; what it computes with views them.
  struct Reads {
    std::map<std::size_t, std::unique_ptr<TableRows>> tables;
    std::vector<std::unique_ptr<SlicedMeans>> means;
    std::uint64_t over_edges = 0;  // bytes of those that edges lead to
  };
  RowTerm self_term(const InferenceTerm& term, const TableRows& table) const {
    const SourceRows& rows = table.rows();
    return {
        .write =
            [&table, &rows](int part, std::int64_t begin, std::int64_t end, float* out, std::int64_t stride) {
              for (std::int64_t row = begin; row < end; ++row, out += stride)
                decode_row(rows.type, rows.width, table.row(part, row), out);
            },
        .width = rows.width,
        .weight = term.weight};
  }
  /// All features of a type that are read here, those of the boundary included.
  void require_finite(int type, const SourceRows& rows) const {
    const RowTable& table = rows.table;
    const auto check = [&](const std::byte* all, std::size_t stride, std::int64_t count, const auto& id_of) {
      parallel_ranges(options.threads, count, [&](int, std::int64_t begin, std::int64_t end) {
        std::vector<float> values(static_cast<std::size_t>(rows.width));
        for (std::int64_t row = begin; row < end; ++row) {
          decode_row(rows.type, rows.width, all + static_cast<std::size_t>(row) * stride, values.data());
          if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
            throw_not_finite(type, id_of(row));
        }
      });
    };
    for (const int part : dataset.partitions()) {
      const auto p = static_cast<std::size_t>(part);
      check(table.rows_of(p), table.stride, rows_of(type, part),
            [&](std::int64_t row) { return table.starts[p] + row; });
    }
    if (table.elsewhere == nullptr) return;
    std::vector<std::int64_t> ids;
    table.elsewhere->for_each(0, table.starts.back(), [&](std::int64_t id) { ids.push_back(id); });
    check(table.elsewhere_rows, table.elsewhere_stride, std::ssize(ids),
          [&](std::int64_t row) { return ids[static_cast<std::size_t>(row)]; });
  }
  [[noreturn]] void throw_not_finite(int type, std::int64_t dataset_id) const {
    throw Error(ErrorCode::kInvalid,
                "features of node " + std::to_string(dataset.original_id(type, dataset_id)) + " of type '" +
                    dataset.meta().node_types[static_cast<std::size_t>(type)].name +
                    "' are not finite; leave --check-finite out, or import others");
  }
  RowTerm mean_term(const InferenceTerm& term, const TableRows& table, Reads& reads) {
    const CscView csc = dataset.csc(term.edge_type);
    RowTerm made{.write = {}, .width = table.rows().width, .weight = term.weight};
    if (table.bytes() > options.memory) {
      reads.means.push_back(std::make_unique<SlicedMeans>(dataset, table, term.edge_type, folder->path(),
                                                          options.memory, options.threads,
                                                          [this] { tell(0); }));
      made.write = [means = reads.means.back().get()](int part, std::int64_t begin, std::int64_t end,
                                                      float* out, std::int64_t stride) {
        means->write(part, begin, end, out, stride);
      };
    } else {
      made.write = [&table, csc](int part, std::int64_t begin, std::int64_t end, float* out,
                                 std::int64_t stride) {
        mean_of_sources(table.rows(), csc, {.part = part, .begin = begin, .end = end}, out, stride);
      };
    }
    return made;
  }
  RowProducts products(const InferenceStage& stage, Reads& reads) {
    std::vector<RowTerm> terms;
    for (const InferenceTerm& term :
         stage.terms) {  // with edges first: a table is then opened with its boundary
      if (term.edge_type < 0 || reads.tables.contains(term.table)) continue;
      auto& table = reads.tables[term.table] = open(term.table, true);
      reads.over_edges += table->bytes();
    }
    for (const InferenceTerm& term : stage.terms) {
      auto& table = reads.tables[term.table];
      if (!table) table = open(term.table, false);
      terms.push_back(term.edge_type < 0 ? self_term(term, *table) : mean_term(term, *table, reads));
    }
    return RowProducts(std::move(terms), stage.bias, stage.relu, plan.tables[stage.table].width,
                       options.device);
  }

  /// Shards are computed while the last one is written.
  template <class Compute>
  void write_shards(const InferenceTable& table, const Compute& compute) {
    const std::int64_t height = height_of(table);
    std::vector<float> next, written;
    std::future<void> writing;
    for (const int part : dataset.partitions()) {
      const std::int64_t rows = rows_of(table.node_type, part);
      for (std::int64_t first = 0; first < rows; first += height) {
        const std::int64_t count = std::min(height, rows - first);
        if (!folder->layers().has(table.name, part, first)) {
          next.resize(static_cast<std::size_t>(count * table.width));
          compute(part, first, first + count, next.data());
          if (writing.valid()) writing.get();
          std::swap(next, written);
          writing = std::async(std::launch::async, [this, &table, &written, part, first, count] {
            folder->layers().write(
                table.name, {.partition = part, .first = first, .count = count, .row_bytes = table.row_bytes},
                std::as_bytes(std::span(written).first(static_cast<std::size_t>(count * table.width))));
          });
        }
        tell(static_cast<std::uint64_t>(count));
      }
    }
    if (writing.valid()) writing.get();
  }

  void compute(const InferenceStage& stage) {
    const InferenceTable& table = plan.tables[stage.table];
    if (table.kind == InferenceTable::Kind::kLearned) return copy_learned(stage);
    Reads reads;
    const RowProducts rows = products(stage, reads);
    write_shards(table, [&](int part, std::int64_t begin, std::int64_t end, float* out) {
      rows.compute(part, begin, end, options.threads, out);
    });
  }

  void copy_learned(const InferenceStage& stage) {
    const InferenceTable& table = plan.tables[stage.table];
    DistEmbedding embedding = learned(stage);
    const torch::NoGradGuard no_gradients;
    write_shards(table, [&](int part, std::int64_t begin, std::int64_t end, float* out) {
      const std::int64_t first = offsets(table.node_type)[static_cast<std::size_t>(part)];
      torch::Tensor ids = torch::arange(first + begin, first + end, torch::kInt64);
      if (!embedding->at_owners()) {
        const torch::Tensor dataset_ids = ids.clone();
        dataset.original_ids(
            table.node_type,
            {dataset_ids.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(ids.numel())},
            ids.mutable_data_ptr<std::int64_t>());
      }
      const torch::Tensor rows = embedding->forward(ids).contiguous();
      std::copy_n(rows.const_data_ptr<float>(), rows.numel(), out);
    });
  }

  /// Gives a table's rows to those who want them.
  void give(std::size_t table) {
    const std::vector<ResultSink*> takers = sinks_of(table);
    if (takers.empty()) return;
    const InferenceTable& t = plan.tables[table];
    const std::unique_ptr<TableRows> rows = open(table, false);
    const std::int64_t width = t.width;
    const std::int64_t height =
        shard_rows(width * static_cast<std::int64_t>(sizeof(float)), options.shard_bytes);
    std::vector<float> values;
    for (const int part : dataset.partitions()) {
      for (std::int64_t first = 0, number = 0; first < rows_of(t.node_type, part);
           first += height, ++number) {
        const std::int64_t count = std::min(height, rows_of(t.node_type, part) - first);
        values.resize(static_cast<std::size_t>(count * width));
        for (std::int64_t row = 0; row < count; ++row)
          decode_row(rows->rows().type, width, rows->row(part, first + row), values.data() + row * width);
        for (ResultSink* sink : takers)
          sink->take({.node_type = t.node_type,
                      .partition = part,
                      .number = number,
                      .first = first,
                      .count = count,
                      .width = width,
                      .rows = values.data()});
        tell(0);
      }
    }
  }

  /// Removes tables that no stage behind `stage` reads, and nobody else.
  void remove_used(int stage) {
    for (std::size_t t = 0; t < plan.tables.size(); ++t) {
      const InferenceTable& table = plan.tables[t];
      const bool made = plan.last_use(t) >= 0 || table.kind != InferenceTable::Kind::kFeatures;
      if (!made || plan.last_use(t) > stage || plan.last_use(t) < 0) continue;
      folder->boundary().remove(table.name);
      if (table.kind != InferenceTable::Kind::kFeatures && sinks_of(t).empty() && !peers_want(t))
        folder->remove(table.name);
    }
  }
  /// Says once more what was fetched, to servers that were not there to note it, or whose run was not yet.
  void note_all_fetched() {
    if (options.peers == nullptr) return;
    for (std::size_t t = 0; t < plan.tables.size(); ++t)
      if (plan.tables[t].kind != InferenceTable::Kind::kFeatures && is_read_over_edges(t))
        options.peers->note_fetched(run_id, plan.tables[t].name, not_noted.contains(t));
  }
  /// Removes all, or says what others have not yet fetched.
  void clear() {
    std::vector<LayerName> tables;
    for (std::size_t t = 0; t < plan.tables.size(); ++t)
      if (peers_want(t)) tables.push_back(plan.tables[t].name);
    left_layers = !tables.empty();
    if (!left_layers) return folder->clear();
    std::vector<int> others;
    for (int part = 0; part < dataset.meta().partitions; ++part)
      if (!dataset.has_partition(part)) others.push_back(part);
    folder->leave(tables, others);
  }

  void require_results() const {
    for (const ResultSink* sink : sinks) {
      const bool scores = sink->kind() == ResultSink::Kind::kScores;
      require_valid(!(scores ? plan.scores : plan.embeddings).empty(),
                    std::string("the model (") + model.title + ") has no " +
                        (scores ? "scores of nodes" : "embeddings") + "; it has " +
                        (scores ? "embeddings" : "scores and classes"));
    }
  }

  const InferredModel model;
  const Dataset& dataset;
  const InferenceOptions options;
  const InferencePlan plan;
  const Boundaries boundaries;
  RunId run_id;
  std::vector<ResultSink*> sinks;
  std::optional<RunFolder> folder;
  std::uint64_t done = 0, total = 0;
  std::set<std::size_t> not_noted;  // tables that were fetched, and of which not all have noted it
  bool left_layers = false;
};

FullInference::FullInference(const InferredModel& model, const Dataset& dataset, InferenceOptions options)
    : impl_(std::make_unique<Impl>(model, dataset, std::move(options))) {}
FullInference::~FullInference() = default;

RunId FullInference::run_id() const { return impl_->run_id; }
const InferencePlan& FullInference::plan() const { return impl_->plan; }
InferenceDisk FullInference::disk(const std::vector<ResultSink*>& sinks) const { return impl_->disk(sinks); }
bool FullInference::left_layers() const { return impl_->left_layers; }

void FullInference::take_folder() {
  Impl& impl = *impl_;
  if (!impl.folder)
    impl.folder.emplace(impl.options.folder, impl.run_id, impl.about(), impl.options.sync, impl.options.left);
}

void FullInference::run(const std::vector<ResultSink*>& sinks) {
  release_tensor_pool();  // of the training, which may have kept as much as inference needs
  Impl& impl = *impl_;
  impl.sinks = sinks;
  impl.done = 0;
  impl.require_results();
  take_folder();
  impl.require_room();
  try {
    impl.run();
  } catch (...) {
    impl.folder.reset();
    throw;
  }
  impl.folder.reset();
  // Whoever fetched the last of it just now could not remove it: the lock was held.
  if (impl.left_layers) impl.left_layers = !remove_if_fetched(impl.options.folder);
}

}  // namespace hopfeed
