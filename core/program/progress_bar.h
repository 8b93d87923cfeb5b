// A ProgressBar is one line on stderr that redraws itself on a terminal, a line now and then where stderr is
// a file. Only programs use it.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace hopfeed {

struct ProgressBarOptions {
  std::string unit;    // "edges", "B", "batches": behind the rate
  bool quiet = false;  // draw nothing
};

class ProgressBar {
 public:
  /// With `total` 0, which is unknown, only counts and rate are shown.
  ProgressBar(std::string label, std::uint64_t total, ProgressBarOptions options = {});
  ~ProgressBar();  // finishes; where an error flies by, only ends the line that is drawn
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void set(std::uint64_t done) { set(done, total_); }
  void set(std::uint64_t done, std::uint64_t total);
  void add(std::uint64_t count) { set(done_ + count); }
  /// Sets free text behind the bar ("loss 1.234, waited 3%").
  void note(std::string text) { note_ = std::move(text); }
  /// Draws the last state and ends the line. Later calls do nothing.
  void finish();

 private:
  void draw(bool last);
  void abandon();
  std::string label_, note_;
  std::uint64_t total_ = 0, done_ = 0;
  ProgressBarOptions options_;
  bool terminal_ = false, finished_ = false, line_open_ = false;
  std::chrono::steady_clock::time_point begin_, drawn_;
};

}  // namespace hopfeed
