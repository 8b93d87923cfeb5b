// The one exception type of hopfeed: a code for programs, a message for people. The message names the thing
// that is wrong (file, option, other machine, slot) and says what to do. The library throws; only programs
// print and exit.
//
// Options have one name in the library (that of their field) and others in programs (--batch-size). So a
// message marks the fields that it names, and whoever shows it tells them in the spelling of its user. Marks
// go with a message from process to process and over the wire; who sends them from there can do no more than
// name a field.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hopfeed {

enum class ErrorCode {
  kInvalid,      // an argument or option that cannot be served
  kNotFound,     // a file, split or attribute that does not exist
  kCorrupt,      // bytes that contradict themselves or their checksum
  kVersion,      // a format that another version of hopfeed wrote
  kIo,           // the operating system refused a read or write
  kNoSpace,      // memory or disk would not suffice
  kTimeout,      // a deadline passed
  kPeerDied,     // a process that was relied on is gone
  kStateLost,    // state of training that was held elsewhere is gone; all ranks go back to a checkpoint
  kBusy,         // another run has it; it may be free later
  kUnsupported,  // valid, but not offered
};

/// "invalid", "not found", ... : the words that programs put into their JSON reports.
const char* to_string(ErrorCode code);

/// The name of a field of an options struct between marks ("batch_size", "walk.p": small letters, digits, '_'
/// and '.'), for the message of an Error or a line that a program prints.
std::string marked(std::string_view field);
/// The head of a message about values of this field: in a program that has read them from a file its option
/// and that file ("--seeds: ids.npy: "), elsewhere nothing.
std::string marked_file(std::string_view field);

using FieldSpelling = std::function<std::string(std::string_view field)>;
/// `message` without marks: marked fields are spelled by `field`, and heads that marked_file() stands for by
/// `file` (empty: left out). Marks that were cut, or are around something else than a field, are dropped.
std::string spelled(std::string_view message, const FieldSpelling& field, const FieldSpelling& file = {});
/// `message` with the fields as they are, and without marks.
std::string unmarked(std::string_view message);

class Error : public std::runtime_error {
 public:
  /// what() has no marks.
  Error(ErrorCode code, const std::string& message)
      : std::runtime_error(unmarked(message)), code_(code), message_(message) {}
  ErrorCode code() const { return code_; }
  /// With its marks: for another Error that begins or ends with it, for another process, and for programs.
  /// People, logs, reports and Python get what().
  const std::string& message() const { return message_; }

 private:
  ErrorCode code_;
  std::string message_;
};

/// Behind it this process can do no more of the kind, whatever it is asked for, and another could: a sampling
/// worker ends of it, and what it had under way another makes.
class BrokenProcess : public Error {
 public:
  using Error::Error;
};

/// Throws kInvalid with `message` unless `holds`.
inline void require_valid(bool holds, const std::string& message) {
  if (!holds) throw Error(ErrorCode::kInvalid, message);
}

/// Throws kIo (kNoSpace for ENOSPC, EDQUOT and ENOMEM, kNotFound for ENOENT) with `what` and the text of
/// `errno_value`.
[[noreturn]] void throw_errno(const std::string& what, int errno_value);

}  // namespace hopfeed
