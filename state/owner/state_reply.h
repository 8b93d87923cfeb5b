// How an owner answers: at once, or once others have done their part.
#pragma once
#include <functional>
#include <new>
#include <optional>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/base/recycled_bytes.h"

namespace hopfeed {

/// AskedAgain: the question came once more, and that one will be answered.
struct AskedAgain {};
/// A StateReply is an answer (state_questions.h), or why there is none.
using StateReply = std::variant<RecycledBytes, Error, AskedAgain>;
/// It is called exactly once, on any thread.
using StateDone = std::function<void(StateReply reply)>;

/// Returns what `make` returns, or why it cannot: whoever waits hears of it in any case.
template <class Make>
StateReply reply_of(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kNoSpace,
                 "the owner of state has no memory for an answer; ask for fewer rows at a time");
  } catch (const std::exception& error) {
    return Error(ErrorCode::kIo, error.what());
  }
}

/// Replies so to `waiting`, which is null from then on.
template <class Make>
void reply_with(StateDone& waiting, const Make& make) {
  StateReply reply = reply_of(make);
  std::exchange(waiting, nullptr)(std::move(reply));
}

}  // namespace hopfeed
