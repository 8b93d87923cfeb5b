// See served_results.h.
#include "server_client_mode/server/served_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "server_client_mode/server/told_errors.h"

namespace hopfeed {
namespace {

std::string whole_path_of(const std::string& folder) {
  std::error_code error;
  require_valid(!std::filesystem::exists(folder, error) || std::filesystem::is_directory(folder, error),
                fmt::format("--results: {} is no folder; name that in which an inference computes", folder));
  const std::string path = std::filesystem::absolute(folder).lexically_normal().string();
  return path.substr(0, std::max<std::size_t>(path.find_last_not_of('/') + 1, 1));
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kCorrupt, fmt::format("another machine asked for {}, which cannot be", what));
}

/// Else who asks for what will never be there would wait for it.
void check(const ResultsQuestion& question, const Dataset& dataset) {
  const auto& types = dataset.meta().node_types;
  const auto type = std::ranges::find(types, question.name.node_type, &NodeTypeMeta::name);
  if (type == types.end()) refuse(fmt::format("results of node type '{}'", question.name.node_type));
  if (question.partition >= static_cast<std::uint32_t>(dataset.meta().partitions))
    refuse(fmt::format("partition {}", question.partition));
  if (question.ask != ResultsAsk::kRows) return;
  if (!dataset.has_partition(static_cast<int>(question.partition)))
    throw Error(ErrorCode::kUnsupported,
                fmt::format("partition {} is not on this machine", question.partition));
  const std::int64_t rows =
      type->partition_offsets[question.partition + 1] - type->partition_offsets[question.partition];
  if (question.rows.back() >= rows) refuse(fmt::format("row {}", question.rows.back()));
}

}  // namespace

ServedResults::ServedResults(const std::string& folder, boost::asio::any_io_executor loop,
                             std::size_t num_threads)
    : folder_(whole_path_of(folder)), answers_(folder_), loop_(std::move(loop)), threads_(num_threads) {}

ServedResults::~ServedResults() { threads_.join(); }

void ServedResults::answer(const ServedDataset& dataset, std::uint64_t request, wire::Bytes question,
                           PeerAnswers::Done done) {
  answer_on(
      threads_, loop_, request,
      [this, &dataset, question = std::move(question)] { return answer_now(dataset, question); },
      std::move(done));
}

/// Who asks may read which shard is wrong, and not where the folder is.
PeerBytes ServedResults::answer_now(const ServedDataset& dataset, const wire::Bytes& question) {
  try {
    const ResultsQuestion asked = read_results_question(question);
    check(asked, *dataset.dataset);
    return answers_.answer(asked);
  } catch (const Error& error) {
    ++refused_;
    const NamedPlace place{.folder = folder_, .name = "results"};
    throw Error(error.code(), with_names(error.message(), std::span(&place, 1)));
  } catch (const std::bad_alloc&) {
    ++refused_;
    throw Error(ErrorCode::kNoSpace, "there is no memory for an answer with these rows");
  }
}

void ServedResults::tick() {
  boost::asio::post(threads_.get_executor(), [this] { answers_.let_go(); });
}

}  // namespace hopfeed
