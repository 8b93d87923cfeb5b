// See io_ring.h.
#include "cache/io_ring.h"

#include <liburing.h>

#include <cerrno>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

class IoRing final : public FileReader {
 public:
  /// Takes the ring over.
  IoRing(const io_uring& ring, std::span<const int> files, const ReaderOptions& options)
      : FileReader(options), ring_(ring), files_(files.begin(), files.end()) {
    std::vector<iovec> memory;
    for (int i = 0; i < options.depth; ++i)
      memory.push_back({.iov_base = buffers().at(i).data(), .iov_len = options.buffer_bytes});
    registered_ = io_uring_register_buffers(&ring_, memory.data(), static_cast<unsigned>(options.depth)) == 0;
  }

  ~IoRing() override {
    try {
      while (under_way_ > 0 && wait(kLastReads)) {
      }
    } catch (const Error&) {  // as if they did not end
    }
    if (under_way_ > 0) buffers_->keep_for_ever();
    io_uring_queue_exit(&ring_);
  }

  void start(const Read& read) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {  // the ring has room for twice as many as there are buffers
      submit();
      entry = io_uring_get_sqe(&ring_);
    }
    std::byte* const to = buffers().at(read.buffer).data() + read.into;
    const int file = files_[static_cast<std::size_t>(read.file)];
    if (registered_) {
      io_uring_prep_read_fixed(entry, file, to, read.bytes, read.offset, read.buffer);
    } else {
      io_uring_prep_read(entry, file, to, read.bytes, read.offset);
    }
    entry->user_data = static_cast<std::uint64_t>(read.buffer);
    ++under_way_;
  }

  void submit() override {
    while (io_uring_sq_ready(&ring_) > 0) {
      const int result = io_uring_submit(&ring_);
      // EAGAIN, EBUSY: the kernel takes more when it has room; wait() submits again.
      if (result == -EAGAIN || result == -EBUSY) return;
      if (result < 0 && result != -EINTR) throw_errno("cannot begin reads by io_uring", -result);
    }
  }

  std::optional<Done> wait(std::chrono::milliseconds time) override {
    io_uring_cqe* entry = nullptr;
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (io_uring_peek_cqe(&ring_, &entry) != 0) {
      submit();
      const auto left =
          std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return std::nullopt;
      __kernel_timespec span{.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
      const int result = io_uring_wait_cqe_timeout(&ring_, &entry, &span);
      if (result < 0 && result != -ETIME && result != -EINTR && result != -EAGAIN && result != -EBUSY)
        throw_errno("cannot wait for reads by io_uring", -result);
      entry = nullptr;
    }
    const Done done{.buffer = static_cast<int>(entry->user_data), .result = entry->res};
    io_uring_cqe_seen(&ring_, entry);
    --under_way_;
    return done;
  }

  int under_way() const override { return under_way_; }
  const char* name() const override { return "io_uring"; }

 private:
  io_uring ring_;
  const std::vector<int> files_;
  bool registered_ = false;
  int under_way_ = 0;
};

}  // namespace

std::unique_ptr<FileReader> open_io_ring(std::span<const int> files, const ReaderOptions& options) {
  io_uring ring{};
  if (io_uring_queue_init(static_cast<unsigned>(2 * options.depth), &ring, 0) != 0) return nullptr;
  try {
    return std::make_unique<IoRing>(ring, files, options);
  } catch (...) {
    io_uring_queue_exit(&ring);
    throw;
  }
}

int try_io_ring() {
  io_uring ring{};
  const int result = io_uring_queue_init(1, &ring, 0);
  if (result != 0) return -result;
  io_uring_queue_exit(&ring);
  return 0;
}

}  // namespace hopfeed
