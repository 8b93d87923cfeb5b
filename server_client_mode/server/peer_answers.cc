// See peer_answers.h.
#include "server_client_mode/server/peer_answers.h"

#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "core/base/failpoint.h"
#include "server_client_mode/wire/checked_bytes.h"

namespace hopfeed {

PeerAnswers::PeerAnswers(const ServedDatasets& datasets, boost::asio::any_io_executor loop,
                         std::size_t num_threads)
    : datasets_(datasets), loop_(std::move(loop)), threads_(num_threads) {
  for (const ServedDataset& served : datasets.all())
    owners_[&served] = std::make_unique<PartitionOwner>(*served.dataset);
}

PeerAnswers::~PeerAnswers() { threads_.join(); }

wire::Partitions PeerAnswers::partitions_of(const ServedDataset& served) {
  return {.count = served.meta().partitions,
          .manifest = manifest_hash(served.meta()),
          .here = served.dataset->partitions()};
}

void PeerAnswers::answer(const ServedDataset& dataset, wire::Bytes question, const std::string& peer,
                         Done done) {
  PartitionOwner& owner = *owners_.at(&dataset);
  boost::asio::post(threads_, [this, &owner, question = std::move(question), peer,
                               done = std::move(done)]() mutable {
    std::shared_ptr<wire::Bytes> answer;
    std::optional<Error> error;
    try {
      FAILPOINT("server.answer");
      wire::take_checksum(question, peer.c_str());
      answer = std::make_shared<wire::Bytes>(owner.answer(question));
      ++counts_.questions;
      counts_.question_bytes += static_cast<std::int64_t>(question.size());
      counts_.answer_bytes += static_cast<std::int64_t>(answer->size());
      wire::add_checksum(*answer);
    } catch (const Error& thrown) {
      error = thrown;
    } catch (const std::bad_alloc&) {
      error.emplace(ErrorCode::kNoSpace, "there is no memory for an answer; use smaller batches or fanouts");
    } catch (const std::exception& thrown) {
      error.emplace(ErrorCode::kIo, thrown.what());
    }
    if (error) ++counts_.refused;
    boost::asio::post(loop_,
                      [done = std::move(done), answer = std::move(answer), error] { done(answer, error); });
  });
}

}  // namespace hopfeed
