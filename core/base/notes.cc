// See notes.h.
#include "core/base/notes.h"

#include <mutex>
#include <set>
#include <utility>

namespace hopfeed {
namespace {

/// A Taker is who takes lines of one sort, and what it had of those that are said once.
class Taker {
 public:
  void take(std::function<void(const std::string& line)> sink) {
    sink_ = std::move(sink);
    said_.clear();
  }
  bool takes() const { return sink_ != nullptr; }
  void give(const std::string& line) const {
    if (sink_) sink_(line);
  }
  void give_once(const std::string& sort, const std::string& line) {
    if (!sink_) return;
    {
      const std::lock_guard lock(mutex_);
      if (!said_.insert(sort).second) return;
    }
    give(line);
  }

 private:
  std::function<void(const std::string& line)> sink_;
  std::mutex mutex_;
  std::set<std::string> said_;
};

Taker& of_notes() {
  static Taker taker;
  return taker;
}

Taker& of_warnings() {
  static Taker taker;
  return taker;
}

}  // namespace

void take_notes(std::function<void(const std::string& line)> sink) { of_notes().take(std::move(sink)); }
bool notes_are_taken() { return of_notes().takes(); }
void give_note(const std::string& line) { of_notes().give(line); }
void give_note_once(const std::string& line) { of_notes().give_once(line, line); }

void take_warnings(std::function<void(const std::string& line)> sink) { of_warnings().take(std::move(sink)); }
void give_warning_once(const std::string& sort, const std::string& line) {
  of_warnings().give_once(sort, line);
}

}  // namespace hopfeed
