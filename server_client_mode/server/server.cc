// See server.h. One thread runs the event loop; serving.h has what it does.
#include "server_client_mode/server/server.h"

#include <boost/system/system_error.hpp>
#include <future>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/quiet_thread.h"
#include "server_client_mode/server/serving.h"

namespace hopfeed {
namespace {

constexpr std::chrono::seconds kAnswerPatience{10};  // the loop is never busy for so long

}  // namespace

struct Server::Impl {
  Serving serving;
  std::thread thread;

  explicit Impl(const ServerOptions& options) : serving(options) {}
  ~Impl() {  // NOLINT(bugprone-exception-escape): stop() posts to the loop, which throws without memory alone
    serving.stop();
    if (thread.joinable()) thread.join();
  }
  void start() {
    thread = start_quiet_thread("cannot start the server's thread", [this] { serving.run(); });
  }
};

Server::Server(const ServerOptions& options) try : impl_(std::make_unique<Impl>(options)) {
  impl_->serving.wait_until_ready();
  impl_->start();
} catch (const boost::system::system_error& error) {  // of descriptors that the loop needs
  throw_errno("cannot start the server", error.code().value());
}

Server::~Server() = default;

wire::Address Server::address() const { return impl_->serving.address(); }
std::optional<wire::Address> Server::metrics_address() const { return impl_->serving.metrics_address(); }
void Server::drain() { impl_->serving.drain(); }

bool Server::wait_until_drained(std::chrono::milliseconds limit) {
  return impl_->serving.wait_until_drained(limit);
}

void Server::reload_tls() { impl_->serving.reload_tls(); }

std::string Server::status_json() const {
  auto text = std::make_shared<std::promise<std::string>>();
  std::future<std::string> answer = text->get_future();
  impl_->serving.on_loop([serving = &impl_->serving, text] { text->set_value(serving->status_text()); });
  if (answer.wait_for(kAnswerPatience) != std::future_status::ready)
    throw Error(ErrorCode::kTimeout, "the server's thread does not answer");
  return answer.get();
}

std::vector<int> Server::worker_pids() const { return impl_->serving.worker_pids(); }

}  // namespace hopfeed
