// See machine_memory.h. Messages of the socket, one byte each: "." at once, for those who wait to know that
// somebody is at work; "!" with the descriptor, once it is made. Where that failed the socket just ends.
#include "channel/machine_memory.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "channel/bell.h"
#include "channel/passed_fds.h"
#include "core/base/error.h"
#include "core/base/quiet_thread.h"
#include "core/base/sha256.h"
#include "core/base/thread_annotations.h"

namespace hopfeed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstWord{2'000};  // of a process that is there, however busy
constexpr std::chrono::milliseconds kMeanwhile{1'000};
constexpr std::chrono::milliseconds kAgain{20};
constexpr int kBacklog = 128;
constexpr char kAtWork = '.', kHere = '!';

struct SocketName {
  sockaddr_un address{};
  socklen_t size = 0;
};

SocketName socket_name(const std::string& name) {
  const std::string text = fmt::format("hopfeed-{}-{}", geteuid(), sha256(std::as_bytes(std::span(name))));
  SocketName result;
  result.address.sun_family = AF_UNIX;
  // The first byte stays 0: an abstract name.
  static_assert(sizeof(result.address.sun_path) > 8 + 10 + 1 + 64 + 1);
  std::memcpy(result.address.sun_path + 1, text.data(), text.size());
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return result;
}

OwnedFd new_socket() {
  constexpr const char* what = "cannot make a socket to share memory over";
  return out_of_the_way(OwnedFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), what), what);
}

/// connect() waits where as many as a listener takes wait already, for ever where that one is stopped or
/// means harm.
void limit_connect(const OwnedFd& socket) {
  const timeval limit{.tv_sec = kFirstWord.count() / 1'000, .tv_usec = 0};
  static_assert(kFirstWord.count() % 1'000 == 0);
  if (setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0)
    throw_errno("cannot limit how long a socket waits for shared memory", errno);
}

/// Anybody may take an abstract name; only our own user's processes are talked to.
bool of_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

bool readable(int fd, std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd poller{.fd = fd, .events = POLLIN, .revents = 0};
    const int events = poll(&poller, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (events >= 0 || errno != EINTR) return events > 0;
  }
}

}  // namespace

/// The socket under the name, and a thread that answers.
class MachineMemory::Offer {
 public:
  explicit Offer(OwnedFd listener) : listener_(std::move(listener)) {
    thread_ = start_quiet_thread("cannot start a thread that shares memory", [this] { answer(); });
  }
  ~Offer() {
    if (getpid() != process_) {  // a fork has none of our threads
      thread_.detach();
      return;
    }
    ring(stop_.fd());
    thread_.join();
  }
  void give(int fd) {
    const MutexLock lock(mutex_);
    fd_ = fd;
    for (const OwnedFd& peer : waiting_) send(peer, fd);
    waiting_.clear();
  }

 private:
  static void send(const OwnedFd& peer, int fd) {
    // Who has gone meanwhile does not get it.
    send_with_fds(peer.get(), std::as_bytes(std::span(&kHere, 1)), std::span(&fd, 1), MSG_DONTWAIT);
  }
  void answer() {
    pollfd pollers[2] = {{.fd = stop_.fd(), .events = POLLIN, .revents = 0},
                         {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    while (poll(pollers, 2, -1) >= 0 || errno == EINTR) {
      if (pollers[0].revents != 0) return;
      OwnedFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!peer) {
        std::this_thread::sleep_for(kAgain);  // no descriptor is left, say
        continue;
      }
      if (!of_this_user(peer.get())) continue;
      send_with_fds(peer.get(), std::as_bytes(std::span(&kAtWork, 1)), {}, MSG_DONTWAIT);
      const MutexLock lock(mutex_);
      if (fd_ >= 0)
        send(peer, fd_);
      else
        waiting_.push_back(std::move(peer));
    }
  }

  const pid_t process_ = getpid();
  const OwnedFd listener_;
  const Bell stop_;
  Mutex mutex_;
  int fd_ GUARDED_BY(mutex_) = -1;
  std::vector<OwnedFd> waiting_ GUARDED_BY(mutex_);
  std::thread thread_;
};

namespace {

enum class Said { kGiven, kGone, kRefused, kSilent };

/// What another process offers. kGone: it ended or failed before it gave it. kRefused: nobody listens; for a
/// moment that is so where one comes or goes. kSilent: who has the name does not answer, or is not of this
/// user.
Said ask_for(const SocketName& name, const MachineMemory::Waiting& waiting, Clock::time_point give_up,
             OwnedFd& given) {
  const OwnedFd socket = new_socket();
  limit_connect(socket);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0)
    return errno == EAGAIN ? Said::kSilent : Said::kRefused;
  if (!of_this_user(socket.get())) return Said::kSilent;
  if (!readable(socket.get(), kFirstWord)) return Said::kSilent;
  for (;;) {
    if (!readable(socket.get(), kMeanwhile)) {
      if (Clock::now() >= give_up) return Said::kSilent;
      if (waiting.meanwhile) waiting.meanwhile();
      continue;
    }
    char word = 0;
    ReceivedMessage got = receive_with_fds(socket.get(), std::as_writable_bytes(std::span(&word, 1)));
    if (got.bytes <= 0) return Said::kGone;
    if (word == kHere && !got.fds.empty()) {
      given = out_of_the_way(got.fds.front(), "there is no descriptor left for shared memory");
      return Said::kGiven;
    }
  }
}

}  // namespace

MachineMemory::MachineMemory(const std::string& name, const std::function<OwnedFd()>& make)
    : MachineMemory(name, make, Waiting{}) {}

MachineMemory::MachineMemory(const std::string& name, const std::function<OwnedFd()>& make,
                             const Waiting& waiting) {
  const SocketName address = socket_name(name);
  const Clock::time_point give_up = Clock::now() + waiting.patience;
  Clock::time_point listened = Clock::now();  // somebody did under the name, the last time that it was known
  for (;;) {
    OwnedFd listener = new_socket();
    if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.address), address.size) == 0 &&
        listen(listener.get(), kBacklog) == 0) {
      offer_ = std::make_unique<Offer>(std::move(listener));
      break;
    }
    if (errno != EADDRINUSE) break;  // such names are not to be had here
    const Said said = ask_for(address, waiting, give_up, fd_);
    if (said == Said::kGiven) return;
    if (said == Said::kSilent || Clock::now() >= give_up) break;
    // Another user may keep a name that nobody listens under.
    if (said == Said::kRefused && Clock::now() - listened >= kFirstWord) break;
    if (said == Said::kGone) listened = Clock::now();
    std::this_thread::sleep_for(kAgain);  // the name is free in a moment
  }
  fd_ = make();
  made_here_ = true;
  if (offer_) offer_->give(fd_.get());
}

MachineMemory::~MachineMemory() = default;

}  // namespace hopfeed
