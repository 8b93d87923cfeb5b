// See inference_program.h.
#include "examples/inference_program.h"

#include <sched.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/sha256.h"
#include "core/dataset/given_array.h"
#include "core/program/progress_bar.h"
#include "core/program/python_package.h"
#include "core/program/stop_signals.h"
#include "examples/claimed_folders.h"
#include "peers/open_partitions.h"
#include "peers/results_peers.h"
#include "results/output_folder.h"
#include "stream/torchrun_environment.h"
#include "trainer/checkpoint.h"
#include "trainer/full_inference.h"
#include "trainer/layerwise_inference.h"
#include "trainer/long_work.h"
#include "trainer/trained_model.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

/// Options that go with --model alone. The last few are of launchers' ranks, of which the first computes.
constexpr std::string_view kOfInference[] = {
    "--data",          "--servers",   "--infer",         "--model",
    "--trained-on",    "--state",     "--write",         "--format",
    "--nodes",         "--softmax",   "--float16",       "--memory",
    "--results",       "--overwrite", "--check-finite",  "--cores",
    "--threads",       "--device",    "--deterministic", "--json",
    "--partitions",    "--peers",     "--replicas",      "--peer-token-file",
    "--peer-ca",       "--peer-cert", "--peer-key",      "--peer-connect-timeout",
    "--peer-deadline", "--trainers",  "--backend",       "--timeout"};
/// Options that say what a model is, for files that do not say it themselves.
constexpr std::string_view kOfModel[] = {"--fanouts",   "--edge-fanouts", "--hops",    "--node-type",
                                         "--edge-type", "--hidden",       "--dropout", "--seed"};

/// Options that were given and are among neither of these.
void refuse_of_training(const CommandLine& line) {
  for (const std::string& option : line.given_options())
    require_valid(std::ranges::count(kOfInference, option) + std::ranges::count(kOfModel, option) > 0,
                  option + " goes with a training, and --model trains nothing; leave one of them out");
}

void refuse_of_model(const CommandLine& line, const fs::path& file) {
  for (const std::string& option : line.given_options())
    require_valid(
        std::ranges::count(kOfModel, option) == 0,
        option + " goes with a training, and " + file.string() + " says what its model is; leave it out");
}

/// "a=X,b=Y" by name, in the order given.
std::vector<std::pair<std::string, std::string>> parse_pairs(const std::string& text, const char* option) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t at = part.find('=');
    require_valid(at != std::string::npos && at > 0 && at + 1 < part.size(),
                  std::string(option) + ": '" + part + "' is not NAME=PATH");
    pairs.emplace_back(part.substr(0, at), part.substr(at + 1));
    begin = end + 1;
  }
  return pairs;
}

std::vector<fs::path> folders(const std::string& text) {
  const std::vector<std::string> names = text.empty() ? std::vector<std::string>() : parse_names(text);
  return {names.begin(), names.end()};
}

struct Target {
  std::string name;  // embeddings, scores, classes
  fs::path folder;
};

fs::path whole_path(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(fs::absolute(path), error).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

std::vector<Target> targets_of(const InferenceArguments& a) {
  std::vector<Target> targets;
  for (const auto& [name, path] : parse_pairs(a.write, "--write")) {
    require_valid(name == "embeddings" || name == "scores" || name == "classes",
                  "--write: there are no '" + name + "'; give embeddings, scores or classes");
    const fs::path folder = whole_path(path);
    for (const Target& other : targets) {
      require_valid(other.name != name, "--write has " + name + " twice");
      require_valid(!is_within(folder, other.folder) && !is_within(other.folder, folder),
                    "--write: " + path + " is the folder of " + other.name +
                        ", or one lies in the other; give each its own");
    }
    require_valid(
        a.results.empty() ||
            (!is_within(folder, whole_path(a.results)) && !is_within(whole_path(a.results), folder)),
        "--results and --write (" + path + ") are one folder, or one lies in the other; give each its own");
    targets.push_back({name, folder});
  }
  return targets;
}

/// Which of the nodes a file names: by original ids, or by a mask of all.
std::vector<bool> nodes_in(const std::string& path, const std::string& type, std::int64_t count) {
  const GivenArray file{fs::path(path)};
  const bool mask = file.type() == ElementType::kBool;
  require_valid(file.shape().size() == 1 && (mask ? file.count() == count : file.has_integers()),
                "--nodes: " + path + " is no list of original ids of '" + type +
                    "', and no mask with a bool for each of its " + std::to_string(count) + " nodes");
  std::vector<bool> nodes(static_cast<std::size_t>(count));
  if (mask) {
    std::vector<std::byte> given(static_cast<std::size_t>(count));
    file.read(0, std::span(given));
    for (std::size_t id = 0; id < given.size(); ++id) nodes[id] = given[id] != std::byte{0};
  } else {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(file.count()));
    file.read_integers(0, ids);
    for (const std::int64_t id : ids) {
      require_valid(id >= 0 && id < count, "--nodes: " + path + " has " + std::to_string(id) +
                                               ", and there are " + std::to_string(count) + " nodes of '" +
                                               type + "'");
      nodes[static_cast<std::size_t>(id)] = true;
    }
  }
  require_valid(std::find(nodes.begin(), nodes.end(), true) != nodes.end(),
                "--nodes: " + path + " names no node");
  return nodes;
}

/// By node type, which nodes are wanted; empty where all are.
std::map<int, std::vector<bool>> wanted_nodes(const InferenceArguments& a, const Dataset& dataset,
                                              const std::vector<int>& results) {
  std::map<int, std::vector<bool>> wanted;
  if (a.nodes.empty()) return wanted;
  std::vector<std::pair<std::string, std::string>> files;
  std::error_code error;
  if (a.nodes.find('=') != std::string::npos && !fs::exists(a.nodes, error)) {
    files = parse_pairs(a.nodes, "--nodes");
  } else {
    require_valid(results.size() == 1,
                  "--nodes: the model gives results of several node types; give TYPE=FILE");
    files.emplace_back(dataset.meta().node_types[static_cast<std::size_t>(results.front())].name, a.nodes);
  }
  for (const auto& [name, path] : files) {
    const int type = dataset.meta().node_type(name);
    require_valid(std::find(results.begin(), results.end(), type) != results.end(),
                  "--nodes: the model gives no results of node type '" + name + "'");
    wanted[type] = nodes_in(path, name, dataset.num_nodes(type));
  }
  return wanted;
}

/// Rows of an output into its folder.
class WrittenOutput final : public ResultSink {
 public:
  WrittenOutput(const Dataset& dataset, RunId run, OutputOptions options, std::vector<OutputType> types,
                bool softmax)
      : folder_(dataset, run, std::move(options), std::move(types)), softmax_(softmax) {}
  Kind kind() const override {
    return folder_.options().name == "embeddings" ? Kind::kEmbeddings : Kind::kScores;
  }
  bool finished() const override { return folder_.finished(); }
  ResultDisk disk() const override {
    if (finished()) return {};
    return {.folder = folder_.options().folder, .bytes = folder_.bytes(), .written = folder_.written()};
  }
  void take(const ResultRows& rows) override {
    const auto type = std::find_if(folder_.types().begin(), folder_.types().end(),
                                   [&](const OutputType& t) { return t.node_type == rows.node_type; });
    folder_.write(*type, rows.partition, rows.number, rows.first, rows.count, converted(rows));
  }
  void finish() override { folder_.finish(); }
  const OutputFolder& folder() const { return folder_; }

 private:
  const std::byte* converted(const ResultRows& rows) {
    if (folder_.options().name == "classes") {
      classes_.resize(static_cast<std::size_t>(rows.count));
      for (std::int64_t i = 0; i < rows.count; ++i) {
        const float* const row = rows.rows + i * rows.width;
        const bool nan = std::any_of(row, row + rows.width, [](float value) { return std::isnan(value); });
        classes_[static_cast<std::size_t>(i)] = nan ? -1 : std::max_element(row, row + rows.width) - row;
      }
      return reinterpret_cast<const std::byte*>(classes_.data());
    }
    if (!softmax_ || kind() != Kind::kScores) return reinterpret_cast<const std::byte*>(rows.rows);
    shares_.assign(rows.rows, rows.rows + rows.count * rows.width);
    for (std::int64_t i = 0; i < rows.count; ++i) to_shares(shares_.data() + i * rows.width, rows.width);
    return reinterpret_cast<const std::byte*>(shares_.data());
  }
  static void to_shares(float* row, std::int64_t width) {
    const float most = *std::max_element(row, row + width);
    float sum = 0;
    for (std::int64_t f = 0; f < width; ++f) sum += row[f] = std::exp(row[f] - most);
    for (std::int64_t f = 0; f < width; ++f) row[f] /= sum;
  }

  OutputFolder folder_;
  const bool softmax_;
  std::vector<std::int64_t> classes_;
  std::vector<float> shares_;
};

/// The output's signature beside the run: what decides its files.
std::string signature_of(const InferenceArguments& a, const std::string& name,
                         const std::vector<OutputType>& types) {
  std::string text = a.softmax && name == "scores" ? "softmax" : "";
  for (const OutputType& type : types) {
    if (type.wanted == nullptr) continue;
    std::vector<std::int64_t> ids;
    for (std::size_t id = 0; id < type.wanted->size(); ++id)
      if ((*type.wanted)[id]) ids.push_back(static_cast<std::int64_t>(id));
    text += (text.empty() ? "" : ", ") + std::to_string(ids.size()) + " nodes of type " +
            std::to_string(type.node_type) + ": " + sha256(std::as_bytes(std::span(ids))).substr(0, 32);
  }
  return text;
}

class Inference {
 public:
  Inference(const InferenceArguments& arguments, const InferenceTask& task)
      : a_(arguments), task_(task), targets_(targets_of(arguments)) {}

  nlohmann::json run() {
    const ModelDescription model = description();
    dataset_ = open_partitions(task_.dataset, task_.peers, PeersAt::kKnown);
    if (dataset_->whole() && !task_.peers.peers.empty())
      std::fprintf(stderr,
                   "%s has all partitions, so --peers asks nobody and this machine computes every node; "
                   "--partitions names those that it should compute\n",
                   task_.dataset.c_str());
    InferenceTask::Made made = task_.make(model, *dataset_);
    const LoadedRows rows =
        load_trained_model({.file = task_.model, .state = folders(a_.state), .trained_on = a_.trained_on},
                           model, *dataset_, *made.module);
    made.module->eval();
    InferredModel inferred = made.inferred();
    inferred.rows_digest = rows.digest;
    wanted_ = wanted_nodes(a_, *dataset_, inferred.results);
    const fs::path layers = a_.results.empty() ? targets_.front().folder / ".layers" : a_.results;
    const auto leave_if_asked = [&] {
      if (stop_asked()) throw Interrupted{what_stays(layers)};
    };
    std::optional<ResultsPeers> peers;
    require_valid(
        dataset_->whole() || !a_.results.empty(),
        "--infer over several machines needs --results, a folder that this machine's hopfeed-server "
        "--results serves to the others");
    if (!dataset_->whole())
      peers.emplace(dataset_->meta(), dataset_->partitions(), task_.peers, leave_if_asked);
    std::optional<ProgressBar> bar;
    FullInference inference(inferred, *dataset_,
                            {.folder = layers,
                             .left = task_.left,
                             .memory = a_.memory,
                             .threads = task_.threads,
                             .device = task_.device,
                             .check_finite = task_.check_finite,
                             .peers = peers ? &*peers : nullptr,
                             .progress = [&](std::uint64_t done, std::uint64_t total) {
                               leave_if_asked();
                               bar->set(done, total);
                             }});
    std::vector<std::unique_ptr<WrittenOutput>> outputs;
    ClaimedFolders claimed(layers);
    open_outputs(inference, inferred, outputs, claimed);
    std::vector<ResultSink*> sinks;
    for (const auto& output : outputs) sinks.push_back(output.get());
    const auto begin = std::chrono::steady_clock::now();
    const bool finished = std::ranges::all_of(sinks, [](const ResultSink* sink) { return sink->finished(); });
    // The folder of layers may be the next run's by now.
    if (!finished || has_run(layers, inference.run_id())) {
      if (peers && task_.left == LeftRows::kStay)
        wait_until_fetched(layers, inference.run_id(), task_.peers.deadline, leave_if_asked);
      inference.take_folder();
      tell_disk(inference.disk(sinks), layers);
      bar.emplace("inference", 1, ProgressBarOptions{.unit = "rows"});
      inference.run(sinks);
      bar->finish();
    }
    claimed.keep();
    std::error_code ignored;
    if (a_.results.empty()) fs::remove_all(layers, ignored);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    nlohmann::json told = report(inference, outputs, seconds);
    outputs.clear();  // with their locks
    for (const Target& target : targets_) to_format(target);
    return told;
  }

 private:
  ModelDescription description() const {
    ModelDescription model;
    try {
      model = description_in(task_.model);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCorrupt) throw;
      throw Error(ErrorCode::kInvalid,
                  task_.model.string() + " is damaged, or no model that a training has left (model.pt)");
    }
    if (model.empty()) {
      std::fprintf(stderr, "%s says nothing of its model; it is taken to be what the options say\n",
                   task_.model.c_str());
      return task_.of_flags;
    }
    if (a_.alone()) refuse_of_model(*a_.line, task_.model);
    require_valid(
        model.kind == task_.kind,
        task_.model.string() + " is a model of " + model.kind + ", and this program infers models of " +
            task_.kind + "; use " +
            (model.kind == "links" ? "link_prediction" : "node_classification or hetero_classification"));
    const DatasetMeta meta = Dataset(task_.dataset, {.some_partitions = task_.peers.on()}).meta();
    require_fits(model, meta);
    if (model.fingerprint != meta.fingerprint)
      std::fprintf(
          stderr,
          "%s was trained on another dataset ('%s'); '%s' has the same types and widths, and it goes on\n",
          task_.model.c_str(), model.dataset.c_str(), meta.name.c_str());
    return model;
  }

  /// What a target is written as. Throws where the model has no such results.
  std::vector<OutputType> types_of(const Target& target, const FullInference& inference,
                                   const InferredModel& model) const {
    const auto& tables = target.name == "embeddings" ? inference.plan().embeddings : inference.plan().scores;
    require_valid(!tables.empty(),
                  "--write: the model (" + model.title + ") has no " + target.name + "; it has embeddings");
    std::vector<OutputType> types;
    for (const std::size_t table : tables) {
      const InferenceTable& t = inference.plan().tables[table];
      const auto wanted = wanted_.find(t.node_type);
      types.push_back({.node_type = t.node_type,
                       .width = target.name == "classes" ? 1 : t.width,
                       .wanted = wanted == wanted_.end() ? nullptr : &wanted->second});
    }
    return types;
  }

  OutputOptions options_of(const Target& target, const std::vector<OutputType>& types) const {
    return {.folder = target.folder,
            .name = target.name,
            .type = target.name == "classes" ? ElementType::kInt64
                    : a_.float16             ? ElementType::kFloat16
                                             : ElementType::kFloat32,
            .signature = signature_of(a_, target.name, types),
            .format = a_.format,
            .overwrite = a_.overwrite,
            .torch = TORCH_VERSION,
            .processor = processor_kind()};
  }

  /// All targets are looked at before a folder is made.
  void open_outputs(const FullInference& inference, const InferredModel& model,
                    std::vector<std::unique_ptr<WrittenOutput>>& outputs, ClaimedFolders& claimed) const {
    std::vector<std::vector<OutputType>> types;
    for (const Target& target : targets_) types.push_back(types_of(target, inference, model));
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      claimed.add(targets_[i].folder, targets_[i].name);
      OutputOptions options = options_of(targets_[i], types[i]);
      try {
        outputs.push_back(std::make_unique<WrittenOutput>(*dataset_, inference.run_id(), std::move(options),
                                                          std::move(types[i]), a_.softmax));
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kBusy) claimed.forget_last();
        throw;
      }
    }
  }

  static void tell_disk(const InferenceDisk& disk, const fs::path& layers) {
    std::fprintf(
        stderr, "inference takes up to %.1f MB of disk for layers in %s, and %.1f MB for its results\n",
        static_cast<double>(disk.layers) / 1e6, layers.c_str(), static_cast<double>(disk.results) / 1e6);
  }

  std::string what_stays(const fs::path& layers) const {
    return "what is whole stays in " + layers.string() + ", and " +
           (a_.alone() ? "the same command" : "--infer --model with the model.pt of --out") +
           " goes on from it";
  }

  void to_format(const Target& target) const {
    if (a_.format == "parquet")
      run_python({.module = kResultsModule,
                  .what = "--format parquet",
                  .words = {"to-parquet", target.folder.string()}});
  }

  nlohmann::json report(const FullInference& inference,
                        const std::vector<std::unique_ptr<WrittenOutput>>& outputs, double seconds) const {
    nlohmann::json written = nlohmann::json::object();
    for (const auto& output : outputs) {
      const std::int64_t rows = output->folder().rows();
      const OutputOptions& options = output->folder().options();
      std::printf("%s of %lld nodes in %s (%.1f s)\n", options.name.c_str(), static_cast<long long>(rows),
                  options.folder.c_str(), seconds);
      written[options.name] = {{"folder", options.folder.string()}, {"rows", rows}};
    }
    if (inference.left_layers())
      std::fprintf(
          stderr,
          "layers stay in %s until the other machines have fetched them; hopfeed-server removes them then\n",
          a_.results.c_str());
    return {
        {"run", to_text(inference.run_id())}, {"seconds", seconds},  {"threads", task_.threads},
        {"written", std::move(written)},      {"format", a_.format}, {"partitions", dataset_->partitions()}};
  }

  const InferenceArguments& a_;
  const InferenceTask& task_;
  const std::vector<Target> targets_;
  std::unique_ptr<Dataset> dataset_;
  std::map<int, std::vector<bool>> wanted_;
};

/// ModelEverywhere is rank 0's model file, on each machine that computes.
class ModelEverywhere {
 public:
  ModelEverywhere(World& world, std::filesystem::path file, bool computes) : path_(std::move(file)) {
    if (world.size() == 1) return;
    const std::string bytes = everywhere(world, path_);
    if (world.rank() == 0 || !computes) return;
    folder_.emplace();
    std::filesystem::create_directories(folder_->path());
    path_ = folder_->path() / path_.filename();
    save_model_bytes(path_, bytes);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  static std::string everywhere(World& world, const std::filesystem::path& file) {
    std::string bytes = world.rank() == 0 ? read_text_file(file, SIZE_MAX) : "";
    torch::Tensor size = torch::tensor({static_cast<std::int64_t>(bytes.size())}, torch::kInt64);
    world.broadcast(size);
    bytes.resize(static_cast<std::size_t>(size.item<std::int64_t>()));
    world.broadcast(torch::from_blob(bytes.data(), {std::ssize(bytes)}, torch::kUInt8));
    return bytes;
  }
  std::filesystem::path path_;
  std::optional<TemporaryLayers> folder_;
};

}  // namespace

void add_options(CommandLine& line, InferenceArguments& a) {
  a.line = &line;
  line.flag(
      "--infer", a.infer,
      "Compute every node's rows, exactly, and write them (--write); behind the training, or alone with "
      "--model");
  line.option("--model", a.model, "Infer with this trained model (model.pt), and train nothing");
  line.option(
      "--trained-on", a.trained_on,
      "Dataset folder of the training, where learned rows are to be matched by the nodes' keys, since "
      "--data is another");
  line.option(
      "--state", a.state,
      "Folders (A,B) of hopfeed-server --state, of a training with --owners, whose learned rows are read");
  line.option("--write", a.write,
              "What to write where: embeddings=DIR,scores=DIR,classes=DIR, those that are wanted",
              {.output = true});
  line.option("--format", a.format, "Of the files: npy, or parquet (by the Python package)",
              {.one_of = {"npy", "parquet"}});
  line.option("--nodes", a.nodes,
              "Write these nodes alone: a .npy file of original ids, or TYPE=FILE for each node type");
  line.flag("--softmax", a.softmax, "Write scores as shares that sum up to 1, not as logits");
  line.flag("--float16", a.float16, "Write embeddings and scores in float16");
  line.size_option("--memory", a.memory, "Memory for the rows that a layer reads; more is read in slices");
  line.option("--results", a.results,
              "Folder for layers between, which hopfeed-server --results serves to other machines; default: "
              "within the first folder of --write",
              {.output = true});
  line.flag("--overwrite", a.overwrite, "Remove the results of another run in these folders");
}

void check(const InferenceArguments& a, const CheckedBeside& beside) {
  const auto& [remote, peers, exact, data, out] = beside;
  if (!a.infer) {
    for (const auto& [given, name] : {std::pair{!a.model.empty(), "--model"},
                                      {!a.write.empty(), "--write"},
                                      {!a.nodes.empty(), "--nodes"},
                                      {!a.state.empty(), "--state"},
                                      {!a.trained_on.empty(), "--trained-on"},
                                      {a.softmax, "--softmax"},
                                      {a.float16, "--float16"},
                                      {a.overwrite, "--overwrite"},
                                      {a.line->given("--memory"), "--memory"},
                                      {a.format != "npy", "--format"}})
      require_valid(!given, std::string(name) + " goes with --infer");
    require_valid(a.results.empty() || (exact && peers),
                  std::string("--results goes with --infer") +
                      (exact ? ", or with exact accuracies over several machines (--peers)" : ""));
    return;
  }
  require_valid(!remote,
                "--infer reads the whole graph, which --servers do not give; run it with --data on a "
                "machine that has the dataset, or some of its partitions (--peers)");
  if (a.alone()) refuse_of_training(*a.line);
  require_valid(!a.write.empty(), "--infer needs --write, as embeddings=DIR,scores=DIR");
  require_valid(!a.model.empty() || !out.empty(),
                "--infer needs a model: --model FILE, or --out where it follows a training");
  std::error_code error;
  if (!a.model.empty() && !fs::exists(a.model, error))
    throw Error(ErrorCode::kNotFound, "--model: there is no file " + a.model.string());
  for (const Target& target : targets_of(a))
    require_valid(data.empty() || !is_within(target.folder, whole_path(data)),
                  "--write: " + target.folder.string() + " lies inside the dataset; choose another");
  require_valid(!peers || !a.results.empty(),
                "--infer over several machines needs --results, a folder that this machine's hopfeed-server "
                "--results serves to the others");
  if (a.format == "parquet")
    run_python({.module = kResultsModule, .what = "--format parquet", .words = {"check"}});
}

void infer_alone(const InferenceArguments& arguments, const ProcessArguments& process,
                 const std::function<InferenceTask(torch::Device)>& task) {
  JsonReport report(process.json);
  const LocalRanks local = local_ranks();
  if (local.known && local.rank != 0) return;  // one process of a machine computes its partitions
  const cpu_set_t cores = cores_of_run(process.cores);
  sched_setaffinity(0, sizeof cores, &cores);
  const torch::Device device = device_of(process);
  at::set_num_threads(arguments.line->given("--threads") ? process.threads : CPU_COUNT(&cores));
  report.write({{"inference", Inference(arguments, task(device)).run()}});
}

nlohmann::json infer_together(World& world, const InferenceArguments& arguments, InferenceTask task) {
  const LocalRanks local = local_ranks();
  const bool computes = task.peers.on() ? !local.known || local.rank == 0 : world.rank() == 0;
  const ModelEverywhere model(world, task.model, computes);
  task.model = model.path();
  task.left = LeftRows::kGo;  // all machines are past the training's own inferences
  nlohmann::json report;
  do_together(world,
              computes ? std::function<void()>([&] { report = Inference(arguments, task).run(); }) : nullptr);
  return report;
}

}  // namespace hopfeed
