// Errors of what an option's value is made into begin with the option, as its user typed it.
#pragma once
#include <string>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {

/// Runs `make`; where it throws, the message begins with "OPTION: ".
template <class Make>
auto of_option(const char* option, Make&& make) {
  try {
    return std::forward<Make>(make)();
  } catch (const Error& error) {
    throw Error(error.code(), std::string(option) + ": " + error.message());
  }
}

}  // namespace hopfeed
