// An AddressLimit is a shortage of memory that ends: a test makes it to see that whatever failed for it goes
// on afterwards.
#pragma once
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <cstddef>
#include <fstream>

#include "core/base/huge_pages.h"
#include "tests/support/sanitized.h"

namespace hopfeed::testing {

inline constexpr bool kLimitsAddresses = !kSanitized;  // sanitizers reserve more than any limit leaves them

/// While it lives, this process can map so many bytes more than it has.
class AddressLimit {
 public:
  explicit AddressLimit(std::size_t more) {
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    statm >> pages;
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    const rlimit tight{.rlim_cur = pages * kPageBytes + more, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  }
  ~AddressLimit() { EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0); }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace hopfeed::testing
