// See progress_bar.h.
#include "core/program/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>

namespace hopfeed {
namespace {

constexpr int kWidth = 28;
constexpr std::chrono::milliseconds kRedraw{100};     // on a terminal
constexpr std::chrono::milliseconds kReport{10'000};  // in a log file

std::string scaled(double value) {
  const char* suffix[] = {"", " k", " M", " G", " T"};
  int i = 0;
  for (; value >= 1000 && i < 4; ++i) value /= 1000;
  const bool whole = i == 0 && value == static_cast<double>(static_cast<long>(value));
  return fmt::format("{:.{}f}{}", value, whole ? 0 : 1, suffix[i]);
}

}  // namespace

ProgressBar::ProgressBar(std::string label, std::uint64_t total, ProgressBarOptions options)
    : label_(std::move(label)),
      total_(total),
      options_(std::move(options)),
      terminal_(isatty(STDERR_FILENO) != 0),
      begin_(std::chrono::steady_clock::now()),
      drawn_(begin_) {}

ProgressBar::~ProgressBar() { std::uncaught_exceptions() > 0 ? abandon() : finish(); }

void ProgressBar::abandon() {
  if (line_open_) std::fputc('\n', stderr);
  line_open_ = false;
}

void ProgressBar::set(std::uint64_t done, std::uint64_t total) {
  done_ = done;
  total_ = total;
  const auto now = std::chrono::steady_clock::now();
  if (options_.quiet || finished_ || now - drawn_ < (terminal_ ? kRedraw : kReport)) return;
  drawn_ = now;
  draw(false);
}

void ProgressBar::finish() {
  if (finished_) return;
  finished_ = true;
  if (!options_.quiet) draw(true);
}

void ProgressBar::draw(bool last) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  std::string line = label_;
  if (total_ > 0) {
    const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    const int full = static_cast<int>(share * kWidth);
    line +=
        fmt::format(" [{}{}] {:3.0f}%", std::string(full, '#'), std::string(kWidth - full, '.'), share * 100);
    if (!last && rate > 0)
      line += fmt::format(", {:.0f} s left", static_cast<double>(total_ - std::min(done_, total_)) / rate);
  }
  line += fmt::format(", {} {} ({} {}/s, {:.1f} s)", scaled(static_cast<double>(done_)), options_.unit,
                      scaled(rate), options_.unit, seconds);
  if (!note_.empty()) line += "  " + note_;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s%s" : "%s%s", line.c_str(), last || !terminal_ ? "\n" : "");
  std::fflush(stderr);
  line_open_ = terminal_ && !last;
}

}  // namespace hopfeed
