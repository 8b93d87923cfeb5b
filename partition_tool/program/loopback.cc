// See loopback.h.
#include "partition_tool/program/loopback.h"

#include <arpa/inet.h>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <span>
#include <system_error>
#include <thread>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/batch/aligned_block.h"
#include "partition_tool/tune/tune_rates.h"

namespace hopfeed {
namespace {

constexpr std::size_t kChunk =
    256 << 10;  // that is summed while it is in the cache, as servers and clients do

struct Ends {
  OwnedFd from, to;
};

Ends connect_ends() {
  const OwnedFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!listener || bind(listener.get(), any, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), any, &size) != 0)
    throw_errno("cannot listen on loopback", errno);
  Ends ends{.from = OwnedFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), .to = {}};
  if (!ends.from || connect(ends.from.get(), any, size) != 0)
    throw_errno("cannot connect over loopback", errno);
  ends.to = OwnedFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!ends.to) throw_errno("cannot accept over loopback", errno);
  return ends;
}

std::uint32_t sum(std::uint32_t crc, std::span<std::byte> bytes) {
  return crc32_iscsi(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size()), crc);
}

/// False where the other end is gone.
bool send_block(int fd, std::span<std::byte> block) {
  std::uint32_t crc = 0;
  while (!block.empty()) {
    std::span<std::byte> chunk = block.first(std::min(kChunk, block.size()));
    crc = sum(crc, chunk);
    block = block.subspan(chunk.size());
    while (!chunk.empty()) {
      const ssize_t put = send(fd, chunk.data(), chunk.size(), MSG_NOSIGNAL);
      if (put <= 0) return false;
      chunk = chunk.subspan(static_cast<std::size_t>(put));
    }
  }
  return send(fd, &crc, sizeof crc, MSG_NOSIGNAL) == sizeof crc;
}

bool receive_block(int fd, std::span<std::byte> block) {
  std::uint32_t crc = 0;
  while (!block.empty()) {
    const ssize_t got = recv(fd, block.data(), std::min(kChunk, block.size()), 0);
    if (got <= 0) return false;
    crc = sum(crc, block.first(static_cast<std::size_t>(got)));
    block = block.subspan(static_cast<std::size_t>(got));
  }
  std::uint32_t told = 0;
  return recv(fd, &told, sizeof told, MSG_WAITALL) == sizeof told && told == crc;
}

/// Two blocks, of which one is sent or received while the other is in use; their pages are there.
struct Blocks {
  explicit Blocks(std::size_t bytes) {
    for (AlignedBlock& block : blocks) std::ranges::fill(block.resize(bytes), std::byte{1});
  }
  AlignedBlock blocks[2];
};

}  // namespace

WireRates measure_loopback(std::size_t block_bytes, double seconds) {
  using Clock = std::chrono::steady_clock;
  const Ends ends = connect_ends();
  Blocks from(block_bytes), to(block_bytes);
  std::atomic<bool> done{false};
  double send_cpu = 0, sent = 0;
  const auto send = [&] {
    const double cpu = thread_cpu_seconds();
    for (int i = 0; !done && send_block(ends.from.get(), from.blocks[i % 2].bytes()); ++i)
      sent += static_cast<double>(block_bytes);
    send_cpu = thread_cpu_seconds() - cpu;
    shutdown(ends.from.get(), SHUT_WR);
  };
  std::jthread sender;
  try {
    sender = std::jthread(send);
  } catch (const std::system_error& error) {
    throw_errno("cannot start a thread that sends over loopback", error.code().value());
  }
  const double cpu = thread_cpu_seconds();
  const auto begin = Clock::now();
  double received = 0;
  for (int i = 0; receive_block(ends.to.get(), to.blocks[i % 2].bytes()); ++i) {
    received += static_cast<double>(block_bytes);
    if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) done = true;
  }
  const double receive_cpu = thread_cpu_seconds() - cpu;
  sender.join();
  require_valid(sent > 0 && received > 0,
                "nothing came through a connection over loopback; name a --link rate");
  return {.bytes_per_second = {},
          .send_seconds_per_byte = send_cpu / sent,
          .receive_seconds_per_byte = receive_cpu / received};
}

}  // namespace hopfeed
