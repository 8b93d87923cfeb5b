// JobOpeners are threads that open jobs beside the event loop. Equal jobs are opened one after the other,
// others at the same time; those whose sampler is a plugin's are tried first, which may take long, and have
// threads of their own.
#pragma once
#include <boost/asio/strand.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "server_client_mode/server/thread_pool.h"

namespace hopfeed {

/// The event loop's thread uses them.
class JobOpeners {
 public:
  using Turn = boost::asio::strand<ThreadPool::executor_type>;
  /// Returns where the job of this content is to be opened, and keeps it until it is.
  std::shared_ptr<Turn> turn(const std::string& content, bool hopfeeds_own) {
    std::erase_if(turns_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<Turn>& known = turns_[content];
    std::shared_ptr<Turn> turn = known.lock();
    if (!turn)
      turn =
          std::make_shared<Turn>(boost::asio::make_strand((hopfeeds_own ? own_ : plugins_).get_executor()));
    known = turn;
    return turn;
  }

 private:
  static constexpr std::size_t kThreads = 2;

  ThreadPool own_{kThreads}, plugins_{kThreads};
  std::map<std::string, std::weak_ptr<Turn>> turns_;
};

}  // namespace hopfeed
