// See state_answers.h.
#include "server_client_mode/server/state_answers.h"

#include <boost/asio/post.hpp>
#include <new>
#include <utility>
#include <variant>

#include "core/base/trim_recycled.h"
#include "wire/checked_bytes.h"

namespace hopfeed {
namespace {

constexpr std::uint64_t kTicksOfRest = 3;  // then messages have no memory of their own any more

}  // namespace

StateAnswers::StateAnswers(const ServedDatasets& datasets, const StateRoom& room,
                           boost::asio::any_io_executor loop, std::size_t num_threads)
    : loop_(std::move(loop)), threads_(num_threads), at_files_(num_threads) {
  for (std::size_t i = 0; i < datasets.all().size(); ++i)
    owners_[&datasets.all()[i]] = std::make_unique<StateOwner>(
        *datasets.all()[i].dataset, StateOwnerOptions{.threads = static_cast<int>(num_threads),
                                                      .folder = room.folders[i],
                                                      .max_memory = room.max_memory / datasets.all().size(),
                                                      .at_files = [this](std::function<void()> work) {
                                                        boost::asio::post(at_files_.get_executor(),
                                                                          std::move(work));
                                                      }});
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    lanes_.push_back(boost::asio::make_strand(threads_.get_executor()));
}

StateAnswers::~StateAnswers() {
  for (const auto& [dataset, owner] : owners_) owner->give_up();
  threads_.join();
  at_files_.join();
}

void StateAnswers::answer(const ServedDataset& dataset, std::uint64_t session, std::uint64_t request,
                          PeerBytes question, Events events) {
  Strand& lane = lanes_[StateOwner::lane_of(question) % kLanes];
  auto done = [this, request, done = std::move(events.done)](StateReply reply) {
    std::shared_ptr<PeerBytes> answer;
    std::optional<Error> error;
    if (std::holds_alternative<AskedAgain>(reply)) return;
    if (auto* bytes = std::get_if<RecycledBytes>(&reply)) {
      answer = std::make_shared<PeerBytes>(std::move(*bytes));
      wire::add_checksum(*answer, request);
    } else {
      error = std::get<Error>(reply);
    }
    boost::asio::post(loop_,
                      [done, answer = std::move(answer), error = std::move(error)] { done(answer, error); });
  };
  boost::asio::post(
      lane, [this, &owner = *owners_.at(&dataset), session, taken = std::move(events.taken),
             done = std::move(done), message = std::make_shared<const RecycledBytes>(std::move(question))] {
        owner.answer(session, message, done);
        boost::asio::post(loop_, taken);
      });
}

/// Behind what the session has asked, in whichever lane.
void StateAnswers::disconnected(std::uint64_t session) {
  for (const auto& [dataset, owner] : owners_)
    for (Strand& lane : lanes_)
      boost::asio::post(lane, [&owner = *owner, session] { owner.disconnected(session); });
}

void StateAnswers::tick() {
  for (const auto& [dataset, owner] : owners_)
    boost::asio::post(lanes_.front(), [&owner = *owner] { owner.tick(); });
  look_at_tables();
  // In the same lane: giving back hundreds of megabytes takes as long as a step's sums.
  if (++ticks_ % kTicksOfRest == 0) boost::asio::post(lanes_.front(), [] { trim_recycled(); });
}

/// In the lane of ticks: who waits for a table that applies a step holds one thread, and no second one.
void StateAnswers::look_at_tables() {
  if (std::exchange(looking_, true)) return;
  boost::asio::post(lanes_.front(), [this] {
    std::shared_ptr<std::vector<ServedTable>> tables;
    try {
      tables = std::make_shared<std::vector<ServedTable>>();
      for (const auto& [dataset, owner] : owners_)
        for (TableStatus& table : owner->status())
          tables->push_back({.dataset = dataset, .table = std::move(table)});
    } catch (const std::bad_alloc&) {  // there is another second
      tables.reset();
    }
    boost::asio::post(loop_, [this, tables] {
      if (tables) tables_ = std::move(*tables);
      looking_ = false;
    });
  });
}

}  // namespace hopfeed
