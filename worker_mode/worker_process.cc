// See worker_process.h.
#include "worker_mode/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/error.h"
#include "core/base/memory_file.h"
#include "core/base/secrets.h"

extern char** environ;

namespace hopfeed {
namespace {

void check(int error, const std::string& what) {
  if (error != 0) throw_errno(what, error);
}

/// File actions and attributes of a start, freed at the end of the scope.
struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnSetup() {
    check(posix_spawn_file_actions_init(&actions), "cannot start a worker");
    check(posix_spawnattr_init(&attributes), "cannot start a worker");
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
};

}  // namespace

OwnedFd memfd_of(const char* name, const void* bytes, std::size_t size) {
  OwnedFd fd = make_memory_file({.name = name, .what = "cannot create a memfd for a worker"});
  const char* from = static_cast<const char*>(bytes);
  for (std::size_t done = 0; done < size;) {
    const ssize_t wrote = pwrite(fd.get(), from + done, size - done, static_cast<off_t>(done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) throw_errno("cannot hand a worker its configuration", errno);
    done += static_cast<std::size_t>(wrote);
  }
  return fd;
}

WorkerProcess::WorkerProcess(const std::string& program, std::vector<std::string> arguments,
                             const std::vector<InheritedFd>& inherited) {
  SpawnSetup setup;
  const std::string what = "cannot start " + program;
  check(posix_spawn_file_actions_addopen(&setup.actions, 0, "/dev/null", O_RDONLY, 0), what);
  if (fcntl(2, F_GETFD) < 0)
    check(posix_spawn_file_actions_addopen(&setup.actions, 2, "/dev/null", O_WRONLY, 0), what);
  check(posix_spawn_file_actions_adddup2(&setup.actions, 2, 1), what);
  for (const InheritedFd& fd : inherited)
    check(posix_spawn_file_actions_adddup2(&setup.actions, fd.from, fd.to), what);
  check(posix_spawn_file_actions_addclosefrom_np(&setup.actions, 3 + static_cast<int>(inherited.size())),
        what);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  check(posix_spawnattr_setsigmask(&setup.attributes, &none), what);
  check(posix_spawnattr_setsigdefault(&setup.attributes, &all), what);
  check(posix_spawnattr_setflags(&setup.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF), what);
  arguments.insert(arguments.begin(), "hopfeed-worker");
  std::vector<char*> words;
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  std::vector<char*> environment;  // a plugin has no use for the token
  const std::string token = std::string(kTokenVariable) + "=";
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with(token)) environment.push_back(*entry);
  environment.push_back(nullptr);
  check(posix_spawn(&pid_, program.c_str(), &setup.actions, &setup.attributes, words.data(),
                    environment.data()),
        what);
  try {
    pidfd_ =
        OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)), "cannot watch a worker (pidfd_open)");
  } catch (const Error&) {  // unwatched it must not live
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    throw;
  }
}

WorkerProcess::~WorkerProcess() {
  if (reaped_) return;
  kill();
  reap();
}

void WorkerProcess::kill() { syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0); }

std::string WorkerProcess::reap() {
  siginfo_t info{};
  int result = -1;
  do {
    result = waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED);
  } while (result != 0 && errno == EINTR);
  reaped_ = true;
  if (result != 0) return fmt::format("worker process {} is gone", pid_);  // somebody else waited for it
  if (info.si_code == CLD_EXITED)
    return fmt::format("worker process {} left with exit code {}", pid_, info.si_status);
  return fmt::format("worker process {} was killed by signal {} ({})", pid_, info.si_status,
                     strsignal(info.si_status));
}

}  // namespace hopfeed
