// A World is the trainers of one run. Launching and rendezvous are the launcher's (torchrun_environment.h);
// what they exchange goes through c10d: Gloo for tensors on the CPU, NCCL for those on GPUs.
#pragma once
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hopfeed {

struct WorldConnection;  // world_connection.h

struct WorldOptions {
  std::string backend = "auto";  // gloo | nccl | auto: nccl where each rank has a GPU to itself
  torch::Device device =
      torch::kCPU;  // of the tensors that ranks exchange beside those on the CPU (device.h)
  std::chrono::milliseconds timeout{300'000};  // a call that waits longer for another trainer throws
  std::optional<std::chrono::milliseconds> joins_within;  // for the others to start; none: the timeout
  std::optional<std::int64_t> expected_size;              // refuse to start with another number of trainers
};

/// Every call that moves data must be made by all ranks in the same order; a trainer that died or does not
/// answer makes it throw kPeerDied or kTimeout.
class World {
 public:
  /// Reads the launcher's environment; without one, the world is one trainer. Throws kInvalid for a broken
  /// environment, kIo where the store cannot be reached or its port is taken, kUnsupported for a backend that
  /// this machine cannot run.
  explicit World(const WorldOptions& options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::int64_t rank() const { return rank_; }
  std::int64_t size() const { return size_; }
  /// Returns how often the launcher has restarted this run: above 0, go on from a checkpoint.
  std::int64_t restart_count() const { return restart_count_; }

  std::chrono::milliseconds timeout() const { return timeout_; }

  /// Sums over all ranks, the same on each.
  std::vector<double> sum(std::vector<double> values);
  /// Notes that this rank has been asked to stop. The wish travels with its next sum, so that all ranks know
  /// of it after the same sum and none waits for one that has left.
  void wish_to_stop() { wishes_to_stop_ = true; }
  bool stop_agreed() const { return stop_agreed_; }
  /// Notes that this rank can only go on from the last checkpoint, since an owner has lost what was learned.
  /// That wish travels likewise; gone_back() ends it.
  void wish_to_go_back() { wishes_to_go_back_ = true; }
  bool go_back_agreed() const { return go_back_agreed_; }
  void gone_back() { wishes_to_go_back_ = go_back_agreed_ = false; }
  /// Returns a uint8 vector of every rank, equally long on all of them: [ranks, bytes], on every rank.
  torch::Tensor gather(const torch::Tensor& bytes);
  /// Returns the rows of every rank, [n, ...] with any n and the rest alike on all of them: a tensor per
  /// rank, the same on every rank.
  std::vector<torch::Tensor> gather_rows(const torch::Tensor& rows);
  /// Puts rank 0's values on every rank, in place; shapes must agree.
  void broadcast(torch::Tensor tensor);

  /// Returns null where the world is one trainer.
  const WorldConnection* connection() const { return connection_.get(); }

 private:
  void sum_over_ranks(std::vector<double>& values);
  bool each_has_a_gpu(torch::Device mine);
  std::int64_t rank_ = 0, size_ = 1, restart_count_ = 0;
  std::chrono::milliseconds timeout_;
  bool wishes_to_stop_ = false, stop_agreed_ = false;
  bool wishes_to_go_back_ = false, go_back_agreed_ = false;
  std::unique_ptr<WorldConnection> connection_;
};

/// Calls `body`; what Torch throws becomes one line: kNoSpace where a GPU's memory does not suffice, kTimeout
/// or kPeerDied where other trainers are the cause, else kIo.
void translate_torch_errors(const std::string& what, const std::function<void()>& body);

}  // namespace hopfeed
