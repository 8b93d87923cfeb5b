// See bare_loop.h.
#include "bench/server_client_mode/bare_loop.h"

#include <arpa/inet.h>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/batch/aligned_block.h"
#include "wire/crc32c.h"

namespace hopfeed::bench {
namespace {

struct Pair {
  OwnedFd a, b;
};

/// Two ends of one TCP connection over loopback.
Pair connected_pair() {
  OwnedFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (!listener || bind(listener.get(), any, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), any, &size) != 0)
    throw_errno("cannot listen on loopback", errno);
  Pair pair{.a = OwnedFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), .b = {}};
  if (connect(pair.a.get(), any, size) != 0) throw_errno("cannot connect over loopback", errno);
  pair.b = OwnedFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!pair.b) throw_errno("cannot accept over loopback", errno);
  const int on = 1;
  for (const int fd : {pair.a.get(), pair.b.get()}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return pair;
}

/// False at the end of the stream.
bool receive_all(int fd, std::byte* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(fd, to, bytes, 0);
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_all(int fd, const std::byte* from, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t put = send(fd, from, bytes, MSG_NOSIGNAL);
    if (put <= 0) return false;
    from += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

}  // namespace

LoopRate bare_loop(std::size_t bytes, double seconds, LoopSums sums) {
  const auto summed = [sums](const AlignedBlock& block) {
    if (sums == LoopSums::kNone) return;
    const std::span<const std::byte> all = block.bytes();
    const std::uint32_t crc = wire::crc32c(0, all);
    asm volatile("" : : "r"(crc));  // it is used
  };
  const Pair pair = connected_pair();
  AlignedBlock from[2]{AlignedBlock(bytes), AlignedBlock(bytes)},
      to[2]{AlignedBlock(bytes), AlignedBlock(bytes)};
  for (AlignedBlock& block : from) std::fill(block.bytes().begin(), block.bytes().end(), std::byte{1});
  for (AlignedBlock& block : to) std::fill(block.bytes().begin(), block.bytes().end(), std::byte{2});
  double sender_cpu = 0, sent = 0;
  std::atomic<bool> done{false};
  std::thread sender([&] {
    const double begin = thread_cpu_seconds();
    for (int i = 0; !done; ++i) {
      summed(from[i % 2]);
      if (!send_all(pair.a.get(), from[i % 2].bytes().data(), bytes)) break;
      sent += static_cast<double>(bytes);
    }
    sender_cpu = thread_cpu_seconds() - begin;
    shutdown(pair.a.get(), SHUT_WR);
  });
  const double begin = now(), cpu = thread_cpu_seconds();
  double received = 0;
  for (int i = 0; receive_all(pair.b.get(), to[i % 2].bytes().data(), bytes); ++i) {
    summed(to[i % 2]);
    received += static_cast<double>(bytes);
    if (now() - begin > seconds) done = true;
  }
  const double end = now(), receiver_cpu = thread_cpu_seconds() - cpu;
  sender.join();
  return {.bytes_per_s = received / (end - begin),
          .sender_cpu_s_per_byte = sender_cpu / sent,
          .receiver_cpu_s_per_byte = receiver_cpu / received};
}

double crc_cpu_s_per_byte() {
  std::vector<unsigned char> chunk(256 << 10, 7);
  constexpr int kChunks = 4000;
  unsigned crc = ~0U;
  const double begin = thread_cpu_seconds();
  for (int i = 0; i < kChunks; ++i) crc = crc32_iscsi(chunk.data(), static_cast<int>(chunk.size()), crc);
  const double seconds = thread_cpu_seconds() - begin;
  if (crc == 1) std::fputs("", stderr);  // it is used
  return seconds / (kChunks * static_cast<double>(chunk.size()));
}

double aes_gcm_bytes_per_s(double seconds) {
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context(EVP_CIPHER_CTX_new(),
                                                                                EVP_CIPHER_CTX_free);
  const std::vector<unsigned char> key(32, 1), nonce(12, 2), plain(16 << 10, 3);
  std::vector<unsigned char> cipher(plain.size() + 32);
  unsigned char tag[16];
  const double begin = now();
  double bytes = 0;
  while (now() - begin < seconds) {
    for (int i = 0; i < 64; ++i) {
      int size = 0;
      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key.data(), nonce.data());
      EVP_EncryptUpdate(context.get(), cipher.data(), &size, plain.data(), static_cast<int>(plain.size()));
      EVP_EncryptFinal_ex(context.get(), cipher.data() + size, &size);
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, sizeof tag, tag);
      bytes += static_cast<double>(plain.size());
    }
  }
  return bytes / (now() - begin);
}

double echo_us_median(std::size_t bytes, double seconds) {
  const Pair pair = connected_pair();
  std::thread other([&] {
    std::vector<std::byte> message(bytes);
    while (receive_all(pair.b.get(), message.data(), bytes)) send_all(pair.b.get(), message.data(), bytes);
  });
  std::vector<std::byte> message(bytes);
  std::vector<double> times;
  const double begin = now();
  while (now() - begin < seconds) {
    const double sent = now();
    send_all(pair.a.get(), message.data(), bytes);
    receive_all(pair.a.get(), message.data(), bytes);
    times.push_back(1e6 * (now() - sent));
  }
  shutdown(pair.a.get(), SHUT_WR);
  other.join();
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

double wake_us_median(double seconds) {
  const OwnedFd bells[2]{OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                         OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))};
  if (!bells[0] || !bells[1]) throw_errno("cannot make an eventfd", errno);
  std::atomic<bool> done{false};
  const auto await_bell = [&](int fd) {
    pollfd poller{.fd = fd, .events = POLLIN, .revents = 0};
    poll(&poller, 1, 1000);
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t ignored = read(fd, &count, sizeof count);
  };
  const auto ring_bell = [](int fd) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = write(fd, &one, sizeof one);
  };
  std::thread other([&] {
    while (!done) {
      await_bell(bells[0].get());
      ring_bell(bells[1].get());
    }
  });
  std::vector<double> times;
  for (const double begin = now(); now() - begin < seconds;) {
    const double rung = now();
    ring_bell(bells[0].get());
    await_bell(bells[1].get());
    times.push_back(1e6 * (now() - rung) / 2);  // there and back
  }
  done = true;
  ring_bell(bells[0].get());
  other.join();
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

double iperf3_bytes_per_s(double seconds) {
  if (std::system("command -v iperf3 >/dev/null 2>&1") != 0) return 0;
  // Its server ends by itself after one client.
  const std::string command =
      "iperf3 -s -1 -B 127.0.0.1 -p 52109 >/dev/null 2>&1 & sleep 0.3; iperf3 -J -l 1M -c 127.0.0.1 -p 52109 "
      "-t " +
      std::to_string(std::max(1, static_cast<int>(seconds))) + " 2>/dev/null; wait";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  char buffer[4096];
  for (std::size_t got; pipe && (got = std::fread(buffer, 1, sizeof buffer, pipe.get())) > 0;)
    text.append(buffer, got);
  const nlohmann::json told = nlohmann::json::parse(text, nullptr, false);
  const nlohmann::json::json_pointer rate("/end/sum_received/bits_per_second");
  return told.is_discarded() || !told.contains(rate) ? 0 : told.at(rate).get<double>() / 8;
}

}  // namespace hopfeed::bench
