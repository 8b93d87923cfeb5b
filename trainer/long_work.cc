// See long_work.h.
#include "trainer/long_work.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <future>
#include <new>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLongestPause{1'000};  // between two words of a rank to the others

/// What `work` throws; null: nothing.
std::exception_ptr outcome_of(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

Error as_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kNoSpace, "it has no memory left"};
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return {ErrorCode::kIo, what.substr(0, what.find('\n'))};
  } catch (...) {  // by a signal, which is no error to the rank that got it
    return {ErrorCode::kPeerDied, "it was asked to stop"};
  }
}

/// All ranks have an equal number of bytes there: a code, and a text with zeros behind.
constexpr std::int64_t kOutcomeBytes = 4'096;

[[noreturn]] void throw_outcome(World& world, const std::exception_ptr& mine) {
  torch::Tensor bytes = torch::zeros({kOutcomeBytes}, torch::kUInt8);
  auto* const out = bytes.mutable_data_ptr<std::uint8_t>();
  if (mine) {
    const Error error = as_error(mine);
    out[0] = static_cast<std::uint8_t>(1 + static_cast<int>(error.code()));
    std::memcpy(out + 1, error.message().data(),
                std::min(error.message().size(), static_cast<std::size_t>(kOutcomeBytes - 2)));
  }
  const torch::Tensor all = world.gather(bytes);
  if (mine) std::rethrow_exception(mine);
  for (std::int64_t rank = 0; rank < world.size(); ++rank) {
    const auto* const of_rank = all[rank].const_data_ptr<std::uint8_t>();
    if (of_rank[0] == 0) continue;
    throw Error(static_cast<ErrorCode>(of_rank[0] - 1),
                "rank " + std::to_string(rank) + ": " + reinterpret_cast<const char*>(of_rank + 1));
  }
  throw Error(ErrorCode::kPeerDied, "another trainer has failed, and does not say why");
}

}  // namespace

void do_together(World& world, const std::function<void()>& work, const WorkTold& told) {
  const auto pause = std::min<std::chrono::milliseconds>(kLongestPause, world.timeout() / 4);
  const Clock::time_point begin = Clock::now();
  std::future<std::exception_ptr> mine;
  if (work) mine = std::async(std::launch::async, [&work] { return outcome_of(work); });
  std::exception_ptr thrown;
  std::chrono::seconds last{0};
  for (;;) {
    if (mine.valid() && mine.wait_for(pause) == std::future_status::ready) thrown = mine.get();
    const std::vector<double> all = world.sum({mine.valid() ? 1.0 : 0.0, thrown ? 1.0 : 0.0});
    if (all[0] == 0 && all[1] > 0) throw_outcome(world, thrown);
    if (all[0] == 0) return;
    const auto so_far = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin);
    if (told && so_far > last) told(last = so_far);
  }
}

}  // namespace hopfeed
