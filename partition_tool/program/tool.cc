// See tool.h.
#include "partition_tool/program/tool.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace hopfeed {
namespace {

volatile std::sig_atomic_t stop_asked = 0;

}  // namespace

void stop_on_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_asked = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

void Bars::show(const ProgressReport& report) {
  if (stop_asked != 0) {
    bar_.reset();
    throw Interrupted{};
  }
  if (!bar_ || step_ != report.step) {
    bar_.reset();
    step_ = report.step;
    bar_.emplace(step_, report.total, ProgressBarOptions{.unit = report.unit});
  }
  bar_->set(report.done, report.total);
}

JsonReport::JsonReport(const std::string& path) : path_(path) {
  if (path.empty()) return;
  temporary_ = path_.string() + ".tmp-" + std::to_string(::getpid());
  const int fd = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) throw_errno("--json: cannot write " + path_.string(), errno);
  ::close(fd);
}

JsonReport::~JsonReport() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
}

void JsonReport::write(const nlohmann::json& report) {
  if (temporary_.empty()) return;
  const std::string text = report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::FILE* file = std::fopen(temporary_.c_str(), "wbe");
  if (!file) throw_errno("cannot write " + temporary_.string(), errno);
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  const int error = errno;
  if (std::fclose(file) != 0 || !written) throw_errno("cannot write " + path_.string(), error);
  std::filesystem::rename(temporary_, path_);
  temporary_.clear();
}

}  // namespace hopfeed
