// See trained_model.h.
#include "trainer/trained_model.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/dataset/node_keys.h"
#include "state/owner/owned_rows.h"
#include "state/owner/shard_file.h"
#include "trainer/checkpoint.h"
#include "trainer/dist_embedding.h"
#include "trainer/hetero_encoder.h"
#include "trainer/learned_state.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using torch::serialize::InputArchive;

/// NodesHere finds the node of this dataset that a node of the training's is.
class NodesHere {
 public:
  NodesHere(const TrainedModel& trained, const ModelDescription& model, const Dataset& dataset, int node_type)
      : dataset_(dataset), type_(node_type), rows_(dataset, node_type) {
    if (model.empty() || model.fingerprint == dataset.meta().fingerprint) return;
    const NodeTypeMeta& here = dataset.meta().node_types[static_cast<std::size_t>(node_type)];
    const std::string head = "the model has learned rows of '" + here.name +
                             "', and was trained on another dataset ('" + model.dataset +
                             "'): they are matched by the nodes' keys";
    require_valid(!trained.trained_on.empty(), head + "; give --trained-on, the folder of that dataset");
    const Dataset then(trained.trained_on, {.some_partitions = true});
    require_valid(then.meta().fingerprint == model.fingerprint,
                  "--trained-on: " + trained.trained_on.string() +
                      " is not the dataset that the model was trained on ('" + model.dataset + "')");
    const NodeTypeMeta& of_then =
        then.meta().node_types[static_cast<std::size_t>(then.meta().node_type(here.name))];
    require_valid(here.has_keys() && of_then.has_keys(),
                  head + ", and " + (here.has_keys() ? trained.trained_on : dataset.folder()).string() +
                      " has none of them; import tables, whose ids are kept as keys");
    then_.emplace(trained.trained_on, of_then);
    here_.emplace(dataset.folder(), here);
    require_valid(then_->type() == here_->type(),
                  head + ", which are of another type in " + dataset.folder().string());
  }

  /// The original id here; -1: it is not in this machine's partitions.
  std::int64_t operator()(std::int64_t trained) const {
    std::int64_t id = trained;
    if (then_) {
      if (trained >= then_->size()) return -1;
      id = then_->type() == KeyType::kInt64 ? here_->find(then_->number(trained))
                                            : here_->find(then_->bytes(trained));
    }
    if (id < 0 || id >= dataset_.num_nodes(type_)) return -1;
    return rows_.row_of_original(id) >= 0 ? id : -1;
  }

 private:
  const Dataset& dataset_;
  const int type_;
  const OwnedRows rows_;  // of this machine's partitions
  std::optional<NodeKeys> then_, here_;
};

class Loading {
 public:
  Loading(const TrainedModel& trained, const ModelDescription& description, const Dataset& dataset)
      : trained_(trained), description_(description), dataset_(dataset) {}

  LoadedRows run(torch::nn::Module& model) {
    try {
      InputArchive archive;
      archive.load_from(trained_.file.string(), torch::kCPU);
      const torch::NoGradGuard no_gradients;
      read(archive, model, "");
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {  // c10::Error, and what the pickled parts throw
      throw Error(ErrorCode::kCorrupt, trained_.file.string() + " is damaged, or not of this model");
    }
    return {.here = rows_, .digest = hashed_.empty() ? "" : sha256(std::as_bytes(std::span(hashed_)))};
  }

 private:
  void read(InputArchive& archive, torch::nn::Module& module, const std::string& name) {
    if (auto* const table = dynamic_cast<DistEmbeddingImpl*>(&module))
      return read_rows(archive, *table, name);
    for (auto& parameter : module.named_parameters(/*recurse=*/false)) {
      torch::Tensor stored;
      archive.read(parameter.key(), stored);
      if (stored.sizes() != parameter.value().sizes()) throw std::runtime_error("another shape");
      parameter.value().copy_(stored);
    }
    for (const auto& child : module.named_children()) {
      InputArchive of_child;
      archive.read(child.key(), of_child);
      read(of_child, *child.value(), child.key());
    }
  }

  int type_of(const std::string& module) const {
    const std::vector<NodeTypeMeta>& types = dataset_.meta().node_types;
    for (std::size_t t = 0; t < types.size(); ++t)
      if (module == "embedding_" + module_name(types[t].name)) return static_cast<int>(t);
    throw std::runtime_error("rows of no node type");
  }

  void read_rows(InputArchive& archive, DistEmbeddingImpl& table, const std::string& name) {
    const NodesHere nodes(trained_, description_, dataset_, type_of(name));
    torch::Tensor ids, rows, spec;
    if (archive.try_read("at_owners", spec, /*is_buffer=*/true)) {
      const auto* const text = reinterpret_cast<const char*>(spec.const_data_ptr<std::uint8_t>());
      return read_shards(TableSpec::from_json({text, static_cast<std::size_t>(spec.numel())}), table, nodes);
    }
    archive.read("learned", ids, /*is_buffer=*/true);
    archive.read("rows", rows, /*is_buffer=*/true);
    if (ids.scalar_type() != torch::kInt64 || rows.scalar_type() != torch::kFloat32 ||
        rows.numel() != ids.numel() * table.width())
      throw std::runtime_error("another table");
    note(name, ids.const_data_ptr(), ids.nbytes());
    note(name, rows.const_data_ptr(), rows.nbytes());
    const auto* const id = ids.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < ids.numel(); ++i)
      restore(table, nodes, id[i], rows.const_data_ptr<float>() + i * table.width());
  }

  /// What decides the rows: their bytes, or the checksums of their shards.
  void note(const std::string& name, const void* bytes, std::size_t count) {
    hashed_ += name + " " + sha256(std::span(static_cast<const std::byte*>(bytes), count)) + "\n";
  }

  void restore(DistEmbeddingImpl& table, const NodesHere& nodes, std::int64_t trained, const float* values) {
    const std::int64_t id = nodes(trained);
    if (id < 0) return;
    table.restore(id, {values, static_cast<std::size_t>(table.width())});
    ++rows_;
  }

  /// The checkpoint's word about shards: of the best model, where it says one.
  StateManifest manifest() const {
    fs::path checkpoint = trained_.file;
    checkpoint.replace_extension(".checkpoint");
    const std::string text = state_of_checkpoint(checkpoint);
    if (text.empty())
      throw Error(ErrorCode::kNotFound,
                  checkpoint.string() + " names no rows at owners, and the model has some");
    return StateManifest::from_json(text);
  }

  void read_shards(const TableSpec& spec, DistEmbeddingImpl& table, const NodesHere& nodes) {
    require_valid(!trained_.state.empty(),
                  "the model has learned rows '" + spec.name +
                      "' at owners; give --state, the folders that hopfeed-server --state kept them in");
    if (spec.width != table.width()) throw std::runtime_error("another table");
    const StateManifest all = manifest();
    const StateCheckpoint& checkpoint = all.best ? *all.best : all.now;
    const auto found = checkpoint.shards.find(spec.name);
    if (found == checkpoint.shards.end())
      throw Error(ErrorCode::kNotFound, "the checkpoint beside " + trained_.file.string() +
                                            " names no shards of table '" + spec.name + "'");
    note(spec.name, found->second.data(), found->second.size() * sizeof(ShardSum));
    std::set<std::int64_t> partitions;
    bool all_there = true;
    for (const ShardSum& sum : found->second) {
      const std::optional<fs::path> path = where(
          shard_path(checkpoint_folder("", all.run, checkpoint.number), spec.name, sum.first_partition));
      if (!path) {
        all_there = false;
        continue;
      }
      const ShardFile shard(*path);
      if (shard.sum() != sum)
        throw Error(ErrorCode::kCorrupt, path->string() + " is not the shard that the checkpoint names");
      if (shard.head().num_partitions == dataset_.meta().partitions)
        partitions.insert(shard.head().partitions.begin(), shard.head().partitions.end());
      const auto stride = static_cast<std::size_t>(shard.head().row_bytes);
      shard.for_each([&](std::span<const std::int64_t> ids, const std::byte* rows) {
        for (std::size_t i = 0; i < ids.size(); ++i)
          restore(table, nodes, ids[i], reinterpret_cast<const float*>(rows + i * stride));
      });
    }
    require_all(all_there, partitions, spec.name);
  }

  std::optional<fs::path> where(const fs::path& shard) const {
    std::error_code error;
    for (const fs::path& folder : trained_.state) {
      if (fs::exists(folder / shard, error)) return folder / shard;
      for (const fs::path& of_dataset : fs::directory_iterator(folder, error))  // as a server lays them out
        if (fs::exists(of_dataset / shard, error)) return of_dataset / shard;
    }
    return std::nullopt;
  }

  /// A machine needs the shards of its own partitions, where the cut is the training's; else all.
  void require_all(bool all_there, const std::set<std::int64_t>& partitions, const std::string& table) const {
    if (all_there) return;
    const bool same = description_.fingerprint == dataset_.meta().fingerprint;
    for (const int part : dataset_.partitions())
      if (!same || !partitions.contains(part))
        throw Error(ErrorCode::kNotFound, "--state has not all shards of table '" + table +
                                              "' that the checkpoint beside " + trained_.file.string() +
                                              " names; give the folders of all owners");
  }

  const TrainedModel& trained_;
  const ModelDescription& description_;
  const Dataset& dataset_;
  std::int64_t rows_ = 0;
  std::string hashed_;
};

}  // namespace

LoadedRows load_trained_model(const TrainedModel& trained, const ModelDescription& description,
                              const Dataset& dataset, torch::nn::Module& model) {
  return Loading(trained, description, dataset).run(model);
}

}  // namespace hopfeed
