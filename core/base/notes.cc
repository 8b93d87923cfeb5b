// See notes.h.
#include "core/base/notes.h"

#include <mutex>
#include <set>
#include <utility>

namespace hopfeed {
namespace {

std::function<void(const std::string& line)>& the_sink() {
  static std::function<void(const std::string& line)> sink;
  return sink;
}

}  // namespace

void take_notes(std::function<void(const std::string& line)> sink) { the_sink() = std::move(sink); }
bool notes_are_taken() { return the_sink() != nullptr; }

void give_note(const std::string& line) {
  if (the_sink()) the_sink()(line);
}

void give_note_once(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  if (!notes_are_taken()) return;
  {
    const std::lock_guard lock(mutex);
    if (!said.insert(line).second) return;
  }
  give_note(line);
}

}  // namespace hopfeed
