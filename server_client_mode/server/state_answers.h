// StateAnswers is what a server answers about state that lies here (state/owner): on threads of its own,
// the questions about one table one after the other. An answer that waits for other ranks holds no thread,
// and one that waits for files none of those.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/strand.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "server_client_mode/server/served_datasets.h"
#include "server_client_mode/server/state_room.h"
#include "server_client_mode/server/thread_pool.h"
#include "state/owner/state_owner.h"
#include "wire/messages.h"

namespace hopfeed {

class StateAnswers {
 public:
  /// `datasets` must outlive it; `loop` is where answers are handed out. Its calls are the loop's thread's.
  StateAnswers(const ServedDatasets& datasets, const StateRoom& room, boost::asio::any_io_executor loop,
               std::size_t num_threads);
  ~StateAnswers();

  /// The loop's thread calls both: `taken` once the owner has the question, `done` with the answer and a
  /// checksum behind it, at once or much later.
  struct Events {
    std::function<void()> taken;
    std::function<void(PeerAnswer answer, const std::optional<Error>& error)> done;
  };
  /// Answers a question of a session about state of the dataset.
  void answer(const ServedDataset& dataset, std::uint64_t session, std::uint64_t request, PeerBytes question,
              Events events);
  /// That session, which has asked, is over.
  void disconnected(std::uint64_t session);
  /// Once a second.
  void tick();

  struct ServedTable {
    const ServedDataset* dataset = nullptr;
    TableStatus table;
  };
  /// Returns the tables as they were a second ago; later, where one of them applies a long step.
  const std::vector<ServedTable>& tables() const { return tables_; }

 private:
  using Strand = boost::asio::strand<ThreadPool::executor_type>;
  /// Tables of one lane wait for each other, and may, being few.
  static constexpr std::size_t kLanes = 64;

  void look_at_tables();

  boost::asio::any_io_executor loop_;
  std::map<const ServedDataset*, std::unique_ptr<StateOwner>> owners_;
  std::vector<ServedTable> tables_;
  bool looking_ = false;  // somebody waits for tables, to look at them
  std::uint64_t ticks_ = 0;
  ThreadPool threads_, at_files_;
  std::vector<Strand> lanes_;  // behind the pool, which has what they are made of
};

}  // namespace hopfeed
