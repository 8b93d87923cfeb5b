// Tests of clients and real servers share this: hopfeed-server as a process that can be killed and started
// again at the same address.
#pragma once
#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server_client_mode/client/remote_loader.h"
#include "tests/server_client_mode/served_stream.h"
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {

class ServerProcess {
 public:
  /// `environment` is "NAME=value" on top of this process's own.
  explicit ServerProcess(std::string dataset, std::vector<std::string> more = {},
                         std::vector<std::string> environment = {})
      : dataset_(std::move(dataset)), more_(std::move(more)), environment_(std::move(environment)) {
    environment_.push_back(std::string("HOPFEED_TOKEN=") + kTestToken);
    start("127.0.0.1:0");
  }
  wire::Address address() const { return wire::parse_address(address_); }
  int pid() const { return program_->pid(); }
  /// Kills it by SIGKILL: its workers follow it by themselves.
  void kill() { program_->kill(); }
  void signal(int number) const { program_->signal(number); }
  int wait(std::chrono::milliseconds limit) { return program_->wait(limit); }
  /// Restarts it at the same address, with another dataset where one is named.
  void restart(const std::string& dataset = {}) {
    if (!dataset.empty()) dataset_ = dataset;
    program_.reset();
    start(address_);
  }

 private:
  void start(const std::string& listen) {
    std::vector<std::string> command{
        testing::program("hopfeed-server"), "--data", dataset_, "--listen", listen, "--num-workers", "2"};
    command.insert(command.end(), more_.begin(), more_.end());
    program_ = std::make_unique<testing::BackgroundProgram>(command, environment_);
    const std::string line = program_->read_line();
    const std::string says = "listening on ";
    if (!line.starts_with(says)) throw Error(ErrorCode::kIo, "hopfeed-server does not start: '" + line + "'");
    address_ = line.substr(says.size());
    while (!address_.empty() && (address_.back() == '\n' || address_.back() == ' ')) address_.pop_back();
  }

  std::string dataset_;
  const std::vector<std::string> more_;
  std::vector<std::string> environment_;
  std::string address_;
  std::unique_ptr<testing::BackgroundProgram> program_;
};

}  // namespace hopfeed
