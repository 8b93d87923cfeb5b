// See processes.h.
#include "tests/support/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <thread>
#include <utility>

#include "core/base/error.h"

extern char** environ;

namespace hopfeed::testing {
namespace {

namespace fs = std::filesystem;

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Starts a program whose stdout and (where not -1) stderr are these descriptors.
int spawn(std::vector<std::string> arguments, const std::vector<std::string>& extra, int out, int err) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  for (const std::string& entry : extra) {
    std::erase_if(environment, [&](const std::string& old) {
      return old.starts_with(entry.substr(0, entry.find('=') + 1));
    });
    environment.push_back(entry);
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  if (err >= 0) posix_spawn_file_actions_adddup2(&actions, err, 2);
  int pid = -1;
  const int error = posix_spawnp(&pid, arguments[0].c_str(), &actions, nullptr, pointers(arguments).data(),
                                 pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw_errno("cannot start " + arguments[0], error);
  return pid;
}

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe2", errno);
    read_end = ends[0];
    write_end = ends[1];
  }
};

std::string read_to_end(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(fd, buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  close(fd);
  return text;
}

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  std::error_code gone;
  for (fs::directory_iterator it(folder, gone), end; !gone && it != end; it.increment(gone)) ++count;
  return count;
}

/// A file of /proc; empty where its process has ended, before or meanwhile (an iterator over the stream would
/// throw then).
std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The fields of /proc/PID/stat behind the name: [0] is the state.
std::vector<std::string> stat_fields(int pid) {
  const std::string text = text_of("/proc/" + std::to_string(pid) + "/stat");
  std::vector<std::string> fields;
  const std::size_t bracket = text.rfind(')');
  if (bracket == std::string::npos) return fields;
  std::istringstream words(text.substr(bracket + 1));
  for (std::string word; words >> word;) fields.push_back(word);
  return fields;
}

}  // namespace

std::string program(const std::string& name) {
  const char* folder = std::getenv("HOPFEED_BIN");
  return (folder != nullptr ? fs::path(folder) : fs::read_symlink("/proc/self/exe").parent_path()) / name;
}

ProgramResult run_program(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment) {
  const Pipe out, err;
  const int pid = spawn(arguments, environment, out.write_end, err.write_end);
  close(out.write_end);
  close(err.write_end);
  ProgramResult result;
  std::thread reader([&] { result.err = read_to_end(err.read_end); });
  result.out = read_to_end(out.read_end);
  reader.join();
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

BackgroundProgram::BackgroundProgram(const std::vector<std::string>& arguments,
                                     const std::vector<std::string>& environment) {
  const Pipe out;
  out_ = out.read_end;
  pid_ = spawn(arguments, environment, out.write_end, -1);
  close(out.write_end);
}

BackgroundProgram::~BackgroundProgram() {
  kill();
  close_stdout();
}

std::string BackgroundProgram::read_line() {
  std::string line;
  for (char c = 0;;) {
    if (read(out_, &c, 1) != 1) throw Error(ErrorCode::kPeerDied, "the program ended before it wrote a line");
    if (c == '\n') return line;
    line += c;
  }
}

std::string BackgroundProgram::read_rest() { return read_to_end(std::exchange(out_, -1)); }

void BackgroundProgram::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);  // -1, of one that has ended, would be every process there is
}

int BackgroundProgram::wait(std::chrono::milliseconds limit) {
  const auto give_up = std::chrono::steady_clock::now() + limit;
  if (pid_ < 0) return -1;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > give_up) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void BackgroundProgram::close_stdout() {
  if (out_ >= 0) close(out_);
  out_ = -1;
}

void BackgroundProgram::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::vector<int> children_of(int pid) {
  std::vector<int> children;
  std::error_code gone;
  for (fs::directory_iterator it("/proc/" + std::to_string(pid) + "/task", gone), end; !gone && it != end;
       it.increment(gone)) {
    std::ifstream file(it->path() / "children");
    for (int child = 0; file >> child;) {
      if (alive(child)) children.push_back(child);
    }
  }
  return children;
}

bool alive(int pid) {
  const std::vector<std::string> fields = stat_fields(pid);
  return !fields.empty() && fields[0] != "Z" && fields[0] != "X";
}

bool all_gone(const std::vector<int>& pids, std::chrono::milliseconds limit) {
  const auto give_up = std::chrono::steady_clock::now() + limit;
  for (int pid : pids) {
    while (alive(pid)) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  return true;
}

std::string new_mark() {
  static std::atomic<int> count{0};
  return "HOPFEED_TEST_MARK=" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

std::vector<int> marked(const std::string& mark) {
  std::vector<int> pids;
  std::error_code gone;
  for (fs::directory_iterator it("/proc", gone), end; !gone && it != end; it.increment(gone)) {
    const std::string name = it->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string environment = text_of(it->path() / "environ");
    const bool has = ('\0' + environment).find('\0' + mark + '\0') != std::string::npos;
    if (has && alive(std::stoi(name))) pids.push_back(std::stoi(name));
  }
  return pids;
}

bool none_marked(const std::string& mark, std::chrono::milliseconds limit) {
  const auto give_up = std::chrono::steady_clock::now() + limit;
  while (!marked(mark).empty()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool long_tests() {
  const char* value = std::getenv("HOPFEED_LONG_TESTS");
  return value != nullptr && std::string(value) == "1";
}

std::string without_more_processes(int most) {
  constexpr int kNobody = 65534, kFirstUser = 60706;
  const int user = most == 1 ? kNobody : kFirstUser + getpid() % 400;
  const std::string as_nobody =
      "setpriv --reuid=" + std::to_string(user) + " --regid=" + std::to_string(kNobody) + " --clear-groups ";
  // The leak checker of an instrumented build starts a thread of its own, and fails without it.
  return "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 " + (geteuid() == 0 ? as_nobody : "") +
         "prlimit --nproc=" + std::to_string(most) + " ";
}

long cpu_ticks(int pid) {
  const std::vector<std::string> fields = stat_fields(pid);
  return fields.size() < 13 ? 0 : std::stol(fields[11]) + std::stol(fields[12]);
}

std::size_t resident_bytes(int pid) {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/" + std::to_string(pid) + "/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

namespace {

/// But for those of faketime, under which other tests run programs meanwhile.
std::size_t names_in_shared_memory() {
  std::size_t names = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    names += entry.path().filename().string().find("faketime_") == std::string::npos;
  return names;
}

}  // namespace

Leftovers Leftovers::now() {
  std::ifstream file("/proc/sysvipc/shm");
  std::size_t segments = 0;
  for (std::string line; std::getline(file, line);) ++segments;
  file.close();
  return {.children = children_of(getpid()).size(),
          .descriptors = entries("/proc/self/fd"),
          .shm_names = names_in_shared_memory(),
          .sysv_segments = segments};
}

std::ostream& operator<<(std::ostream& out, const Leftovers& l) {
  return out << l.children << " children, " << l.descriptors << " descriptors, " << l.shm_names
             << " names in /dev/shm, " << l.sysv_segments << " lines of System V segments";
}

}  // namespace hopfeed::testing
