// See python_package.h.
#include "core/program/python_package.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/error.h"
#include "core/program/child_process.h"

namespace hopfeed {
namespace {

constexpr int kRefused = 2, kNoPackage = 97;
constexpr std::chrono::minutes kSilence{60};  // one shard, at most

/// Only a package that lacks is told of here; what the work itself says is the module's.
constexpr const char* kProgram = R"py(
import importlib, sys
module, what, begin, code = sys.argv[1:5]
sys.path[:] = [folder for folder in sys.path if folder]  # no module of the folder that the user is in
try:
    main = importlib.import_module(module).main
except ModuleNotFoundError as error:
    print(f"{begin}{what} is done by the Python package, and {sys.executable} has no {error.name}: "
          "pip install 'hopfeed[tables]', or name a Python that has it (HOPFEED_PYTHON)", file=sys.stderr)
    sys.exit(int(code))
sys.exit(main(sys.argv[5:]))
)py";

std::string python() {
  const char* const named = std::getenv("HOPFEED_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

std::vector<std::string> words_of(const PythonWork& work, const std::string& begin, int no_package) {
  std::vector<std::string> words{
      python(), "-c", kProgram, work.module, work.what, begin, std::to_string(no_package)};
  words.insert(words.end(), work.words.begin(), work.words.end());
  return words;
}

std::string cannot_start(const PythonWork& work, const std::string& why) {
  return fmt::format(
      "{} is done by the Python package, and {} cannot be started ({}); install Python 3, or name it "
      "(HOPFEED_PYTHON)",
      work.what, python(), why);
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
}

}  // namespace

void become_python(const PythonWork& work, const std::string& program) {
  std::vector<std::string> words = words_of(work, program + ": ", kRefused);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  fmt::print(stderr, "{}: {}\n", program, cannot_start(work, std::strerror(errno)));
  std::exit(kRefused);
}

void run_python(const PythonWork& work, const std::function<void(const std::string& line)>& on_line) {
  ChildResult result;
  try {
    result =
        run_child({.arguments = words_of(work, "", kNoPackage), .silence = kSilence, .on_line = on_line});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported && error.code() != ErrorCode::kIo) throw;
    throw Error(ErrorCode::kUnsupported, cannot_start(work, error.what()));
  }
  if (result.exit_code == 0) return;
  const std::string said = last_line(result.err);
  if (result.silent)
    throw Error(ErrorCode::kTimeout, fmt::format("{}: {} said nothing for {} minutes, and was ended",
                                                 work.what, work.module, kSilence.count()));
  const ErrorCode code = result.exit_code == kNoPackage ? ErrorCode::kUnsupported
                         : result.exit_code == kRefused ? ErrorCode::kInvalid
                                                        : ErrorCode::kIo;
  throw Error(code, said.empty()
                        ? fmt::format("{}: {} ended with {}", work.what, work.module, result.exit_code)
                        : said);
}

}  // namespace hopfeed
