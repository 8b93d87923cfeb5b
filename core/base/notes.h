// Notes are lines for whoever runs a program: what it waits for, what it takes more memory for than they may
// expect. A program that shows them says so; elsewhere they are passed over.
#pragma once
#include <functional>
#include <string>

namespace hopfeed {

/// From now on `sink` gets each note, with the marks of messages (error.h), from whatever thread has one. For
/// the whole process; before others read or write notes.
void take_notes(std::function<void(const std::string& line)> sink);
bool notes_are_taken();
/// Gives a line to whoever takes notes.
void give_note(const std::string& line);
/// Likewise, but a line that came before is passed over.
void give_note_once(const std::string& line);

/// Warnings are notes of what has failed and was helped; workers, which show no notes, show them too.
void take_warnings(std::function<void(const std::string& line)> sink);
/// Gives a line to whoever takes warnings: of each sort the first one, whatever the others say.
void give_warning_once(const std::string& sort, const std::string& line);

}  // namespace hopfeed
