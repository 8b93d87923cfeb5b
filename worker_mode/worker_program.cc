// See worker_program.h.
#include "worker_mode/worker_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "core/base/error.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

bool runnable(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_worker_program(const std::string& option) {
  const char* environment = std::getenv("HOPFEED_WORKER");
  const std::string named = !option.empty() ? option : environment != nullptr ? environment : "";
  if (!named.empty()) {
    if (!runnable(named))
      throw Error(
          ErrorCode::kNotFound,
          fmt::format(
              "the worker program {} does not exist or cannot be run; set worker_program or HOPFEED_WORKER",
              named));
    return fs::absolute(named).string();
  }
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path() / "hopfeed-worker";
  if (runnable(beside)) return beside.string();
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && runnable(fs::path(folder) / "hopfeed-worker"))
      return fs::absolute(fs::path(folder) / "hopfeed-worker").string();
  }
  throw Error(
      ErrorCode::kNotFound,
      "hopfeed-worker is neither beside this program nor on PATH; set worker_program or HOPFEED_WORKER");
}

}  // namespace hopfeed
