// See progress_bar.h.
#include "core/program/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>

namespace hopfeed {
namespace {

constexpr std::size_t kWidth = 28, kLeastWidth = 4;   // of the bar; a shorter one is left out
constexpr std::chrono::milliseconds kRedraw{100};     // on a terminal
constexpr std::chrono::milliseconds kReport{10'000};  // in a log file

std::string scaled(double value) {
  const char* suffix[] = {"", " k", " M", " G", " T"};
  int i = 0;
  for (; value >= 1000 && i < 4; ++i) value /= 1000;
  const bool whole = i == 0 && value == static_cast<double>(static_cast<long>(value));
  return fmt::format("{:.{}f}{}", value, whole ? 0 : 1, suffix[i]);
}

std::string bar(std::size_t width, double share) {
  const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
  return " [" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

/// Of a terminal: a line that it would break cannot be drawn over.
std::size_t columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return SIZE_MAX;  // it does not say
  return size.ws_col;
}

bool begins_a_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }  // of UTF-8

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_a_character));
}

void cut(std::string& text, std::size_t width) {
  while (width_of(text) > width) text.pop_back();
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
  std::string line;
  const double share =
      total_ > 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)) : 0;
  if (total_ > 0) {
    line += fmt::format(" {:3.0f}%", share * 100);
    if (!last && rate > 0)
      line += fmt::format(", {:.0f} s left", static_cast<double>(total_ - std::min(done_, total_)) / rate);
  }
  line += fmt::format(", {} {} ({} {}/s, {:.1f} s)", scaled(static_cast<double>(done_)), options_.unit,
                      scaled(rate), options_.unit, seconds);
  if (!note_.empty()) line += "  " + note_;
  const std::size_t room = terminal_ && !last ? columns() - 1 : SIZE_MAX;
  const std::size_t others = width_of(label_) + width_of(line) + 3;  // beside the bar
  const std::size_t width = std::min(room - std::min(room, others), kWidth);
  line = label_ + (total_ > 0 && width >= kLeastWidth ? bar(width, share) : "") + line;
  cut(line, room);
  std::fprintf(stderr, terminal_ ? "\r\033[K%s%s" : "%s%s", line.c_str(), last || !terminal_ ? "\n" : "");
  std::fflush(stderr);
  line_open_ = terminal_ && !last;
}

}  // namespace hopfeed
