// See state_servers.h.
#include "bench/state/state_servers.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <vector>

#include "core/base/error.h"

namespace hopfeed::bench {
namespace fs = std::filesystem;
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// What it prints first, without the line's end.
std::string first_line(int fd) {
  std::string line;
  for (char c = 0; read(fd, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

}  // namespace

void StateServers::Program::start(const std::vector<std::string>& words) {
  std::vector<std::string> own = words;
  const std::string& program = own.front();
  std::vector<char*> arguments;
  for (std::string& word : own) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe", errno);
  out = OwnedFd(ends[0]);
  const OwnedFd of_program(ends[1]);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, of_program.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t started = -1;
  const int error = posix_spawn(&started, program.c_str(), &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw_errno("cannot start " + program, error);
  pid = started;
}

StateServers::Program::~Program() {
  if (pid < 0) return;
  kill(pid, SIGKILL);  // what it holds nobody wants any more
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
}

StateServers::StateServers(const fs::path& dataset, const fs::path& folder, std::size_t memory) {
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "hopfeed-server";
  for (int partition = 0; partition < 2; ++partition)
    programs_[static_cast<std::size_t>(partition)].start(
        {program, "--data", dataset, "--listen", "127.0.0.1:0", "--partitions", std::to_string(partition),
         "--num-workers", "1", "--max-memory", "64M", "--state", folder, "--state-memory",
         std::to_string(memory)});
  constexpr std::string_view kListening = "listening on ";
  for (Program& program : programs_) {
    const std::string line = first_line(program.out.get());
    if (!line.starts_with(kListening))
      throw Error(ErrorCode::kIo, "hopfeed-server has not begun to listen; run it by hand to see why");
    program.address = line.substr(kListening.size());
  }
}

std::shared_ptr<StateOwners> StateServers::connect(const DatasetMeta& meta) const {
  PeerOptions options;
  for (const Program& program : programs_) options.peers.push_back(program.address);
  options.deadline = std::chrono::minutes(10);
  return std::make_shared<StateOwners>(meta, options);
}

double StateServers::cpu_seconds() const {
  double sum = 0;
  for (const Program& program : programs_) {
    clockid_t clock{};
    if (clock_getcpuclockid(program.pid, &clock) != 0)
      throw Error(ErrorCode::kPeerDied, "a hopfeed-server has ended while it was measured");
    sum += seconds_of(clock);
  }
  return sum;
}

std::size_t StateServers::own_bytes() const {
  std::size_t kib = 0;
  for (const Program& program : programs_) {
    std::ifstream status("/proc/" + std::to_string(program.pid) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("RssAnon:")) kib += std::stoull(line.substr(8));
  }
  return kib * 1024;
}

double cpu_seconds_with(const StateServers& servers) {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID) + servers.cpu_seconds();
}

}  // namespace hopfeed::bench
