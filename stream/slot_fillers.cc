// See slot_fillers.h.
#include "stream/slot_fillers.h"

namespace hopfeed {

std::optional<std::uint32_t> await_ready(const ChannelHost& host, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kNap{50};
  const Clock::time_point give_up = Clock::now() + limit;
  const ChannelView& view = host.view();
  const std::uint32_t workers = view.shape().num_workers;
  for (;;) {
    const std::uint32_t seen = view.control().loader_event.load();
    if (const std::optional<Error> failure = host.failure()) throw *failure;
    std::uint32_t ready = 0;
    while (ready < workers &&
           view.worker(ready).state.load() == static_cast<std::uint32_t>(WorkerState::kReady))
      ++ready;
    if (ready == workers) return {};
    if (Clock::now() > give_up) return ready;
    view.control().loader_event.wait(seen, kNap);
  }
}

}  // namespace hopfeed
