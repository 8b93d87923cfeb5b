// Ctrl-C, SIGTERM and SIGHUP end a program the way an error does: what it made so far is taken back, nothing
// stays half-written.
#pragma once
#include <chrono>
#include <string>

namespace hopfeed {

/// Interrupted is thrown by stop_if_asked; program_main turns it into one line and exit code 130.
struct Interrupted {
  std::string what_stays = "nothing half-written is left";
};

/// From now on the first of the signals is only noted, and the program has 20 seconds to come to its end;
/// then it says that it did not, and is ended. One that comes two seconds later or more ends it at once (two
/// in quick succession are one wish: `timeout` and launchers send them so).
void stop_on_signals();

/// Returns true after a signal.
bool stop_asked();
/// Returns true where that signal came so long ago: for who waits for others, and would rather end with what
/// comes of the wait.
bool stop_asked_for(std::chrono::milliseconds time);
/// Throws Interrupted after a signal. Long work calls it a few times a second.
void stop_if_asked();

}  // namespace hopfeed
