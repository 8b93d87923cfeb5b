// See fake_room.h.
#include "tests/gpu/fake_room.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "gpu/batches/device_room_on.h"
#include "gpu/device/host_backend.h"

namespace hopfeed::gpu {
namespace {

using std::chrono::milliseconds;

/// A kernel runs beside its process, and so outlives it: here it is a process of its own, which does nothing
/// while the worker lives (that one writes the block itself), and then for a while writes rubbish into the
/// slot.
class LingeringBackend : public SerialBackend {
 public:
  struct Options {
    milliseconds linger{0};
  };
  explicit LingeringBackend(const Options& options) : SerialBackend({}), linger_(options.linger) {}
  ~LingeringBackend() { finish_kernel(); }

  void wait() {
    finish_kernel();
    SerialBackend::wait();
  }
  void start_kernel(std::byte* slot) {
    finish_kernel();
    int ends[2];
    if (pipe(ends) != 0) throw_errno("a kernel cannot be started", errno);
    const OwnedFd worker_lives(ends[0]);
    worker_waits_ = OwnedFd(ends[1]);
    kernel_ = fork();
    if (kernel_ > 0) FAILPOINT("device.kernel");
    if (kernel_ != 0) return;
    close(worker_waits_.get());
    char byte = 0;
    if (read(worker_lives.get(), &byte, 1) == 1) _exit(0);
    for (const auto end = std::chrono::steady_clock::now() + linger_;
         std::chrono::steady_clock::now() < end;) {
      std::memset(slot, 0xEE, kPageBytes);
      std::this_thread::sleep_for(milliseconds(1));
    }
    _exit(0);
  }

 private:
  void finish_kernel() {
    if (kernel_ <= 0) return;
    [[maybe_unused]] const ssize_t written = write(worker_waits_.get(), "", 1);
    worker_waits_ = OwnedFd();
    waitpid(std::exchange(kernel_, -1), nullptr, 0);
  }

  const milliseconds linger_;
  pid_t kernel_ = -1;
  OwnedFd worker_waits_;  // a byte: it waits for the kernel; closed without one: it is dead
};

class LingeringSlots final : public SharedSlotsOn<LingeringBackend> {
 public:
  using SharedSlotsOn<LingeringBackend>::SharedSlotsOn;
  void before_write(std::size_t offset, LingeringBackend& writer) override {
    SharedSlotsOn<LingeringBackend>::before_write(offset, writer);
    writer.start_kernel(device_ + offset);
  }
};

class LingeringRoom final : public DeviceRoomOn<LingeringBackend> {
 public:
  using DeviceRoomOn<LingeringBackend>::DeviceRoomOn;
  std::unique_ptr<ChannelMemory> import_slots(ChannelMemory& host, int device_fd,
                                              std::uint32_t number) override {
    return std::make_unique<LingeringSlots>(host, backend_, device_fd, number);
  }
};

}  // namespace

std::shared_ptr<DeviceRoom> make_fake_room(const std::string& name, AvailableMemory (*available)()) {
  constexpr std::string_view lingering = "lingering ";
  if (name == "forward")
    return std::make_shared<DeviceRoomOn<SerialBackend>>(SerialBackend::Options{}, available, name);
  if (name == "shuffled")
    return std::make_shared<DeviceRoomOn<SerialBackend>>(
        SerialBackend::Options{.order = ItemOrder::kShuffled, .seed = 5}, available, name);
  if (name == "threads")
    return std::make_shared<DeviceRoomOn<ThreadedBackend>>(ThreadedBackend::Options{.threads = 2}, available,
                                                           name);
  if (name.starts_with(lingering))
    return std::make_shared<LingeringRoom>(
        LingeringBackend::Options{.linger = milliseconds(std::stol(name.substr(lingering.size())))},
        available, name);
  return nullptr;
}

}  // namespace hopfeed::gpu
