// What OpenSSL says went wrong, in words.
#pragma once
#include <string>

namespace hopfeed::wire {

/// The reason of the latest of this thread's OpenSSL errors, or "no reason given"; all of them are taken off
/// its list.
std::string take_openssl_reason();

}  // namespace hopfeed::wire
