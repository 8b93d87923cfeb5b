// See world.h.
#include "trainer/world.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <span>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/base/error.h"
#include "stream/torchrun_environment.h"
#include "trainer/device.h"
#include "trainer/nccl_module.h"
#include "trainer/world_connection.h"

namespace hopfeed {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

constexpr const char* kLessMemory =
    "; lower --batch-size or --fanouts, or compute with --precision bf16, or take another --device";

[[noreturn]] void rethrow(const std::string& what, const std::string& message) {
  const bool late = contains(message, "imed out") || contains(message, "imeout");
  const bool gone = contains(message, "onnection closed") || contains(message, "onnection reset") ||
                    contains(message, "onnection refused") || contains(message, "roken pipe") ||
                    contains(message, "ailed to connect");
  const ErrorCode code = late ? ErrorCode::kTimeout : gone ? ErrorCode::kPeerDied : ErrorCode::kIo;
  const char* cause = late   ? ": another trainer did not answer in time: "
                      : gone ? ": another trainer is gone: "
                             : ": ";
  throw Error(code, what + cause + first_line(message));
}

/// torchrun's agent hosts the store and keeps it over restarts, so each attempt has its own keys, or a
/// restarted run would find the dead one's. Elsewhere rank 0 hosts it.
c10::intrusive_ptr<c10d::Store> connect_store(const TorchrunEnvironment& env,
                                              std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = env.master_port;
  options.isServer = !env.agent_store && env.rank == 0;
  options.numWorkers = env.world_size;
  options.timeout = timeout;
  const std::string address = env.master_addr + ":" + std::to_string(env.master_port);
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(env.master_addr, options);
    if (!env.agent_store) return store;
    return c10::make_intrusive<c10d::PrefixStore>("/worker/attempt_" + std::to_string(env.restart_count),
                                                  std::move(store));
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    if (contains(message, "EADDRINUSE")) {
      throw Error(ErrorCode::kIo,
                  "MASTER_PORT: " + address +
                      " is in use; end the other run or give another port (torchrun --master-port)");
    }
    throw Error(ErrorCode::kIo, "MASTER_ADDR: no store answers at " + address + " within " +
                                    std::to_string(timeout.count() / 1000) +
                                    " s; are all trainers started? " + first_line(message));
  }
}

/// What trainers reach each other by. Gloo has no authentication, so within one machine it is the loopback;
/// between machines the interface of GLOO_SOCKET_IFNAME, as PyTorch has it, else the one that this machine's
/// name stands for.
std::shared_ptr<::gloo::transport::Device> gloo_device(const TorchrunEnvironment& env) {
  if (env.one_machine()) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0')
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const TorchrunEnvironment& env,
                                            std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(gloo_device(env));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, env.rank, env.world_size, options);
}

std::filesystem::path nccl_module() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / kNcclModule;
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                            const TorchrunEnvironment& env, int gpu,
                                            std::chrono::milliseconds timeout) {
  void* handle = dlopen(nccl_module().c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = handle ? dlsym(handle, kMakeNcclBackend) : nullptr;
  if (!entry) {
    throw Error(ErrorCode::kUnsupported,
                std::string("backend nccl: this build has none, it was made without CUDA's headers (") +
                    dlerror() + "); use --backend gloo");
  }
  return reinterpret_cast<MakeNcclBackend*>(entry)(store, env.rank, env.world_size, gpu, timeout);
}

}  // namespace

void translate_torch_errors(const std::string& what, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(ErrorCode::kNoSpace, what + ": " + first_line(error.what_without_backtrace()) + kLessMemory);
  } catch (const c10::AcceleratorError& error) {
    throw Error(ErrorCode::kIo, what + ": " + first_line(error.what_without_backtrace()) +
                                    "; the device is lost to this process, so start it again (with "
                                    "CUDA_LAUNCH_BLOCKING=1 the error names the operation)");
  } catch (const c10::Error& error) {
    rethrow(what, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    rethrow(what, error.what());
  }
}

World::World(const WorldOptions& options) : timeout_(options.timeout) {
  if (options.backend != "auto" && options.backend != "gloo" && options.backend != "nccl") {
    throw Error(ErrorCode::kInvalid,
                marked("backend") + " is '" + options.backend + "'; use auto, gloo or nccl");
  }
  const std::optional<TorchrunEnvironment> env = torchrun_environment();
  if (options.expected_size && !env && *options.expected_size != 1) {
    throw Error(ErrorCode::kInvalid,
                "no torchrun environment, but " + std::to_string(*options.expected_size) +
                    " trainers are asked for; start with torchrun --no-python --nproc-per-node=" +
                    std::to_string(*options.expected_size) + " PROGRAM");
  }
  if (env) {
    rank_ = env->rank;
    size_ = env->world_size;
    restart_count_ = env->restart_count;
  }
  if (options.expected_size && *options.expected_size != size_) {
    throw Error(ErrorCode::kInvalid, std::to_string(*options.expected_size) +
                                         " trainers are asked for, but WORLD_SIZE is " +
                                         std::to_string(size_));
  }
  const bool nccl = options.backend == "nccl";
  if (size_ == 1 && !nccl) return;
  translate_torch_errors("joining the other trainers", [&] {
    const TorchrunEnvironment here = env.value_or(TorchrunEnvironment{});
    c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
    const std::chrono::milliseconds joins_within = options.joins_within.value_or(options.timeout);
    if (env) store = connect_store(here, joins_within);
    auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank_, size_);
    const auto add_nccl = [&] {
      const int gpu = options.device.is_cuda() ? options.device.index() : here.local.rank;
      group->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
                        make_nccl(store, here, gpu, options.timeout));
    };
    if (nccl) add_nccl();
    const auto gloo = make_gloo(store, here, joins_within);
    gloo->setTimeout(options.timeout);
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
    connection_ = std::make_unique<WorldConnection>(WorldConnection{store, group});
    if (nccl) return;
    if (options.backend == "auto" && each_has_a_gpu(options.device))
      add_nccl();
    else if (options.device.is_cuda())
      group->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::GLOO, gloo);
  });
}

/// Two ranks on one GPU are an error to NCCL; Gloo copies through the host's memory. All ranks see the same
/// and decide alike.
bool World::each_has_a_gpu(torch::Device mine) {
  GpuId id = std::filesystem::exists(nccl_module()) ? gpu_id(mine) : GpuId{};
  const torch::Tensor all = gather(torch::from_blob(id.data(), {std::ssize(id)}, torch::kUInt8));
  std::set<GpuId> different{GpuId{}};
  for (std::int64_t rank = 0; rank < size_; ++rank) {
    std::copy_n(all[rank].const_data_ptr<std::uint8_t>(), id.size(), id.begin());
    if (!different.insert(id).second) return false;
  }
  return true;
}

World::~World() = default;

std::vector<double> World::sum(std::vector<double> values) {
  values.push_back(wishes_to_stop_ ? 1 : 0);
  values.push_back(wishes_to_go_back_ ? 1 : 0);
  if (connection_) sum_over_ranks(values);
  go_back_agreed_ = values.back() > 0;
  values.pop_back();
  stop_agreed_ = values.back() > 0;
  values.pop_back();
  return values;
}

void World::sum_over_ranks(std::vector<double>& values) {
  translate_torch_errors("summing over the trainers", [&] {
    std::vector<torch::Tensor> tensors{
        torch::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, torch::kFloat64)};
    connection_->group->allreduce(tensors)->wait();
  });
}

torch::Tensor World::gather(const torch::Tensor& bytes) {
  torch::Tensor all = torch::empty({size_, bytes.size(0)}, torch::kUInt8);
  if (!connection_) return all.copy_(bytes.unsqueeze(0));
  translate_torch_errors("gathering from the trainers", [&] {
    std::vector<std::vector<torch::Tensor>> outputs{all.unbind(0)};
    std::vector<torch::Tensor> inputs{bytes};
    connection_->group->allgather(outputs, inputs)->wait();
  });
  return all;
}

// Gloo gathers tensors of one size, so those of all ranks are padded to the longest.
std::vector<torch::Tensor> World::gather_rows(const torch::Tensor& rows) {
  if (!connection_) return {rows};
  std::int64_t mine = rows.size(0);
  const torch::Tensor counts = gather(torch::from_blob(&mine, {sizeof mine}, torch::kUInt8));
  const std::span count(static_cast<const std::int64_t*>(counts.const_data_ptr()),
                        static_cast<std::size_t>(size_));
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape[0] = *std::max_element(count.begin(), count.end());
  const torch::Tensor padded = torch::empty(shape, rows.options());
  padded.narrow(0, 0, mine).copy_(rows);
  shape.insert(shape.begin(), size_);
  const torch::Tensor all = torch::empty(shape, rows.options());
  std::vector<torch::Tensor> result = all.unbind(0);
  if (all.numel() > 0) {
    translate_torch_errors("gathering from the trainers", [&] {
      std::vector<std::vector<torch::Tensor>> outputs{result};
      std::vector<torch::Tensor> inputs{padded};
      connection_->group->allgather(outputs, inputs)->wait();
    });
  }
  for (std::size_t rank = 0; rank < result.size(); ++rank)
    result[rank] = result[rank].narrow(0, 0, count[rank]);
  return result;
}

void World::broadcast(torch::Tensor tensor) {
  if (!connection_) return;
  translate_torch_errors("sending to the trainers", [&] {
    std::vector<torch::Tensor> tensors{tensor};
    connection_->group->broadcast(tensors)->wait();
  });
}

}  // namespace hopfeed
