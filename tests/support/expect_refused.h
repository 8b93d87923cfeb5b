// Tests expect this of bad input: one clear line, of the right kind.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/base/error.h"

namespace hopfeed {

/// Expects that `call` throws an error of one line that holds `part`.
inline void expect_refused(const std::function<void()>& call, const std::string& part,
                           ErrorCode code = ErrorCode::kInvalid) {
  try {
    call();
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_NE(message.find(part), std::string::npos) << "expected: " << part << "\nfound: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace hopfeed
