// How an owner answers: at once, or once others have done their part.
#pragma once
#include <functional>
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

}  // namespace hopfeed
