// See peer_answers.h.
#include "server_client_mode/server/peer_answers.h"

#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "core/base/failpoint.h"
#include "wire/checked_bytes.h"

namespace hopfeed {

PeerAnswers::PeerAnswers(const ServedDatasets& datasets, boost::asio::any_io_executor loop,
                         std::size_t num_threads)
    : datasets_(datasets), loop_(std::move(loop)), threads_(num_threads) {
  for (const ServedDataset& served : datasets.all())
    owners_[&served] = std::make_unique<PartitionOwner>(*served.dataset);
}

PeerAnswers::~PeerAnswers() { threads_.join(); }

PartitionOwner::Counts PeerAnswers::owner_counts() const {
  PartitionOwner::Counts sum;
  for (const auto& [dataset, owner] : owners_) {
    const PartitionOwner::Counts counts = owner->counts();
    sum.drawn_rows += counts.drawn_rows;
    sum.drawn_edges += counts.drawn_edges;
    sum.whole_rows += counts.whole_rows;
    sum.whole_row_edges += counts.whole_row_edges;
    sum.feature_rows += counts.feature_rows;
    sum.edges_looked_up += counts.edges_looked_up;
    sum.original_ids += counts.original_ids;
    sum.mapped_ids += counts.mapped_ids;
  }
  return sum;
}

wire::Partitions PeerAnswers::partitions_of(const ServedDataset& dataset) {
  return {.count = dataset.meta().partitions,
          .manifest = manifest_hash(dataset.meta()),
          .here = dataset.dataset->partitions(),
          .keeps_state = false,
          .keeps_results = false};
}

void PeerAnswers::answer(const ServedDataset& dataset, std::uint64_t request, wire::Bytes question,
                         Done done) {
  PartitionOwner& owner = *owners_.at(&dataset);
  const auto make = [this, &owner, question = std::move(question)] {
    FAILPOINT("server.answer");
    PeerBytes answer = owner.answer(question);
    ++counts_.questions;
    counts_.question_bytes += static_cast<std::int64_t>(question.size());
    counts_.answer_bytes += static_cast<std::int64_t>(answer.size());
    return answer;
  };
  answer_on(threads_, loop_, request, make,
            [this, done = std::move(done)](PeerAnswer answer, const std::optional<Error>& error) {
              if (error) ++counts_.refused;
              done(std::move(answer), error);
            });
}

void answer_on(ThreadPool& threads, boost::asio::any_io_executor loop, std::uint64_t request,
               std::function<PeerBytes()> make, PeerAnswers::Done done) {
  boost::asio::post(threads.get_executor(), [loop = std::move(loop), request, make = std::move(make),
                                             done = std::move(done)]() mutable {
    std::shared_ptr<PeerBytes> answer;
    std::optional<Error> error;
    try {
      answer = std::make_shared<PeerBytes>(make());
      wire::add_checksum(*answer, request);
    } catch (const Error& thrown) {
      error = thrown;
    } catch (const std::bad_alloc&) {
      error.emplace(ErrorCode::kNoSpace, "there is no memory for an answer; use smaller batches or fanouts");
    } catch (const std::exception& thrown) {
      error.emplace(ErrorCode::kIo, thrown.what());
    }
    boost::asio::post(loop, [done = std::move(done), answer = std::move(answer), error = std::move(error)] {
      done(answer, error);
    });
  });
}

}  // namespace hopfeed
