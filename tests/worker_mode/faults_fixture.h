// Tests of faults share this: failpoints armed for a scope, in a build that has them.
#pragma once
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "core/base/failpoint.h"
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {

#define NEEDS_FAILPOINTS() \
  if (!kFailpointsEnabled) GTEST_SKIP() << "this build has no failpoints (HOPFEED_FAILPOINTS is off)"

/// InEnvironment is an entry of the environment for the time of a scope; what is started in it inherits it.
class InEnvironment {
 public:
  InEnvironment(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~InEnvironment() { unsetenv(name_); }
  InEnvironment(const InEnvironment&) = delete;
  InEnvironment& operator=(const InEnvironment&) = delete;

 private:
  const char* name_;
};

/// Armed arms failpoints for this process and for the workers that are started in its scope.
class Armed {
 public:
  explicit Armed(const std::string& what) : armed_("HOPFEED_FAIL", what) {}

 private:
  InEnvironment armed_;
};

/// ArmedOnce is armed for its whole life, and yet only one process acts, once.
class ArmedOnce {
 public:
  ArmedOnce(const std::string& what, const std::filesystem::path& folder)
      : file_(folder / "once"), once_("HOPFEED_FAIL_ONCE", file_.string()), armed_(what) {
    std::ofstream{file_};
  }
  bool has_acted() const { return !std::filesystem::exists(file_); }

 private:
  std::filesystem::path file_;
  InEnvironment once_;
  Armed armed_;
};

/// The limit is generous: under a sanitizer everything takes its time. Nothing here waits for it unless it
/// fails.
class Faults : public LoaderTestWithin<240> {};

}  // namespace hopfeed
