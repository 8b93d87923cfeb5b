// See child_process.h.
#include "core/program/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/program/stop_signals.h"

extern char** environ;

namespace hopfeed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxKept = 16 << 10;              // of stderr
constexpr std::chrono::milliseconds kLook{100};         // for signals
constexpr std::chrono::milliseconds kTimeToEnd{5'000};  // between SIGTERM and SIGKILL

void check_start(int error, const std::string& program) {
  if (error == ENOENT)
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("there is no {0} on this machine; install it (Debian: apt install {0})", program));
  if (error != 0) throw_errno("cannot start " + program, error);
}

/// A pipe whose reading end does not wait.
struct Pipe {
  explicit Pipe(const std::string& program) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe for " + program, errno);
    const OwnedFd reading(ends[0]), writing(ends[1]);
    in = out_of_the_way(reading, "cannot make a pipe");
    out = out_of_the_way(writing, "cannot make a pipe");
    fcntl(in.get(), F_SETFL, O_NONBLOCK);
  }
  OwnedFd in, out;
};

/// The process and what it has started; ended at the end of the scope where it has not ended itself.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, const Pipe& out, const Pipe& err) {
    const std::string& program = arguments.front();
    std::vector<char*> words, environment;
    for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    std::string locale = "LC_ALL=C";
    for (char** at = environ; *at != nullptr; ++at)
      if (std::strncmp(*at, "LC_ALL=", 7) != 0) environment.push_back(*at);
    environment.push_back(locale.data());
    environment.push_back(nullptr);
    Pipe failure(program);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw_errno("cannot start " + program, errno);
    if (pid_ == 0) become(words.data(), environment.data(), parent, out, err, failure);
    setpgid(pid_, 0);  // both do, so that it is so whoever comes first
    const int error = what_failed(failure);
    if (error == 0) return;
    while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    ended_ = true;
    check_start(error, program);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool ended() {
    if (ended_) return true;
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
      return false;
    reap();
    return true;
  }
  int exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_); }
  /// SIGTERM lets rsync keep what it has of a file.
  void end() {
    if (ended()) return;
    ::kill(-pid_, SIGTERM);
    const auto deadline = Clock::now() + kTimeToEnd;
    while (!ended() && Clock::now() < deadline) poll(nullptr, 0, 20);
    if (ended()) return;
    ::kill(-pid_, SIGKILL);
    reap();
  }

 private:
  /// In the new process: only what is allowed between fork and exec. Without us nobody would wait for it, and
  /// a second one may come to write where it writes, so it ends with us.
  [[noreturn]] static void become(char** words, char** environment, pid_t parent, const Pipe& out,
                                  const Pipe& err, const Pipe& failure) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int number : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
    const int nothing = open("/dev/null", O_RDONLY);
    int error = getppid() == parent ? 0 : ESRCH;
    if (error == 0 && (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
                       dup2(out.out.get(), STDOUT_FILENO) < 0 || dup2(err.out.get(), STDERR_FILENO) < 0))
      error = errno;
    if (error == 0) {
      execvpe(words[0], words, environment);
      error = errno;
    }
    [[maybe_unused]] const ssize_t told = write(failure.out.get(), &error, sizeof(error));
    _exit(127);
  }
  /// 0 once it has become its program.
  static int what_failed(Pipe& failure) {
    failure.out = OwnedFd();
    pollfd told{failure.in.get(), POLLIN, 0};
    while (poll(&told, 1, -1) < 0 && errno == EINTR) {
    }
    int error = 0;
    return read(failure.in.get(), &error, sizeof(error)) == sizeof(error) ? error : 0;
  }
  /// What it has started and left behind ends with it; until it is waited for, the group's number is its own.
  void reap() {
    siginfo_t info{};
    while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    ::kill(-pid_, SIGTERM);
    while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    ended_ = true;
  }
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

/// What a pipe holds now goes to `take`; false once it is closed.
template <class Take>
bool drain(const OwnedFd& fd, bool& heard, const Take& take) {
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got > 0) {
      heard = true;
      take(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
}

}  // namespace

ChildResult run_child(const ChildOptions& options) {
  const std::string& program = options.arguments.front();
  ChildResult result;
  std::string line;
  const auto take_line = [&] {
    if (options.on_line && !line.empty()) options.on_line(line);
    line.clear();
  };
  const auto take_out = [&](std::string_view text) {
    for (const char c : text) {
      if (c == '\n' || c == '\r')
        take_line();
      else
        line += c;
    }
  };
  const auto take_err = [&](std::string_view text) {
    result.err.append(text.substr(0, kMaxKept - std::min(kMaxKept, result.err.size())));
  };
  Pipe out(program), err(program);
  Child child(options.arguments, out, err);
  out.out = OwnedFd();
  err.out = OwnedFd();
  auto last_word = Clock::now();
  // What it has started may keep its pipes open (a connection that ssh shares), so its own end is the end.
  for (bool last = false; !last;) {
    std::array<pollfd, 2> pipes{{{out.in.get(), POLLIN, 0}, {err.in.get(), POLLIN, 0}}};
    last = child.ended();
    if (!last) poll(pipes.data(), pipes.size(), static_cast<int>(kLook.count()));
    bool heard = false;
    const bool out_open = drain(out.in, heard, take_out), err_open = drain(err.in, heard, take_err);
    if (!out_open && !err_open && !last) poll(nullptr, 0, 10);
    stop_if_asked();
    if (heard) last_word = Clock::now();
    if (!last && Clock::now() - last_word > options.silence) {
      child.end();
      result.silent = last = true;
    }
  }
  take_line();
  result.exit_code = child.exit_code();
  return result;
}

}  // namespace hopfeed
