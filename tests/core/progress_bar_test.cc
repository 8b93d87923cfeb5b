// ProgressBar on a terminal of its own: what it draws over has to fit into one row.
#include "core/program/progress_bar.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "core/base/owned_fd.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    int here = -1, there = -1;
    EXPECT_EQ(openpty(&here, &there, nullptr, nullptr, &size), 0);
    here_ = OwnedFd(here);
    const OwnedFd end(there);
    before_ = OwnedFd(dup(STDERR_FILENO));
    dup2(end.get(), STDERR_FILENO);
  }
  ~Terminal() { give_back(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// All that was written to it.
  std::string text() {
    std::string all;
    pollfd poller{.fd = here_.get(), .events = POLLIN, .revents = 0};
    while (poll(&poller, 1, 100) == 1 && (poller.revents & POLLIN) != 0) {
      char bytes[4096];
      const ssize_t got = read(here_.get(), bytes, sizeof bytes);
      if (got <= 0) break;
      all.append(bytes, static_cast<std::size_t>(got));
    }
    give_back();
    return all;
  }

 private:
  void give_back() {
    if (!before_) return;
    dup2(before_.get(), STDERR_FILENO);
    before_ = OwnedFd();
  }
  OwnedFd here_, before_;
};

/// The line of a bar that is half done.
std::string drawn(unsigned short columns, const std::string& label, const std::string& note) {
  Terminal terminal(columns);
  ProgressBar bar(label, 100, {.unit = "nodes"});
  bar.note(note);
  std::this_thread::sleep_for(150ms);
  bar.set(50);
  const std::string text = terminal.text(), begin = "\r\033[K";
  EXPECT_EQ(text.substr(0, begin.size()), begin);
  return text.substr(begin.size());
}

TEST(ProgressBar, OnATerminal_FitsIntoARow) {
  const std::string note(200, 'n'), half = std::string(14, '#') + std::string(14, '.');
  EXPECT_NE(drawn(300, "Cutting", note).find("Cutting [" + half + "]  50%, "), std::string::npos);
  for (const std::string label : {"Cutting", "Partitioning with METIS of this"}) {
    const std::string narrow = drawn(80, label, "");
    EXPECT_LE(narrow.size(), 79U);
    EXPECT_EQ(narrow.find("#") != std::string::npos, label == "Cutting") << "no room for a bar: " << narrow;
    EXPECT_TRUE(narrow.starts_with(label)) << narrow;
    EXPECT_TRUE(narrow.ends_with(" s)")) << "the bar is shorter, the rest is whole: " << narrow;
  }
  EXPECT_EQ(drawn(80, "Partitioning with METIS", note).size(), 79U);
  EXPECT_EQ(drawn(5, "épreuve", ""), "épre");
  EXPECT_NE(drawn(0, "Cutting", note).find(note), std::string::npos) << "it does not say how wide it is";
}

}  // namespace
}  // namespace hopfeed
