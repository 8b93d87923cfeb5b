// See checkpoint.h.
#include "trainer/checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/json_text.h"
#include "core/base/owned_fd.h"
#include "trainer/dist_embedding.h"
#include "trainer/launched_run.h"

namespace hopfeed {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TierCounts, memory_rows, memory_bytes, cache_rows, cache_bytes, file_rows,
                                   file_bytes, reads, read_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WaitTimes, for_sampling, for_gather, for_handover, for_slot, for_memory)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeldShare, millionths)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuUse, gpu_batches, cpu_batches, graph_bytes, rows_bytes, graph, rows)
// Checkpoints from before the newest figures lack them.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(EpochRow, epoch, loss, valid_accuracy, valid_auc, test_auc,
                                                seconds, valid_seconds, batches, batches_per_s, waits,
                                                hit_rate, tiers, gpu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainingProgress, epoch, position, loss_sum, loss_seeds, batches, seconds,
                                   waited, best_accuracy, best_epoch, world_size, rows)

namespace {

constexpr const char* kDescription = "hopfeed";  // in a model's file, beside its parameters

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

/// The old file stays until the new one is whole on disk. Torch hands the file over part by part, so that
/// beside the archive's tensors nothing of it is in memory.
void replace_file(const std::filesystem::path& path, OutputArchive& archive) {
  AtomicFile file(path);
  std::exception_ptr failure;  // thrown behind Torch's writer, which would write on while it is unwound
  archive.save_to([&](const void* bytes, std::size_t size) {
    try {
      if (!failure) file.write(std::span(static_cast<const std::byte*>(bytes), size));
    } catch (...) {
      failure = std::current_exception();
    }
    return size;
  });
  if (failure) std::rethrow_exception(failure);
  file.commit();
}

std::string read_all(const std::filesystem::path& path) {
  const OwnedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw_errno("cannot read '" + path.string() + "'", errno);
  std::string bytes;
  char buffer[1 << 16];
  for (ssize_t got; (got = read(file.get(), buffer, sizeof buffer)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read '" + path.string() + "'", errno);
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
  return bytes;
}

/// Rank 0's text on every rank.
std::string broadcast_text(std::string text, World& world) {
  torch::Tensor size = torch::full({1}, static_cast<std::int64_t>(text.size()), torch::kInt64);
  world.broadcast(size);
  text.resize(static_cast<std::size_t>(size.item<std::int64_t>()));
  world.broadcast(torch::from_blob(text.data(), {static_cast<std::int64_t>(text.size())}, torch::kUInt8));
  return text;
}

/// JSON has no NaN and no infinity, but a loss may be one: they are kept as text.
nlohmann::json nonfinite_as_text(const nlohmann::json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return std::to_string(value.get<double>());
  if (!value.is_structured()) return value;
  nlohmann::json result = value;
  for (nlohmann::json& item : result) item = nonfinite_as_text(item);
  return result;
}
nlohmann::json nonfinite_as_number(const nlohmann::json& value) {
  if (value.is_string()) return std::stod(value.get<std::string>());
  if (!value.is_structured()) return value;
  nlohmann::json result = value;
  for (nlohmann::json& item : result) item = nonfinite_as_number(item);
  return result;
}

std::string to_text(const torch::Tensor& bytes) {
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<std::uint8_t>()),
          static_cast<std::size_t>(bytes.numel())};
}

torch::Tensor to_byte_tensor(const std::string& text) {
  torch::Tensor bytes = torch::empty({static_cast<std::int64_t>(text.size())}, torch::kUInt8);
  std::memcpy(bytes.mutable_data_ptr<std::uint8_t>(), text.data(), text.size());
  return bytes;
}

void require_same(const Settings& stored, const Settings& settings, const std::filesystem::path& path) {
  const std::optional<ToldSetting> other = first_difference(stored, settings);
  if (!other) return;
  throw Error(ErrorCode::kInvalid, "checkpoint '" + path.string() + "' was made with " + other->name + " " +
                                       other->stored + ", this run has " + other->here +
                                       "; use the same, or start afresh without resuming");
}

/// Numbers that a run cannot go on from were never written.
void require_cursor(const nlohmann::json& progress, const std::filesystem::path& path) {
  for (const auto& [name, least] : {std::pair{"epoch", 0},
                                    {"position", 0},
                                    {"loss_seeds", 0},
                                    {"batches", 0},
                                    {"best_epoch", -1},
                                    {"world_size", 1}}) {
    if (is_whole(progress.at(name), least, INT64_MAX)) continue;
    throw Error(ErrorCode::kCorrupt, "'" + path.string() + "' is damaged: its " + name + " is " +
                                         json_shown(progress.at(name)) + "; remove it and start afresh");
  }
}

/// Torch's own complaints about a damaged file name no file.
template <class Body>
auto reading(const std::filesystem::path& path, Body body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const nlohmann::json::exception&) {
    throw Error(
        ErrorCode::kCorrupt,
        "'" + path.string() + "' was written by another version of hopfeed; remove it and start afresh");
  } catch (const std::exception&) {  // c10::Error, and what the pickled parts throw
    throw Error(ErrorCode::kCorrupt,
                "'" + path.string() + "' is damaged or not of this model; remove it and start afresh");
  }
}

/// What is stored of learned rows.
enum class Rows {
  kWhole,   // with their optimizer's state
  kValues,  // without
};

torch::Tensor on_host(const torch::Tensor& tensor) {
  return tensor.is_cpu() ? tensor : tensor.detach().cpu().set_requires_grad(tensor.requires_grad());
}

/// What Module::save does, but for learned rows, and in the host's memory.
void save_module(const torch::nn::Module& model, OutputArchive& archive, Rows rows) {
  if (const auto* table = dynamic_cast<const DistEmbeddingImpl*>(&model))
    return rows == Rows::kValues ? table->save_values(archive) : table->save(archive);
  for (const auto& parameter : model.named_parameters(/*recurse=*/false))
    archive.write(parameter.key(), on_host(parameter.value()));
  for (const auto& buffer : model.named_buffers(/*recurse=*/false))
    archive.write(buffer.key(), on_host(buffer.value()), /*is_buffer=*/true);
  for (const auto& child : model.named_children()) {
    if (!child.value()->is_serializable()) continue;
    OutputArchive child_archive(archive.compilation_unit());
    save_module(*child.value(), child_archive, rows);
    archive.write(child.key(), child_archive);
  }
}

/// Where the parameters are; without any the CPU.
torch::Device device_of(const torch::nn::Module& model) {
  const std::vector<torch::Tensor> parameters = model.parameters();
  return parameters.empty() ? torch::Device(torch::kCPU) : parameters.front().device();
}

/// The generators of the CPU, and of the device that dropout draws on.
std::vector<at::Generator> generators_of(torch::Device device) {
  std::vector<at::Generator> generators{at::detail::getDefaultCPUGenerator()};
  if (!device.is_cpu()) generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
}

torch::Tensor state_of(const std::vector<at::Generator>& generators) {
  std::vector<torch::Tensor> states;
  for (const at::Generator& generator : generators) states.push_back(generator.get_state());
  return torch::cat(states);
}

/// Sets the generators as far as `state` goes: that of another kind of device ends behind the CPU's, or has
/// another length.
void set_state(std::vector<at::Generator> generators, const torch::Tensor& state) {
  const bool same = state.size(0) == state_of(generators).size(0);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < (same ? generators.size() : 1); ++i) {
    const std::int64_t size = generators[i].get_state().size(0);
    generators[i].set_state(state.narrow(0, begin, size).clone());
    begin += size;
  }
}

/// Adam's running means, beside the parameters that they are of.
void move_state(torch::optim::Optimizer& optimizer, torch::Device device) {
  const auto moved = [device](const torch::Tensor& mean) { return mean.defined() ? mean.to(device) : mean; };
  for (auto& [parameter, state] : optimizer.state()) {
    auto* adam = dynamic_cast<torch::optim::AdamParamState*>(state.get());
    if (adam == nullptr) continue;
    adam->exp_avg(moved(adam->exp_avg()));
    adam->exp_avg_sq(moved(adam->exp_avg_sq()));
    adam->max_exp_avg_sq(moved(adam->max_exp_avg_sq()));
  }
}

/// Values are copied into the parameters that are there: Module::load would give them new memory, and with it
/// lose the hooks by which the reducer sees their gradients.
void load_parameters(InputArchive& archive, torch::nn::Module& model) {
  if (auto* table = dynamic_cast<DistEmbeddingImpl*>(&model))
    return table->load(archive);  // it has no parameters that a reducer sees
  const torch::NoGradGuard no_gradients;
  for (auto& parameter : model.named_parameters(/*recurse=*/false)) {
    torch::Tensor stored;
    archive.read(parameter.key(), stored);
    if (stored.sizes() != parameter.value().sizes()) throw std::runtime_error("another shape");
    parameter.value().copy_(stored);
  }
  for (const auto& child : model.named_children()) {
    InputArchive child_archive;
    archive.read(child.key(), child_archive);
    load_parameters(child_archive, *child.value());
  }
}

/// Empty: there is none of that name.
std::string text_in(InputArchive& archive, const char* name) {
  torch::Tensor bytes;
  return archive.try_read(name, bytes, true) ? to_text(bytes) : "";
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, torch::nn::Module& model,
                     torch::optim::Optimizer& optimizer, const TrainingProgress& progress,
                     const Settings& settings, World& world, const StateParts& state,
                     const std::function<void()>& commit, const WorkTold& told) {
  const torch::Tensor generators = world.gather(state_of(generators_of(device_of(model))));
  const auto write = [&] {
    OutputArchive archive, model_archive, optimizer_archive;
    save_module(model, model_archive, Rows::kWhole);
    optimizer.save(optimizer_archive);
    archive.write("model", model_archive);
    archive.write("optimizer", optimizer_archive);
    archive.write("progress", to_byte_tensor(nonfinite_as_text(progress).dump()), /*is_buffer=*/true);
    archive.write("settings", to_byte_tensor(nlohmann::json(settings).dump()), /*is_buffer=*/true);
    archive.write("generators", generators, /*is_buffer=*/true);
    if (const std::string& run = launched_run(world).id; !run.empty())
      archive.write("run", to_byte_tensor(run), /*is_buffer=*/true);
    if (!state.manifest.empty()) archive.write("state", to_byte_tensor(state.manifest), /*is_buffer=*/true);
    if (!state.best_model.empty())
      archive.write("best", to_byte_tensor(state.best_model), /*is_buffer=*/true);
    replace_file(path, archive);
    if (commit) commit();
  };
  const bool writes = world.rank() == 0 && !path.empty();
  do_together(world, writes ? write : std::function<void()>(), told);
}

LoadedCheckpoint load_checkpoint(const std::filesystem::path& path, torch::nn::Module& model,
                                 torch::optim::Optimizer& optimizer, const Settings& settings, World& world) {
  std::string bytes;
  const auto read = [&] { bytes = read_all(path); };
  do_together(world, world.rank() == 0 ? read : std::function<void()>());
  bytes = broadcast_text(std::move(bytes), world);
  return reading(path, [&] {
    InputArchive archive, model_archive, optimizer_archive;
    archive.load_from(bytes.data(), bytes.size(), torch::kCPU);
    torch::Tensor progress_text, settings_text, generators;
    archive.read("settings", settings_text, true);
    require_same(parse_json(to_text(settings_text)).get<Settings>(), settings, path);
    archive.read("progress", progress_text, true);
    archive.read("generators", generators, true);
    archive.read("model", model_archive);
    archive.read("optimizer", optimizer_archive);
    load_parameters(model_archive, model);
    optimizer.state().clear();  // load() leaves what the archive, of before the first step, has not
    optimizer.load(optimizer_archive);
    move_state(optimizer, device_of(model));
    if (generators.size(0) == world.size())
      set_state(generators_of(device_of(model)), generators[world.rank()]);
    const nlohmann::json progress = nonfinite_as_number(parse_json(to_text(progress_text)));
    require_cursor(progress, path);
    return LoadedCheckpoint{
        .progress = progress.get<TrainingProgress>(),
        .state = {.manifest = text_in(archive, "state"), .best_model = text_in(archive, "best")}};
  });
}

namespace {

std::string text_in_file(const std::filesystem::path& path, const char* name) {
  const std::string bytes = read_all(path);
  return reading(path, [&] {
    InputArchive archive;
    archive.load_from(bytes.data(), bytes.size(), torch::kCPU);
    return text_in(archive, name);
  });
}

}  // namespace

std::string state_of_checkpoint(const std::filesystem::path& path) { return text_in_file(path, "state"); }
std::string run_of_checkpoint(const std::filesystem::path& path) { return text_in_file(path, "run"); }

namespace {

void save_model_to(OutputArchive& archive, const torch::nn::Module& model, const std::string& description) {
  save_module(model, archive, Rows::kValues);
  if (!description.empty()) archive.write(kDescription, c10::IValue(description));
}

}  // namespace

void save_model(const std::filesystem::path& path, const torch::nn::Module& model,
                const std::string& description) {
  OutputArchive archive;
  save_model_to(archive, model, description);
  replace_file(path, archive);
}

std::string description_text_of_model(const std::filesystem::path& path) {
  const std::string bytes = read_all(path);
  std::string text;
  reading(path, [&] {
    InputArchive archive;
    archive.load_from(bytes.data(), bytes.size(), torch::kCPU);
    c10::IValue found;
    if (archive.try_read(kDescription, found) && found.isString()) text = found.toStringRef();
  });
  return text;
}

void load_model(const std::filesystem::path& path, torch::nn::Module& model) {
  const std::string bytes = read_all(path);
  reading(path, [&] { load_model_bytes(bytes, model); });
}

std::string model_bytes(const torch::nn::Module& model, const std::string& description) {
  OutputArchive archive;
  save_model_to(archive, model, description);
  std::ostringstream bytes;
  archive.save_to(bytes);
  return std::move(bytes).str();
}

void save_model_bytes(const std::filesystem::path& path, const std::string& bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void load_model_bytes(const std::string& bytes, torch::nn::Module& model) {
  InputArchive archive;
  archive.load_from(bytes.data(), bytes.size(), torch::kCPU);
  load_parameters(archive, model);
}

}  // namespace hopfeed
