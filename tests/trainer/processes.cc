// See processes.h.
#include "tests/trainer/processes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace hopfeed::trainer_tests {
namespace {

std::vector<std::string> merged_environment(const EnvironmentVariables& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& command, const EnvironmentVariables& environment,
                          int seconds) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP);  // so that what it starts can be ended with it
  std::vector<std::string> arguments = command, variables = merged_environment(environment);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes,
                                  pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(pipe_ends[1]);
  if (failed != 0) throw std::runtime_error("cannot start " + command[0]);

  ProgramResult result;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  char buffer[4096];
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    pollfd poll_entry{.fd = pipe_ends[0], .events = POLLIN, .revents = 0};
    if (left <= 0 || poll(&poll_entry, 1, static_cast<int>(left)) == 0) {
      kill(-pid, SIGKILL);
      result.output += "\n[killed after " + std::to_string(seconds) + " s]";
      break;
    }
    const ssize_t got = read(pipe_ends[0], buffer, sizeof buffer);
    if (got <= 0) break;
    result.output.append(buffer, static_cast<std::size_t>(got));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::vector<ProgramResult> run_ranks(const std::vector<std::string>& command, int world_size, int seconds) {
  std::vector<ProgramResult> results(world_size);
  const std::string port = std::to_string(free_port());
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world_size; ++rank) {
      threads.emplace_back([&, rank] {
        results[rank] = run_program(command,
                                    {{"RANK", std::to_string(rank)},
                                     {"WORLD_SIZE", std::to_string(world_size)},
                                     {"LOCAL_RANK", std::to_string(rank)},
                                     {"LOCAL_WORLD_SIZE", std::to_string(world_size)},
                                     {"MASTER_ADDR", "127.0.0.1"},
                                     {"MASTER_PORT", port}},
                                    seconds);
      });
    }
  }
  return results;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0) throw std::runtime_error("bind");
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace hopfeed::trainer_tests
